"""Values of the model's variables at the points that the bridge proposed.

A proposed point is drawn and weighed in the chain's own process, as a vector of the unconstrained
space. What its variables and Deterministics are there is computed once, when all draws are in, by
the function with which PyMC records them, and kept beside the draws in the group ``cell_fresh``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import stat_values
from pymc_spectral._progress import ScanProgress
from pymc_spectral.bridge.weights import FRESH_POINT, LOG_TARGET_FRESH

__all__ = ["with_proposed_points"]


def with_proposed_points(
    groups: dict[str, xr.Dataset],
    names: Sequence[str],
    compute: Callable[[np.ndarray], Sequence[np.ndarray]],
    *,
    progressbar: bool = False,
) -> dict[str, xr.Dataset]:
    """Replace the proposed points among the sampler stats by a group ``cell_fresh``.

    Parameters
    ----------
    groups : dict of Dataset
        Chains as they ran, with the stat ``fresh_point``; not changed.
    names : sequence of str
        Names of the variables that `compute` returns.
    compute : callable
        Values of all variables at one unconstrained point (d,).
    progressbar : bool
        Show the progress if it takes longer than a second: as long as PyMC takes to record as many
        draws, so that it is the model's Deterministics that decide.

    Returns
    -------
    dict of Dataset
        ``cell_fresh`` has the variables of ``posterior``, in the same shape; NaN at points outside
        their cell, whose values no estimate uses. Without that group, and with a warning, if a
        variable cannot be evaluated there, or on Ctrl-C: draws and weights do not depend on it.
    """
    groups = dict(groups)
    points = groups["sample_stats"][FRESH_POINT].transpose("chain", "draw", ...).values
    for name in ("sample_stats", "warmup_sample_stats"):
        if name in groups and FRESH_POINT in groups[name]:
            dims = groups[name][FRESH_POINT].dims[2:]
            groups[name] = groups[name].drop_vars(FRESH_POINT).drop_vars(dims, errors="ignore")
    inside = stat_values(groups["sample_stats"], LOG_TARGET_FRESH) > -np.inf
    try:
        with ScanProgress(progressbar) as progress:
            groups["cell_fresh"] = _values(
                groups["posterior"], names, compute, points, inside, progress
            )
    except (Exception, KeyboardInterrupt):
        # Ctrl-C here must not discard the draws, which are worth more than these points.
        logging.getLogger("pymc.pymc_spectral").warning(
            "The model's variables could not be computed at the bridge's proposed points, so that "
            "summary will use the draws alone; draws and weights are complete.",
            exc_info=True,
        )
    return groups


def _values(
    posterior: xr.Dataset,
    names: Sequence[str],
    compute: Callable[[np.ndarray], Sequence[np.ndarray]],
    points: np.ndarray,
    inside: np.ndarray,
    progress: ScanProgress,
) -> xr.Dataset:
    """Build the group: each variable of the posterior at every proposed point inside its cell."""
    rows = list(zip(*np.nonzero(inside), strict=True))
    variables = {
        str(name): values.transpose("chain", "draw", ...)
        for name, values in posterior.data_vars.items()
        if name in names and values.dtype.kind in "fiub"
    }
    found = {name: np.full(values.shape, np.nan) for name, values in variables.items()}
    kept = [(found[n], k) for k, n in enumerate(names) if n in found]
    progress.start_round("Variables at the bridge's proposed points", len(rows))
    for row in rows:
        at_point = compute(points[row])
        for values, k in kept:
            values[row] = at_point[k]
        progress.advance()
    return posterior[list(variables)].assign(
        {name: (values.dims, found[name]) for name, values in variables.items()}
    )
