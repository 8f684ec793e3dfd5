"""Parts of the pictures: colours, planes to draw in, and single panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import gaussian_kde

from pymc_spectral.diagnostics.snapshot import rule_from

__all__ = [
    "COLOURS",
    "GREY",
    "LABELLED_CELLS",
    "MAX_DENSITIES",
    "MAX_ROWS",
    "choose_plane",
    "colour",
    "discriminant_plane",
    "draw_acceptance",
    "draw_barrier",
    "draw_densities",
    "draw_eigenvalues",
    "draw_forest",
    "draw_line",
    "draw_regions",
    "draw_rounds",
    "draw_valleys",
    "make_axes",
    "marker",
    "most_different",
    "needed_group",
    "points_of",
]

# Okabe & Ito's colours, told apart with any kind of colour blindness; yellow last but one because
# it is faint on white.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
# With eight colours and seven markers, the first repetition is that of the 57th cell.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#666666"
MAX_ROWS = 12
MAX_DENSITIES = 4
GRID = 200
LABELLED_CELLS = 12
WIDE = 0.94


def colour(cell: int) -> str:
    """Colour of a cell, the same in every picture."""
    return COLOURS[cell % len(COLOURS)]


def marker(cell: int) -> str:
    """Marker of a cell, the same in every picture."""
    return MARKERS[cell % len(MARKERS)]


def make_axes(ax: Any, figsize: tuple[float, float], rows: int = 1, columns: int = 1) -> Any:
    """Return the axes passed, checked, or those of a new figure."""
    n = rows * columns
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(given) != n:
            raise ValueError(f"ax holds {len(given)} axes, but {n} are needed.")
        return given if n > 1 else given[0]
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need Matplotlib: python3 -m pip install 'pymc_spectral[plots]'."
        ) from error
    return plt.subplots(rows, columns, figsize=figsize, layout="constrained")[1]


def needed_group(groups: dict[str, xr.Dataset], name: str) -> xr.Dataset:
    """Return a group, or say where it would come from."""
    if name not in groups:
        raise ValueError(
            f"The result has no group {name} (it has {', '.join(groups)}). pm.sample adds it; "
            "a partition that was fitted before and handed in has no exploration."
        )
    return groups[name]


def points_of(partition: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Draws on the unconstrained scale and their cells; landmarks if draws were not kept."""
    if "draws" in partition:
        return partition["draws"].values, partition["draw_cell"].values
    return partition["landmarks"].values, partition["label"].values


def choose_plane(
    var_names: str | Sequence[str] | None,
    names: list[str],
    landmarks: np.ndarray,
    labels: np.ndarray,
) -> tuple[Any, tuple[str, str]]:
    """Return a map to the plane of the picture, and the names of its two axes."""
    if var_names is None and len(names) > 2:
        mean, basis = discriminant_plane(landmarks, labels)
        text = ("first direction between cells", "second direction")
        return (lambda x: (x - mean) @ basis), text
    asked = names if var_names is None else np.atleast_1d(var_names).tolist()
    chosen: list[int] = []
    for name in asked:
        exact = [k for k, n in enumerate(names) if n == name]
        of = [k for k, n in enumerate(names) if n.startswith((f"{name}[", f"{name}_"))]
        if not exact and not of:
            raise KeyError(f"{name!r} not found; the coordinates are {', '.join(names)}.")
        chosen.extend(k for k in exact or of if k not in chosen)
    if len(chosen) < 2:
        raise ValueError(f"var_names={var_names!r} is one coordinate: name two, e.g. {names[:2]}.")
    pair = chosen[:2]
    return (lambda x: x[:, pair]), (names[pair[0]], names[pair[1]])


