"""Targets whose masses, moments and evidence are known exactly.

Tests, examples and benchmarks draw on these. Each function returns a :class:`Target`, a PyMC model
together with the truth about it, and its docstring says which mistake the target would bring to
light. Points are those of the unconstrained, raveled ``model.value_vars``, the space in which the
whole package works; only ``mean`` and ``variance`` are on the scale a user sees.

References
----------
.. [1] Basse, G., Pillai, N. and Smith, A. (2016). Parallel Markov Chain Monte Carlo via Spectral
   Clustering. Proceedings of AISTATS, PMLR 51.
.. [2] Kou, S. C., Zhou, Q. and Wong, W. H. (2006). Equi-energy sampler with applications in
   statistical inference and statistical mechanics. The Annals of Statistics 34(4), 1581-1619.
   https://doi.org/10.1214/009053606000000515
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal, get_args

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

__all__ = [
    "LABELS_DATA",
    "Target",
    "arcs",
    "crossing",
    "docs_pair",
    "labels",
    "labels_quadrature",
    "normal",
    "pair1d",
    "paper2d",
    "ten_d",
    "twenty",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PaperPrior = Literal["flat", "normal", "mixture"]


def _identity(points: FloatArray) -> FloatArray:
    """Return the points as they are."""
    return points


@dataclass(frozen=True, eq=False)
class Target:
    """A PyMC model and the truth about it.

    Attributes
    ----------
    name : str
        What reports and test ids call it.
    dim : int
        Length of the raveled unconstrained vector.
    build : callable
        ``build()`` makes a fresh PyMC model.
    logp : callable
        ``logp(points)``: (m, dim) to (m,). Written in NumPy apart from the model, normalised as
        the model is (Jacobians included), so that the two can check each other.
    sample : callable
        ``sample(rng, n)``: (n, dim) independent exact draws.
    classify : callable
        ``classify(points)``: (m, dim) to (m,), the index of the mode each point belongs to.
    centres : ndarray, shape (n_modes, dim)
        A point well inside each mode.
    weights : ndarray, shape (n_modes,)
        Mass of each mode. Where modes overlap (``crossing``, ``pair1d`` with a wide s) this is the
        mass of the mixture component; ask :meth:`region_mass` for the mass of a region.
    mean, variance : ndarray, shape (dim,)
        Posterior mean and variance of ``variable``, on the scale of the model's own variable.
    log_z : float
        Log of the integral of ``exp(logp)``: the log evidence.
    log_z_error : float
        Numerical error of ``log_z``; zero where it is a closed form.
    variable : str
        Name of the model's one free variable.
    constrain : callable
        Unconstrained points to the scale of the model's own variable.
    """

    name: str
    dim: int
    build: Callable[[], pm.Model]
    logp: Callable[[FloatArray], FloatArray]
    sample: Callable[[np.random.Generator, int], FloatArray]
    classify: Callable[[FloatArray], IntArray]
    centres: FloatArray
    weights: FloatArray
    mean: FloatArray
    variance: FloatArray
    log_z: float
    log_z_error: float = 0.0
    variable: str = "x"
    constrain: Callable[[FloatArray], FloatArray] = _identity

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.weights)

    def __repr__(self) -> str:
        """Show what matters when a test prints it."""
        return f"Target({self.name!r}, dim={self.dim}, n_modes={self.n_modes})"

    def region_mass(
        self,
        classify: Callable[[FloatArray], ArrayLike],
        rng: np.random.Generator,
        n: int = 100_000,
        n_regions: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Measure the mass of any regions of the space by exact draws.

        Parameters
        ----------
        classify : callable
            (n, dim) points to (n,) region numbers counted from 0, a partition's ``predict`` say.
        rng : numpy.random.Generator
            Source of the exact draws.
        n : int
            Number of draws; the error falls as its square root.
        n_regions : int, optional
            Length of the answer. The default is the largest region number seen plus one, which
            is too short if the last regions are empty.

        Returns
        -------
        mass, error : ndarray, shape (n_regions,)
            Fraction of the draws in each region and its binomial standard error.
        """
        region = np.asarray(classify(self.sample(rng, n)))
        mass = np.bincount(region, minlength=n_regions or 0) / n
        return mass, np.sqrt(mass * (1 - mass) / n)


