"""Targets that are mixtures of normals, known in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_spectral._validate import one_of
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["crossing", "normal", "normal_mixture", "pair1d", "paper2d", "ten_d", "twenty", "wide"]

PaperPrior = Literal["flat", "normal", "mixture"]


# --- mixtures of normals ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """A mixture of normals, in NumPy and as a PyTensor graph."""

    weights: FloatArray  # (k,)
    means: FloatArray  # (k, d)
    covariances: FloatArray  # (k, d, d)

    @property
    def cholesky(self) -> FloatArray:
        """Cholesky factor of each covariance."""
        return np.asarray(np.linalg.cholesky(self.covariances), dtype=float)

    @property
    def log_constants(self) -> FloatArray:
        """Log weight minus log normalizer of each component."""
        log_det = np.log(np.diagonal(self.cholesky, axis1=1, axis2=2)).sum(axis=1)
        return np.log(self.weights) - log_det - self.means.shape[1] / 2 * np.log(2 * np.pi)

    def component_logp(self, points: FloatArray) -> FloatArray:
        """Log of weight times density of each component at each point, (m, k)."""
        columns = []
        for mean, factor, constant in zip(
            self.means, self.cholesky, self.log_constants, strict=True
        ):
            standard = np.linalg.solve(factor, (np.atleast_2d(points) - mean).T)
            columns.append(constant - 0.5 * (standard**2).sum(axis=0))
        return np.stack(columns, axis=1)

    def logp(self, points: FloatArray) -> FloatArray:
        """Log density at each point."""
        return logsumexp(self.component_logp(points), axis=1)

    def classify(self, points: FloatArray) -> IntArray:
        """Component with the largest share in the density at each point."""
        return self.component_logp(points).argmax(axis=1)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Exact independent draws."""
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        noise = rng.standard_normal((n, self.means.shape[1]))
        points = np.empty_like(noise)
        for k, (mean, factor) in enumerate(zip(self.means, self.cholesky, strict=True)):
            mine = component == k
            points[mine] = mean + noise[mine] @ factor.T
        return points

    def graph(self, x) -> pt.TensorVariable:
        """Log density of the vector x as a PyTensor graph."""
        delta = x - self.means
        if all(np.array_equal(c, np.diag(np.diag(c))) for c in self.covariances):
            standard = delta / np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        else:
            standard = (np.linalg.inv(self.cholesky) * delta[:, None, :]).sum(axis=-1)
        return pt.logsumexp(self.log_constants - 0.5 * (standard**2).sum(axis=-1), axis=-1)

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture."""
        return self.weights @ self.means

    @property
    def variance(self) -> FloatArray:
        """Variance of each coordinate of the mixture."""
        within = np.diagonal(self.covariances, axis1=1, axis2=2)
        return self.weights @ (within + self.means**2) - self.mean**2

    def target(self, name: str, build: Callable[[], pm.Model]) -> Target:
        """Wrap the mixture as a target whose value space is the mixture's own."""
        return Target(
            name=name,
            dim=self.means.shape[1],
            build=build,
            logp=self.logp,
            sample=self.sample,
            classify=self.classify,
            centers=self.means,
            weights=self.weights,
            mean=self.mean,
            variance=self.variance,
            log_z=0.0,
        )


