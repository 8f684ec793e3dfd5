"""Posterior means from a cell's draws and its bridge's fresh points together.

The bridge evaluates the model at one independent point of the proposal for every draw. Where the
proposal is close to the cell these points know its mean as well as that many independent draws
would, at no further cost. A row (draw ``x``, fresh point ``y``, both with the row's proposal ``p``)
gives, for any share ``s`` of draws in the mixture ``s pi + (1 - s) p`` (the balance heuristic of
Veach & Guibas)::

    E_pi[h] = E_pi[u h] + E_p[v h],     u = s pi / (s pi + (1 - s) p),     v = u (1 - s) / s

The weights are bounded, so that a proposal that misses a part of the cell, or reaches beyond it,
does no harm: there the draws count in full. Only the mass of the cell enters, which the bridge has
estimated. For given mass and share, a row has expectation ``E_pi[h]`` whatever its proposal was
fitted to before, so that the error can be read off the rows: off the draws as a series, and off the
fresh points as independent ones.

Where the chains of a cell disagree beyond chance, each knows a part of it, and so do its fresh
points: they would count the parts by how many chains are there. The draws alone are used then.

References
----------
Veach & Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering,
doi:10.1145/218380.218498. Kong, McCullagh, Meng, Nicolae & Tan (2003), A theory of statistical
models for Monte Carlo integration, doi:10.1111/1467-9868.00404. Shirts & Chodera (2008),
Statistically optimal analysis of samples from multiple equilibrium states, doi:10.1063/1.2978177.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pymc_spectral._autocorrelation import mean_variance
from pymc_spectral.bridge.estimate import BridgeEstimate
from pymc_spectral.bridge.weights import Weighing

__all__ = ["PooledMeans", "pooled_means", "stratified_mean"]


@dataclass(frozen=True)
class PooledMeans:
    """Means of p functions, over the posterior and in each cell.

    Attributes
    ----------
    mean, mcse : ndarray, shape (p,)
        Posterior means and their standard errors; NaN errors if they were not asked for.
    cell_mean : ndarray, shape (cells, p)
        Means in each cell.
    """

    mean: np.ndarray
    mcse: np.ndarray
    cell_mean: np.ndarray


def pooled_means(
    h: np.ndarray, h_fresh: np.ndarray, weighing: Weighing, *, mcse: bool = True
) -> PooledMeans:
    """Estimate posterior means of functions from draws and fresh points, and their errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    h_fresh : ndarray, shape (chains, draws, p)
        Their values at the fresh points; those outside the cell are not looked at. Where a function
        is not finite at one of the others, its mean in that cell is that of the draws alone.
    weighing : Weighing
        Weights and bridge terms, from :func:`pymc_spectral.bridge.weights.weigh`.
    mcse : bool
        Whether to compute the errors, which is half of the work; NaN otherwise.

    Returns
    -------
    PooledMeans

    Notes
    -----
    1. In each cell and for each function the share of draws follows from the function's own
       autocorrelation time tau among the draws: ``s : 1 - s = 1 / tau : 1``.
    2. With ``m`` the cell's mean, ``B`` the mean of ``u + v`` over rows, which is near 1, and
       ``D = dm / d log c``, the row's influence on the posterior mean ``mu`` is
       ``[u (h(x) - m) + v (h(y) - m)] / B + (D + m - mu) (a_fresh - a_draw)``,
       with ``a`` the bridge's relative terms. Its mean over rows is the error to first order.
    3. The part at the draws is a series, the part at the fresh points is independent of it and
       within itself. Their variances are estimated apart and added: in the sum of the two, white
       noise would hide how slowly the chain moves.
    """
    weight = weighing.weights.weight
    members = [np.flatnonzero(weighing.cell_of_chain == cell) for cell in range(weight.size)]
    cells = [
        _Cell(h[mine], h_fresh[mine], estimate)
        for mine, estimate in zip(members, weighing.estimates, strict=True)
    ]
    cell_mean = np.array([cell.mean for cell in cells])
    mean = weight @ cell_mean
    if not mcse:
        return PooledMeans(mean, np.full(h.shape[2], np.nan), cell_mean)
    variance = sum(w**2 * cell.variance(mean) for w, cell in zip(weight, cells, strict=True))
    return PooledMeans(mean, np.sqrt(variance), cell_mean)


class _Cell:
    """Rows of one cell, weighted, and their mean."""

    def __init__(self, x: np.ndarray, y: np.ndarray, estimate: BridgeEstimate) -> None:
        self.estimate = estimate
        inside = estimate.ratio_fresh > -np.inf
        y = np.where(inside[:, :, None], y, 0.0)
        pooled = np.isfinite(y).all(axis=(0, 1)) & (estimate.excess <= 1.0)
        tau = np.where(pooled, _times(x), 1.0)
        level = estimate.log_c + np.log(tau)
        use = np.isfinite(estimate.ratio_draw)
        draw = np.where(use, estimate.ratio_draw, 0.0)
        # u and v of the module's formula, and u at fresh points. The draws that are used stand for
        # those that are not, so that both sides have the same number.
        self.kept = use.mean()
        self.u = expit(draw[:, :, None] - level) * (use / self.kept)[:, :, None]
        self.u_fresh = expit(estimate.ratio_fresh[:, :, None] - level)
        self.v = self.u_fresh * tau
        self.u[:, :, ~pooled], self.v[:, :, ~pooled] = 1.0, 0.0
        self.x, self.y = x, np.where(pooled, y, 0.0)
        self.pooled = pooled
        self.total = (self.u + self.v).mean(axis=(0, 1))
        self.mean = (self.u * x + self.v * self.y).mean(axis=(0, 1)) / self.total

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Squared error that this cell, had it all the weight, brings into posterior means."""
        estimate = self.estimate
        x = self.u * (self.x - self.mean) / self.total
        y = self.v * (self.y - self.mean) / self.total
        slope = -((1 - self.u * self.kept) * x + (1 - self.u_fresh) * y).mean(axis=(0, 1))
        lever = np.where(self.pooled, slope, 0.0) + self.mean - mean
        draw = x - lever * estimate.term_draw[:, :, None]
        fresh = y + lever * estimate.term_fresh[:, :, None]
        # What the cell's own rows do not show: points that might have fallen outside, and chains
        # of a cell that disagree beyond chance.
        hidden = estimate.variance_unseen + estimate.mcse**2 * (1.0 - 1.0 / estimate.excess)
        return _variance_of_sum(draw, fresh, estimate.groups) + lever**2 * hidden


