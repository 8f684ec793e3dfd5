"""Pictures of the health of the exploration by tempering."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import open_groups
from pymc_spectral._validate import one_of
from pymc_spectral.diagnostics.learned_groups import tempered
from pymc_spectral.plots.axes import make_axes, needed_group, with_shared_parameters
from pymc_spectral.plots.palette import COLORS

__all__ = ["plot_tempering"]

TemperingKind = Literal["all", "acceptance", "barrier", "rounds"]


@with_shared_parameters
def plot_tempering(
    idata: Any,
    *,
    kind: TemperingKind = "all",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the health of the exploration by tempering.

    Parameters
    ----------
    {idata}
    kind : {"all", "acceptance", "barrier", "rounds"}
        What to draw; ``"all"`` needs three axes.
    {figsize}
    ax : matplotlib Axes or array of three, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes or array of three

    Notes
    -----
    Acceptance of swaps between neighbors on the ladder should be about equal, and that of local
    moves well above zero everywhere. The local barrier is the rejection per unit of inverse
    temperature: a peak is where the distribution changes, say where modes separate. Round trips,
    fresh starts of the coldest replicas, should grow with every round, as its length doubles.
    """
    one_of("kind", kind, get_args(TemperingKind))
    groups = open_groups(idata)
    source = needed_group(groups, "exploration").attrs["source"]
    exploration = tempered(groups)
    if exploration is None:
        raise ValueError(
            f"The points of this result came by {source!r}, not by tempering, so there is no "
            "ladder to draw. Leave `explore` out to let tempering find the modes."
        )
    draw = {"acceptance": _draw_acceptance, "barrier": _draw_barrier, "rounds": _draw_rounds}
    if kind != "all":
        axes = make_axes(ax, figsize or (4.8, 3.6))
        draw[kind](axes, exploration)
        return axes
    every = make_axes(ax, figsize or (12.8, 3.6), 1, len(draw))
    for one, drawn in zip(every, draw.values(), strict=True):
        drawn(one, exploration)
    return every


def _draw_acceptance(axes: Any, exploration: xr.Dataset) -> None:
    """Draw the acceptance of swaps and of local moves along the ladder."""
    rung = np.arange(exploration.sizes["temperature"])
    axes.plot(
        rung, exploration["acceptance"].values, "s-", color=COLORS[4], ms=4, label="local moves"
    )
    axes.plot(
        rung[:-1] + 0.5,
        1 - exploration["rejection"].values,
        "o-",
        color=COLORS[0],
        ms=4,
        label="swaps of a pair",
    )
    trips = int(exploration["round_trips"])
    axes.set(
        xlabel="rung, from the reference to the posterior",
        ylabel="acceptance",
        ylim=(0, 1.05),
        title=f"Tempering: {trips} round trips",
    )
    axes.legend(fontsize=8, loc="lower left")
    axes.grid(alpha=0.3)


def _draw_barrier(axes: Any, exploration: xr.Dataset) -> None:
    """Draw the rejection per unit of inverse temperature."""
    betas = exploration["betas"].values
    density = exploration["rejection"].values / np.diff(betas)
    # The first rung is zero and would be off a logarithmic axis: start half a step below the next.
    edges = np.concatenate([[betas[1] / 2], betas[1:]])
    axes.stairs(density, edges, color=COLORS[0], fill=True, alpha=0.35)
    axes.stairs(density, edges, color=COLORS[0], lw=1.5)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="inverse temperature",
        ylabel="rejection per unit",
        title=f"Local barrier, {float(exploration['barrier']):.1f} in all",
    )
    axes.grid(alpha=0.3)


def _draw_rounds(axes: Any, exploration: xr.Dataset) -> None:
    """Draw round trips and the evidence by round."""
    trips = exploration["round_round_trips"].values
    number = np.arange(1, len(trips) + 1)
    axes.bar(number, trips, color=COLORS[5])
    axes.set(xlabel="round", title="Rounds")
    axes.set_ylabel("round trips (bars)", color=COLORS[0])
    axes.set_xticks(number)
    axes.set_ylim(0, 1.15 * max(1, trips.max()))
    twin = axes.twinx()
    late = slice(len(trips) // 3, None)  # the first rounds are too short to say anything
    twin.errorbar(
        number[late],
        exploration["round_log_evidence"].values[late],
        2 * exploration["round_log_evidence_error"].values[late],
        color=COLORS[1],
        fmt="s",
        ms=5,
        capsize=3,
    )
    twin.set_ylabel("log evidence (points)", color=COLORS[1])
