"""The picture of the cells in the unconstrained space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.learned_groups import rule_from
from pymc_spectral.plots.axes import make_axes, needed_group, with_shared_parameters
from pymc_spectral.plots.palette import GRAY, LABELED_CELLS, color, marker
from pymc_spectral.plots.planes import choose_plane

__all__ = ["plot_partition"]

GRID = 200  # places along each side at which regions are looked up: a pixel or two
MARGIN = 0.06  # of the width, around the points
TITLE = "Cells, numbered, with their weights"


@with_shared_parameters
def plot_partition(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the cells: draws of each, landmarks, and where chains started.

    Parameters
    ----------
    {idata}
    var_names : str or sequence of str, optional
        Variables (``"x"``, ``"sigma"``) or coordinates (``"x[3]"``, ``"sigma_log__"``) of the
        unconstrained space; the first two coordinates are drawn. Default: both coordinates in two
        dimensions, and in more the two directions that tell the cells apart best.
    {figsize}
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The picture is of the unconstrained space, where the partition lives. Regions and boundaries are
    filled in where the space has two dimensions, so that the picture shows all of it. In one
    dimension the log density is on the vertical axis.
    """
    groups = open_groups(idata)
    partition = needed_group(groups, "partition")
    landmarks = partition["landmarks"].values
    names = [str(n) for n in partition["dim"].values]
    axes = make_axes(ax, figsize or (6.4, 4.8))
    if len(names) == 1:
        _draw_line(axes, groups, names[0])
        return axes
    points, cell = _points_of(partition)
    to_plane, labels = choose_plane(var_names, names, landmarks, partition["label"].values)
    if len(names) == 2:
        order = [labels.index(n) for n in names]
        _draw_regions(axes, partition, to_plane(np.vstack([points, landmarks])), order)
    flat = to_plane(points)
    for k in np.unique(cell):
        mine = flat[cell == k]
        axes.scatter(
            *mine.T, s=9, c=color(k), marker=marker(k), alpha=0.45, linewidths=0, rasterized=True
        )
    axes.scatter(*to_plane(landmarks).T, s=2, c="black", alpha=0.5, linewidths=0, label="landmarks")
    _draw_starts(axes, to_plane(partition["start"].values), groups["cells"]["weight"].values)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=TITLE)
    axes.legend(loc="best", fontsize=8, framealpha=0.8)
    return axes


def _points_of(partition: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return draws on the unconstrained scale and their cells; landmarks if draws were not kept."""
    if "draws" in partition:
        return partition["draws"].values, partition["draw_cell"].values
    return partition["landmarks"].values, partition["label"].values


def _draw_regions(axes: Any, partition: xr.Dataset, flat: np.ndarray, order: list[int]) -> None:
    """Fill the cells' regions in two dimensions, and draw their boundaries.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    partition : Dataset
        The group ``partition``.
    flat : ndarray, shape (n, 2)
        Points of the plane that the picture has to hold.
    order : list of int
        Axis of the picture on which each coordinate of the space is.
    """
    # Here and not above: Matplotlib is an extra, and only drawing needs it.
    from matplotlib.colors import ListedColormap

    rule: Callable[[np.ndarray], np.ndarray] = rule_from(partition).predict
    n_cells = partition.sizes["cell"]
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = MARGIN * (high - low)
    ends = [np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True)]
    mesh = np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, 2)
    cell = rule(mesh[:, order]).reshape(GRID, GRID)
    axes.imshow(
        cell,
        origin="lower",
        extent=(ends[0][0], ends[0][-1], ends[1][0], ends[1][-1]),
        aspect="auto",
        cmap=ListedColormap([color(k) for k in range(n_cells)]),
        vmin=-0.5,
        vmax=n_cells - 0.5,
        alpha=0.16,
        interpolation="nearest",
    )
    for k in range(n_cells if n_cells > 1 else 0):
        axes.contour(*ends, cell == k, levels=[0.5], colors=GRAY, linewidths=0.8)


def _draw_starts(axes: Any, starts: np.ndarray, weights: np.ndarray) -> None:
    """Draw a star where the chain of each cell started, with the cell's weight beside it."""
    for k, start in enumerate(starts):
        axes.scatter(
            *start,
            s=150,
            marker="*",
            c=color(k),
            edgecolors="black",
            linewidths=0.8,
            zorder=5,
            label="start of the chain" if k == 0 else None,
        )
        if len(weights) <= LABELED_CELLS:
            axes.annotate(
                f"{k}: {weights[k]:.3g}",
                start,
                xytext=(7, 7),
                textcoords="offset points",
                fontsize=9,
                zorder=6,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
            )


def _draw_line(axes: Any, groups: dict[str, xr.Dataset], name: str) -> None:
    """Draw the log density over the only coordinate, colored by cell."""
    partition = groups["partition"]
    rule = rule_from(partition)
    exploration = groups.get("exploration")
    if exploration is not None:
        x, height = exploration["points"].values, exploration["logp"].values
    else:
        x = partition["landmarks"].values
        height = np.zeros(len(x))
    # A line has room for more places than the side of a plane.
    ends = np.linspace(x.min(), x.max(), 4 * GRID)
    of_grid = rule.predict(ends[:, None])
    edges = np.flatnonzero(np.diff(of_grid))
    for left, right, k in zip([0, *(edges + 1)], [*edges, -1], of_grid[[*edges, -1]], strict=True):
        axes.axvspan(ends[left], ends[right], color=color(k), alpha=0.14, lw=0)
    cell = rule.predict(x)
    for k in np.unique(cell):
        axes.scatter(x[cell == k, 0], height[cell == k], s=9, c=color(k), marker=marker(k))
    weights = groups["cells"]["weight"].values
    for k, start in enumerate(partition["start"].values[:, 0]):
        label = "start of the chain" if k == 0 else None
        axes.axvline(start, color=color(k), lw=1.2, ls="--", label=label)
        axes.annotate(
            f"{k}: {weights[k]:.3g}",
            (start, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=9,
        )
    axes.set(xlabel=name, ylabel="log density", title=TITLE)
    axes.legend(fontsize=8)
