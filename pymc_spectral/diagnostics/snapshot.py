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
import xarray as xr

from pymc_spectral._groups import close_groups, open_groups, stat_values
from pymc_spectral.diagnostics.coverage import _coverage, unconstrained_draws
from pymc_spectral.exploration.explorers import Exploration
from pymc_spectral.partition.rules import DiscriminantRule, NystromRule, Rule, VoronoiRule

__all__ = ["STRETCHES", "record", "rule_from"]

RULES: dict[str, type] = {r.__name__: r for r in (VoronoiRule, DiscriminantRule, NystromRule)}

MAX_POINTS = 2000
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
    groups = dict(open_groups(idata))
    names = coordinate_names(step.model)
    draws = unconstrained_draws(step.model, groups["cell_posterior"])
    groups["partition"] = _partition(groups, step, names, draws)
    if step.exploration is not None:
        groups["exploration"] = _exploration(step.exploration, step.partition, names)
    return close_groups(groups, like=idata)


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
