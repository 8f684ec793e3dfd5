"""Posterior means: from the draws alone, or from the draws and the bridge's proposed points.

A posterior mean is the sum of the cells' means, each times the cell's weight; its error holds that
of the means and that of the weights, which the same rows bring about. The draws alone give a cell's
mean as their average (:func:`stratified_mean`).

The bridge also evaluates the model at one independent point of the proposal for every draw. Where
the proposal is close to the cell these points know its mean as well as that many independent draws
would, at no further cost (:func:`pooled_means`). A row (draw ``x``, proposed point ``y``, both with
the row's proposal ``p``) gives, for any share ``s`` of draws in the mixture ``s pi + (1 - s) p``
(the balance heuristic of Veach & Guibas)::

    E_pi[h] = E_pi[u h] + E_p[v h],     u = s pi / (s pi + (1 - s) p),     v = u (1 - s) / s

The weights are bounded, so that a proposal that misses a part of the cell, or reaches beyond it,
does no harm: there the draws count in full. Only the mass of the cell enters, which the bridge has
estimated. For given mass and share, a row has expectation ``E_pi[h]`` whatever its proposal was
fitted to before, so that the error can be read off the rows: off the draws as a series, and off the
proposed points as independent ones.

Where the chains of a cell disagree beyond chance, each knows a part of it, and so do its proposed
points: they would count the parts by how many chains are there. The draws alone are used then.

References
----------
Veach & Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering,
doi:10.1145/218380.218498. Kong, McCullagh, Meng, Nicolae & Tan (2003), A theory of statistical
models for Monte Carlo integration, doi:10.1111/1467-9868.00404. Shirts & Chodera (2008),
Statistically optimal analysis of samples from multiple equilibrium states, doi:10.1063/1.2978177.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from pymc_spectral._autocorrelation import mean_variance
from pymc_spectral.bridge.estimate import BridgeEstimate
from pymc_spectral.bridge.weights import Weighing

__all__ = [
    "CONSTANT",
    "PooledMeans",
    "pooled_cell_means",
    "pooled_means",
    "stratified_mean",
    "weighted_mean",
]

CONSTANT = 1e-20
"""Variance relative to the squared mean below which a parameter is constant: rounding alone."""


@dataclass(frozen=True)
class PooledMeans:
    """Means of p functions, over the posterior and in each cell.

    Attributes
    ----------
    mean, mcse : ndarray, shape (p,)
        Posterior means and their standard errors.
    cell_mean : ndarray, shape (cells, p)
        Means in each cell.
    """

    mean: np.ndarray
    mcse: np.ndarray
    cell_mean: np.ndarray


def weighted_mean(h: np.ndarray, weighing: Weighing) -> np.ndarray:
    """Estimate posterior means of functions of the draws, without their errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    weighing : Weighing
        Weights, from :func:`pymc_spectral.bridge.weights.weigh`.

    Returns
    -------
    ndarray, shape (p,)
        The first of what :func:`stratified_mean` returns, for a fraction of the work.
    """
    return weighing.weights.weight @ _stack(_draws_by_cell(h, weighing))


def stratified_mean(h: np.ndarray, weighing: Weighing) -> tuple[np.ndarray, np.ndarray]:
    """Estimate posterior means of functions of the draws, and their standard errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    weighing : Weighing
        Weights and influences, from :func:`pymc_spectral.bridge.weights.weigh`.

    Returns
    -------
    mean, mcse : ndarray, shape (p,)
    """
    return _over_cells(_draws_by_cell(h, weighing), weighing)


def pooled_means(h: np.ndarray, h_fresh: np.ndarray, weighing: Weighing) -> PooledMeans:
    """Estimate posterior means of functions from draws and proposed points, and their errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    h_fresh : ndarray, shape (chains, draws, p)
        Their values at the proposed points; those outside the cell are not looked at. Where a
        function is not finite at one of the others, its mean in that cell is that of the draws
        alone.
    weighing : Weighing
        Weights and bridge terms, from :func:`pymc_spectral.bridge.weights.weigh`.

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
    3. The part at the draws is a series, the part at the proposed points is independent of it and
       within itself. Their variances are estimated apart and added: in the sum of the two, white
       noise would hide how slowly the chain moves.
    """
    cells = _pooled_by_cell(h, h_fresh, weighing)
    mean, mcse = _over_cells(cells, weighing)
    return PooledMeans(mean, mcse, _stack(cells))


def pooled_cell_means(h: np.ndarray, h_fresh: np.ndarray, weighing: Weighing) -> np.ndarray:
    """Return the cells' means, (cells, p), of :func:`pooled_means`, for half of the work."""
    return _stack(_pooled_by_cell(h, h_fresh, weighing))


class _CellMean(Protocol):
    """Means of p functions in one cell."""

    mean: np.ndarray

    def variance(self, posterior_mean: np.ndarray) -> np.ndarray:
        """Return this cell's contribution to the variance of posterior means, for unit weight."""


def _stack(cells: Sequence[_CellMean]) -> np.ndarray:
    """Return the means in each cell, (cells, p)."""
    return np.array([cell.mean for cell in cells])


def _over_cells(cells: Sequence[_CellMean], weighing: Weighing) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and their errors: cells are independent but for their weights' sum."""
    weight = weighing.weights.weight
    mean = weight @ _stack(cells)
    variance = sum(w**2 * cell.variance(mean) for w, cell in zip(weight, cells, strict=True))
    return mean, np.sqrt(variance)