def _variance_of_sum(draw: np.ndarray, fresh: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Variance of the mean over rows of a chain's part and an independent part.

    Parameters
    ----------
    draw, fresh : ndarray, shape (chains, draws, p)
        The two parts.
    groups : ndarray of int, shape (chains, draws)
        Rows of one chain and fit. They share a level, of opposite sign in the two parts, which is
        no error: it cancels. It is known from the independent part, up to noise.

    Returns
    -------
    ndarray, shape (p,)
    """
    number = groups.ravel()
    flat = fresh.reshape(number.size, -1)
    flat = flat - flat.mean(axis=0)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    size = np.diff(starts, append=number.size)[:, None]
    level = np.add.reduceat(flat, starts) / size
    within = np.add.reduceat((flat - level[number]) ** 2, starts)
    variance = within.sum(axis=0) / max(number.size - len(size), 1) / number.size
    if len(size) > 1:
        noise = within / size / np.maximum(size - 1, 1)
        share = size / number.size
        spread = np.sum(share * (level**2 - noise * (1 - share)), axis=0)
        # Each group's level is moved over in the proportion that is level, not noise.
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(spread > 0, spread / (spread + noise), 0.0)
        draw = draw + (part * level)[number].reshape(draw.shape)
    return variance + mean_variance(draw)


def _times(x: np.ndarray) -> np.ndarray:
    """Autocorrelation time of each column of (chains, draws, p) draws; 1 if it is not known."""
    n = x.shape[0] * x.shape[1]
    spread = x.var(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = mean_variance(x) * n / spread
    return np.where(np.isfinite(tau) & (tau > 0), np.minimum(tau, n), 1.0)


def stratified_mean(
    h: np.ndarray, weighing: Weighing, *, mcse: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate posterior means of functions of the draws, and their standard errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    weighing : Weighing
        Weights and influences, from :func:`weigh`.
    mcse : bool
        Whether to compute the errors, which is most of the work; NaN otherwise.

    Returns
    -------
    mean, mcse : ndarray, shape (p,)
    """
    weight = weighing.weights.weight
    members = [np.flatnonzero(weighing.cell_of_chain == cell) for cell in range(weight.size)]
    means = np.array([h[mine].mean(axis=(0, 1)) for mine in members])
    mean = weight @ means
    if not mcse:
        return mean, np.full(h.shape[2], np.nan)
    variance = np.zeros(h.shape[2])
    for cell, mine in enumerate(members):
        estimate = weighing.estimates[cell]
        offset = means[cell] - mean
        # Rows left out of the bridge have no influence there, the others the more.
        a = estimate.influence_draw * (estimate.influence_draw.size / estimate.n_draws)
        series = h[mine] - means[cell] + offset * a[:, :, None]
        # Disagreement between the cell's chains that the series, centred by fit, does not show.
        unseen = estimate.variance_draw * (1.0 - 1.0 / estimate.excess)
        variance += weight[cell] ** 2 * (
            mean_variance(series) + offset**2 * (estimate.variance_fresh + unseen)
        )
    return mean, np.sqrt(variance)
