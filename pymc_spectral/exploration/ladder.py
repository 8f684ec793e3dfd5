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

__all__ = [
    "Evidence",
    "first_betas",
    "next_betas",
    "respread",
    "stepping_stone",
    "swap_probability",
]

# First ladder: equal steps to this power. From a broad normal over d coordinates the density first
# changes at beta of the order of 1 / d (its V has a spread of d), so betas crowd near 0 (heuristic;
# the next ladders follow the rejections).
FIRST_POWER = 4.0
# Least rejection of a pair, as one that is never rejected needs a positive slope to be inverted.
LEAST_REJECTION = 1e-4
# Temperatures per unit of the barrier: swaps are then rejected about every other time, the best for
# round trips [1]_. Two more are the ends.
TEMPERATURES_PER_BARRIER = 2.0
ENDS = 2
# Fewer have no room between the ends, where local moves carry replicas.
LEAST_TEMPERATURES = 3
# Bennett's equation: iterations at most, and the change at which they stop. Far below any error.
MAX_ITERATIONS = 100
CONVERGED = 1e-10
# Keeps means of Bennett's terms, and their slopes, from zero: no overlap, and then no estimate.
TINY = 1e-300
LEAST_SLOPE = 1e-12
# Least number of batch means that a standard error is taken from: with 20 it is known to 16 %. Two
# of each copy are enough where that is fewer.
LEAST_BATCHES = 20
LEAST_BATCHES_PER_COPY = 2


def first_betas(n: int) -> np.ndarray:
    """Spread temperatures from 0 to 1, crowded near 0 where densities change most."""
    return np.linspace(0.0, 1.0, n) ** FIRST_POWER


def swap_probability(values: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """Compute the probability to swap adjacent replicas.

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
    cumulative = _cumulative(rejection)
    # With beta over many decades the cubic is tame on the index, wild on beta itself.
    inverse = PchipInterpolator(cumulative, np.sqrt(betas))
    new_betas = inverse(np.linspace(0.0, cumulative[-1], n)) ** 2
    new_betas[0], new_betas[-1] = 0.0, 1.0
    return new_betas


def respread(
    betas: np.ndarray, rejection: np.ndarray, max_temperatures: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose length and temperatures of the next ladder, and where its replicas come from.

    Parameters
    ----------
    betas : array of shape (k,)
        Ladder of the last round.
    rejection : array of shape (k - 1,)
        Mean rejection of each pair.
    max_temperatures : int
        Length of the new ladder at most.

    Returns
    -------
    new_betas : array of shape (n,)
    origin : array of shape (n,)
        For each new temperature the nearest old one, by the rejections between them.
    """
    wanted = int(np.ceil(TEMPERATURES_PER_BARRIER * float(rejection.sum()))) + ENDS
    n = int(np.clip(wanted, LEAST_TEMPERATURES, max_temperatures))
    new_betas = next_betas(betas, rejection, n)
    cumulative = _cumulative(rejection)
    place = np.interp(np.sqrt(new_betas), np.sqrt(betas), cumulative)
    origin = np.abs(place[:, None] - cumulative[None, :]).argmin(axis=1)
    # A replica of the reference may be where the density is zero: not a start for a warmer one.
    origin[1:] = np.maximum(origin[1:], 1)
    return new_betas, origin


def _cumulative(rejection: np.ndarray) -> np.ndarray:
    """Add up rejections from the reference on: a strictly increasing function of beta."""
    return np.concatenate([[0.0], np.cumsum(np.maximum(rejection, LEAST_REJECTION))])


@dataclass(frozen=True)
class Evidence:
    """Log of the ratio of normalizing constants, target over reference.

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
    # Log density of the colder over the hotter temperature, at replicas of either.
    up = steps * values[:, :-1]
    down = steps * values[:, 1:]
    n = scans * copies
    forward = logsumexp(up, axis=(0, 2)) - np.log(n)
    backward = np.log(n) - logsumexp(-down, axis=(0, 2))
    ratio = np.where(np.isfinite(forward + backward), 0.5 * (forward + backward), forward)
    ratio, influence = _bennett(up, down, ratio)
    return Evidence(
        forward=float(forward.sum()),
        backward=float(backward.sum()),
        combined=float(ratio.sum()),
        error=_batch_error(influence),
    )


def _bennett(up: np.ndarray, down: np.ndarray, ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve Bennett's equation [2]_ for all pairs of temperatures at once.

    Parameters
    ----------
    up, down : arrays of shape (scans, pairs, copies)
        Log density of the colder over the hotter temperature, at replicas of the hotter and of the
        colder one.
    ratio : array of shape (pairs,)
        First guess of the log ratios of their normalizing constants.

    Returns
    -------
    ratio : array of shape (pairs,)
    influence : array of shape (scans, copies)
        What each scan adds to the sum of the ratios; its mean is zero.
    """
    for _ in range(MAX_ITERATIONS):
        shift = ratio[None, :, None]
        # E_hot[sigmoid(up - r)] = E_cold[sigmoid(r - down)] at the right r.
        hot, cold = expit(up - shift), expit(shift - down)
        mean_hot, mean_cold = hot.mean(axis=(0, 2)), cold.mean(axis=(0, 2))
        change = np.log(np.maximum(mean_hot, TINY)) - np.log(np.maximum(mean_cold, TINY))
        ratio = ratio + change
        if np.abs(change).max() < CONVERGED:
            break
    # Newton's factor: how the log ratio of the two means falls with r.
    slope = (hot * (1 - hot)).mean(axis=(0, 2)) / np.maximum(mean_hot, TINY)
    slope = slope + (cold * (1 - cold)).mean(axis=(0, 2)) / np.maximum(mean_cold, TINY)
    terms = hot / np.maximum(mean_hot, TINY)[None, :, None]
    terms = terms - cold / np.maximum(mean_cold, TINY)[None, :, None]
    return ratio, (terms / np.maximum(slope, LEAST_SLOPE)[None, :, None]).sum(axis=1)


def _batch_error(series: np.ndarray) -> float:
    """Estimate the error of the mean of (scans, copies) series: largest over batch lengths."""
    scans, copies = series.shape
    errors = []
    length = 1
    enough = min(LEAST_BATCHES, LEAST_BATCHES_PER_COPY * copies)
    while (scans // length) * copies >= enough and scans // length >= 1:
        used = (scans // length) * length
        batches = series[:used].reshape(-1, length, copies).mean(axis=1)
        errors.append(batches.std(ddof=1) / np.sqrt(batches.size))
        length *= 2
    return float(max(errors)) if errors else float("nan")
