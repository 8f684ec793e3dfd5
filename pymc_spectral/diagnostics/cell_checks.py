"""Checks of what happened inside the cells, and of the bridge that weighed them.

Each reads the groups of a result and returns findings; nothing is sampled or evaluated.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr

from pymc_spectral._autocorrelation import rank_rhat
from pymc_spectral._inference_data import columns_of
from pymc_spectral.bridge.weights import cell_of_chain
from pymc_spectral.diagnostics.findings import (
    Finding,
    Groups,
    cells_of,
    finding,
    from_figures,
    value_of,
    variant,
)
from pymc_spectral.diagnostics.paper_rules import LARGEST, landmarks_of_groups
from pymc_spectral.diagnostics.thresholds import THRESHOLDS, limit_of

__all__ = ["check_boundary", "check_bridge", "check_chains", "check_errors", "check_modes"]


def check_chains(groups: Groups) -> list[Finding]:
    """Look at r_hat, ESS, divergences and NaNs of each cell's own chains."""
    cells = groups["cells"]
    # Autocorrelations of all chains: computed once, and only where cells mix badly.
    hint = cache(lambda: _landmark_hint(groups))

    def words(code: str, cell: int) -> dict[str, str]:
        if code not in ("r_hat", "ess"):
            return {}
        several = value_of(cells, "n_chains", cell) > 1
        parts = "its chains" if several else "the halves of its chain"
        return {"parts": parts, "landmarks": hint()}

    return from_figures(groups, ("r_hat", "ess", "divergences", "nan_logp"), words)


def _landmark_hint(groups: Groups) -> str:
    """Advise more landmarks, where there are far fewer than the paper's heuristic asks for."""
    if "partition" not in groups or groups["cells"].sizes["cell"] < 2:
        return ""
    used, wanted = groups["partition"].sizes["landmark"], landmarks_of_groups(groups)
    if not THRESHOLDS["ess.landmarks"].exceeded(used, wanted):
        return ""
    number = f"{wanted} or more" if wanted == LARGEST else str(wanted)
    return (
        f" The cells were learned from {used} landmarks, and the paper's heuristic asks for "
        f"{number}: {_how_to_get_landmarks(groups, wanted)} may give cells that mix better."
    )


def _how_to_get_landmarks(groups: Groups, wanted: int) -> str:
    """Return what to type for so many landmarks, which are chosen among the explored points."""
    if "exploration" not in groups:
        return f"a partition fitted with n_landmarks={wanted}"
    explored = groups["exploration"].attrs
    if explored["n_points"] >= wanted:
        return f"n_landmarks={wanted}"
    more = f'n_landmarks={wanted} with explore_kwargs={{"n_points": {wanted}}}'
    # These explorers make as many points as they are asked for; others have what they were given.
    if explored["source"] in ("tempering", "smc"):
        return more
    return f"{more} and as many points in explore="


def check_modes(groups: Groups) -> list[Finding]:
    """Look for cells that hold more than one mode."""
    partition = groups.get("partition", xr.Dataset())
    apart = _chains_apart(groups)
    found = []
    for cell in cells_of(groups["cells"]):
        unvisited = value_of(partition, "unvisited", cell)
        seen = _second_mode(groups, cell, unvisited, float(apart[cell]))
        if seen is not None:
            by, value, what = seen
            severity = THRESHOLDS[f"several_modes.{by}"].worst
            kind = variant("several_modes", groups)
            found.append(finding(kind, severity, cell, value, seen=what))
        elif beyond := THRESHOLDS["unvisited"].severity(unvisited):
            found.append(finding("unvisited", beyond, cell, unvisited, unvisited=unvisited))
    return found


def _second_mode(
    groups: Groups, cell: int, unvisited: float, apart: float
) -> tuple[str, float, str] | None:
    """Return what shows a second mode in a cell: which sign, its figure, and words; the clearest.

    Parameters
    ----------
    groups : dict of Dataset
        The result.
    cell : int
        The cell.
    unvisited : float
        Share of the cell's explored points where no chain went.
    apart : float
        The r_hat of chains of which each agrees with itself.
    """
    partition = groups.get("partition", xr.Dataset())
    deep = THRESHOLDS["several_modes.valley"].exceeded
    valley = value_of(partition, "valley_unvisited", cell)
    if THRESHOLDS["several_modes.unvisited"].exceeded(unvisited) and deep(valley):
        return (
            "unvisited",
            valley,
            (
                f"{unvisited:.0%} of its explored points lie where no chain went, beyond a valley "
                f"{valley:.1f} deep in log density"
            ),
        )
    between = value_of(partition, "valley_chains", cell)
    # A valley alone is none between chains that cross it: they must disagree as well.
    if deep(between) and THRESHOLDS["r_hat"].exceeded(value_of(groups["cells"], "r_hat", cell)):
        return (
            "valley",
            between,
            (f"its chains stayed on both sides of a valley {between:.1f} deep in log density"),
        )
    if THRESHOLDS["several_modes.apart"].exceeded(apart):
        return "apart", apart, f"each chain looks settled, but in another place (r_hat {apart:.2f})"
    return None


def _chains_apart(groups: Groups) -> np.ndarray:
    """Return r_hat of cells whose chains disagree though each agrees with itself, else 1."""
    cells = groups["cells"]
    out = np.ones(cells.sizes["cell"])
    if float(cells["n_chains"].max()) < 2:
        return out
    limit = limit_of("several_modes.apart")
    _, values = columns_of(groups["cell_posterior"])
    own = cell_of_chain(groups["cell_sample_stats"])
    for cell in np.flatnonzero(cells["n_chains"].values > 1):
        if not cells["r_hat"].values[cell] > limit:
            continue
        mine = values[own == cell]
        within = np.array([rank_rhat(chain[None]) for chain in mine])
        between = rank_rhat(mine)
        # Parameters in which some chain disagrees with itself say that chains are slow, not apart.
        calm = np.nan_to_num(within, nan=1.0).max(axis=0) < limit
        out[cell] = max(out[cell], np.nanmax(np.where(calm, between, 1.0), initial=1.0))
    return out


def check_boundary(groups: Groups) -> list[Finding]:
    """Look at how often transitions met the boundary of their cell."""
    return from_figures(groups, ("boundary",))


# ---------------------------------------------------------------- the bridge


def check_bridge(groups: Groups) -> list[Finding]:
    """Look at what the weights are estimated from."""
    codes = ("share_inside", "pareto_k", "bridge_disagreement", "bridge_not_converged")
    return from_figures(groups, codes)


def check_errors(groups: Groups) -> list[Finding]:
    """Look at the sizes of the reported errors; one that is unknown is too large."""
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        weight, error = value_of(cells, "weight", cell), value_of(cells, "weight_mcse", cell)
        if severity := THRESHOLDS["weight_error"].severity(_or_infinite(error)):
            words = {"weight": weight, "weight_mcse": error}
            found.append(finding("weight_error", severity, cell, error, **words))
    error = float(cells["log_marginal_likelihood_mcse"])
    if severity := THRESHOLDS["weight_error.evidence"].severity(_or_infinite(error)):
        words = {"total": float(cells["log_marginal_likelihood"]), "error": error}
        found.append(finding("weight_error:evidence", severity, None, error, **words))
    return found


def _or_infinite(error: float) -> float:
    """Return an error, infinite where it is unknown."""
    return np.inf if np.isnan(error) else error
