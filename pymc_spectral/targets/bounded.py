"""Targets of bounded support: a box, and two arcs with hard walls."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from pymc_spectral._validate import one_of
from pymc_spectral.targets.mixtures import normal_mixture
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["Interval", "arcs", "docs_pair"]

SecondArc = Literal["shifted", "printed"]


@dataclass(frozen=True)
class Interval:
    """The range of Uniform variables, and PyMC's logistic map of the real line onto it."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Center of the interval."""
        return (self.low + self.high) / 2

    def constrain(self, z: FloatArray) -> FloatArray:
        """Map unconstrained values into the interval."""
        return self.middle + self.width / 2 * np.tanh(np.asarray(z) / 2)

    def unconstrain(self, x: FloatArray) -> FloatArray:
        """Map values in the interval to the real line."""
        return 2 * np.arctanh((np.asarray(x) - self.middle) / (self.width / 2))

    def log_prior(self, z: FloatArray) -> FloatArray:
        """Log density, at each unconstrained value, of a variable uniform in the interval."""
        # The prior is 1 / width and dx/dz is width s(z) s(-z), s the logistic function.
        return -np.logaddexp(0, z) - np.logaddexp(0, -z)


def docs_pair(n: int = 4) -> Target:
    """Two narrow normals of weight .1 and .9 in a box, the example of PyMC's own SMC notebook.

    Would catch: a Jacobian forgotten (the Uniform(-2, 2) prior is sampled on the logit scale), a
    prior that is counted twice in the evidence, and weights that drift to 0 or 1 as n grows.

    Parameters
    ----------
    n : int
        Dimension; 4 is easy, 80 is where tempered samplers lose the lighter mode.
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1.")
    mixture = normal_mixture([0.1, 0.9], [np.full(n, 0.5), np.full(n, -0.5)], 0.1**2 * np.eye(n))
    box = Interval(-2, 2)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", box.low, box.high, shape=n)
            pm.Potential("log_likelihood", mixture.graph(x))
        return model

    def logp(z: FloatArray) -> FloatArray:
        z = np.atleast_2d(z)
        return mixture.logp(box.constrain(z)) + box.log_prior(z).sum(axis=1)

    return Target(
        name=f"docs_pair-{n}",
        dim=n,
        build=build,
        logp=logp,
        # The box cuts the mixture fifteen standard deviations out: a mass below 1e-49.
        sample=lambda rng, size: box.unconstrain(mixture.sample(rng, size)),
        classify=lambda z: mixture.classify(box.constrain(z)),
        centers=box.unconstrain(mixture.means),
        weights=mixture.weights,
        mean=mixture.mean,
        variance=mixture.variance,
        log_z=-n * np.log(4.0),
        constrain=box.constrain,
    )


def arcs(second: SecondArc = "shifted") -> Target:
    """Uniform on two interlocking arcs, the paper's Example 2 [1]_.

    Would catch: cells that are convex in disguise (k-means cuts both arcs), a kernel or a bridge
    that needs gradients (there are none) or a finite logp outside the support (it is -inf). The
    density is 1 on the arcs, so that the evidence is their area.

    Parameters
    ----------
    second : {"shifted", "printed"}
        The paper prints the second set as (r cos t, (r - 1) sin t). That is a misprint for
        (r cos t, r sin t - 1), as in the authors' experiment: ``"shifted"``, an arc of the same
        area as the first. ``"printed"`` takes it at its word: a flat sliver within the first arc,
        of weight 0.384.
    """
    one_of("second", second, get_args(SecondArc))
    if second == "printed":
        return _arcs_as_printed()
    # Angle of either arc from its own axis, and the mean of r^2 when r dr is uniform on [1, 1.1].
    half_angle, mean_r2 = 2 * np.pi / 3, (1 + 1.1**2) / 2
    area = 2 * half_angle * (1.1**2 - 1)
    bend = np.sin(2 * half_angle) / (4 * half_angle)
    curve = np.linspace(-half_angle, half_angle, 400)
    midline = 1.05 * np.column_stack([np.cos(curve), np.sin(curve)])

    def inside(points: FloatArray) -> NDArray[np.bool_]:
        x, y = np.atleast_2d(points).T
        first, second = np.hypot(x, y), np.hypot(x, y + 1)
        on_first = (first >= 1) & (first <= 1.1) & (x <= first / 2)
        on_second = (second >= 1) & (second <= 1.1) & (x >= -second / 2)
        return on_first | on_second

    def logp(points: FloatArray) -> FloatArray:
        return np.where(inside(points), 0.0, -np.inf)

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        radius = np.sqrt(rng.uniform(1, 1.1**2, size=n))
        angle = rng.uniform(-half_angle, half_angle, size=n)
        which = rng.integers(2, size=n)
        x = np.where(which == 0, -1, 1) * radius * np.cos(angle)
        return np.column_stack([x, radius * np.sin(angle) - which])

    def classify(points: FloatArray) -> IntArray:
        points = np.atleast_2d(points)
        nearest = [
            ((points[:, None, :] - line) ** 2).sum(axis=2).min(axis=1)
            for line in (midline * [-1, 1], midline - [0, 1])
        ]
        return np.argmin(nearest, axis=0)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Flat("x", shape=2, initval=[-1.05, 0.0])
            first = pt.sqrt(x[0] ** 2 + x[1] ** 2)
            second = pt.sqrt(x[0] ** 2 + (x[1] + 1) ** 2)
            on_first = (first >= 1) & (first <= 1.1) & (x[0] <= first / 2)
            on_second = (second >= 1) & (second <= 1.1) & (x[0] >= -second / 2)
            pm.Potential("log_density", pt.switch(on_first | on_second, 0.0, -np.inf))
        return model

    return Target(
        name="arcs",
        dim=2,
        build=build,
        logp=logp,
        sample=sample,
        classify=classify,
        centers=np.array([[-1.05, 0.0], [1.05, -1.0]]),
        weights=np.array([0.5, 0.5]),
        mean=np.array([0.0, -0.5]),
        variance=np.array([mean_r2 * (0.5 + bend), mean_r2 * (0.5 - bend) + 0.25]),
        log_z=float(np.log(area)),
    )


def _printed_sets(u: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Map u = r - 1 and t to points of both sets, (2, ..., 2), and to the Jacobians, (2, ...).

    The angle of the first is counted from the negative half of the x axis.
    """
    first = np.stack([-(1 + u) * np.cos(t), (1 + u) * np.sin(t)], axis=-1)
    second = np.stack([(1 + u) * np.cos(t), u * np.sin(t)], axis=-1)
    return np.stack([first, second]), np.stack([1 + u + 0 * t, u + np.sin(t) ** 2])


