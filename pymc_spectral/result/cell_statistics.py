"""The group ``cells``: the weight of each cell, and how well it was sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._autocorrelation import bulk_ess, rank_rhat
from pymc_spectral.bridge.weights import (
    BOUNDARY_HIT,
    JUMP_ACCEPTED,
    N_JUMPS,
    NAN_LOGP,
    Weighing,
    cell_weights,
)

__all__ = ["cells_group", "chain_figures", "with_slow_chains"]

# Above this r_hat a chain has not been everywhere in its cell, and its parameters say what its
# draws are worth. benchmarks/limits.py: at most 1.03 in healthy runs.
SLOW_R_HAT = 1.05


def with_slow_chains(weighing: Weighing, r_hat: np.ndarray, ess: np.ndarray) -> Weighing:
    """Enlarge the errors of cells whose chains disagree with themselves or each other.

    Parameters
    ----------
    weighing : Weighing
    r_hat, ess : ndarray, shape (cells,)
        Of the parameter that mixes worst in each cell.
    """
    slow = (r_hat > SLOW_R_HAT) & np.array([np.isfinite(e.mcse) for e in weighing.estimates])
    slow &= np.array([np.isfinite(e.excess) for e in weighing.estimates])
    if not slow.any():
        return weighing
    estimates = [
        estimate.slowed(float(n)) if k else estimate
        for estimate, n, k in zip(weighing.estimates, ess, slow, strict=True)
    ]
    return replace(weighing, estimates=estimates, weights=cell_weights(estimates))


def chain_figures(
    columns: np.ndarray, stats: xr.Dataset, weighing: Weighing
) -> dict[str, np.ndarray]:
    """Return what the chains of each cell say of themselves, arrays (cells,).

    Parameters
    ----------
    columns : ndarray, shape (chains, draws, p)
        All parameters of the chains as they ran.
    stats : Dataset
        Their sampler stats.
    weighing : Weighing
        Says which chains ran in which cell.
    """
    members, draws = weighing.chains_of_cell, columns.shape[1]
    figures: dict[str, list[float] | list[int]] = {
        "ess_bulk": [_extreme(bulk_ess(columns[mine]), np.nanmin) for mine in members],
        "r_hat": [_extreme(rank_rhat(columns[mine]), np.nanmax) for mine in members],
        "boundary_hit_rate": [
            _count(stats, BOUNDARY_HIT, mine) / (mine.size * draws) for mine in members
        ],
        "jump_rate": [_jump_rate(stats, mine) for mine in members],
        "n_chains": [mine.size for mine in members],
        "n_diverging": [int(_count(stats, "diverging", mine)) for mine in members],
        "n_nan_logp": [int(_count(stats, NAN_LOGP, mine)) for mine in members],
    }
    return {name: np.asarray(values) for name, values in figures.items()}


def cells_group(figures: dict[str, np.ndarray], weighing: Weighing) -> xr.Dataset:
    """Build the group of weights and diagnostics by cell.

    Parameters
    ----------
    figures : dict of ndarray, shape (cells,)
        What chains say of themselves, from :func:`chain_figures`.
    weighing : Weighing
        What the bridge says of them.
    """
    weights, estimates = weighing.weights, weighing.estimates
    by_cell: dict[str, Any] = {
        "weight": weights.weight,
        "weight_mcse": weights.weight_mcse,
        "log_evidence": weights.log_evidence,
        "log_evidence_mcse": weights.log_evidence_mcse,
        **figures,
        "n_draws": [e.influence_draw.size for e in estimates],
        "share_inside": [e.share_inside for e in estimates],
        "bridge_ess": [e.ess for e in estimates],
        "pareto_k": [e.pareto_k for e in estimates],
        "discrepancy": [e.discrepancy for e in estimates],
        # Of a mass that is not the bridge's, nothing is known of its rows.
        "excess": [e.excess / e.slow if np.isfinite(e.excess) else np.nan for e in estimates],
        "slow": [e.slow for e in estimates],
        "bridge_converged": [e.converged for e in estimates],
    }
    data: dict[str, Any] = {name: ("cell", np.asarray(v)) for name, v in by_cell.items()}
    data["weight_cov"] = (("cell", "cell_bis"), weights.weight_cov)
    data["log_marginal_likelihood"] = weights.log_marginal_likelihood
    data["log_marginal_likelihood_mcse"] = weights.log_marginal_likelihood_mcse
    index = np.arange(len(estimates))
    return xr.Dataset(data, coords={"cell": index, "cell_bis": index})


def _jump_rate(stats: xr.Dataset, mine: np.ndarray) -> float:
    """Return the share of jumps that succeeded in some chains; NaN if none was made."""
    tried = _count(stats, N_JUMPS, mine)
    return _count(stats, JUMP_ACCEPTED, mine) / tried if tried else float("nan")


def _count(stats: xr.Dataset, name: str, mine: np.ndarray) -> float:
    """Sum a stat over some chains; 0 where the kernel does not report it."""
    return float(stats[name].isel(chain=mine).sum()) if name in stats else 0.0


def _extreme(values: np.ndarray, reduce: Any) -> float:
    """Reduce the values that are known; NaN if there are none."""
    values = values[~np.isnan(values)]
    return float(reduce(values)) if values.size else float("nan")