def discriminant_plane(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two orthogonal directions along which cells differ most, in units of spread.

    Directions between the cells' means come first; with fewer than three cells, the rest is filled
    by the directions of largest spread within cells.
    """
    scale = x.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    y = x / scale
    cells = np.unique(labels)
    means = np.array([y[labels == k].mean(axis=0) for k in cells])
    inner = y - means[np.searchsorted(cells, labels)]
    between = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    directions = [v for s, v in zip(between[1], between[2], strict=True) if s > 1e-9][:2]
    for v in directions:
        inner = inner - np.outer(inner @ v, v)
    spread = np.linalg.svd(inner, full_matrices=False)[2]
    basis = np.array([*directions, *spread])[:2].T
    return x.mean(axis=0), basis / scale[:, None]


def draw_regions(
    axes: Any,
    partition: xr.Dataset,
    to_plane: Any,
    labels: tuple[str, str],
    names: list[str],
    points: np.ndarray,
) -> None:
    """Fill the cells' regions in two dimensions, and draw their boundaries."""
    from matplotlib.colors import ListedColormap

    rule = rule_from(partition)
    n_cells = partition.sizes["cell"]
    flat = to_plane(points)
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.06 * (high - low)
    ends = [np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True)]
    mesh = np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, 2)
    order = [labels.index(n) for n in names]
    cell = rule.predict(mesh[:, order]).reshape(GRID, GRID)
    axes.imshow(
        cell,
        origin="lower",
        extent=(ends[0][0], ends[0][-1], ends[1][0], ends[1][-1]),
        aspect="auto",
        cmap=ListedColormap([colour(k) for k in range(n_cells)]),
        vmin=-0.5,
        vmax=n_cells - 0.5,
        alpha=0.16,
        interpolation="nearest",
    )
    for k in range(n_cells if n_cells > 1 else 0):
        axes.contour(*ends, cell == k, levels=[0.5], colors=GREY, linewidths=0.8)