# --- mixtures of normals ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _NormalMixture:
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
        """Log weight minus log normaliser of each component."""
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
            centres=self.means,
            weights=self.weights,
            mean=self.mean,
            variance=self.variance,
            log_z=0.0,
        )


def _mixture(weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> _NormalMixture:
    """Make a mixture from anything array-like; one covariance serves all components."""
    weights, means = np.asarray(weights, dtype=float), np.asarray(means, dtype=float)
    covariances = np.asarray(covariances, dtype=float)
    if covariances.ndim == 2:
        covariances = np.broadcast_to(covariances, (len(weights), *covariances.shape))
    return _NormalMixture(weights, means, covariances)


def _flat_model(mixture: _NormalMixture, initval: ArrayLike | None = None) -> pm.Model:
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
    mixture = _mixture(
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
    if prior not in builders:
        raise ValueError(f"prior={prior!r} is not known; use one of {list(get_args(PaperPrior))}.")
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
    mixture = _mixture([0.5, 0.5], [[-1], [1]], [[s**2]])

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
    mixture = _mixture(
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
    mixture = _mixture(np.full(20, 0.05), means, 0.1**2 * np.eye(2))
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
    mixture = _mixture([0.1, 0.2, 0.3, 0.4], means, 0.5 * np.eye(10))
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
    mixture = _mixture([1.0], [np.linspace(-1, 2, d)], covariance)

    def mvnormal() -> pm.Model:
        with pm.Model() as model:
            pm.MvNormal("x", mu=mixture.means[0], chol=mixture.cholesky[0])
        return model

    builders = {"mvnormal": mvnormal, "flat": lambda: _flat_model(mixture)}
    if prior not in builders:
        raise ValueError(f"prior={prior!r} is not known; use one of {list(builders)}.")
    return mixture.target(f"normal-{d}", builders[prior])


# --- bounded support ----------------------------------------------------------------------------


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
    mixture = _mixture([0.1, 0.9], [np.full(n, 0.5), np.full(n, -0.5)], 0.1**2 * np.eye(n))

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", -2, 2, shape=n)
            pm.Potential("log_likelihood", mixture.graph(x))
        return model

    def constrain(z: FloatArray) -> FloatArray:
        return 2 * np.tanh(np.asarray(z) / 2)

    def unconstrain(x: FloatArray) -> FloatArray:
        return 2 * np.arctanh(np.asarray(x) / 2)

    def logp(z: FloatArray) -> FloatArray:
        z = np.atleast_2d(z)
        # The prior is 1/4 and dx/dz is 4 s(z) s(-z), s the logistic function, in each coordinate.
        log_prior_on_z = -np.logaddexp(0, z) - np.logaddexp(0, -z)
        return mixture.logp(constrain(z)) + log_prior_on_z.sum(axis=1)

    return Target(
        name=f"docs_pair-{n}",
        dim=n,
        build=build,
        logp=logp,
        # The box cuts the mixture fifteen standard deviations out: a mass below 1e-49.
        sample=lambda rng, size: unconstrain(mixture.sample(rng, size)),
        classify=lambda z: mixture.classify(constrain(z)),
        centres=unconstrain(mixture.means),
        weights=mixture.weights,
        mean=mixture.mean,
        variance=mixture.variance,
        log_z=-n * np.log(4.0),
        constrain=constrain,
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
        centres=np.array([[-1.05, 0.0], [1.05, -1.0]]),
        weights=np.array([0.5, 0.5]),
        mean=np.array([0.0, -0.5]),
        variance=np.array([mean_r2 * (0.5 + bend), mean_r2 * (0.5 - bend) + 0.25]),
        log_z=float(np.log(area)),
    )


# --- label switching ----------------------------------------------------------------------------

# Body lengths (cm) of four year classes of fish, made up: 24 of each, round to the millimetre.
LABELS_DATA: FloatArray = np.array(
    """
    11.4 11.9 12.7 13.4 12.2 12.0 10.9 12.0 13.7 11.8 10.4 12.6
    12.7 13.6 11.8 10.4 11.6 11.1 12.2 12.8 13.3 12.6 11.8 12.3
    20.3 17.4 16.8 19.6 16.6 18.3 18.9 17.4 17.2 18.0 18.7 17.9
    20.8 17.6 18.1 18.8 16.5 17.2 18.7 16.8 18.7 20.1 18.8 19.3
    26.9 25.5 27.1 25.0 23.9 23.0 24.8 23.5 25.2 27.1 23.8 24.9
    23.1 26.5 27.5 26.0 25.7 25.4 25.5 23.7 25.2 22.9 25.9 24.9
    30.9 33.7 31.6 33.1 30.5 32.1 32.3 32.8 32.2 30.2 29.3 32.6
    32.0 32.1 31.7 30.5 31.9 32.9 32.7 28.4 33.8 30.5 32.5 29.9
    """.split(),
    dtype=float,
).reshape(4, 24)
_LABELS_SIGMA = 1.2  # known standard deviation within a class
_LABELS_PRIOR = (20.0, 8.0)  # mean and standard deviation of the prior of each mean
# From labels_quadrature: log evidence of one labelling, and mean and variance of the sorted means.
_LABELS_LOG_Z = {2: -111.621568254, 3: -202.215028038, 4: -301.429684479}
_LABELS_MOMENTS = {
    2: ((12.1427996348, 18.2724406742), (0.0603818849472, 0.0602138246326)),
    3: (
        (12.1427984997, 18.2719308954, 25.1171677328),
        (0.0603820936476, 0.0608734616967, 0.0606920264601),
    ),
    4: (
        (12.1428012569, 18.2726520673, 25.1958696314, 31.7439542015),
        (0.060382354033, 0.060861221650, 0.064978204172, 0.067927174136),
    ),
}


def _labels_data(n_components: int) -> FloatArray:
    """Give the data of the first classes, one class per component."""
    if n_components not in _LABELS_LOG_Z:
        raise ValueError(f"K={n_components} is not known; use one of {list(_LABELS_LOG_Z)}.")
    return LABELS_DATA[:n_components].ravel()


def _labels_logp(y: FloatArray, means: FloatArray) -> FloatArray:
    """Log posterior, not normalised, of (m, k) component means given the data y."""
    location, scale = _LABELS_PRIOR
    standard = (means - location) / scale
    logp = (-0.5 * standard**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    constant = -np.log(means.shape[1]) - np.log(_LABELS_SIGMA) - 0.5 * np.log(2 * np.pi)
    for value in y:
        each = -0.5 * ((value - means) / _LABELS_SIGMA) ** 2
        logp = logp + constant + np.logaddexp.reduce(each, axis=1)
    return logp


def labels_quadrature(
    n_components: int = 3, n_grid: int = 31, width: float = 9.0
) -> tuple[float, FloatArray, FloatArray]:
    """Integrate the posterior of one labelling of :func:`labels` on a grid.

    The integrand is smooth and has died out at the edges, where the trapezoidal rule converges
    exponentially: halving the grid changes the answer by less than 1e-9.

    Parameters
    ----------
    n_components : int
        K, the number of free means and so the dimension of the grid.
    n_grid : int
        Nodes per dimension.
    width : float
        Half-width of the grid in posterior standard deviations.

    Returns
    -------
    log_z : float
        Log evidence of one labelling.
    mean, variance : ndarray, shape (n_components,)
        Moments of the means in increasing order.
    """
    y = _labels_data(n_components)
    centre, scale = _labels_normal(n_components)
    axis = np.linspace(-width, width, n_grid)
    grid = np.stack(np.meshgrid(*[axis] * n_components, indexing="ij"), axis=-1)
    points = centre + scale * grid.reshape(-1, n_components)
    logp = np.concatenate(
        [_labels_logp(y, block) for block in np.array_split(points, 1 + len(points) // 20_000)]
    )
    log_sum = logsumexp(logp)
    log_z = log_sum + n_components * np.log(axis[1] - axis[0]) + np.log(scale).sum()
    mass = np.exp(logp - log_sum)
    mean = mass @ points
    return float(log_z), mean, mass @ (points - mean) ** 2


@lru_cache
def _labels_normal(n_components: int) -> tuple[FloatArray, FloatArray]:
    """Approximate the posterior of one labelling by independent normals: modes and scales."""
    groups = LABELS_DATA[:n_components]
    location, spread = _LABELS_PRIOR
    precision = groups.shape[1] / _LABELS_SIGMA**2 + 1 / spread**2
    centre = (groups.sum(axis=1) / _LABELS_SIGMA**2 + location / spread**2) / precision
    return centre, np.full(n_components, precision**-0.5)


def labels(K: int = 3) -> Target:
    """K exchangeable means of a normal mixture on fixed data, label switching left in.

    Would catch: labellings that are missed or merged, an evidence without its log K!, and a result
    whose draws are not exchangeable. The model has a proper prior and data, its likelihood is
    summed over the assignments, weights and standard deviation are known; only the means are free.

    Parameters
    ----------
    K : {2, 3, 4}
        Number of components, and of year classes in the data; K! labellings, each of mass 1/K!.
    """
    y = _labels_data(K)
    orders = list(permutations(range(K)))
    sorted_mean, sorted_variance = (np.array(moments) for moments in _LABELS_MOMENTS[K])
    base = K ** np.arange(K)
    index_of_code = np.full(K**K, -1)
    index_of_code[np.array(orders) @ base] = np.arange(len(orders))

    def build() -> pm.Model:
        location, spread = _LABELS_PRIOR
        with pm.Model(coords={"component": range(K)}) as model:
            mu = pm.Normal("mu", location, spread, dims="component")
            pm.NormalMixture("y", w=np.full(K, 1 / K), mu=mu, sigma=_LABELS_SIGMA, observed=y)
        return model

    def classify(points: FloatArray) -> IntArray:
        # Rank of each coordinate: the labelling that puts the sorted means where they are.
        ranks = np.atleast_2d(points).argsort(axis=1).argsort(axis=1)
        return index_of_code[ranks @ base]

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        ordered = _labels_sorted_draws(K, rng, n)
        return np.take_along_axis(ordered, rng.permuted(np.tile(np.arange(K), (n, 1)), axis=1), 1)

    mean = sorted_mean.mean()
    variance = sorted_variance.mean() + sorted_mean.var()
    return Target(
        name=f"labels-{K}",
        dim=K,
        build=build,
        logp=lambda points: _labels_logp(y, np.atleast_2d(points)),
        sample=sample,
        classify=classify,
        centres=sorted_mean[np.array(orders)],
        weights=np.full(len(orders), 1 / len(orders)),
        mean=np.full(K, mean),
        variance=np.full(K, variance),
        log_z=_LABELS_LOG_Z[K] + float(np.log(len(orders))),
        log_z_error=1e-8,
        variable="mu",
    )


def _labels_sorted_draws(n_components: int, rng: np.random.Generator, n: int) -> FloatArray:
    """Draw exactly from one labelling by rejection from independent Student distributions."""
    y = _labels_data(n_components)
    centre, scale = _labels_normal(n_components)
    dof = 10

    def log_ratio(standard: FloatArray) -> FloatArray:
        points = centre + scale * standard
        log_envelope = (-(dof + 1) / 2 * np.log1p(standard**2 / dof)).sum(axis=1)
        in_order = (np.diff(points, axis=1) > 0).all(axis=1)
        return np.where(in_order, _labels_logp(y, points), -np.inf) - log_envelope

    # Tails of a Student are heavier than the posterior's, so the ratio peaks near the centre,
    # where a coarse search comes within the margin of 0.1 of its maximum.
    search = np.random.default_rng(0).uniform(-3, 3, size=(4000, n_components))
    log_bound = log_ratio(search).max() + 0.1
    kept: list[FloatArray] = []
    while sum(map(len, kept)) < n:
        standard = rng.standard_t(dof, size=(min(2 * n, 50_000), n_components))
        log_accept = log_ratio(standard) - log_bound
        if log_accept.max() > 0:
            raise RuntimeError(f"Envelope exceeded by {log_accept.max():.2g}: draws not exact.")
        accepted = np.log(rng.uniform(size=len(standard))) < log_accept
        kept.append(centre + scale * standard[accepted])
    return np.concatenate(kept)[:n]
