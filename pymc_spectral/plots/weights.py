"""The picture of the weights, beside what tempering says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.learned_groups import tempered
from pymc_spectral.plots.axes import make_axes, with_shared_parameters
from pymc_spectral.plots.palette import GRAY, color, marker
from pymc_spectral.result.reweighting import MASS_BY_TEMPERING

__all__ = ["plot_weights"]

SHIFT = 0.14  # of the two estimates to either side of their cell's number
MOST_TICKS = 20


@with_shared_parameters
def plot_weights(idata: Any, *, figsize: tuple[float, float] | None = None, ax: Any = None) -> Any:
    """Draw the weights with error bars, beside the share of tempering's points in each cell.

    Parameters
    ----------
    {idata}
    {figsize}
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Bars are two standard errors to either side. The two estimates share nothing but the cells: the
    first comes from bridge sampling, the second from counting; a hollow mark says that the bridge
    of the cell failed and tempering stands in for it. Points that were handed in have
    their own proportions and are not shown.
    """
    groups = open_groups(idata)
    weight, error = groups["cells"]["weight"].values, groups["cells"]["weight_mcse"].values
    n = len(weight)
    axes = make_axes(ax, figsize or (max(4.8, min(12.0, 1.6 + 0.55 * n)), 3.6))
    place = np.arange(n)
    exploration = tempered(groups)
    shift = 0.0 if exploration is None else SHIFT
    replaced = groups["cells"].get(MASS_BY_TEMPERING)
    by_tempering = np.zeros(n, dtype=bool) if replaced is None else replaced.values.astype(bool)
    named: set[str] = set()
    for k in range(n):
        name = "weight, by tempering" if by_tempering[k] else "weight, by bridge"
        axes.errorbar(
            k - shift,
            weight[k],
            2 * error[k],
            color=color(k),
            marker=marker(k),
            mfc="white" if by_tempering[k] else color(k),
            ms=7,
            capsize=4,
            lw=1.5,
            label=None if name in named else name,
        )
        named.add(name)
    if exploration is not None:
        axes.errorbar(
            place + shift,
            exploration["occupancy"].values,
            2 * exploration["occupancy_error"].values,
            color=GRAY,
            fmt="D",
            mfc="white",
            ms=5,
            capsize=3,
            lw=1.0,
            label="share of tempering's points",
        )
        axes.legend(fontsize=8)
    axes.set_xticks(place[:: max(1, -(-n // MOST_TICKS))])
    axes.set(
        xlabel="cell",
        ylabel="weight",
        title="Weights, with two standard errors",
        xlim=(-0.6, n - 0.4),
        ylim=(0, None),
    )
    axes.grid(axis="y", alpha=0.3)
    return axes
