"""What diagnostics and pictures need from the step, written into the result.

The step knows the partition, the exploration and the model's density; a result loaded from a file
has none of them. :func:`record` adds two groups of plain arrays, ``partition`` and ``exploration``,
so that everything said about a run can be said again from its file.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytensor
import xarray as xr
from scipy.spatial.distance import cdist

from pymc_spectral import _groups as _idata
from pymc_spectral.exploration.explorers import Exploration, constrained_to_unconstrained
from pymc_spectral.cells.target import CODES_BELOW
from pymc_spectral.partition.rules import DiscriminantRule, NystromRule, Rule, VoronoiRule
from pymc_spectral.bridge.weights import stat_values

__all__ = ["record", "rule_from"]

RULES: dict[str, type] = {r.__name__: r for r in (VoronoiRule, DiscriminantRule, NystromRule)}

MAX_POINTS = 2000
# Draws and points compared with each other, per cell: distances cost their product.
MAX_COMPARED = 500
# A point is far from others beyond this many distances to their tenth neighbour.
FAR = 3.0
NEIGHBOUR = 10
# Places tried on the straight path between two parts of a cell.
PATH_POINTS = 25
STRETCHES = 20
"""Stretches of time into which the explored points are divided."""


def record(idata: Any, step: Any) -> Any:
    """Add the groups ``partition`` and ``exploration`` to a reweighted result.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What :func:`pymc_spectral.reweight` returned.
    step : SpectralPartitionStep
        The step whose chains they are.

    Returns
    -------
    InferenceData or DataTree
        The same type; `idata` itself is not changed. All values can be stored in a netCDF file.

    Notes
    -----
    ``partition`` holds the landmarks, their cells, the spectrum, the rule itself (see
    :func:`rule_from`), where chains started, a subsample of the draws on the unconstrained scale,
    and three figures for each cell that need the model's density: how much of the explored cell its
    chains left unvisited, how far they went beyond it, and how deep the valleys are between what
    its chains saw. ``exploration`` holds a subsample of the points, the share of them in each cell,
    and what tempering says of itself.
    """
    groups = dict(_idata.groups(idata))
    names = coordinate_names(step.model)
    draws = unconstrained_draws(step.model, groups["cell_posterior"])
    groups["partition"] = _partition(groups, step, names, draws)
    if step.exploration is not None:
        groups["exploration"] = _exploration(step.exploration, step.partition, names)
    return _idata.build(groups, like=idata)


def rule_from(group: xr.Dataset) -> Rule:
    """Rebuild the rule that gives every point its cell.

    Parameters
    ----------
    group : Dataset
        The group ``partition`` of a result.

    Returns
    -------
    VoronoiRule, DiscriminantRule or NystromRule
        ``rule.predict(x)`` takes an (m, d) array of unconstrained points.
    """
    cls = RULES[group.attrs["rule"]]
    values: dict[str, Any] = {}
    for field in fields(cls):
        value = group[f"rule_{field.name}"].values
        values[field.name] = value.item() if value.ndim == 0 else value
    return cls(**values)


def coordinate_names(model: Any) -> list[str]:
    """Name the coordinates of the unconstrained space: ``"x[0]"``, ``"mu[home]"``, ``"s_log__"``.

    The labels of the model's coords are used where the transform keeps the variable's shape, so
    that a coordinate is called what :func:`pymc_spectral.summary` calls it.
    """
    point = model.initial_point()
    names: list[str] = []
    for value in model.value_vars:
        shape = np.shape(point[value.name])
        dims = model.named_vars_to_dims.get(model.values_to_rvs[value].name, ())
        labels: list[Any] = [model.coords.get(dim) for dim in dims]
        labels = [
            range(n) if kept is None else kept for n, kept in zip(shape, labels, strict=False)
        ]
        if tuple(map(len, labels)) != shape:
            labels = [range(n) for n in shape]
        for index in product(*labels):
            inside = ", ".join(map(str, index))
            names.append(f"{value.name}[{inside}]" if shape else value.name)
    return names


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


# ---------------------------------------------------------------- partition


def _partition(
    groups: dict[str, xr.Dataset], step: Any, names: list[str], draws: np.ndarray | None
) -> xr.Dataset:
    """Build the group about the partition and how its cells were covered."""
    partition = step.partition
    n_cells = step.n_cells
    landmarks = np.asarray(partition.landmarks_, dtype=float)
    labels = np.asarray(partition.labels_, dtype=np.int64)
    data: dict[str, Any] = {
        "landmarks": (("landmark", "dim"), landmarks),
        "label": ("landmark", labels),
        "start": (("cell", "dim"), np.array([members[0] for members in step._members])),
        "n_landmarks": ("cell", np.bincount(labels, minlength=n_cells)),
        "eigenvalues": ("eigenvalue", _padded(getattr(partition, "eigenvalues_", ()))),
        "prominences": ("prominence", _padded(getattr(partition, "prominences_", ()))),
    }
    own = stat_values(groups["cell_sample_stats"], "cell")[:, 0].astype(int)
    if draws is not None:
        every = max(1, -(-draws.shape[0] * draws.shape[1] // MAX_POINTS))
        thin = draws[:, ::every]
        data["draws"] = (("draw_point", "dim"), thin.reshape(-1, draws.shape[2]))
        data["draw_cell"] = ("draw_point", np.repeat(own, thin.shape[1]))
        data.update(_coverage(groups, step, draws, own))
    data.update(_rule_arrays(partition.rule_))
    asked = getattr(partition, "n_cells", n_cells)
    attrs = {
        "rule": type(partition.rule_).__name__,
        "partition": type(partition).__name__,
        "kernel": str(step.kernel_name),
        "n_cells_asked": str(asked),
        "n_segments": int(getattr(partition, "n_segments_", n_cells)),
        "n_neighbours": int(getattr(partition, "n_neighbours", 0)),
        "valley": float(getattr(partition, "valley", np.nan)),
    }
    return xr.Dataset(data, coords={"dim": names, "cell": np.arange(n_cells)}, attrs=attrs)


def _rule_arrays(rule: Rule) -> dict[str, Any]:
    """Arrays and numbers of a rule, each with dimensions of its own."""
    data: dict[str, Any] = {}
    for field in fields(rule):
        value = np.asarray(getattr(rule, field.name))
        name = f"rule_{field.name}"
        data[name] = (tuple(f"{name}_{k}" for k in range(value.ndim)), value)
    return data


def _padded(values: Any) -> np.ndarray:
    """Return values, or one NaN for none: netCDF takes an empty dimension for an unlimited one."""
    values = np.asarray(values, dtype=float)
    return values if values.size else np.full(1, np.nan)


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


# ---------------------------------------------------------------- exploration


def _exploration(exploration: Exploration, partition: Any, names: list[str]) -> xr.Dataset:
    """Build the group about the points that the partition was learned from."""
    points = exploration.points
    cell = np.asarray(partition.predict(points), dtype=np.int64)
    report = exploration.tempering
    n_cells = int(partition.n_cells_)
    trips = None if report is None else report.round_trips
    occupancy, error, stretches = occupancies(cell, n_cells, trips)
    keep = np.unique(np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).astype(int))
    data: dict[str, Any] = {
        "points": (("point", "dim"), points[keep]),
        "logp": ("point", exploration.logp[keep]),
        "point_cell": ("point", cell[keep]),
        "occupancy": ("cell", occupancy),
        "occupancy_error": ("cell", error),
        "stretches_seen": ("cell", stretches),
    }
    attrs: dict[str, Any] = {"source": exploration.source, "n_points": len(points)}
    if report is not None:
        data["betas"] = ("temperature", report.betas)
        data["rejection"] = ("pair", report.rejection)
        data["acceptance"] = ("temperature", report.acceptance)
        data["temperature_occupancy"] = (
            ("temperature", "cell"),
            temperature_occupancy(report.replicas, partition),
        )
        for name in (
            "barrier",
            "round_trips",
            "log_evidence",
            "log_evidence_error",
            "log_evidence_forward",
            "log_evidence_backward",
            "n_evaluations",
            "seconds",
        ):
            data[name] = getattr(report, name)
        for name in report.rounds[0]:
            data[f"round_{name}"] = ("round", np.array([row[name] for row in report.rounds]))
        attrs["reference"] = report.reference
        attrs["n_copies"] = int(report.n_copies)
        attrs["settled"] = int(report.settled)
    return xr.Dataset(data, coords={"dim": names, "cell": np.arange(n_cells)}, attrs=attrs)


def temperature_occupancy(replicas: np.ndarray, partition: Any) -> np.ndarray:
    """Share of the replicas of each temperature in each cell, (temperatures, cells)."""
    shares = np.zeros((len(replicas), int(partition.n_cells_)))
    for k, points in enumerate(replicas):
        inside = points[np.isfinite(points).all(axis=1)]
        if len(inside):
            cell = np.asarray(partition.predict(inside), dtype=np.int64)
            shares[k] = np.bincount(cell, minlength=shares.shape[1]) / len(inside)
    return shares


def occupancies(
    cell: np.ndarray, n_cells: int, round_trips: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of the points in each cell, its error, and in how many stretches of time it was seen.

    Parameters
    ----------
    cell : array (n,)
        Cell of each point, in the order of time.
    n_cells : int
        Number of cells.
    round_trips : int, optional
        Fresh starts of the cold chain, which bound the number of independent points: two for one,
        because the time spent after each is random too, with a spread like that of an exponential.

    Returns
    -------
    occupancy, error : array (n_cells,)
        The error is the larger of what the scatter between stretches says and what so many
        independent visits would give.
    stretches : array of int (n_cells,)
        Stretches out of `STRETCHES` with at least one point of the cell.
    """
    n = len(cell)
    blocks = np.array_split(np.arange(n), min(STRETCHES, n))
    share = np.array([np.bincount(cell[b], minlength=n_cells) / len(b) for b in blocks])
    occupancy = np.bincount(cell, minlength=n_cells) / n
    smooth = (occupancy * n + 0.5) / (n + 1)
    independent = n if round_trips is None else max(1.0, min(n, round_trips / 2))
    binomial = np.sqrt(smooth * (1 - smooth) / independent)
    scatter = share.std(axis=0, ddof=1) / np.sqrt(len(blocks)) if len(blocks) > 1 else binomial
    return occupancy, np.maximum(binomial, scatter), (share > 0).sum(axis=0)
