"""Pictures of a result: what people would rather look at than read.

Each function takes what ``pm.sample`` returned, also loaded from a file, and returns Matplotlib
axes, as the functions of ArviZ do. A cell has the same colour and marker in every picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pymc_spectral._groups import columns_of, open_groups, stat_values
from pymc_spectral.diagnostics.report import find
from pymc_spectral.plots.panels import (
    GREY,
    LABELLED_CELLS,
    MAX_DENSITIES,
    MAX_ROWS,
    choose_plane,
    colour,
    draw_acceptance,
    draw_barrier,
    draw_densities,
    draw_eigenvalues,
    draw_forest,
    draw_line,
    draw_regions,
    draw_rounds,
    draw_valleys,
    make_axes,
    marker,
    most_different,
    needed_group,
    points_of,
)

__all__ = [
    "plot_cells",
    "plot_overview",
    "plot_partition",
    "plot_spectrum",
    "plot_tempering",
    "plot_weights",
]


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
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables (``"x"``, ``"sigma"``) or coordinates (``"x[3]"``, ``"sigma_log__"``) of the
        unconstrained space; the first two coordinates are drawn. Default: both coordinates in two
        dimensions, and in more the two directions that tell the cells apart best.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
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
    points, cell = points_of(partition)
    axes = make_axes(ax, figsize or (6.4, 4.8))
    if len(names) == 1:
        draw_line(axes, groups, names[0])
        return axes
    to_plane, labels = choose_plane(var_names, names, landmarks, partition["label"].values)
    flat = to_plane(points)
    if len(names) == 2:
        draw_regions(axes, partition, to_plane, labels, names, np.vstack([points, landmarks]))
    for k in np.unique(cell):
        mine = flat[cell == k]
        axes.scatter(
            *mine.T, s=9, c=colour(k), marker=marker(k), alpha=0.45, linewidths=0, rasterized=True
        )
    axes.scatter(*to_plane(landmarks).T, s=2, c="black", alpha=0.5, linewidths=0, label="landmarks")
    weights = groups["cells"]["weight"].values
    for k, start in enumerate(to_plane(partition["start"].values)):
        axes.scatter(
            *start,
            s=150,
            marker="*",
            c=colour(k),
            edgecolors="black",
            linewidths=0.8,
            zorder=5,
            label="start of the chain" if k == 0 else None,
        )
        if len(weights) <= LABELLED_CELLS:
            axes.annotate(
                f"{k}: {weights[k]:.3g}",
                start,
                xytext=(7, 7),
                textcoords="offset points",
                fontsize=9,
                zorder=6,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
            )
    axes.set(xlabel=labels[0], ylabel=labels[1], title="Cells, numbered, with their weights")
    axes.legend(loc="best", fontsize=8, framealpha=0.8)
    return axes


def plot_weights(idata: Any, *, figsize: tuple[float, float] | None = None, ax: Any = None) -> Any:
    """Draw the weights with error bars, beside the share of tempering's points in each cell.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Bars are two standard errors to either side. The two estimates share nothing but the cells: the
    first comes from bridge sampling, the second from counting. Points that were handed in have
    their own proportions and are not shown.
    """
    groups = open_groups(idata)
    cells = groups["cells"]
    weight, error = cells["weight"].values, cells["weight_mcse"].values
    n = len(weight)
    axes = make_axes(ax, figsize or (max(4.8, min(12.0, 1.6 + 0.55 * n)), 3.6))
    place = np.arange(n)
    exploration = groups.get("exploration")
    tempered = exploration is not None and "round_trips" in exploration
    shift = 0.14 if tempered else 0.0
    for k in range(n):
        axes.errorbar(
            k - shift,
            weight[k],
            2 * error[k],
            color=colour(k),
            marker=marker(k),
            ms=7,
            capsize=4,
            lw=1.5,
            label="weight, by bridge" if k == 0 else None,
        )
    if tempered:
        axes.errorbar(
            place + shift,
            exploration["occupancy"].values,  # type: ignore[index]
            2 * exploration["occupancy_error"].values,  # type: ignore[index]
            color=GREY,
            fmt="D",
            mfc="white",
            ms=5,
            capsize=3,
            lw=1.0,
            label="share of tempering's points",
        )
        axes.legend(fontsize=8)
    axes.set_xticks(place[:: max(1, -(-n // 20))])
    axes.set(
        xlabel="cell",
        ylabel="weight",
        title="Weights, with two standard errors",
        xlim=(-0.6, n - 0.4),
        ylim=(0, None),
    )
    axes.grid(axis="y", alpha=0.3)
    return axes


def plot_spectrum(
    idata: Any,
    *,
    kind: Literal["both", "eigenvalues", "valleys"] = "both",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw why there are so many cells: eigenvalues, and the valleys between modes.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    kind : {"both", "eigenvalues", "valleys"}
        What to draw; ``"both"`` needs two axes.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
    ax : matplotlib Axes or array of two, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes or array of two

    Notes
    -----
    Eigenvalues of the normalised affinity near 1 say how many pieces the landmarks fall into; the
    gap after the number of cells is marked. Pieces of one mode are joined again where the log
    density has no valley between them: the second picture has the depth of the valley around each
    further mode, deepest first, and the threshold.
    """
    if kind not in ("both", "eigenvalues", "valleys"):
        raise ValueError(f'kind={kind!r} is unknown: use "both", "eigenvalues" or "valleys".')
    partition = needed_group(open_groups(idata), "partition")
    if kind == "both":
        both = make_axes(ax, figsize or (9.6, 3.6), 1, 2)
        draw_eigenvalues(both[0], partition)
        draw_valleys(both[1], partition)
        return both
    axes = make_axes(ax, figsize or (4.8, 3.6))
    (draw_eigenvalues if kind == "eigenvalues" else draw_valleys)(axes, partition)
    return axes


