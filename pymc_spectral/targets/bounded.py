"""Targets of bounded support: a box, and two arcs with hard walls."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from pymc_spectral.targets.mixtures import normal_mixture
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["Interval", "arcs", "docs_pair"]


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


def arcs() -> Target:
    """Uniform on two interlocking arcs, the paper's Example 2 with its misprint mended [1]_.

    Would catch: cells that are convex in disguise (k-means cuts both arcs), a kernel or a bridge
    that needs gradients (there are none) or a finite logp outside the support (it is -inf). The
    density is 1 on the arcs, so that the evidence is their area.
    """
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
