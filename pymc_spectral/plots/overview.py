"""The four pictures to look at first, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.findings import Finding
from pymc_spectral.diagnostics.learned_groups import tempered
from pymc_spectral.diagnostics.report import find
from pymc_spectral.plots.axes import make_axes, with_shared_parameters
from pymc_spectral.plots.cells import plot_cells
from pymc_spectral.plots.partition import plot_partition
from pymc_spectral.plots.spectrum import plot_spectrum
from pymc_spectral.plots.tempering import plot_tempering
from pymc_spectral.plots.weights import plot_weights

__all__ = ["plot_overview"]

NAMED_CODES = 3  # more would not fit into the title


@with_shared_parameters
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
    {idata}
    var_names : str or sequence of str, optional
        Passed to :func:`plot_partition`.
    {figsize}
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
    if tempered(groups) is not None:
        plot_tempering(idata, kind="acceptance", ax=four[3])
    else:
        plot_cells(idata, kind="forest", ax=four[3])
    if ax is None:
        four[0].figure.suptitle(_headline(groups["cells"], find(idata)))
    return four


def _headline(cells: xr.Dataset, findings: list[Finding]) -> str:
    """Say how many cells there are, the evidence with its error, and what was warned of."""
    codes = sorted({f.code for f in findings if f.severity == "warning"})
    more = len(codes) - NAMED_CODES
    few = ", ".join(codes[:NAMED_CODES]) + (f" and {more} more" if more > 0 else "")
    said = f"warnings: {few}" if codes else "no warnings"
    n = cells.sizes["cell"]
    total = float(cells["log_marginal_likelihood"])
    error = float(cells["log_marginal_likelihood_mcse"])
    digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 4)) if 0 < error < np.inf else 2
    total = round(total, digits) + 0.0  # no minus zero
    return (
        f"{n} cell{'s' if n > 1 else ''}, log marginal likelihood "
        f"{total:.{digits}f} ± {error:.{digits}f}, {said}"
    )
