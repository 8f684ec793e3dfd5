"""The ladder of temperatures: where the rungs go, and the evidence that comes with them.

Pure functions of what a round of tempering recorded. Throughout, the path of densities is
``log target(x; beta) = log reference(x) + beta * V(x)``, and ``V`` of shape (scans, temperatures,
copies) holds the values of V at the replicas.

References
----------
.. [1] Syed, Bouchard-Cote, Deligiannidis and Doucet. Non-reversible parallel tempering: a scalable
   highly parallel MCMC scheme. JRSS-B 84 (2022). https://arxiv.org/abs/1905.02939
.. [2] Bennett. Efficient estimation of free energy differences from Monte Carlo data. J. Comput.
   Phys. 22 (1976). https://doi.org/10.1016/0021-9991(76)90078-4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logsumexp

__all__ = ["Evidence", "first_betas", "next_betas", "stepping_stone", "swap_probability"]


def first_betas(n: int, power: float = 4.0) -> np.ndarray:
    """Spread temperatures from 0 to 1, crowded near 0 where densities change most."""
    return np.linspace(0.0, 1.0, n) ** power


def swap_probability(values: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """Probability to swap adjacent replicas.

    Parameters
    ----------
    values : array of shape (temperatures, copies)
        V at the replicas.
    betas : array of shape (temperatures,)
        Increasing inverse temperatures.

    Returns
    -------
    array of shape (temperatures - 1, copies)
    """
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.diff(betas)[:, None] * (values[:-1] - values[1:])
    # Both -inf: neither state counts, nothing is gained.
    return np.exp(np.minimum(0.0, np.where(np.isnan(exponent), -np.inf, exponent)))


def next_betas(betas: np.ndarray, rejection: np.ndarray, n: int) -> np.ndarray:
    """Spread temperatures so that every pair is rejected equally often.

    The cumulative rejection is an increasing function of beta that hardly depends on the ladder it
    was measured with [1]_. It is interpolated monotonically, and inverted at equal steps.

    Parameters
    ----------
    betas : array of shape (k,)
        Ladder of the last round.
    rejection : array of shape (k - 1,)
        Mean rejection of each pair.
    n : int
        Length of the new ladder.
    """
    # A pair that is never rejected still needs a positive slope to be inverted.
    cumulative = np.concatenate([[0.0], np.cumsum(np.maximum(rejection, 1e-4))])
    # With beta over many decades the cubic is tame on the index, wild on beta itself.
    inverse = PchipInterpolator(cumulative, np.sqrt(betas))
    fresh = inverse(np.linspace(0.0, cumulative[-1], n)) ** 2
    fresh[0], fresh[-1] = 0.0, 1.0
    return fresh


@dataclass(frozen=True)
class Evidence:
    """Log of the ratio of normalising constants, target over reference.

    Attributes
    ----------
    forward, backward : float
        Stepping stone from the hotter and from the colder replica of each pair.
    combined : float
        Bennett's estimate, which uses both and is the one to quote.
    error : float
        Standard error of `combined`, autocorrelation included.
    """

    forward: float
    backward: float
    combined: float
    error: float


def stepping_stone(values: np.ndarray, betas: np.ndarray) -> Evidence:
    """Estimate the evidence from the V of all replicas, in both directions.

    Parameters
    ----------
    values : array of shape (scans, temperatures, copies)
        V at the replicas.
    betas : array of shape (temperatures,)
        Inverse temperatures from 0 to 1.

    Returns
    -------
    Evidence

    Notes
    -----
    The error comes from the influence of each scan on the estimate, summed over pairs, in batch
    means over time for every copy. The longest of several batch lengths that still leaves enough
    batches decides, so slow round trips are not taken for independent draws.
    """
    scans, _, copies = values.shape
    steps = np.diff(betas)[None, :, None]
    up = steps * values[:, :-1]
    down = steps * values[:, 1:]
    n = scans * copies
    forward = logsumexp(up, axis=(0, 2)) - np.log(n)
    backward = np.log(n) - logsumexp(-down, axis=(0, 2))
    ratio = np.where(np.isfinite(forward + backward), 0.5 * (forward + backward), forward)
    for _ in range(100):
        shift = ratio[None, :, None]
        # E_hot[sigmoid(up - r)] = E_cold[sigmoid(r - down)] at the right r.
        hot, cold = expit(up - shift), expit(shift - down)
        mean_hot, mean_cold = hot.mean(axis=(0, 2)), cold.mean(axis=(0, 2))
        change = np.log(np.maximum(mean_hot, 1e-300)) - np.log(np.maximum(mean_cold, 1e-300))
        ratio = ratio + change
        if np.abs(change).max() < 1e-10:
            break
    # Newton's factor: how the log ratio of the two means falls with r.
    slope = (hot * (1 - hot)).mean(axis=(0, 2)) / np.maximum(mean_hot, 1e-300)
    slope = slope + (cold * (1 - cold)).mean(axis=(0, 2)) / np.maximum(mean_cold, 1e-300)
    terms = hot / np.maximum(mean_hot, 1e-300)[None, :, None]
    terms = terms - cold / np.maximum(mean_cold, 1e-300)[None, :, None]
    influence = (terms / np.maximum(slope, 1e-12)[None, :, None]).sum(axis=1)
    return Evidence(
        forward=float(forward.sum()),
        backward=float(backward.sum()),
        combined=float(ratio.sum()),
        error=_batch_error(influence),
    )


def _batch_error(series: np.ndarray) -> float:
    """Estimate the error of the mean of (scans, copies) series: largest over batch lengths."""
    scans, copies = series.shape
    errors = []
    length = 1
    while (scans // length) * copies >= min(20, 2 * copies) and scans // length >= 1:
        used = (scans // length) * length
        batches = series[:used].reshape(-1, length, copies).mean(axis=1)
        errors.append(batches.std(ddof=1) / np.sqrt(batches.size))
        length *= 2
    return float(max(errors)) if errors else float("nan")
