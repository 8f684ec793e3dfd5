"""Values of the model's variables at the bridge's fresh points.

A fresh point is drawn and weighed in the chain's own process, as a vector of the unconstrained
space. What its variables and Deterministics are there is computed once, when all draws are in, by
the function with which PyMC records them, and kept beside the draws in the group ``cell_fresh``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._groups import close_groups, open_groups, stat_values
from pymc_spectral._progress import ScanProgress
from pymc_spectral._pymc import all_variables_at

__all__ = ["FRESH_POINT", "evaluate_fresh"]

FRESH_POINT = "fresh_point"
"""Sampler stat that carries a draw's fresh point, until the group ``cell_fresh`` is made."""


def evaluate_fresh(
    idata: Any, trace: Any, unravel: Callable[[np.ndarray], dict], *, progressbar: bool = False
) -> Any:
    """Replace the fresh points among the sampler stats by a group ``cell_fresh``.

    Parameters
    ----------
    idata : InferenceData or DataTree
        Chains as they ran, with the stat ``fresh_point``.
    trace : MultiTrace
        What `idata` was made from.
    unravel : callable
        Turns an unconstrained vector into a point of the model.
    progressbar : bool
        Show the progress if it takes longer than a second: as long as PyMC takes to record as many
        draws, so that it is the model's Deterministics that decide.

    Returns
    -------
    InferenceData or DataTree
        ``cell_fresh`` has the variables of ``posterior``, in the same shape; NaN at points outside
        their cell, whose values no estimate uses. Without that group, and with a warning, if a
        variable cannot be evaluated there, or on Ctrl-C: draws and weights do not depend on it.
    """
    groups = dict(open_groups(idata))
    stats, posterior = groups["sample_stats"], groups["posterior"]
    points = stats[FRESH_POINT].transpose("chain", "draw", ...).values
    for name in ("sample_stats", "warmup_sample_stats"):
        if name in groups and FRESH_POINT in groups[name]:
            dims = groups[name][FRESH_POINT].dims[2:]
            groups[name] = groups[name].drop_vars(FRESH_POINT).drop_vars(dims, errors="ignore")
    inside = stat_values(stats, "log_target_fresh") > -np.inf
    try:
        with ScanProgress(progressbar) as progress:
            groups["cell_fresh"] = _values(posterior, trace, unravel, points, inside, progress)
    except (Exception, KeyboardInterrupt):
        # Hours of sampling are worth more than these points, to who interrupts here too.
        logging.getLogger("pymc.pymc_spectral").warning(
            "The model's variables could not be computed at the bridge's fresh points, so that "
            "summary will use the draws alone; draws and weights are complete.",
            exc_info=True,
        )
    return close_groups(groups, like=idata)


def _values(
    posterior: xr.Dataset,
    trace: Any,
    unravel: Callable[[np.ndarray], dict],
    points: np.ndarray,
    inside: np.ndarray,
    progress: ScanProgress,
) -> xr.Dataset:
    """Build the group: each variable of the posterior at every fresh point inside its cell."""
    names, compute = all_variables_at(trace)
    rows = list(zip(*np.nonzero(inside), strict=True))
    variables = {
        str(name): values.transpose("chain", "draw", ...)
        for name, values in posterior.data_vars.items()
        if name in names and values.dtype.kind in "fiub"
    }
    found = {name: np.full(values.shape, np.nan) for name, values in variables.items()}
    kept = [(found[n], k) for k, n in enumerate(names) if n in found]
    progress.start_round("Variables at the bridge's fresh points", len(rows))
    for row in rows:
        at_point = compute(*unravel(points[row]).values())
        for values, k in kept:
            values[row] = at_point[k]
        progress.advance()
    return posterior[list(variables)].assign(
        {name: (values.dims, found[name]) for name, values in variables.items()}
    )
