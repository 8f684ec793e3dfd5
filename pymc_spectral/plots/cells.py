"""Pictures of each cell's posterior beside that of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from scipy.stats import gaussian_kde

from pymc_spectral._inference_data import columns_of, open_groups
from pymc_spectral._validate import one_of
from pymc_spectral.bridge.weights import cell_of_chain
from pymc_spectral.plots.axes import make_axes, with_shared_parameters
from pymc_spectral.plots.palette import LABELED_CELLS, color, marker

__all__ = ["plot_cells"]

CellsKind = Literal["auto", "density", "forest"]

MOST_PARAMETERS = 12
MOST_DENSITIES = 4
KDE_DRAWS = 2000  # more make the same curve, and take longer
GRID = 200  # points of a curve
WIDE = 0.94  # share of the mass within the thin lines, ArviZ's former default


@with_shared_parameters
def plot_cells(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    kind: CellsKind = "auto",
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> Any:
    """Compare the posterior of each cell with that of the others.

    Parameters
    ----------
    {idata}
    var_names : str or sequence of str, optional
        Variables to show; with a leading ``~``, variables to leave out. Default: all, but no more
        than 12 parameters, those in which the cells differ most.
    kind : {"auto", "density", "forest"}
        ``"density"``: one picture per parameter, each cell's density times its weight.
        ``"forest"``: one picture, a line per parameter and cell: median, half and 94 % of the
        mass. ``"auto"`` takes densities for up to four parameters.
    {figsize}
    ax : matplotlib Axes or array of them, optional
        Where to draw: one for ``"forest"``, one per parameter for ``"density"``.

    Returns
    -------
    matplotlib Axes or array of them
    """
    one_of("kind", kind, get_args(CellsKind))
    groups = open_groups(idata)
    weights = groups["cells"]["weight"].values
    names, values = columns_of(groups["cell_posterior"], var_names)
    own = cell_of_chain(groups["cell_sample_stats"])
    draws = [values[own == k].reshape(-1, len(names)) for k in range(len(weights))]
    if kind == "auto":
        kind = "density" if len(names) <= MOST_DENSITIES else "forest"
    shown = _most_different(draws, MOST_PARAMETERS)
    if kind == "density":
        many = make_axes(ax, figsize or (min(3.6 * len(shown), 14.4), 3.2), 1, len(shown))
        many = np.atleast_1d(many)
        for one, column in zip(many, shown, strict=True):
            _draw_densities(one, [d[:, column] for d in draws], weights, names[column])
        many[0].set_ylabel("density × weight")
        many[-1].legend(title="cell", fontsize=8, ncols=1 + len(weights) // 9)
        return many
    lines = len(shown) * len(weights)
    axes = make_axes(ax, figsize or (6.4, float(np.clip(1.2 + 0.13 * lines, 3.2, 12.0))))
    _draw_forest(axes, [d[:, shown] for d in draws], [names[c] for c in shown])
    if len(shown) < len(names):
        axes.set_title(f"Cells compared: the {len(shown)} of {len(names)} that differ most")
    return axes


def _most_different(draws: list[np.ndarray], most: int) -> np.ndarray:
    """Return the columns in which the cells' means differ most for their spread, in their order."""
    means = np.array([d.mean(axis=0) for d in draws])
    spread = np.mean([d.std(axis=0) for d in draws], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(spread > 0, np.ptp(means, axis=0) / spread, 0.0)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def _draw_densities(axes: Any, draws: list[np.ndarray], weights: np.ndarray, name: str) -> None:
    """Draw each cell's density of one parameter, times its weight."""
    for k, x in enumerate(draws):
        if np.ptp(x) == 0:
            axes.axvline(x[0], color=color(k), label=str(k))
            continue
        pad = 0.15 * np.ptp(x)
        grid = np.linspace(x.min() - pad, x.max() + pad, GRID)
        density = weights[k] * gaussian_kde(x[:: max(1, len(x) // KDE_DRAWS)])(grid)
        axes.plot(grid, density, color=color(k), lw=1.5, label=str(k))
        axes.fill_between(grid, density, color=color(k), alpha=0.2, lw=0)
        top = int(density.argmax())
        axes.plot(grid[top], density[top], marker=marker(k), color=color(k), ms=5)
    axes.set(xlabel=name, ylim=(0, None))
    axes.set_yticks([])


def _draw_forest(axes: Any, draws: list[np.ndarray], names: list[str]) -> None:
    """Draw a line per parameter and cell: median, half of the mass, and most of it."""
    n_cells = len(draws)
    probabilities = [0.5, 0.25, 0.75, (1 - WIDE) / 2, (1 + WIDE) / 2]
    height = np.linspace(-0.36, 0.36, n_cells) if n_cells > 1 else np.zeros(1)
    for k, x in enumerate(draws):
        median, inner_low, inner_high, low, high = np.quantile(x, probabilities, axis=0)
        y = np.arange(len(names)) + height[k]
        axes.hlines(y, low, high, color=color(k), lw=1.0)
        axes.hlines(y, inner_low, inner_high, color=color(k), lw=2.6)
        axes.plot(median, y, ls="none", marker=marker(k), ms=4, color=color(k), label=str(k))
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color="#DDDDDD", lw=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set(title=f"Cells compared: median, 50 % and {WIDE:.0%}")
    if n_cells <= LABELED_CELLS:
        axes.legend(title="cell", fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