def plot_tempering(
    idata: Any,
    *,
    kind: Literal["all", "acceptance", "barrier", "rounds"] = "all",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the health of the exploration by tempering.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    kind : {"all", "acceptance", "barrier", "rounds"}
        What to draw; ``"all"`` needs three axes.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
    ax : matplotlib Axes or array of three, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes or array of three

    Notes
    -----
    Acceptance of swaps between neighbours on the ladder should be about equal, and that of local
    moves well above zero everywhere. The local barrier is the rejection per unit of inverse
    temperature: a peak is where the distribution changes, say where modes separate. Round trips,
    fresh starts of the coldest replicas, should grow with every round, as its length doubles.
    """
    kinds = {"acceptance": draw_acceptance, "barrier": draw_barrier, "rounds": draw_rounds}
    if kind != "all" and kind not in kinds:
        raise ValueError(f"kind={kind!r} is unknown: use all, {', '.join(kinds)}.")
    exploration = needed_group(open_groups(idata), "exploration")
    if "round_trips" not in exploration:
        raise ValueError(
            f"The points of this result came by {exploration.attrs['source']!r}, not by tempering, "
            "so there is no ladder to draw. Leave `explore` out to let tempering find the modes."
        )
    if kind != "all":
        axes = make_axes(ax, figsize or (4.8, 3.6))
        kinds[kind](axes, exploration)
        return axes
    every = make_axes(ax, figsize or (12.8, 3.6), 1, 3)
    for one, draw in zip(every, kinds.values(), strict=True):
        draw(one, exploration)
    return every


def plot_cells(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    kind: Literal["auto", "density", "forest"] = "auto",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Compare the posterior of each cell with that of the others.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables to show; with a leading ``~``, variables to leave out. Default: all, but no more
        than 12 parameters, those in which the cells differ most.
    kind : {"auto", "density", "forest"}
        ``"density"``: one picture per parameter, each cell's density times its weight.
        ``"forest"``: one picture, a line per parameter and cell: median, half and 94 % of the
        mass. ``"auto"`` takes densities for up to four parameters.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
    ax : matplotlib Axes or array of them, optional
        Where to draw: one for ``"forest"``, one per parameter for ``"density"``.

    Returns
    -------
    matplotlib Axes or array of them
    """
    if kind not in ("auto", "density", "forest"):
        raise ValueError(f'kind={kind!r} is unknown: use "auto", "density" or "forest".')
    groups = open_groups(idata)
    weights = groups["cells"]["weight"].values
    names, values = columns_of(groups["cell_posterior"], var_names)
    own = stat_values(groups["cell_sample_stats"], "cell")[:, 0].astype(int)
    draws = [values[own == k].reshape(-1, len(names)) for k in range(len(weights))]
    if kind == "auto":
        kind = "density" if len(names) <= MAX_DENSITIES else "forest"
    shown = most_different(draws, MAX_ROWS)
    if kind == "density":
        many = make_axes(ax, figsize or (min(3.6 * len(shown), 14.4), 3.2), 1, len(shown))
        many = np.atleast_1d(many)
        for one, column in zip(many, shown, strict=True):
            draw_densities(one, [d[:, column] for d in draws], weights, names[column])
        many[0].set_ylabel("density × weight")
        many[-1].legend(title="cell", fontsize=8, ncols=1 + len(weights) // 9)
        return many
    lines = len(shown) * len(weights)
    axes = make_axes(ax, figsize or (6.4, float(np.clip(1.2 + 0.13 * lines, 3.2, 12.0))))
    draw_forest(axes, [d[:, shown] for d in draws], [names[c] for c in shown])
    if len(shown) < len(names):
        axes.set_title(f"Cells compared: the {len(shown)} of {len(names)} that differ most")
    return axes


def plot_overview(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the four pictures to look at first.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Passed to :func:`plot_partition`.
    figsize : tuple of float, optional
        Size in inches. Ignored if `ax` is given.
    ax : array of four matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    array of four matplotlib Axes
        The partition, the weights, the valleys between modes, and tempering, or where there was
        none, the cells compared.
    """
    groups = open_groups(idata)
    four = make_axes(ax, figsize or (11.0, 8.0), 2, 2).ravel()
    plot_partition(idata, var_names, ax=four[0])
    plot_weights(idata, ax=four[1])
    plot_spectrum(idata, kind="valleys", ax=four[2])
    if "round_trips" in groups.get("exploration", {}):
        plot_tempering(idata, kind="acceptance", ax=four[3])
    else:
        plot_cells(idata, kind="forest", ax=four[3])
    if ax is None:
        cells = groups["cells"]
        total = float(cells["log_marginal_likelihood"])
        error = float(cells["log_marginal_likelihood_mcse"])
        codes = sorted({f.code for f in find(idata) if f.severity == "warning"})
        few = ", ".join(codes[:3]) + (f" and {len(codes) - 3} more" if len(codes) > 3 else "")
        said = f"warnings: {few}" if codes else "no warnings"
        n = cells.sizes["cell"]
        digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 4)) if 0 < error < np.inf else 2
        total = round(total, digits) + 0.0  # no minus zero
        four[0].figure.suptitle(
            f"{n} cell{'s' if n > 1 else ''}, log marginal likelihood "
            f"{total:.{digits}f} ± {error:.{digits}f}, {said}"
        )
    return four
