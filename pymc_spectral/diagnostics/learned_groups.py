"""What checks and pictures need to know of partition and exploration, as groups of a result.

A step knows its partition and what it was learned from; a result loaded from a file knows neither.
So both are written into the result as plain arrays, in the groups ``partition`` and
``exploration``, and everything said about a run can be said again from its file.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_spectral.diagnostics.cell_coverage import Coverage
from pymc_spectral.diagnostics.thresholds import STRETCHES
from pymc_spectral.partition.cell_rules import RULES, Rule

__all__ = [
    "exploration_group",
    "independent_points",
    "partition_group",
    "rule_from",
    "tempered",
]

MAX_POINTS = 2000
"""Points and draws that are kept: enough for a picture, and a file stays small."""

TEMPERING_FIGURES = (
    "barrier",
    "round_trips",
    "log_evidence",
    "log_evidence_error",
    "log_evidence_forward",
    "log_evidence_backward",
    "n_evaluations",
    "seconds",
)
"""Figures of a tempering report that are kept as they are."""


class Explored(Protocol):
    """What is asked of an exploration: its points, and what tempering says of itself."""

    @property
    def points(self) -> np.ndarray:
        """Points, shape (n, d)."""
        ...

    @property
    def logp(self) -> np.ndarray:
        """Their log density."""
        ...

    @property
    def round(self) -> np.ndarray:
        """0 for the explorer's own points, k for draws that round k added."""
        ...

    @property
    def source(self) -> str:
        """Where they come from."""
        ...

    @property
    def tempering(self) -> Any:
        """What tempering says of itself, None for other sources."""
        ...


def tempered(groups: dict[str, xr.Dataset]) -> xr.Dataset | None:
    """Return the group ``exploration`` where tempering made it, else None."""
    exploration = groups.get("exploration")
    return exploration if exploration is not None and "round_trips" in exploration else None


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
    arrays = {
        str(name).removeprefix("rule_"): values.values
        for name, values in group.data_vars.items()
        if str(name).startswith("rule_")
    }
    return RULES[group.attrs["rule"]].from_arrays(arrays)