def draw_line(axes: Any, groups: dict[str, xr.Dataset], name: str) -> None:
    """Draw the log density over the only coordinate, coloured by cell."""
    partition = groups["partition"]
    rule = rule_from(partition)
    exploration = groups.get("exploration")
    if exploration is not None:
        x, height = exploration["points"].values, exploration["logp"].values
    else:
        x = partition["landmarks"].values
        height = np.zeros(len(x))
    ends = np.linspace(x.min(), x.max(), 4 * GRID)
    of_grid = rule.predict(ends[:, None])
    edges = np.flatnonzero(np.diff(of_grid))
    for left, right, k in zip([0, *(edges + 1)], [*edges, -1], of_grid[[*edges, -1]], strict=True):
        axes.axvspan(ends[left], ends[right], color=colour(k), alpha=0.14, lw=0)
    cell = rule.predict(x)
    for k in np.unique(cell):
        axes.scatter(x[cell == k, 0], height[cell == k], s=9, c=colour(k), marker=marker(k))
    weights = groups["cells"]["weight"].values
    for k, start in enumerate(partition["start"].values[:, 0]):
        label = "start of the chain" if k == 0 else None
        axes.axvline(start, color=colour(k), lw=1.2, ls="--", label=label)
        axes.annotate(
            f"{k}: {weights[k]:.3g}",
            (start, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=9,
        )
    axes.set(xlabel=name, ylabel="log density", title="Cells, numbered, with their weights")
    axes.legend(fontsize=8)


def draw_eigenvalues(axes: Any, partition: xr.Dataset) -> None:
    """Draw the leading eigenvalues and the gap after the number of cells."""
    values = partition["eigenvalues"].values
    n_cells = partition.sizes["cell"]
    values = values[: max(12, 2 * n_cells)]
    axes.set(xlabel="number", ylabel="eigenvalue", title="Spectrum of the affinity")
    if np.isnan(values).all():
        axes.text(0.5, 0.5, "no spectrum: k-means", ha="center", transform=axes.transAxes)
        return
    number = np.arange(1, len(values) + 1)
    axes.plot(number[n_cells:], values[n_cells:], "o", color=GREY, mfc="white", label="others")
    axes.plot(
        number[:n_cells],
        values[:n_cells],
        "o",
        color=COLOURS[0],
        label="as many as there are cells",
    )
    if n_cells < len(values):
        axes.axvspan(n_cells, n_cells + 1, color=COLOURS[4], alpha=0.2, lw=0)
        axes.annotate(
            f"gap {values[n_cells - 1] - values[n_cells]:.2g}",
            (n_cells + 0.5, 0.04),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=9,
        )
    axes.legend(fontsize=8)
    axes.grid(axis="y", alpha=0.3)


def draw_valleys(axes: Any, partition: xr.Dataset) -> None:
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
        (apart, COLOURS[0], "has a cell of its own"),
        (~apart, "#BBBBBB", "joined to its neighbour"),
    ):
        if np.any(depth[which] > 0):
            axes.bar(number[which], depth[which], color=shade, label=label)
    if not np.any(depth > 0):
        axes.text(0.5, 0.5, "no valley: one mode", ha="center", transform=axes.transAxes)
    valley = float(partition.attrs["valley"])
    if np.isfinite(valley):
        axes.axhline(valley, color=COLOURS[1], lw=1.2, ls="--", label=f"threshold {valley:g}")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, max(2.0, 6.0 * float(depth.max())))  # room for the legend
    axes.set_xlim(0.4, len(depth) + 0.6)
    axes.set_xticks(number[:: max(1, -(-len(number) // 12))])
    axes.legend(fontsize=8)
    axes.grid(axis="y", alpha=0.3)


def draw_acceptance(axes: Any, exploration: xr.Dataset) -> None:
    """Draw the acceptance of swaps and of local moves along the ladder."""
    rung = np.arange(exploration.sizes["temperature"])
    axes.plot(
        rung, exploration["acceptance"].values, "s-", color=COLOURS[4], ms=4, label="local moves"
    )
    axes.plot(
        rung[:-1] + 0.5,
        1 - exploration["rejection"].values,
        "o-",
        color=COLOURS[0],
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


def draw_barrier(axes: Any, exploration: xr.Dataset) -> None:
    """Draw the rejection per unit of inverse temperature."""
    betas = exploration["betas"].values
    density = exploration["rejection"].values / np.diff(betas)
    # The first rung is zero and would be off a logarithmic axis: start half a step below the next.
    edges = np.concatenate([[betas[1] / 2], betas[1:]])
    axes.stairs(density, edges, color=COLOURS[0], fill=True, alpha=0.35)
    axes.stairs(density, edges, color=COLOURS[0], lw=1.5)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="inverse temperature",
        ylabel="rejection per unit",
        title=f"Local barrier, {float(exploration['barrier']):.1f} in all",
    )
    axes.grid(alpha=0.3)


def draw_rounds(axes: Any, exploration: xr.Dataset) -> None:
    """Draw round trips and the evidence by round."""
    trips = exploration["round_round_trips"].values
    number = np.arange(1, len(trips) + 1)
    axes.bar(number, trips, color=COLOURS[5])
    axes.set(xlabel="round", title="Rounds")
    axes.set_ylabel("round trips (bars)", color=COLOURS[0])
    axes.set_xticks(number)
    axes.set_ylim(0, 1.15 * max(1, trips.max()))
    twin = axes.twinx()
    late = slice(len(trips) // 3, None)
    twin.errorbar(
        number[late],
        exploration["round_log_evidence"].values[late],
        2 * exploration["round_log_evidence_error"].values[late],
        color=COLOURS[1],
        fmt="s",
        ms=5,
        capsize=3,
    )
    twin.set_ylabel("log evidence (points)", color=COLOURS[1])


def most_different(draws: list[np.ndarray], most: int) -> np.ndarray:
    """Columns in which the cells' means differ most, relative to their spread, in their order."""
    means = np.array([d.mean(axis=0) for d in draws])
    spread = np.mean([d.std(axis=0) for d in draws], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(spread > 0, np.ptp(means, axis=0) / spread, 0.0)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def draw_densities(axes: Any, draws: list[np.ndarray], weights: np.ndarray, name: str) -> None:
    """Draw each cell's density of one parameter, times its weight."""
    for k, x in enumerate(draws):
        if np.ptp(x) == 0:
            axes.axvline(x[0], color=colour(k), label=str(k))
            continue
        pad = 0.15 * np.ptp(x)
        grid = np.linspace(x.min() - pad, x.max() + pad, GRID)
        density = weights[k] * gaussian_kde(x[:: max(1, len(x) // 2000)])(grid)
        axes.plot(grid, density, color=colour(k), lw=1.5, label=str(k))
        axes.fill_between(grid, density, color=colour(k), alpha=0.2, lw=0)
        top = int(density.argmax())
        axes.plot(grid[top], density[top], marker=marker(k), color=colour(k), ms=5)
    axes.set(xlabel=name, ylim=(0, None))
    axes.set_yticks([])


def draw_forest(axes: Any, draws: list[np.ndarray], names: list[str]) -> None:
    """Draw a line per parameter and cell: median, half of the mass, and most of it."""
    n_cells = len(draws)
    probabilities = [0.5, 0.25, 0.75, (1 - WIDE) / 2, (1 + WIDE) / 2]
    height = np.linspace(-0.36, 0.36, n_cells) if n_cells > 1 else np.zeros(1)
    for k, x in enumerate(draws):
        median, inner_low, inner_high, low, high = np.quantile(x, probabilities, axis=0)
        y = np.arange(len(names)) + height[k]
        axes.hlines(y, low, high, color=colour(k), lw=1.0)
        axes.hlines(y, inner_low, inner_high, color=colour(k), lw=2.6)
        axes.plot(median, y, ls="none", marker=marker(k), ms=4, color=colour(k), label=str(k))
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color="#DDDDDD", lw=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set(title=f"Cells compared: median, 50 % and {WIDE:.0%}")
    if n_cells <= LABELLED_CELLS:
        axes.legend(title="cell", fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
