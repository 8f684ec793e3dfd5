"""What each cell's chains saw, compared with what exploration saw there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import xarray as xr
from scipy.spatial.distance import cdist

from pymc_spectral._groups import stat_values
from pymc_spectral.cells.target import CODES_BELOW
from pymc_spectral.exploration.explorers import constrained_to_unconstrained

__all__ = ["_coverage", "unconstrained_draws"]

# Draws and points compared with each other, per cell: distances cost their product.
MAX_COMPARED = 500


# A point is far from others beyond this many distances to their tenth neighbour.
FAR = 3.0


NEIGHBOUR = 10


# Places tried on the straight path between two parts of a cell.
PATH_POINTS = 25


def unconstrained_draws(model: Any, chains: xr.Dataset) -> np.ndarray | None:
    """Draws of all chains as (chains, draws, d) points, at most `MAX_COMPARED` of each chain.

    None where some free variable was not kept (``var_names=...``).
    """
    if any(v.name not in chains for v in model.free_RVs):
        return None
    n = chains.sizes["draw"]
    keep = np.unique(np.linspace(0, n - 1, min(n, MAX_COMPARED)).round().astype(int))
    chains = chains.isel(draw=keep)
    # A few thousand rows once: compiling the transforms to machine code would take longer.
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        rows = constrained_to_unconstrained(model, chains)
    return rows.reshape(chains.sizes["chain"], len(keep), -1)


def _coverage(
    groups: dict[str, xr.Dataset], step: Any, draws: np.ndarray, own: np.ndarray
) -> dict[str, Any]:
    """Compare what each cell's chains saw with what exploration saw there."""
    n_cells = step.n_cells
    names = ("unvisited", "wandering", "valley_unvisited", "valley_chains")
    found = {name: np.full(n_cells, np.nan) for name in names}
    log_target = stat_values(groups["cell_sample_stats"], "log_target_draw")
    selected = step.current_cell
    try:
        for cell in range(n_cells):
            mine = draws[own == cell]
            step._target.select(cell)
            points, logp = _explored(step, cell)
            # Tempering's points are draws. Among those of another source, what lies lower than
            # nearly all draws is a stray point of the search, not a part of the mode.
            low = -np.inf
            if step.exploration is None or step.exploration.tempering is None:
                low = float(np.quantile(log_target[own == cell], 0.01))
            figures = _compare(mine, points, logp, low, step._logp)
            for name, value in zip(names, figures, strict=True):
                found[name][cell] = value
    finally:
        step.current_cell = selected
    return {name: ("cell", values) for name, values in found.items()}


def _explored(step: Any, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a cell that the partition was learned from, and their log density."""
    if step.exploration is None:
        points = step._members[cell]
        logp = np.array([float(step._logp(x)) for x in points])
    else:
        points, logp = step.exploration.points, step.exploration.logp
        mine = step.partition.predict(points) == cell
        points, logp = points[mine], logp[mine]
    rows = np.unique(points, axis=0, return_index=True)[1]
    rows = np.sort(rows)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, MAX_COMPARED).astype(int))]
    return points[rows], logp[rows]


def _compare(
    draws: np.ndarray, points: np.ndarray, logp: np.ndarray, low: float, density: Any
) -> tuple[float, float, float, float]:
    """Return the share of points unvisited, of draws wandering, and the two valleys of one cell."""
    flat = np.unique(draws.reshape(-1, draws.shape[2]), axis=0)
    rows = np.unique(np.linspace(0, len(flat) - 1, 2 * MAX_COMPARED).astype(int))
    some = np.random.default_rng(0).permutation(flat)[rows]
    halves = np.array_split(draws, 2, axis=1)
    parts = [half[chain] for chain in range(draws.shape[0]) for half in halves]
    places = [_place(part, density) for part in parts if len(part)]
    valley_chains = max(
        (_valley(a, b, density) for i, a in enumerate(places) for b in places[:i]), default=0.0
    )
    if len(points) < 3 or len(some) < 3:
        return np.nan, np.nan, np.nan, valley_chains
    scale = points.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    away, unvisited = _beyond(points / scale, some / scale)
    wandering = _beyond(some / scale, points / scale)[1]
    known = away & (logp >= low)
    valley_unvisited = 0.0
    if known.any():
        there = _place(points[known], density)
        valley_unvisited = min(_valley(place, there, density) for place in places)
    unvisited *= known.sum() / max(away.sum(), 1)
    return unvisited, wandering, valley_unvisited, valley_chains


def _beyond(x: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, float]:
    """Tell which rows of x lie beyond all `others`, and their share.

    Distances tell in few dimensions. In many, all points are far from each other alike, and a mode
    that differs in a few coordinates shows in those only: so single directions are looked at too,
    the coordinates, the leading principal components, and the one between the two means.
    """
    far = _is_far(x, others)
    both = np.concatenate([x, others])
    leading = np.linalg.svd(both - both.mean(axis=0), full_matrices=False)[2][:5]
    directions = np.concatenate(
        [np.eye(x.shape[1]), leading, [x.mean(axis=0) - others.mean(axis=0)]]
    )
    low, high = np.quantile(others @ directions.T, [0.01, 0.99], axis=0)
    # Half as far again on either side: 4.7 standard deviations of a normal.
    margin = 0.5 * (high - low)
    along = x @ directions.T
    outside = (along < low - margin) | (along > high + margin)
    worst = outside[:, int(outside.mean(axis=0).argmax())]
    return far | worst, float(max(far.mean(), worst.mean()))


def _is_far(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Tell which rows of x lie far from all `others`, by the distances among those."""
    k = min(NEIGHBOUR, len(others) - 1)
    local = np.partition(cdist(others, others), k, axis=1)[:, k]
    local = np.maximum(local, np.median(local))
    distance = cdist(x, others)
    nearest = distance.argmin(axis=1)
    return distance[np.arange(len(x)), nearest] > FAR * local[nearest]


def _place(rows: np.ndarray, density: Any) -> tuple[np.ndarray, float]:
    """Return a point that stands for some rows, and its log density: the mean, or a better row.

    In many dimensions every draw is far below the peak and the mean is the better guess of it;
    where rows are curved the mean may lie outside, and the best of a few rows stands in.
    """
    few = rows[np.linspace(0, len(rows) - 1, min(len(rows), 50)).astype(int)]
    candidates = [rows.mean(axis=0), *few]
    values = [_finite(density(x)) for x in candidates]
    best = int(np.argmax(values))
    return candidates[best], values[best]


def _valley(a: tuple[np.ndarray, float], b: tuple[np.ndarray, float], density: Any) -> float:
    """Return how far the log density drops between two points below the lower of them.

    Where the straight path leaves the cell it says nothing.
    """
    steps = np.linspace(0, 1, PATH_POINTS + 2)[1:-1]
    path = [float(density(a[0] + t * (b[0] - a[0]))) for t in steps]
    inside = [value for value in path if value > CODES_BELOW or value == -np.inf]
    lowest = min([_finite(v) for v in inside], default=np.inf)
    return float(np.clip(min(a[1], b[1]) - lowest, 0.0, 1e6))


def _finite(value: Any) -> float:
    """Replace -inf, NaN and the codes of the boundary by a very low number."""
    value = float(value)
    return value if np.isfinite(value) and value > CODES_BELOW else -1e300
