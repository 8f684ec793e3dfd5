"""How heavy the tail of the bridge's terms is: whether an error computed from them means much."""

from __future__ import annotations

import numpy as np

from pymc_spectral.bridge.log_sums import log_sum

__all__ = ["pareto_k"]

# Size of the tail: a fifth of the terms, and three times their root (Vehtari, Simpson, Gelman, Yao
# & Gabry 2024, Pareto smoothed importance sampling, JMLR 25); below five there is none (same).
_TAIL_SHARE = 0.2
_TAIL_ROOTS = 3.0
_MIN_TAIL = 5
# Pull of the shape towards 0.5, worth ten observations (same paper, appendix C).
_PRIOR_SHAPE = 0.5
_PRIOR_SIZE = 10.0
# Grid of the empirical Bayes estimate: 30 + sqrt(n) points, spread about a scale of three times
# the first quartile (Zhang & Stephens 2009).
_GRID_SIZE = 30
_GRID_QUARTILES = 3.0


def pareto_k(log_terms: np.ndarray) -> float:
    """Return the tail shape of the largest terms: a generalized Pareto fit, or Hill's if smaller.

    The fit is the empirical Bayes estimate of Zhang & Stephens (2009,
    doi:10.1198/tech.2009.08017), pulled towards 0.5 by ten pseudo-observations as in
    Pareto-smoothed importance sampling. Alone it would raise the alarm over terms that are nearly
    constant with a curved top (it says 5 where their relative spread is 5 %), because it looks at
    the excess only; Hill's estimate sees the excess relative to the terms.

    Parameters
    ----------
    log_terms : ndarray
        Logs of the terms, in any shape and order.

    Returns
    -------
    float
        NaN with fewer than 25 terms, ``-inf`` when fewer than five of the tail exceed its start.
    """
    terms = np.sort(np.exp(log_terms.ravel() - np.max(log_terms)))
    size = int(min(_TAIL_SHARE * terms.size, _TAIL_ROOTS * np.sqrt(terms.size)))
    if size < _MIN_TAIL:
        return float("nan")
    threshold = terms[-size - 1]
    excess = terms[-size:] - threshold
    excess = excess[excess > 0]
    if excess.size < _MIN_TAIL:
        return float("-inf")
    fitted = _generalized_pareto_shape(excess)
    if threshold <= 0:
        return fitted
    return min(fitted, float(np.log(terms[-size:] / threshold).mean()))


def _generalized_pareto_shape(excess: np.ndarray) -> float:
    """Fit the shape of a generalized Pareto density to sorted positive values."""
    n = excess.size
    grid_size = _GRID_SIZE + int(np.sqrt(n))
    grid = 1.0 - np.sqrt(grid_size / (np.arange(1, grid_size + 1) - 0.5))
    first_quartile = excess[int(n / 4 + 0.5) - 1]
    theta = grid / (_GRID_QUARTILES * first_quartile) + 1.0 / excess[-1]
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(profile - log_sum(profile))
    k = float(np.log1p(-np.sum(theta * weight) * excess).mean())
    return (n * k + _PRIOR_SHAPE * _PRIOR_SIZE) / (n + _PRIOR_SIZE)