def partition_group(
    partition: Any,
    *,
    kernel: str,
    names: list[str],
    starts: np.ndarray,
    draws: np.ndarray | None = None,
    cell_of_chain: np.ndarray | None = None,
    coverage: Coverage | None = None,
) -> xr.Dataset:
    """Build the group about a partition and how its cells were covered.

    Parameters
    ----------
    partition : SpectralPartition or KMeansPartition
        Fitted.
    kernel : str
        Name of what moved in the cells.
    names : list of str
        Names of the d unconstrained coordinates.
    starts : ndarray, shape (cells, d)
        Where the first chain of each cell started.
    draws : ndarray, shape (chains, draws, d), optional
        Unconstrained draws of the chains as they ran; some of them are kept for pictures.
    cell_of_chain : ndarray of int, shape (chains,), optional
        Their cells.
    coverage : Coverage, optional
        What chains saw of what exploration saw.

    Returns
    -------
    Dataset
        The landmarks, their cells, the spectrum, the rule itself (see :func:`rule_from`), where
        chains started, some draws, and the figures of `coverage`.
    """
    n_cells = int(partition.n_cells_)
    labels = np.asarray(partition.labels_, dtype=np.int64)
    data: dict[str, Any] = {
        "landmarks": (("landmark", "dim"), np.asarray(partition.landmarks_, dtype=float)),
        "label": ("landmark", labels),
        "start": (("cell", "dim"), starts),
        "n_landmarks": ("cell", np.bincount(labels, minlength=n_cells)),
        "eigenvalues": ("eigenvalue", _padded(getattr(partition, "eigenvalues_", ()))),
        "prominences": ("prominence", _padded(getattr(partition, "prominences_", ()))),
    }
    if draws is not None and cell_of_chain is not None:
        every = max(1, -(-draws.shape[0] * draws.shape[1] // MAX_POINTS))
        thin = draws[:, ::every]
        data["draws"] = (("draw_point", "dim"), thin.reshape(-1, draws.shape[2]))
        data["draw_cell"] = ("draw_point", np.repeat(cell_of_chain, thin.shape[1]))
    if coverage is not None:
        for field in fields(coverage):
            data[field.name] = ("cell", getattr(coverage, field.name))
    data.update(_rule_arrays(partition.rule_))
    attrs = {
        "rule": type(partition.rule_).__name__,
        "partition": type(partition).__name__,
        "kernel": kernel,
        "n_cells_asked": str(getattr(partition, "n_cells", n_cells)),
        "n_segments": int(getattr(partition, "n_segments_", n_cells)),
        "n_neighbors": int(getattr(partition, "n_neighbors", 0)),
        "valley": float(getattr(partition, "valley", np.nan)),
    }
    return xr.Dataset(data, coords={"dim": names, "cell": np.arange(n_cells)}, attrs=attrs)


def _rule_arrays(rule: Rule) -> dict[str, Any]:
    """Arrays and numbers of a rule, each with dimensions of its own."""
    return {
        f"rule_{name}": (tuple(f"rule_{name}_{k}" for k in range(value.ndim)), value)
        for name, value in rule.to_arrays().items()
    }


def _padded(values: Any) -> np.ndarray:
    """Return values, or one NaN for none: netCDF takes an empty dimension for an unlimited one."""
    values = np.asarray(values, dtype=float)
    return values if values.size else np.full(1, np.nan)


def exploration_group(explored: Explored, partition: Any, names: list[str]) -> xr.Dataset:
    """Build the group about the points that the partition was learned from.

    Shares of the points in the cells, and their errors, are those of the explorer's own points:
    draws that later rounds added say nothing about the weights of the cells.
    """
    points = explored.points
    cell = np.asarray(partition.predict(points), dtype=np.int64)
    report = explored.tempering
    n_cells = int(partition.n_cells_)
    own = explored.round == 0
    worth = None if report is None else independent_points(explored.logp[own], report.round_trips)
    occupancy, error, stretches = occupancies(cell[own], n_cells, worth)
    keep = np.unique(np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).astype(int))
    data: dict[str, Any] = {
        "points": (("point", "dim"), points[keep]),
        "logp": ("point", explored.logp[keep]),
        "point_cell": ("point", cell[keep]),
        "point_round": ("point", explored.round[keep]),
        "occupancy": ("cell", occupancy),
        "occupancy_error": ("cell", error),
        "stretches_seen": ("cell", stretches),
    }
    attrs: dict[str, Any] = {"source": explored.source, "n_points": len(points)}
    if report is not None:
        data.update(_tempering_figures(report, partition))
        attrs["reference"] = report.reference
        attrs["n_copies"] = int(report.n_copies)
        attrs["settled"] = int(report.settled)
    return xr.Dataset(data, coords={"dim": names, "cell": np.arange(n_cells)}, attrs=attrs)


def _tempering_figures(report: Any, partition: Any) -> dict[str, Any]:
    """Return what a tempering report says, as variables of a dataset."""
    data: dict[str, Any] = {
        "betas": ("temperature", report.betas),
        "rejection": ("pair", report.rejection),
        "acceptance": ("temperature", report.acceptance),
        "temperature_occupancy": (
            ("temperature", "cell"),
            temperature_occupancy(report.replicas, partition),
        ),
    }
    data |= {name: getattr(report, name) for name in TEMPERING_FIGURES}
    return data | {
        f"round_{name}": ("round", np.array([row[name] for row in report.rounds]))
        for name in report.rounds[0]
    }


def temperature_occupancy(replicas: np.ndarray, partition: Any) -> np.ndarray:
    """Share of the replicas of each temperature in each cell, (temperatures, cells)."""
    shares = np.zeros((len(replicas), int(partition.n_cells_)))
    for k, points in enumerate(replicas):
        inside = points[np.isfinite(points).all(axis=1)]
        if len(inside):
            cell = np.asarray(partition.predict(inside), dtype=np.int64)
            shares[k] = np.bincount(cell, minlength=shares.shape[1]) / len(inside)
    return shares


def independent_points(logp: np.ndarray, round_trips: int) -> float:
    """Return how many independent points the points of tempering are worth.

    The fresh starts of the cold chain bound it: two for one, because the time spent after each is
    random too, with a spread like that of an exponential. But replicas may trade places and not
    cross into a narrow part; so does the scatter of the log density between stretches of time.

    Parameters
    ----------
    logp : ndarray, shape (n,)
        Log density of the points, in the order of time.
    round_trips : int
    """
    n = len(logp)
    trips = max(1.0, min(n, round_trips / 2))
    if n < 2 * STRETCHES:
        return trips
    # Ranks: one point far out in a tail would decide alone.
    rank = np.argsort(np.argsort(logp)) / n
    means = np.array([part.mean() for part in np.array_split(rank, STRETCHES)])
    scatter = means.var(ddof=1) / STRETCHES
    return float(max(1.0, min(trips, rank.var() / scatter))) if scatter > 0 else trips


def occupancies(
    cell: np.ndarray, n_cells: int, independent: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of the points in each cell, its error, and in how many stretches of time it was seen.

    Parameters
    ----------
    cell : array (n,)
        Cell of each point, in the order of time.
    n_cells : int
        Number of cells.
    independent : float, optional
        Independent points that they are worth, see :func:`independent_points`. Default: all.

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
    independent = n if independent is None else independent
    binomial = np.sqrt(smooth * (1 - smooth) / independent)
    scatter = share.std(axis=0, ddof=1) / np.sqrt(len(blocks)) if len(blocks) > 1 else binomial
    return occupancy, np.maximum(binomial, scatter), (share > 0).sum(axis=0)