def normal_mixture(weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> NormalMixture:
    """Make a mixture from anything array-like; one covariance serves all components."""
    weights, means = np.asarray(weights, dtype=float), np.asarray(means, dtype=float)
    covariances = np.asarray(covariances, dtype=float)
    if covariances.ndim == 2:
        covariances = np.broadcast_to(covariances, (len(weights), *covariances.shape))
    return NormalMixture(weights, means, covariances)


def _flat_model(mixture: NormalMixture, initval: ArrayLike | None = None) -> pm.Model:
    """Model of a mixture as a Potential on a Flat vector ``x``."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=mixture.means.shape[1], initval=initval)
        pm.Potential("log_density", mixture.graph(x))
    return model


def paper2d(prior: PaperPrior = "flat") -> Target:
    """Four unequal normals in the plane, the paper's Example 1 [1]_.

    Would catch: a mode of mass 0.02 that is lost, weights that are all equal, weights or landmarks
    that follow the exploration instead of the density. All starting points are at (-5, 0), in the
    heaviest mode, as in the authors' experiment.

    Parameters
    ----------
    prior : {"flat", "normal", "mixture"}
        How the same density is written as a model. ``"flat"``: a Potential on Flat variables, which
        cannot be forward-sampled. ``"normal"``: a proper Normal(0, 10) prior and a Potential for
        the rest. ``"mixture"``: one ``pm.Mixture`` with neither data nor Potential.
    """
    mixture = normal_mixture(
        [0.02, 0.20, 0.20, 0.58],
        [[3, 3], [7, -3], [2, 7], [-5, 0]],
        [
            [[1.0, 0.2], [0.2, 1.0]],
            [[2.0, -0.5], [-0.5, 0.5]],
            [[1.3, 0.3], [0.3, 0.4]],
            [[1.0, 1.0], [1.0, 2.5]],
        ],
    )
    start = [-5.0, 0.0]

    def flat() -> pm.Model:
        return _flat_model(mixture, start)

    def normal_prior() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 10, shape=2, initval=start)
            log_prior = pm.logp(pm.Normal.dist(0, 10, shape=2), x).sum()
            pm.Potential("log_density_over_prior", mixture.graph(x) - log_prior)
        return model

    def mixture_prior() -> pm.Model:
        with pm.Model() as model:
            components = [
                pm.MvNormal.dist(mu=mean, cov=cov)
                for mean, cov in zip(mixture.means, mixture.covariances, strict=True)
            ]
            pm.Mixture("x", w=mixture.weights, comp_dists=components, initval=start)
        return model

    builders = {"flat": flat, "normal": normal_prior, "mixture": mixture_prior}
    one_of("prior", prior, get_args(PaperPrior))
    name = "paper2d" if prior == "flat" else f"paper2d-{prior}"
    return mixture.target(name, builders[prior])


def pair1d(s: float = 0.25) -> Target:
    """Half N(-1, s), half N(1, s), s a standard deviation: the paper's Section 2 [1]_.

    Would catch: code that takes for granted that the variable is a vector (it is a scalar, d = 1),
    and weights that depend on where between the modes the boundary falls. Overlap grows with s.

    Parameters
    ----------
    s : float
        Standard deviation of both components; the paper uses 0.15 (well apart) to 0.4.
    """
    if not s > 0:
        raise ValueError(f"s={s} must be positive; the paper uses 0.15 to 0.4.")
    mixture = normal_mixture([0.5, 0.5], [[-1], [1]], [[s**2]])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Flat("x", initval=-1.0)
            pm.Potential("log_density", mixture.graph(x[None]))
        return model

    return mixture.target(f"pair1d-{s:g}", build)


def crossing() -> Target:
    """Two elongated normals that cross, and a spike where they do.

    Would catch: a partition that needs convex or separated clusters to be right. Cells cut through
    the modes here, so weights and errors are right only if they do not depend on the cut.
    """
    c = 0.95 * np.sqrt(8)
    mixture = normal_mixture(
        [0.4, 0.4, 0.2],
        [[-1.5, 2.5], [1.5, 2.5], [0.0, 0.0]],
        np.array([[[1, c], [c, 8]], [[1, -c], [-c, 8]], [[0.05, 0], [0, 0.1]]]),
    )
    return mixture.target("crossing", lambda: _flat_model(mixture))


def twenty() -> Target:
    """Twenty narrow normals of equal weight, Kou, Zhou and Wong [2]_.

    Would catch: an automatic number of cells that stops too early, modes that are missed among
    many, pairs of modes a few standard deviations apart that one chain must share.
    """
    first = [2.18, 8.67, 4.24, 8.41, 3.93, 3.25, 1.70, 4.59, 6.91, 6.87]
    first += [5.41, 2.70, 4.98, 1.14, 8.33, 4.93, 1.83, 2.26, 5.54, 1.69]
    second = [5.76, 9.59, 8.48, 1.68, 8.82, 3.47, 0.50, 5.60, 5.81, 5.40]
    second += [2.65, 7.88, 3.70, 2.39, 9.50, 1.50, 0.09, 0.31, 6.86, 8.11]
    means = np.column_stack([first, second])
    mixture = normal_mixture(np.full(20, 0.05), means, 0.1**2 * np.eye(2))
    return mixture.target("twenty", lambda: _flat_model(mixture, means[0]))


def ten_d(seed: int = 0) -> Target:
    """Four round normals in ten dimensions with means far apart, the authors' own test.

    Would catch: bridge estimates that degrade with dimension, a bandwidth chosen for the plane.

    Parameters
    ----------
    seed : int
        Seed of the means, uniform in (-10, 10)^10.
    """
    means = np.random.default_rng(seed).uniform(-10, 10, size=(4, 10))
    mixture = normal_mixture([0.1, 0.2, 0.3, 0.4], means, 0.5 * np.eye(10))
    return mixture.target("ten_d", lambda: _flat_model(mixture))


def normal(d: int, prior: Literal["mvnormal", "flat"] = "mvnormal") -> Target:
    """One correlated normal with a mean that is not zero: nothing to partition.

    Would catch: cells invented where there is one mode, a covariance transposed or shrunk wrongly,
    code that takes for granted a mean of zero. Measures the price of using the step needlessly.

    Parameters
    ----------
    d : int
        Dimension, at least 1.
    prior : {"mvnormal", "flat"}
        One ``pm.MvNormal``, or a Potential on a Flat vector.
    """
    if d < 1:
        raise ValueError(f"d={d} must be at least 1.")
    sd = np.geomspace(0.5, 2.0, d)
    lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    covariance = 0.5**lag * np.outer(sd, sd)
    mixture = normal_mixture([1.0], [np.linspace(-1, 2, d)], covariance)

    def mvnormal() -> pm.Model:
        with pm.Model() as model:
            pm.MvNormal("x", mu=mixture.means[0], chol=mixture.cholesky[0])
        return model

    builders = {"mvnormal": mvnormal, "flat": lambda: _flat_model(mixture)}
    one_of("prior", prior, list(builders))
    return mixture.target(f"normal-{d}", builders[prior])


def wide(d: int = 10, log_volumes: ArrayLike = (0.0, 0.0, 0.0), seed: int = 0) -> Target:
    """Three normals of different shapes, in as many dimensions as wanted, of weights .2, .3, .5.

    The first is correlated evenly (covariance .49 (.6 + .4 I)), the second as a chain (.8 to the
    power of the lag), the third not at all (standard deviations .5 to 1.5); each is then scaled to
    its volume. The means are along orthonormal directions; along the line between their means the
    nearest two are ten standard deviations of the wider one apart.

    Would catch: estimates, bandwidths and local scales that degrade with dimension where the modes
    are not all round and alike; if volumes differ, partitions and temperings that follow the
    height of a mode or its width in place of its mass.

    Parameters
    ----------
    d : int
        Dimension, at least 3.
    log_volumes : array-like, shape (3,)
        Log of the product of each component's standard deviations along its principal axes, in
        nats. Differences of d log r make one r times as wide as another.
    seed : int
        Seed of the directions of the means.
    """
    volumes = np.asarray(log_volumes, dtype=float)
    if d < 3:
        raise ValueError(f"d={d} must be at least 3: there are three orthonormal means.")
    if volumes.shape != (3,):
        raise ValueError(f"log_volumes={log_volumes!r} must be three numbers, one per component.")
    lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    shapes = [
        0.49 * (0.6 + 0.4 * np.eye(d)),
        0.8**lag,
        np.diag(np.linspace(0.5, 1.5, d) ** 2),
    ]
    covariances = np.array(
        [
            shape * np.exp((2 * volume - np.linalg.slogdet(shape)[1]) / d)
            for shape, volume in zip(shapes, volumes, strict=True)
        ]
    )
    normals = np.random.default_rng(seed).standard_normal((d, 3))
    directions = np.linalg.qr(normals)[0].T
    separations = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        between = (directions[i] - directions[j]) / np.sqrt(2)
        widest = max(between @ covariances[k] @ between for k in (i, j))
        separations.append(np.sqrt(2 / widest))
    mixture = normal_mixture([0.2, 0.3, 0.5], 10 / min(separations) * directions, covariances)
    return mixture.target(f"wide-{d}", lambda: _flat_model(mixture, mixture.means[0]))
