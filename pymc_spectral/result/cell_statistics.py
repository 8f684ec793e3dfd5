"""The group ``cells``: the weight of each cell, and how well it was sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._autocorrelation import bulk_ess, rank_rhat
from pymc_spectral.bridge.weights import BOUNDARY_HIT, NAN_LOGP, Weighing

__all__ = ["cells_group"]


def cells_group(columns: np.ndarray, stats: xr.Dataset, weighing: Weighing) -> xr.Dataset:
    """Build the group of weights and diagnostics by cell.

    Parameters
    ----------
    columns : ndarray, shape (chains, draws, p)
        All parameters of the chains as they ran.
    stats : Dataset
        Their sampler stats.
    weighing : Weighing
        What the bridge says of them.
    """
    weights, estimates = weighing.weights, weighing.estimates
    by_cell: dict[str, Any] = {
        "weight": weights.weight,
        "weight_mcse": weights.weight_mcse,
        "log_evidence": weights.log_evidence,
        "log_evidence_mcse": weights.log_evidence_mcse,
        **_chain_figures(columns, stats, weighing.chains_of_cell),
        "n_draws": [e.influence_draw.size for e in estimates],
        "share_inside": [e.share_inside for e in estimates],
        "bridge_ess": [e.ess for e in estimates],
        "pareto_k": [e.pareto_k for e in estimates],
        "discrepancy": [e.discrepancy for e in estimates],
        "excess": [e.excess for e in estimates],
        "bridge_converged": [e.converged for e in estimates],
    }
    data: dict[str, Any] = {name: ("cell", np.asarray(v)) for name, v in by_cell.items()}
    data["weight_cov"] = (("cell", "cell_bis"), weights.weight_cov)
    data["log_marginal_likelihood"] = weights.log_marginal_likelihood
    data["log_marginal_likelihood_mcse"] = weights.log_marginal_likelihood_mcse
    index = np.arange(len(estimates))
    return xr.Dataset(data, coords={"cell": index, "cell_bis": index})


def _chain_figures(
    columns: np.ndarray, stats: xr.Dataset, members: list[np.ndarray]
) -> dict[str, list[float] | list[int]]:
    """Return what the chains of each cell say of themselves; `members` are the chains of each."""
    draws = columns.shape[1]
    return {
        "ess_bulk": [_extreme(bulk_ess(columns[mine]), np.nanmin) for mine in members],
        "r_hat": [_extreme(rank_rhat(columns[mine]), np.nanmax) for mine in members],
        "boundary_hit_rate": [
            _count(stats, BOUNDARY_HIT, mine) / (mine.size * draws) for mine in members
        ],
        "n_chains": [mine.size for mine in members],
        "n_diverging": [int(_count(stats, "diverging", mine)) for mine in members],
        "n_nan_logp": [int(_count(stats, NAN_LOGP, mine)) for mine in members],
    }


def _count(stats: xr.Dataset, name: str, mine: np.ndarray) -> float:
    """Sum a stat over some chains; 0 where the kernel does not report it."""
    return float(stats[name].isel(chain=mine).sum()) if name in stats else 0.0


def _extreme(values: np.ndarray, reduce: Any) -> float:
    """Reduce the values that are known; NaN if there are none."""
    values = values[~np.isnan(values)]
    return float(reduce(values)) if values.size else float("nan")
