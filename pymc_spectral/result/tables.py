"""Posterior means, spreads and intervals with errors that know the cells are strata.

The equal-weight rows of ``posterior`` hide that each cell had its own chain, so ArviZ's standard
errors of them are cautious. Here every draw counts with its cell's weight, the bridge's
proposed points count beside the draws, and the error is that of this very estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_spectral._autocorrelation import rank_rhat
from pymc_spectral._inference_data import choose_variables, columns_of, hdi_names
from pymc_spectral._row_blocks import column_blocks
from pymc_spectral.bridge.weights import Weighing, cell_of_chain
from pymc_spectral.result.means import (
    CONSTANT,
    PooledMeans,
    pooled_cell_means,
    pooled_means,
    stratified_mean,
)
from pymc_spectral.result.reweighting import weighed_groups, weighing_of

__all__ = ["cell_summary", "summary"]

# Slack when masses are added up to that of an interval: rounding of sums of some thousand weights,
# far below the weight of a draw.
MASS_ROUNDING = 1e-12


def summary(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    hdi_prob: float = 0.94,
    round_to: int | None = 3,
    pooled: bool = True,
) -> pd.DataFrame:
    """Summarize the posterior like ``az.summary``, with stratified standard errors.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables to show; with a leading ``~``, variables to leave out. Default: all.
    hdi_prob : float
        Mass of the highest density interval.
    round_to : int, optional
        Decimals; None does not round.
    pooled : bool
        Let the bridge's proposed points, the group ``cell_fresh``, take part in means and sds. They
        lower the errors: by up to a third where chains mix well, by more where they are slow.
        False, or a result without that group: draws alone, as in a cell whose chains disagree.
        Intervals and `r_hat` are always of the draws.

    Returns
    -------
    DataFrame
        A row per scalar parameter: ``mean``, ``sd``, the interval's ends (named as by the installed
        ArviZ), ``mcse_mean`` and ``mcse_sd``, ``ess_mean`` (independent posterior draws that would
        give the mean the same error, may exceed the number of draws), and ``r_hat`` (the worst
        cell's, among its own chains, each split in two).

    Notes
    -----
    With ``w_i`` the weight of cell i, ``mu_i`` the mean of its draws and ``mu = sum w_i mu_i``, the
    error of mu is to first order ``sum w_i [d mu_i + (mu_i - mu) d log c_i]``. Both terms of a cell
    come from the same draws, so they are added draw by draw,
    ``u_t = (x_t - mu_i) + (mu_i - mu) a_t``
    with ``a_t`` the draw's influence on ``log c_i``, before the variance of the mean of u is
    estimated with its autocorrelation; the proposed points of the bridge add
    ``(mu_i - mu)^2 Var_fresh(log c_i)``. The error of the sd follows likewise from ``(x - mu)^2``.
    With proposed points, mean and error are those of :mod:`pymc_spectral.result.means`.
    """
    if not 0 < hdi_prob < 1:
        raise ValueError(f"hdi_prob={hdi_prob} must lie between 0 and 1, e.g. 0.94.")
    groups = weighed_groups(idata)
    weighing = weighing_of(groups)
    chosen = choose_variables(groups["cell_posterior"], var_names)
    names, values = columns_of(groups["cell_posterior"], chosen)
    proposed = _proposed_columns(groups, chosen, names) if pooled else None
    low, high = hdi_names(hdi_prob)
    columns = ["mean", "sd", low, high, "mcse_mean", "mcse_sd", "ess_mean", "r_hat"]
    parts = [
        _summarize(
            values[:, :, part],
            None if proposed is None else proposed[:, :, part],
            weighing,
            hdi_prob,
        )
        for part in column_blocks(values)
    ]
    table = pd.DataFrame(
        np.concatenate(parts) if parts else np.empty((0, len(columns))),
        index=pd.Index(names),
        columns=columns,
    )
    return table if round_to is None else table.round(round_to)


def cell_summary(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    round_to: int | None = None,
    pooled: bool = True,
) -> pd.DataFrame:
    """Tabulate the cells: what each weighs, how well it was sampled, where it lies.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables whose means are shown; with a leading ``~``, variables to leave out. Default: all.
    round_to : int, optional
        Decimals. Default: no rounding.
    pooled : bool
        Let the bridge's proposed points take part in the means, as in :func:`summary`.

    Returns
    -------
    DataFrame
        A row per cell: ``weight``, ``weight_mcse``, ``log_evidence``, ``log_evidence_mcse``,
        ``ess`` (bulk, the worst parameter), ``r_hat`` (the worst parameter; among the cell's own
        chains, each split in two), ``boundary_hit_rate``, ``chains``, then the mean of each
        parameter.
    """
    groups = weighed_groups(idata)
    cells = groups["cells"]
    shown = {
        "weight": "weight",
        "weight_mcse": "weight_mcse",
        "log_evidence": "log_evidence",
        "log_evidence_mcse": "log_evidence_mcse",
        "ess": "ess_bulk",
        "r_hat": "r_hat",
        "boundary_hit_rate": "boundary_hit_rate",
        "chains": "n_chains",
    }
    table = pd.DataFrame({column: cells[name].values for column, name in shown.items()})
    chosen = choose_variables(groups["cell_posterior"], var_names)
    names, values = columns_of(groups["cell_posterior"], chosen)
    proposed = _proposed_columns(groups, chosen, names) if pooled else None
    if proposed is None:
        own = cell_of_chain(groups["cell_sample_stats"])
        means = np.array([values[own == cell].mean(axis=(0, 1)) for cell in cells["cell"].values])
    else:
        weighing = weighing_of(groups)
        parts = [
            pooled_cell_means(values[:, :, part], proposed[:, :, part], weighing)
            for part in list(column_blocks(values)) or [slice(0)]
        ]
        means = np.concatenate(parts, axis=1)
    table = pd.concat([table, pd.DataFrame(means, columns=names)], axis=1)
    table.index = pd.Index(cells["cell"].values, name="cell")
    return table if round_to is None else table.round(round_to)


def _proposed_columns(
    groups: dict[str, xr.Dataset], chosen: list[str], names: list[str]
) -> np.ndarray | None:
    """Values at the proposed points, in the columns of the draws; None if they were not kept.

    A variable that was added to the draws afterwards is not known there: its columns are infinite,
    for which the draws alone are used.
    """
    if "cell_fresh" not in groups:
        return None
    group = groups["cell_fresh"]
    found, proposed = columns_of(group, [name for name in chosen if name in group])
    if found == names:
        return proposed
    place = {name: k for k, name in enumerate(found)}
    columns = np.full((*proposed.shape[:2], len(names)), np.inf)
    for k, name in enumerate(names):
        if name in place:
            columns[:, :, k] = proposed[:, :, place[name]]
    return columns


def _summarize(
    x: np.ndarray, proposed: np.ndarray | None, weighing: Weighing, hdi_prob: float
) -> np.ndarray:
    """Return the summary's columns for (chains, draws, p) draws, one row per parameter."""
    mean, mcse_mean = _mean(x, proposed, weighing)
    squares = None if proposed is None else (proposed - mean) ** 2
    variance, mcse_variance = _mean((x - mean) ** 2, squares, weighing)
    sd = np.sqrt(variance)
    cells = weighing.cell_of_chain
    with np.errstate(divide="ignore", invalid="ignore"):
        mcse_sd = np.where(sd > 0, mcse_variance / (2 * sd), 0.0)
        # Rounding alone gives a constant a spread, of which there are no draws to speak.
        ess = np.where(variance > CONSTANT * mean**2, variance / mcse_mean**2, np.nan)
    r_hat = np.array([rank_rhat(x[cells == cell]) for cell in range(cells.max() + 1)])
    worst = np.full(x.shape[2], np.nan)
    seen = ~np.isnan(r_hat).all(axis=0)
    worst[seen] = np.nanmax(r_hat[:, seen], axis=0)
    share = weighing.weights.weight / np.bincount(cells) / x.shape[1]
    ends = _hdi(x.reshape(-1, x.shape[2]), np.repeat(share[cells], x.shape[1]), hdi_prob)
    return np.column_stack([mean, sd, *ends, mcse_mean, mcse_sd, ess, worst])


def _mean(
    x: np.ndarray, proposed: np.ndarray | None, weighing: Weighing
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and their errors, from proposed points too where there are some."""
    if proposed is None:
        return stratified_mean(x, weighing)
    found: PooledMeans = pooled_means(x, proposed, weighing)
    return found.mean, found.mcse


def _hdi(x: np.ndarray, weight: np.ndarray, prob: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the narrowest interval with mass `prob` of weighted draws, for each column."""
    low, high = np.empty(x.shape[1]), np.empty(x.shape[1])
    for k in range(x.shape[1]):
        order = np.argsort(x[:, k], kind="stable")
        values, mass = x[order, k], np.cumsum(weight[order])
        before = mass - weight[order]
        # First draw at which the interval that opens just before draw j holds enough.
        stop = np.searchsorted(mass, before + prob * mass[-1] - MASS_ROUNDING)
        start = np.flatnonzero(stop < values.size)
        best = start[int(np.argmin(values[stop[start]] - values[start]))]
        low[k], high[k] = values[best], values[stop[best]]
    return low, high
