"""The galaxy velocities as a normal mixture: the label switching of the literature."""

from itertools import permutations

import numpy as np
import pymc as pm
from scipy.special import gammaln

from pymc_spectral.targets.label_switching import ordering_index
from pymc_spectral.targets.target import FloatArray, Target

__all__ = ["GALAXIES_DATA", "galaxies"]

# Velocities (1000 km/s) of 82 galaxies of the Corona Borealis region: public astronomical data,
# measured by Postman, Huchra and Geller (1986) and printed by Roeder (1990). The 78th is
# 26.690 in the copy that R's MASS package made the common one, whose manual calls it a typo for
# 26.960. It is kept, as in the literature; with 26.960 the evidence of four components is -221.50.
GALAXIES_DATA: FloatArray = np.array(
    """
    9.172 9.350 9.483 9.558 9.775 10.227 10.406 16.084 16.170 18.419 18.552 18.600 18.927 19.052
    19.070 19.330 19.343 19.349 19.440 19.473 19.529 19.541 19.547 19.663 19.846 19.856 19.863
    19.914 19.918 19.973 19.989 20.166 20.175 20.179 20.196 20.215 20.221 20.415 20.629 20.795
    20.821 20.846 20.875 20.986 21.137 21.492 21.701 21.814 21.921 21.960 22.185 22.209 22.242
    22.249 22.314 22.374 22.495 22.746 22.747 22.888 22.914 23.206 23.241 23.263 23.484 23.538
    23.542 23.666 23.706 23.711 24.129 24.285 24.289 24.366 24.717 24.990 25.633 26.690 26.995
    32.065 32.789 34.279
    """.split(),
    dtype=float,
)

_CONCENTRATION = 2.0  # of the Dirichlet prior of the weights, in each component
# PyTensor would take the logarithm of a Python float of few digits in single precision.
_MEAN_PRIOR = (21.0, np.float64(7.0))  # mean and standard deviation
_SIGMA_PRIOR = (0.3, 0.6)  # mean and standard deviation of log sigma
_HALF_LOG_2_PI = 0.5 * np.log(2 * np.pi)

# Log evidence by importance sampling within one labeling, from a mixture of Students that covers
# all its modes (tests/targets/test_galaxies.py, with 200,000 points and more), and four times its
# standard error. Proposals from draws of Gibbs samplers and of sequential Monte Carlo agree.
_GALAXIES_LOG_Z = {2: (-233.0315, 0.0056), 3: (-224.238, 0.006), 4: (-221.344, 0.008)}

# Weights, means and standard deviations where the posterior of one labeling is highest.
_GALAXIES_FIT = {
    2: ((0.31, 0.69), (19.69, 21.34), (7.04, 1.81)),
    3: ((0.10, 0.84, 0.06), (9.72, 21.40, 32.95), (0.53, 2.17, 1.05)),
    4: ((0.10, 0.37, 0.33, 0.20), (9.72, 19.82, 22.87, 24.02), (0.53, 0.69, 1.07, 4.84)),
}


def _to_simplex(values: FloatArray) -> FloatArray:
    """Map K - 1 unconstrained values to K weights, as PyMC's simplex transform does."""
    full = np.hstack([values, -values.sum(axis=1, keepdims=True)])
    weights = np.exp(full - full.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _galaxies_logp(K: int, points: FloatArray) -> FloatArray:
    """Log posterior, not normalized, of the (m, 3 K - 1) unconstrained points."""
    share, mu, log_sigma = np.split(np.atleast_2d(points), [K - 1, 2 * K - 1], axis=1)
    log_weights = np.log(_to_simplex(share))
    logp = gammaln(K * _CONCENTRATION) - K * gammaln(_CONCENTRATION) + np.log(K)
    # The transform's Jacobian is K times the product of the weights: their power is the prior's.
    logp = logp + _CONCENTRATION * log_weights.sum(axis=1)
    for values, (location, spread) in ((mu, _MEAN_PRIOR), (log_sigma, _SIGMA_PRIOR)):
        each = -0.5 * ((values - location) / spread) ** 2 - np.log(spread) - _HALF_LOG_2_PI
        logp = logp + each.sum(axis=1)
    for velocity in GALAXIES_DATA:
        standard = (velocity - mu) * np.exp(-log_sigma)
        each = log_weights - 0.5 * standard**2 - log_sigma - _HALF_LOG_2_PI
        logp = logp + np.logaddexp.reduce(each, axis=1)
    return logp


def galaxies(K: int = 4) -> Target:
    """K exchangeable components with weights, means and sigmas of their own, on 82 velocities.

    The velocities [3]_, [4]_ are a normal mixture with w ~ Dirichlet(2, ..., 2), mu ~ N(21, 7) and
    sigma ~ LogNormal(.3, .6), likelihood summed over the assignments and labels left in. By
    symmetry each of the K! labelings, told apart by the order of mu, has a mass of 1/K!; within a
    labeling there can be several modes (which of the components is the wide one). There are no
    exact draws: ``sample`` is None, ``mean`` and ``variance`` (of ``mu``) are nan.

    Would catch: labelings lost or merged where they touch and are not normal (two means can trade
    places in the bulk of the galaxies, with their weights and sigmas), an evidence without its log
    K!, Jacobians of the simplex forgotten. Harder than :func:`labels`, whose means alone are free.

    Parameters
    ----------
    K : {2, 3, 4}
        Number of components; 3 K - 1 dimensions.
    """
    if K not in _GALAXIES_LOG_Z:
        raise ValueError(f"K={K} is not known; use one of {list(_GALAXIES_LOG_Z)}.")
    log_z, log_z_error = _GALAXIES_LOG_Z[K]
    fit = np.array(_GALAXIES_FIT[K])
    orders = np.array(list(permutations(range(K))))
    share, mu, sigma = (row[orders] for row in fit)
    log_share = np.log(share)
    centered = log_share - log_share.mean(axis=1, keepdims=True)

    def build() -> pm.Model:
        with pm.Model(coords={"component": range(K)}) as model:
            w = pm.Dirichlet("w", np.full(K, _CONCENTRATION), dims="component")
            mu = pm.Normal("mu", *_MEAN_PRIOR, dims="component")
            sigma = pm.LogNormal("sigma", *_SIGMA_PRIOR, dims="component")
            pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=GALAXIES_DATA)
        return model

    def means(points: FloatArray) -> FloatArray:
        return np.asarray(points)[..., K - 1 : 2 * K - 1]

    return Target(
        name=f"galaxies-{K}",
        dim=3 * K - 1,
        build=build,
        logp=lambda points: _galaxies_logp(K, points),
        sample=None,
        classify=lambda points: ordering_index(means(points)),
        centers=np.hstack([centered[:, :-1], mu, np.log(sigma)]),
        weights=np.full(len(orders), 1 / len(orders)),
        mean=np.full(K, np.nan),
        variance=np.full(K, np.nan),
        log_z=log_z,
        log_z_error=log_z_error,
        variable="mu",
        constrain=means,
    )
