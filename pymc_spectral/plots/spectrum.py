"""Pictures of why there are so many cells: eigenvalues, and valleys between modes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import open_groups
from pymc_spectral._validate import one_of
from pymc_spectral.plots.axes import make_axes, needed_group, with_shared_parameters
from pymc_spectral.plots.palette import COLORS, FAINT, GRAY

__all__ = ["plot_spectrum"]

SpectrumKind = Literal["both", "eigenvalues", "valleys"]

LEAST_EIGENVALUES = 12  # shown, or twice the number of cells, so that the gap has a far side
MOST_TICKS = 12


@with_shared_parameters
def plot_spectrum(
    idata: Any,
    *,
    kind: SpectrumKind = "both",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw why there are so many cells: eigenvalues, and the valleys between modes.

    Parameters
    ----------
    {idata}
    kind : {"both", "eigenvalues", "valleys"}
        What to draw; ``"both"`` needs two axes.
    {figsize}
    ax : matplotlib Axes or array of two, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes or array of two

    Notes
    -----
    Eigenvalues of the normalized affinity near 1 say how many pieces the landmarks fall into; the
    gap after the number of cells is marked. Pieces of one mode are joined again where the log
    density has no valley between them: the second picture has the depth of the valley around each
    further mode, deepest first, and the threshold.
    """
    one_of("kind", kind, get_args(SpectrumKind))
    partition = needed_group(open_groups(idata), "partition")
    if kind == "both":
        both = make_axes(ax, figsize or (9.6, 3.6), 1, 2)
        _draw_eigenvalues(both[0], partition)
        _draw_valleys(both[1], partition)
        return both
    axes = make_axes(ax, figsize or (4.8, 3.6))
    (_draw_eigenvalues if kind == "eigenvalues" else _draw_valleys)(axes, partition)
    return axes


def _draw_eigenvalues(axes: Any, partition: xr.Dataset) -> None:
    """Draw the leading eigenvalues and the gap after the number of cells."""
    values = partition["eigenvalues"].values
    n_cells = partition.sizes["cell"]
    values = values[: max(LEAST_EIGENVALUES, 2 * n_cells)]
    axes.set(xlabel="number", ylabel="eigenvalue", title="Spectrum of the affinity")
    if np.isnan(values).all():
        axes.text(0.5, 0.5, "no spectrum: k-means", ha="center", transform=axes.transAxes)
        return
    number = np.arange(1, len(values) + 1)
    axes.plot(number[n_cells:], values[n_cells:], "o", color=GRAY, mfc="white", label="others")
    axes.plot(
        number[:n_cells],
        values[:n_cells],
        "o",
        color=COLORS[0],
        label="as many as there are cells",
    )
    if n_cells < len(values):
        axes.axvspan(n_cells, n_cells + 1, color=COLORS[4], alpha=0.2, lw=0)
        axes.annotate(
            f"gap {values[n_cells - 1] - values[n_cells]:.2g}",
            (n_cells + 0.5, 0.04),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=9,
        )
    axes.legend(fontsize=8)
    axes.grid(axis="y", alpha=0.3)


def _draw_valleys(axes: Any, partition: xr.Dataset) -> None:
    """Draw the depth of the valley around each further mode, and the threshold."""
    depth = partition["prominences"].values
    n_cells = partition.sizes["cell"]
    axes.set(
        xlabel="further mode",
        ylabel="depth of its valley, log density",
        title="Valleys between modes",
    )
    if np.isnan(depth).all():
        axes.text(0.5, 0.5, "valleys were not looked for", ha="center", transform=axes.transAxes)
        return
    depth = depth[: max(n_cells, int(np.sum(depth > 0))) + 1]
    number = np.arange(1, len(depth) + 1)
    apart = number < n_cells
    for which, shade, label in (
        (apart, COLORS[0], "has a cell of its own"),
        (~apart, FAINT, "joined to its neighbor"),
    ):
        if np.any(depth[which] > 0):
            axes.bar(number[which], depth[which], color=shade, label=label)
    if not np.any(depth > 0):
        axes.text(0.5, 0.5, "no valley: one mode", ha="center", transform=axes.transAxes)
    valley = float(partition.attrs["valley"])
    if np.isfinite(valley):
        axes.axhline(valley, color=COLORS[1], lw=1.2, ls="--", label=f"threshold {valley:g}")
    # Depths span orders of magnitude and may be zero; shallow ones are shown to scale.
    axes.set_yscale("symlog", linthresh=1.0)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, max(2.0, 6.0 * float(depth.max())))  # room for the legend
    axes.set_xlim(0.4, len(depth) + 0.6)
    axes.set_xticks(number[:: max(1, -(-len(number) // MOST_TICKS))])
    axes.legend(fontsize=8)
    axes.grid(axis="y", alpha=0.3)