def _arcs_as_printed() -> Target:
    """Make the first arc and the set that the paper prints as the second.

    With u = r - 1 that is {((1 + u) cos t, u sin t)}: parts of ellipses, one within the other,
    which fill the largest but for what lies left of the straight lines where |t| is at its end.
    """
    half_angle, width = 2 * np.pi / 3, 0.1
    # Gauss-Legendre: twenty nodes integrate these sines and cosines to 15 digits.
    nodes, weights = np.polynomial.legendre.leggauss(20)
    u, t = width * (nodes[:, None] + 1) / 2, half_angle * nodes
    area_element = width / 2 * half_angle * np.outer(weights, weights)
    points, jacobian = _printed_sets(u, t)
    mass = jacobian * area_element
    areas = mass.sum(axis=(1, 2))
    mean = np.einsum("sut,sutc->c", mass, points) / areas.sum()
    second_moment = np.einsum("sut,sutc->c", mass, points**2) / areas.sum()

    def on_sets(points: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        x, y = np.atleast_2d(points).T
        radius = np.hypot(x, y)
        in_ellipse = np.hypot(x / (1 + width), y / width) <= 1
        right_of_ends = np.abs(y) >= -np.sqrt(3) * (x + 0.5)
        return (radius >= 1) & (radius <= 1 + width) & (x <= radius / 2), in_ellipse & right_of_ends

    def classify(points: FloatArray) -> IntArray:
        # The sliver lies within the first arc, and comes out through its opening on the right.
        x, radius = np.atleast_2d(points)[:, 0], np.linalg.norm(np.atleast_2d(points), axis=1)
        return ((radius < 1) | (x > radius / 2)).astype(int)

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        kept = np.empty((0, 2))
        while len(kept) < n:
            u, t = rng.uniform(0, width, 2 * n), rng.uniform(-half_angle, half_angle, 2 * n)
            which = rng.integers(2, size=2 * n), np.arange(2 * n)
            points, jacobian = (values[which] for values in _printed_sets(u, t))
            kept = np.concatenate([kept, points[rng.uniform(0, 1 + width, 2 * n) < jacobian]])
        return kept[:n]

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Flat("x", shape=2, initval=[-1.05, 0.0])
            radius = pt.sqrt((x**2).sum())
            on_first = (radius >= 1) & (radius <= 1 + width) & (x[0] <= radius / 2)
            in_ellipse = (x[0] / (1 + width)) ** 2 + (x[1] / width) ** 2 <= 1
            right_of_ends = pt.abs(x[1]) >= -np.sqrt(3) * (x[0] + 0.5)
            inside = on_first | (in_ellipse & right_of_ends)
            pm.Potential("log_density", pt.switch(inside, 0.0, -np.inf))
        return model

    return Target(
        name="arcs-printed",
        dim=2,
        build=build,
        logp=lambda points: np.where(np.logical_or(*on_sets(points)), 0.0, -np.inf),
        sample=sample,
        classify=classify,
        centers=np.array([[-1.05, 0.0], [0.0, 0.0]]),
        weights=areas / areas.sum(),
        mean=mean,
        variance=second_moment - mean**2,
        log_z=float(np.log(areas.sum())),
    )
