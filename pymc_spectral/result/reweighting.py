"""Chains that ran in one cell each -> equal-weight draws, with the cells' weights beside them.

The result is what ArviZ and PyMC expect: a ``posterior`` whose rows count alike. Each output chain
holds every cell in proportion to its weight; the chains as they ran stay in ``cell_posterior`` and
``cell_sample_stats``, from which everything can be computed again, for instance from a file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import close_groups, columns_of, open_groups, stat_values
from pymc_spectral._row_blocks import slices
from pymc_spectral._version import __version__
from pymc_spectral.bridge.estimate import BridgeError, BridgeKind
from pymc_spectral.bridge.weights import (
    BRIDGE_STATS,
    CELL,
    WEIGHING_STATS,
    OtherMass,
    Weighing,
    weigh,
)
from pymc_spectral.result.cell_statistics import cells_group, chain_figures, with_slow_chains
from pymc_spectral.result.equal_weight_rows import choose_rows, run_length
from pymc_spectral.result.means import CONSTANT, stratified_mean, weighted_mean

__all__ = [
    "DRAWS_BY_TEMPERING",
    "MASS_BY_TEMPERING",
    "reweight",
    "reweighted",
    "weighed_groups",
    "weighing_of",
]

MASS_BY_TEMPERING = "mass_by_tempering"
"""Variable of ``cells``: whether the mass of a cell is not that of its bridge."""
DRAWS_BY_TEMPERING = "draws_by_tempering"
"""Variable of ``cells``: whether the draws of a cell are not those of its chains."""

_log = logging.getLogger(__name__)

# The energy's statistics (BFMI) compare a draw with the one before it; a row repeats the one before
# it or comes from elsewhere, and a healthy result would be reported as a poor one.
DROPPED_STATS = (*WEIGHING_STATS, "energy")
"""Stats without meaning for a row of the reweighted posterior; the chains as they ran keep them."""

# Parameters handled together: bounds memory for models with thousands of Deterministics (heuristic;
# several arrays of the draws of so many are held at once).
PARAMETERS_AT_ONCE = 256


def reweight(
    idata: Any,
    *,
    bridge: BridgeKind | None = None,
    random_seed: int | None = None,
    n_cells: int | None = None,
) -> Any:
    """Turn chains that ran in one cell each into equal-weight posterior draws.

    Parameters
    ----------
    idata : InferenceData or DataTree
        Raw chains with the sampler stats of `SpectralPartitionStep`, or a result that was already
        reweighted (also one loaded from a file): then its chains are weighed again.
    bridge : {"optimal", "geometric"}, optional
        Bridge function. Default: that of the previous result, else ``"optimal"``.
    random_seed : int, optional
        Seeds the order in which cells alternate; no estimate depends on it. Default: that of the
        previous result, else 0, so the same chains always give the same rows.
    n_cells : int, optional
        Number of cells of the partition, to notice when the last ones have no chain. Default: one
        more than the highest cell seen.

    Returns
    -------
    InferenceData or DataTree
        The same type with the groups ``posterior`` and ``sample_stats`` (equal-weight rows, shape
        as before), ``cells`` (weights and diagnostics by cell), ``cell_posterior`` and
        ``cell_sample_stats`` (the chains as they ran). Other groups are kept; those with a row per
        draw, such as ``log_likelihood``, follow the new rows. `idata` itself is not changed.

    Raises
    ------
    ValueError
        When the bridge's stats are missing, a cell has no draws, or a chain changed cell.
    BridgeError
        When a cell's mass cannot be estimated. Its attribute ``idata`` holds `idata`, so that a
        long run is not lost.
    """
    groups = open_groups(idata)
    try:
        found = reweighted(groups, bridge=bridge, random_seed=random_seed, n_cells=n_cells)
    except BridgeError as error:
        error.idata = idata
        raise
    return close_groups(found, like=idata)


def weighed_groups(idata: Any) -> dict[str, xr.Dataset]:
    """Open a result, and weigh its chains if nobody has."""
    groups = open_groups(idata)
    return groups if "cells" in groups else reweighted(groups)


def weighing_of(groups: dict[str, xr.Dataset]) -> Weighing:
    """Return what the weights of a weighed result were made from."""
    cells = groups["cells"]
    weighing = weigh(
        groups["cell_sample_stats"],
        cells.attrs["bridge"],
        cells.sizes["cell"],
        _others_of(cells),
    )
    return with_slow_chains(weighing, cells["r_hat"].values, cells["ess_bulk"].values)


def reweighted(
    groups: dict[str, xr.Dataset],
    *,
    bridge: BridgeKind | None = None,
    random_seed: int | None = None,
    n_cells: int | None = None,
    others: Mapping[int, OtherMass] | None = None,
) -> dict[str, xr.Dataset]:
    """Do the work of :func:`reweight` on the groups of a result that is open.

    `others` are masses to be taken instead of those by the bridge; by default those of the previous
    result.
    """
    chains, stats = _source(groups)
    again = chains is not groups.get("posterior")
    previous = groups["cells"].attrs if again and "cells" in groups else {}
    kind: BridgeKind = bridge or previous.get("bridge", "optimal")
    seed = int(previous.get("random_seed", 0) if random_seed is None else random_seed)
    if n_cells is None and again and "cells" in groups:
        n_cells = groups["cells"].sizes["cell"]
    before = groups["cells"] if again and "cells" in groups else None
    weighing = weigh(stats, kind, n_cells, _others_of(before) if others is None else others)
    _, columns = columns_of(chains)
    figures = chain_figures(columns, stats, weighing)
    weighing = with_slow_chains(weighing, figures["r_hat"], figures["ess_bulk"])
    length, rows = _choose(columns, weighing, np.random.default_rng(seed))
    result = {
        "posterior": _take(chains, rows),
        "sample_stats": _row_stats(stats, rows),
        "cells": _with_floor(cells_group(figures, weighing), before, others).assign_attrs(
            bridge=kind,
            random_seed=seed,
            run_length=length,
            creation_library="pymc_spectral",
            creation_library_version=__version__,
        ),
        "cell_posterior": chains,
        "cell_sample_stats": _saveable(stats),
    }
    for name, group in groups.items():
        if name not in result:
            old_stats = groups["sample_stats"] if again else None
            kept = _carried(name, group, chains, old_stats, rows)
            if kept is not None:
                result[name] = kept
    order = [*(n for n in groups if n in result), *(n for n in result if n not in groups)]
    return {name: result[name] for name in order}


def _others_of(cells: xr.Dataset | None) -> dict[int, OtherMass]:
    """Return the masses that a previous result did not take from its bridge."""
    if cells is None or MASS_BY_TEMPERING not in cells:
        return {}
    return {
        cell: OtherMass(float(cells["log_evidence"][cell]), float(cells["log_evidence_mcse"][cell]))
        for cell in np.flatnonzero(cells[MASS_BY_TEMPERING].values).tolist()
    }


def _with_floor(
    cells: xr.Dataset, before: xr.Dataset | None, others: Mapping[int, OtherMass] | None
) -> xr.Dataset:
    """Say which cells have their mass, and their draws, from tempering."""
    by_tempering = {MASS_BY_TEMPERING: False, DRAWS_BY_TEMPERING: False}
    found = {
        name: before[name].values if before is not None and name in before else np.full(n, value)
        for n in [cells.sizes["cell"]]
        for name, value in by_tempering.items()
    }
    if others is not None:
        found[MASS_BY_TEMPERING] = np.isin(np.arange(cells.sizes["cell"]), list(others))
    return cells.assign({name: ("cell", values) for name, values in found.items()})


def _choose(
    columns: np.ndarray, weighing: Weighing, rng: np.random.Generator
) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
    """Return how many rows of a cell follow each other, and which draw stands in each row."""
    weights = weighing.weights
    chains, draws = columns.shape[:2]
    inefficiency = _inefficiency(columns, weighing)
    length = run_length(weights.weight, weights.weight_cov, chains * draws, inefficiency)
    return length, choose_rows(weights.weight, weighing.cell_of_chain, draws, length, rng)


def _carried(
    name: str,
    group: xr.Dataset,
    chains: xr.Dataset,
    old_stats: xr.Dataset | None,
    rows: tuple[np.ndarray, np.ndarray],
) -> xr.Dataset | None:
    """Return a group that is not ours, in the order of the new rows; None if it must be dropped.

    Parameters
    ----------
    name, group : str, Dataset
        The group.
    chains : Dataset
        The chains as they ran.
    old_stats : Dataset or None
        ``sample_stats`` of the rows that the group belongs to; None where those are the chains.
    rows : tuple of ndarray
        Chain and draw of each new row.
    """
    if not _follows_rows(name, group, chains):
        return group
    if old_stats is None:
        return _take(group, rows)
    moved = _move(group, old_stats, rows)
    if moved is None:
        _log.warning(
            "The group %s belongs to rows that the new weights no longer hold and was "
            "dropped; compute it again from the new posterior.",
            name,
        )
    return moved


def _source(groups: dict[str, xr.Dataset]) -> tuple[xr.Dataset, xr.Dataset]:
    """Return the chains as they ran, and their stats."""
    prefix = "cell_" if "cell_posterior" in groups and "cell_sample_stats" in groups else ""
    missing = [n for n in (prefix + "posterior", prefix + "sample_stats") if n not in groups]
    if missing:
        raise ValueError(
            f"idata has no group {' and no group '.join(missing)} (it has {', '.join(groups)}); "
            "pass the whole result of pm.sample."
        )
    chains, stats = groups[prefix + "posterior"], groups[prefix + "sample_stats"]
    absent = [name for name in (CELL, *BRIDGE_STATS) if name not in stats]
    if absent:
        raise ValueError(
            f"sample_stats lacks {', '.join(absent)}, so these draws cannot be weighed; sample "
            "with pm.sample(step=SpectralPartitionStep(), ...) and keep sample_stats."
        )
    sizes = [{d: group.sizes.get(d) for d in ("chain", "draw")} for group in (chains, stats)]
    if sizes[0] != sizes[1] or not all(sizes[0].values()):
        raise ValueError(
            f"posterior has {sizes[0]} and sample_stats {sizes[1]}; they must agree and not be "
            "empty. Pass the result of pm.sample as it came."
        )
    return chains, stats


def _inefficiency(columns: np.ndarray, weighing: Weighing) -> float:
    """Return the largest ``total * mcse ** 2 / sd ** 2`` of a mean among the parameters."""
    worst = 0.0
    for part in slices(columns.shape[2], PARAMETERS_AT_ONCE):
        x = columns[:, :, part]
        mean, mcse = stratified_mean(x, weighing)
        variance = weighted_mean((x - mean) ** 2, weighing)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = mcse**2 / variance
        ratio = ratio[np.isfinite(ratio) & (variance > CONSTANT * mean**2)]
        worst = max(worst, float(ratio.max(initial=0.0)))
    return worst * columns.shape[0] * columns.shape[1]


def _take(group: xr.Dataset, rows: tuple[np.ndarray, np.ndarray]) -> xr.Dataset:
    """Return a group whose (chain, draw) rows are those at `rows`; coordinates stay."""
    data = {}
    for name, values in group.data_vars.items():
        if "chain" in values.dims and "draw" in values.dims:
            values = values.transpose("chain", "draw", ...)
            values = values.copy(data=values.values[rows])
        data[name] = values
    return group.assign(data)


def _saveable(stats: xr.Dataset) -> xr.Dataset:
    """Drop stats that hold Python objects (NUTS' warnings), which no file format takes."""
    return stats.drop_vars([n for n, v in stats.data_vars.items() if v.dtype == object])


def _row_stats(stats: xr.Dataset, rows: tuple[np.ndarray, np.ndarray]) -> xr.Dataset:
    """Return the stats of the reweighted rows: the kernel's, the cell, and where each came from."""
    kept = _saveable(stats).drop_vars([n for n in DROPPED_STATS if n in stats])
    dims = ("chain", "draw")
    return _take(kept, rows).assign(source_chain=(dims, rows[0]), source_draw=(dims, rows[1]))


def _follows_rows(name: str, group: xr.Dataset, chains: xr.Dataset) -> bool:
    """Return whether a group has one entry per posterior row, as log_likelihood has."""
    if name.startswith(("warmup_", "cell_")) or (name.endswith("prior") and name != "log_prior"):
        return False
    if name in ("prior_predictive", "sample_stats_prior"):
        return False
    return all(group.sizes.get(d) == chains.sizes[d] for d in ("chain", "draw"))


def _move(
    group: xr.Dataset, old_stats: xr.Dataset, rows: tuple[np.ndarray, np.ndarray]
) -> xr.Dataset | None:
    """Reorder a group from a previous result's rows to new ones; None if it lacks some of them."""
    if "source_chain" not in old_stats or "source_draw" not in old_stats:
        return None
    old = (stat_values(old_stats, "source_chain"), stat_values(old_stats, "source_draw"))
    if all(np.array_equal(a, b) for a, b in zip(old, rows, strict=True)):
        return group
    chains, draws = rows[0].shape
    place = np.full((chains, draws), -1)
    place[old] = np.arange(chains * draws).reshape(chains, draws)
    wanted = place[rows]
    if (wanted < 0).any():
        return None
    return _take(group, (wanted // draws, wanted % draws))