def _draws_by_cell(h: np.ndarray, weighing: Weighing) -> list[_DrawsMean]:
    """Hand every cell the draws of its chains."""
    pairs = zip(weighing.chains_of_cell, weighing.estimates, strict=True)
    return [_DrawsMean(h[mine], estimate) for mine, estimate in pairs]


def _pooled_by_cell(h: np.ndarray, h_fresh: np.ndarray, weighing: Weighing) -> list[_PooledMean]:
    """Hand every cell the draws of its chains and their proposed points."""
    pairs = zip(weighing.chains_of_cell, weighing.estimates, strict=True)
    return [_PooledMean(h[mine], h_fresh[mine], estimate) for mine, estimate in pairs]


class _DrawsMean:
    """The average of one cell's draws."""

    def __init__(self, x: np.ndarray, estimate: BridgeEstimate) -> None:
        self.x, self.estimate = x, estimate
        self.mean = x.mean(axis=(0, 1))

    def variance(self, posterior_mean: np.ndarray) -> np.ndarray:
        """Return this cell's contribution to the variance of posterior means, for unit weight."""
        estimate = self.estimate
        offset = self.mean - posterior_mean
        # Rows left out of the bridge have no influence there, the others the more.
        a = estimate.influence_draw * (estimate.influence_draw.size / estimate.n_draws)
        series = self.x - self.mean + offset * a[:, :, None]
        # Disagreement between the cell's chains that the series, centered by run, does not show.
        hidden = estimate.variance_draw * (1.0 - 1.0 / estimate.excess)
        return mean_variance(series) + offset**2 * (estimate.variance_fresh + hidden)


class _PooledMean:
    """The mean of one cell's draws and proposed points, weighted by the balance heuristic."""

    def __init__(self, x: np.ndarray, y: np.ndarray, estimate: BridgeEstimate) -> None:
        self.estimate = estimate
        inside = estimate.ratio_fresh > -np.inf
        y = np.where(inside[:, :, None], y, 0.0)
        pooled = np.isfinite(y).all(axis=(0, 1)) & (estimate.excess <= 1.0)
        tau = np.where(pooled, _times(x), 1.0)
        # Log of (1 - s) / s times the mass: where target and proposal count alike in the mixture.
        level = estimate.log_c + np.log(tau)
        use = np.isfinite(estimate.ratio_draw)
        draw = np.where(use, estimate.ratio_draw, 0.0)
        # u and v of the module's formula, and u at proposed points. The draws that are used stand
        # for those that are not, so that both sides have the same number.
        self.kept = use.mean()
        self.u = expit(draw[:, :, None] - level) * (use / self.kept)[:, :, None]
        self.u_fresh = expit(estimate.ratio_fresh[:, :, None] - level)
        self.v = self.u_fresh * tau
        # The draws alone: every draw counts once, in full, and no proposed point does.
        self.u[:, :, ~pooled], self.v[:, :, ~pooled] = 1.0, 0.0
        self.x, self.y = x, np.where(pooled, y, 0.0)
        self.pooled = pooled
        self.total = (self.u + self.v).mean(axis=(0, 1))
        self.mean = (self.u * x + self.v * self.y).mean(axis=(0, 1)) / self.total

    def variance(self, posterior_mean: np.ndarray) -> np.ndarray:
        """Return this cell's contribution to the variance of posterior means, for unit weight."""
        estimate = self.estimate
        x = self.u * (self.x - self.mean) / self.total
        y = self.v * (self.y - self.mean) / self.total
        # D of the notes: how the mean moves with the mass, on which the weights of rows depend.
        slope = -((1 - self.u * self.kept) * x + (1 - self.u_fresh) * y).mean(axis=(0, 1))
        lever = np.where(self.pooled, slope, 0.0) + self.mean - posterior_mean
        draw = x - lever * estimate.term_draw[:, :, None]
        fresh = y + lever * estimate.term_fresh[:, :, None]
        # What the cell's own rows do not show: points that might have fallen outside, and chains
        # of a cell that disagree beyond chance.
        hidden = estimate.variance_unseen + estimate.mcse**2 * (1.0 - 1.0 / estimate.excess)
        return _variance_of_sum(draw, fresh, estimate.runs) + lever**2 * hidden


def _variance_of_sum(draw: np.ndarray, fresh: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Return the variance of the mean over rows of a chain's part plus an independent part.

    Parameters
    ----------
    draw, fresh : ndarray, shape (chains, draws, p)
        The two parts.
    runs : ndarray of int, shape (chains, draws)
        Run of each row, of one chain and fit. Rows of a run share a level, of opposite sign in the
        two parts, which is no error: it cancels. It is known from the independent part, up to
        noise.

    Returns
    -------
    ndarray, shape (p,)
    """
    number = runs.ravel()
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
        # The spread of the runs' means beyond their noise, of which the overall mean, subtracted
        # above, holds a share.
        spread = np.sum(share * (level**2 - noise * (1 - share)), axis=0)
        # Each run's level is moved over in the proportion that is level, not noise.
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(spread > 0, spread / (spread + noise), 0.0)
        draw = draw + (part * level)[number].reshape(draw.shape)
    return variance + mean_variance(draw)


def _times(x: np.ndarray) -> np.ndarray:
    """Return the autocorrelation time of each column of (chains, draws, p); 1 if not known."""
    n = x.shape[0] * x.shape[1]
    spread = x.var(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = mean_variance(x) * n / spread
    return np.where(np.isfinite(tau) & (tau > 0), np.minimum(tau, n), 1.0)
