"""A mixture model whose labels can be exchanged, integrated on a grid."""

from functools import lru_cache
from itertools import permutations

import numpy as np
import pymc as pm
from scipy.special import logsumexp

from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["LABELS_DATA", "labels", "labels_quadrature", "ordering_index"]

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


# From labels_quadrature: log evidence of one labeling, and mean and variance of the sorted means.
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
    """Log posterior, not normalized, of (m, k) component means given the data y."""
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
    """Integrate the posterior of one labeling of :func:`labels` on a grid.

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
        Log evidence of one labeling.
    mean, variance : ndarray, shape (n_components,)
        Moments of the means in increasing order.
    """
    y = _labels_data(n_components)
    center, scale = _labels_normal(n_components)
    axis = np.linspace(-width, width, n_grid)
    grid = np.stack(np.meshgrid(*[axis] * n_components, indexing="ij"), axis=-1)
    points = center + scale * grid.reshape(-1, n_components)
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
    """Approximate the posterior of one labeling by independent normals: modes and scales."""
    groups = LABELS_DATA[:n_components]
    location, spread = _LABELS_PRIOR
    precision = groups.shape[1] / _LABELS_SIGMA**2 + 1 / spread**2
    center = (groups.sum(axis=1) / _LABELS_SIGMA**2 + location / spread**2) / precision
    return center, np.full(n_components, precision**-0.5)


def ordering_index(means: FloatArray) -> IntArray:
    """Give the number of each point's labeling, the permutation that its means are sorted by.

    Parameters
    ----------
    means : ndarray, shape (m, K)
        Means of the components, one point a row.

    Returns
    -------
    ndarray, shape (m,)
        Place, in the order of ``itertools.permutations``, of the ranks of each row.
    """
    ranks = np.atleast_2d(means).argsort(axis=1).argsort(axis=1)
    orders = np.array(list(permutations(range(ranks.shape[1]))))
    base = ranks.shape[1] ** np.arange(ranks.shape[1])
    index_of_code = np.full(base[-1] * ranks.shape[1], -1)
    index_of_code[orders @ base] = np.arange(len(orders))
    return index_of_code[ranks @ base]


def labels(K: int = 3) -> Target:
    """K exchangeable means of a normal mixture on fixed data, label switching left in.

    Would catch: labelings that are missed or merged, an evidence without its log K!, and a result
    whose draws are not exchangeable. The model has a proper prior and data, its likelihood is
    summed over the assignments, weights and standard deviation are known; only the means are free.

    Parameters
    ----------
    K : {2, 3, 4}
        Number of components, and of year classes in the data; K! labelings, each of mass 1/K!.
    """
    y = _labels_data(K)
    orders = list(permutations(range(K)))
    sorted_mean, sorted_variance = (np.array(moments) for moments in _LABELS_MOMENTS[K])

    def build() -> pm.Model:
        location, spread = _LABELS_PRIOR
        with pm.Model(coords={"component": range(K)}) as model:
            mu = pm.Normal("mu", location, spread, dims="component")
            pm.NormalMixture("y", w=np.full(K, 1 / K), mu=mu, sigma=_LABELS_SIGMA, observed=y)
        return model

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
        classify=ordering_index,
        centers=sorted_mean[np.array(orders)],
        weights=np.full(len(orders), 1 / len(orders)),
        mean=np.full(K, mean),
        variance=np.full(K, variance),
        log_z=_LABELS_LOG_Z[K] + float(np.log(len(orders))),
        log_z_error=1e-8,
        variable="mu",
    )


def _labels_sorted_draws(n_components: int, rng: np.random.Generator, n: int) -> FloatArray:
    """Draw exactly from one labeling by rejection from independent Student distributions."""
    y = _labels_data(n_components)
    center, scale = _labels_normal(n_components)
    dof = 10

    def log_ratio(standard: FloatArray) -> FloatArray:
        points = center + scale * standard
        log_envelope = (-(dof + 1) / 2 * np.log1p(standard**2 / dof)).sum(axis=1)
        in_order = (np.diff(points, axis=1) > 0).all(axis=1)
        return np.where(in_order, _labels_logp(y, points), -np.inf) - log_envelope

    # Tails of a Student are heavier than the posterior's, so the ratio peaks near the center,
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
        kept.append(center + scale * standard[accepted])
    return np.concatenate(kept)[:n]
