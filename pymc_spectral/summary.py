"""Posterior means, spreads and intervals with errors that know the cells are strata.

The equal-weight rows of ``posterior`` hide that each cell had its own chain, so ArviZ's standard
errors of them are cautious. Here every draw counts with its cell's weight over the cell's number of
draws, and the error is that of this very estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spectral import _idata
from pymc_spectral._ess import rank_rhat
from pymc_spectral.reweight import reweight
from pymc_spectral.strata import Weighing, columns_of, stat_values, stratified_mean, weigh

__all__ = ["cell_summary", "summary"]

# Columns handled together: bounds memory for models with thousands of Deterministics.
_CHUNK = 256


def summary(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    hdi_prob: float = 0.94,
    round_to: int | None = 3,
) -> pd.DataFrame:
    """Summarise the posterior like ``az.summary``, with stratified standard errors.

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
    estimated with its autocorrelation; the fresh points of the bridge add
    ``(mu_i - mu)^2 Var_fresh(log c_i)``. The error of the sd follows likewise from ``(x - mu)^2``.
    """
    if not 0 < hdi_prob < 1:
        raise ValueError(f"hdi_prob={hdi_prob} must lie between 0 and 1, e.g. 0.94.")
    groups = _idata.groups(idata)
    if "cells" not in groups:
        groups = _idata.groups(reweight(idata))
    weighing = weigh(groups["cell_sample_stats"], groups["cells"].attrs["bridge"])
    names, values = columns_of(groups["cell_posterior"], var_names)
    low, high = _idata.hdi_names(hdi_prob)
    columns = ["mean", "sd", low, high, "mcse_mean", "mcse_sd", "ess_mean", "r_hat"]
    parts = [
        _summarise(values[:, :, k : k + _CHUNK], weighing, hdi_prob)
        for k in range(0, values.shape[2], _CHUNK)
    ]
    table = pd.DataFrame(
        np.concatenate(parts) if parts else np.empty((0, len(columns))),
        index=pd.Index(names),
        columns=columns,
    )
    return table if round_to is None else table.round(round_to)


def cell_summary(
    idata: Any, var_names: str | Sequence[str] | None = None, *, round_to: int | None = None
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

    Returns
    -------
    DataFrame
        A row per cell: ``weight``, ``weight_mcse``, ``log_evidence``, ``log_evidence_mcse``,
        ``ess`` (bulk, the worst parameter), ``r_hat`` (the worst parameter; among the cell's own
        chains, each split in two), ``boundary_hit_rate``, ``chains``, then the mean of each
        parameter.
    """
    groups = _idata.groups(idata)
    if "cells" not in groups:
        groups = _idata.groups(reweight(idata))
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
    names, values = columns_of(groups["cell_posterior"], var_names)
    own = stat_values(groups["cell_sample_stats"], "cell")[:, 0].astype(int)
    means = [values[own == cell].mean(axis=(0, 1)) for cell in cells["cell"].values]
    table = pd.concat([table, pd.DataFrame(np.array(means), columns=names)], axis=1)
    table.index = pd.Index(cells["cell"].values, name="cell")
    return table if round_to is None else table.round(round_to)


def _summarise(x: np.ndarray, weighing: Weighing, hdi_prob: float) -> np.ndarray:
    """Return the summary's columns for (chains, draws, p) draws, one row per parameter."""
    mean, mcse_mean = stratified_mean(x, weighing)
    variance, mcse_variance = stratified_mean((x - mean) ** 2, weighing)
    sd = np.sqrt(variance)
    cells = weighing.cell_of_chain
    with np.errstate(divide="ignore", invalid="ignore"):
        mcse_sd = np.where(sd > 0, mcse_variance / (2 * sd), 0.0)
        ess = variance / mcse_mean**2
    r_hat = np.array([rank_rhat(x[cells == cell]) for cell in range(cells.max() + 1)])
    worst = np.full(x.shape[2], np.nan)
    seen = ~np.isnan(r_hat).all(axis=0)
    worst[seen] = np.nanmax(r_hat[:, seen], axis=0)
    share = weighing.weights.weight / np.bincount(cells) / x.shape[1]
    ends = _hdi(x.reshape(-1, x.shape[2]), np.repeat(share[cells], x.shape[1]), hdi_prob)
    return np.column_stack([mean, sd, *ends, mcse_mean, mcse_sd, ess, worst])


def _hdi(x: np.ndarray, weight: np.ndarray, prob: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the narrowest interval with mass `prob` of weighted draws, for each column."""
    low, high = np.empty(x.shape[1]), np.empty(x.shape[1])
    for k in range(x.shape[1]):
        order = np.argsort(x[:, k], kind="stable")
        values, mass = x[order, k], np.cumsum(weight[order])
        before = mass - weight[order]
        # First draw at which the interval that opens just before draw j holds enough.
        stop = np.searchsorted(mass, before + prob * mass[-1] - 1e-12)
        start = np.flatnonzero(stop < values.size)
        best = start[int(np.argmin(values[stop[start]] - values[start]))]
        low[k], high[k] = values[best], values[stop[best]]
    return low, high
