"""Checks of the exploration and the partition, and second opinions from tempering.

Each reads the groups of a result and returns findings; nothing is sampled or evaluated.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_spectral.diagnostics.findings import (
    Finding,
    Groups,
    cells_of,
    finding,
    from_figures,
    value_of,
)
from pymc_spectral.diagnostics.learned_groups import tempered
from pymc_spectral.diagnostics.thresholds import (
    STRETCHES,
    THRESHOLDS,
    limit_of,
    wanted_landmarks,
)

__all__ = ["check_coverage", "check_opinions", "check_partition", "check_tempering"]


def check_opinions(groups: Groups) -> list[Finding]:
    """Compare weights and evidence with those of tempering, which come another way."""
    exploration = tempered(groups)
    if exploration is None:
        return []
    return _compare_weights(groups, exploration) + _compare_evidence(groups, exploration)


def _compare_weights(groups: Groups, exploration: xr.Dataset) -> list[Finding]:
    """Compare the weights with the shares of tempering's points."""
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        weight = value_of(cells, "weight", cell)
        share = value_of(exploration, "occupancy", cell)
        error = np.hypot(
            value_of(cells, "weight_mcse", cell), value_of(exploration, "occupancy_error", cell)
        )
        gap = abs(weight - share)
        # Of light cells a small gap may be many errors: both limits must be exceeded.
        severity = THRESHOLDS["occupancy"].severity(gap, error)
        if severity is not None and THRESHOLDS["occupancy.gap"].exceeded(gap):
            words = {"weight": weight, "share": share}
            found.append(finding("occupancy", severity, cell, gap / error, **words))
    return found


def _compare_evidence(groups: Groups, exploration: xr.Dataset) -> list[Finding]:
    """Compare the sum of the cells' masses with tempering's evidence."""
    cells = groups["cells"]
    total = float(cells["log_marginal_likelihood"])
    other = float(exploration["log_evidence"])
    error = float(
        np.hypot(cells["log_marginal_likelihood_mcse"], exploration["log_evidence_error"])
    )
    if not abs(total - other) > limit_of("evidence") * error + limit_of("evidence.gap"):
        return []
    kind = "evidence:missing" if other > total else "evidence"
    severity = THRESHOLDS["evidence"].worst
    return [finding(kind, severity, None, total - other, total=total, other=other)]


# ---------------------------------------------------------------- exploration


def check_tempering(groups: Groups) -> list[Finding]:
    """Look at what tempering says of itself."""
    exploration = tempered(groups)
    if exploration is None:
        return []
    return [
        *_check_ladder(exploration),
        *_check_temperatures(groups["cells"], exploration),
        *_check_stretches(groups["cells"], exploration),
    ]


def _check_ladder(exploration: xr.Dataset) -> list[Finding]:
    """Look at trips along the ladder, at what still changed, and at moves on its rungs."""
    found = []
    trips, copies = int(exploration["round_trips"]), int(exploration.attrs["n_copies"])
    if severity := THRESHOLDS["round_trips"].severity(trips, copies):
        words = {"trips": trips, "copies": copies}
        found.append(finding("round_trips", severity, None, trips, **words))
    if not exploration.attrs["settled"]:
        found.append(finding("not_settled", "info", None, float(exploration["barrier"])))
    acceptance = float(exploration["acceptance"].min())
    if severity := THRESHOLDS["local_moves"].severity(acceptance):
        beta = float(exploration["betas"].values[exploration["acceptance"].values.argmin()])
        found.append(finding("local_moves", severity, None, acceptance, beta=beta))
    return found


def _check_temperatures(cells: xr.Dataset, exploration: xr.Dataset) -> list[Finding]:
    """Look for cells that no replica came down the ladder into."""
    shares = exploration["temperature_occupancy"].values
    found = []
    for cell in np.flatnonzero((shares[:-1] == 0).all(axis=0) & (len(shares) > 1)).tolist():
        weight = value_of(cells, "weight", cell)
        severity = THRESHOLDS["one_temperature"].severity(weight) or "info"
        value = float(shares[-1, cell])
        found.append(finding("one_temperature", severity, cell, value, weight=weight))
    return found


def _check_stretches(cells: xr.Dataset, exploration: xr.Dataset) -> list[Finding]:
    """Look for cells that tempering met in few stretches of its run."""
    found = []
    for cell in cells_of(cells):
        seen = value_of(exploration, "stretches_seen", cell)
        if THRESHOLDS["rarely_seen"].exceeded(seen):
            weight = value_of(cells, "weight", cell)
            severity = THRESHOLDS["rarely_seen.weight"].severity(weight) or "info"
            words = {"weight": weight, "stretches": STRETCHES}
            found.append(finding("rarely_seen", severity, cell, seen, **words))
    return found


def check_coverage(groups: Groups) -> list[Finding]:
    """Look for chains that left the region that exploration knew."""
    return from_figures(groups, ("wandering",))


# ---------------------------------------------------------------- the partition


def check_partition(groups: Groups) -> list[Finding]:
    """Look at the number of cells and of landmarks."""
    found = []
    if groups["cells"].sizes["cell"] == 1:
        found.append(finding("one_cell", "info", None, 1.0))
    if "partition" not in groups:
        return found
    return [
        *found,
        *from_figures(groups, ("few_landmarks",)),
        *_check_points(groups["partition"]),
        *_check_valleys(groups["partition"]),
    ]


def _check_points(partition: xr.Dataset) -> list[Finding]:
    """Compare the number of landmarks with what so many cells and dimensions need."""
    n, n_dims, n_cells = (partition.sizes[dim] for dim in ("landmark", "dim", "cell"))
    wanted = wanted_landmarks(n_cells, n_dims)
    severity = THRESHOLDS["few_points"].severity(n, wanted)
    if severity is None:
        return []
    words = {"n_cells": n_cells, "n_dims": n_dims, "wanted": wanted}
    return [finding("few_points", severity, None, n, **words)]


def _check_valleys(partition: xr.Dataset) -> list[Finding]:
    """Compare the number of cells with that of the modes between which valleys were seen."""
    prominences = partition["prominences"].values
    prominences = prominences[~np.isnan(prominences)]
    if prominences.size == 0:
        return []
    n_cells = partition.sizes["cell"]
    n_modes = 1 + int(np.sum(prominences >= float(partition.attrs["valley"])))
    words = {"n_cells": n_cells, "n_modes": n_modes, "noun": "mode" if n_modes == 1 else "modes"}
    if n_modes > n_cells:
        # Prominences fall, and the first n_cells - 1 of the valleys run between cells.
        depth = float(prominences[n_cells - 1])
        severity = THRESHOLDS["too_few_cells"].severity(depth) or "info"
        return [finding("too_few_cells", severity, None, depth, **words)]
    if n_modes < n_cells:
        return [finding("too_many_cells", "info", None, n_cells, **words)]
    return []
