"""Checks of the exploration and the partition, and second opinions from tempering.

Each reads the groups of a result and returns findings; nothing is sampled or evaluated.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_spectral.diagnostics.findings import Finding, Groups, cells_of, value_of
from pymc_spectral.diagnostics.snapshot import STRETCHES

__all__ = ["check_coverage", "check_opinions", "check_partition", "check_tempering"]

# Thresholds, set where twenty seeds each of several healthy targets stay clear of them.
OPINIONS_APART = 4.0  # combined standard errors
OCCUPANCY_GAP = 0.03
EVIDENCE_GAP = 0.1
FEW_STRETCHES = 2
LOCAL_ACCEPTANCE = 0.1
WANDERING = 0.05
LANDMARKS_INFO, LANDMARKS_WARNING = 20, 5
DEEP_PROMINENCE = 2.0


def check_opinions(groups: Groups) -> list[Finding]:
    """Compare weights and evidence with those of tempering, which come another way."""
    cells, exploration = groups["cells"], groups.get("exploration")
    if exploration is None or "round_trips" not in exploration:
        return []
    found = []
    for cell in cells_of(cells):
        weight = value_of(cells, "weight", cell)
        share = value_of(exploration, "occupancy", cell)
        error = np.hypot(
            value_of(cells, "weight_mcse", cell), value_of(exploration, "occupancy_error", cell)
        )
        gap = abs(weight - share)
        if gap > max(OPINIONS_APART * error, OCCUPANCY_GAP):
            found.append(
                Finding(
                    "occupancy",
                    "warning",
                    cell,
                    gap / error,
                    f"Cell {cell}: the bridge gives it {weight:.3f}, tempering was there for "
                    f"{share:.3f} of its time, {gap / error:.0f} standard errors apart.",
                    "One of them is wrong. Look for the findings several_modes and round_trips, "
                    "and construct the step with another random_seed.",
                )
            )
    total = float(cells["log_marginal_likelihood"])
    other = float(exploration["log_evidence"])
    error = float(
        np.hypot(cells["log_marginal_likelihood_mcse"], exploration["log_evidence_error"])
    )
    gap = abs(total - other)
    if gap > OPINIONS_APART * error + EVIDENCE_GAP:
        where = (
            "Mass is missing from the cells: look for several_modes, and explore with another "
            "random_seed."
            if other > total
            else 'Tempering has not converged: pass explore_kwargs={"n_rounds": 11}.'
        )
        found.append(
            Finding(
                "evidence",
                "warning",
                None,
                total - other,
                f"The log marginal likelihood is {total:.2f} by the cells, {other:.2f} by "
                "tempering.",
                where,
            )
        )
    return found


# ---------------------------------------------------------------- exploration


def check_tempering(groups: Groups) -> list[Finding]:
    """Look at what tempering says of itself."""
    exploration = groups.get("exploration")
    if exploration is None or "round_trips" not in exploration:
        return []
    found = []
    longer = 'Explore longer: explore_kwargs={"n_rounds": 11}.'
    trips, copies = int(exploration["round_trips"]), int(exploration.attrs["n_copies"])
    if trips < 2 * copies:
        found.append(
            Finding(
                "round_trips",
                "warning",
                None,
                trips,
                f"Tempering made {trips} trips from the reference to the posterior with {copies} "
                "ladders, so modes may have been missed.",
                longer,
            )
        )
    if not exploration.attrs["settled"]:
        found.append(
            Finding(
                "not_settled",
                "info",
                None,
                float(exploration["barrier"]),
                "Barrier or evidence of tempering were still changing in its last rounds.",
                longer,
            )
        )
    acceptance = float(exploration["acceptance"].min())
    if acceptance < LOCAL_ACCEPTANCE:
        beta = float(exploration["betas"].values[exploration["acceptance"].values.argmin()])
        found.append(
            Finding(
                "local_moves",
                "warning",
                None,
                acceptance,
                f"Tempering's local moves were accepted in {acceptance:.1%} at inverse "
                f"temperature {beta:.2g}.",
                'Pass explore_kwargs={"gradient": False}, or reparameterize the model.',
            )
        )
    shares = exploration.get("temperature_occupancy", xr.DataArray(np.ones((1, 0)))).values
    for cell in np.flatnonzero((shares[:-1] == 0).all(axis=0) & (len(shares) > 1)).tolist():
        weight = value_of(groups["cells"], "weight", cell)
        found.append(
            Finding(
                "one_temperature",
                "warning" if weight > 0.05 else "info",
                cell,
                float(shares[-1, cell]),
                f"Cell {cell}, of weight {weight:.2g}, was met by cold replicas only: nothing "
                "shows that they came down the ladder.",
                "Modes like it may have been missed. " + longer,
            )
        )
    for cell in cells_of(groups["cells"]):
        seen = value_of(exploration, "stretches_seen", cell)
        if seen <= FEW_STRETCHES:
            weight = value_of(groups["cells"], "weight", cell)
            found.append(
                Finding(
                    "rarely_seen",
                    "warning" if weight > 0.05 else "info",
                    cell,
                    seen,
                    f"Cell {cell}, of weight {weight:.2g}, was met in {seen:.0f} of {STRETCHES} "
                    "stretches of the exploration.",
                    "It was found by luck, and modes like it may have been missed. " + longer,
                )
            )
    return found


def check_coverage(groups: Groups) -> list[Finding]:
    """Look for chains that left the region that exploration knew."""
    partition = groups.get("partition", xr.Dataset())
    found = []
    for cell in cells_of(groups["cells"]):
        share = value_of(partition, "wandering", cell)
        if share > WANDERING:
            found.append(
                Finding(
                    "wandering",
                    "warning",
                    cell,
                    share,
                    f"Cell {cell}: {share:.0%} of the draws are far from every explored point, so "
                    "exploration missed a part of it.",
                    "Other cells may lack modes too. Partition again with the draws: rounds=2, or "
                    "pass this result, explore=idata.",
                )
            )
    return found


# ---------------------------------------------------------------- the partition


def check_partition(groups: Groups) -> list[Finding]:
    """Look at the number of cells and of landmarks."""
    cells, partition = groups["cells"], groups.get("partition")
    n_cells = cells.sizes["cell"]
    found = []
    if n_cells == 1:
        found.append(
            Finding(
                "one_cell",
                "info",
                None,
                1.0,
                "Exploration found one mode, so there was nothing to partition.",
                "pm.sample() alone does as well, and several chains would check it.",
            )
        )
    if partition is None:
        return found
    for cell in cells_of(cells):
        n = value_of(partition, "n_landmarks", cell)
        if n < LANDMARKS_INFO:
            found.append(
                Finding(
                    "few_landmarks",
                    "warning" if n < LANDMARKS_WARNING else "info",
                    cell,
                    n,
                    f"Cell {cell} was learned from {n:.0f} landmarks.",
                    "Its shape is hardly known. Raise n_landmarks, or explore more points: "
                    'explore_kwargs={"n_points": 10_000}.',
                )
            )
    n, d = partition.sizes["landmark"], partition.sizes["dim"]
    wanted = min(1000, max(100, 25 * n_cells, 5 * d))
    if n < wanted:
        found.append(
            Finding(
                "few_points",
                "warning" if n < wanted / 4 else "info",
                None,
                n,
                f"The partition was learned from {n} points; for {n_cells} cells in {d} "
                f"dimensions use at least {wanted}.",
                "Explore more points, or raise n_landmarks.",
            )
        )
    prominences = partition["prominences"].values
    prominences = prominences[~np.isnan(prominences)]
    if prominences.size == 0:
        return found
    n_modes = 1 + int(np.sum(prominences >= float(partition.attrs["valley"])))
    if n_modes > n_cells:
        depth = float(prominences[n_cells - 1])
        found.append(
            Finding(
                "too_few_cells",
                "warning" if depth > DEEP_PROMINENCE else "info",
                None,
                depth,
                f"Exploration saw {n_modes} modes, but there are {n_cells} cells; the deepest "
                f"valley inside a cell is {depth:.1f} in log density.",
                f"Pass n_cells={n_modes}, or check that chains cross: chains=2 * step.n_cells.",
            )
        )
    if n_modes < n_cells:
        found.append(
            Finding(
                "too_many_cells",
                "info",
                None,
                n_cells,
                f"There are {n_cells} cells, but exploration saw {n_modes} "
                f"{'mode' if n_modes == 1 else 'modes'}.",
                "Harmless, but boundaries through a mode cost time and precision.",
            )
        )
    return found
