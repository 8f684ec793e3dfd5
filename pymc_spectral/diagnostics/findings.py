"""What a check can find: codes, and one finding as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import xarray as xr

__all__ = ["CODES", "Finding", "Groups", "Severity", "cells_of", "value_of"]

Severity = Literal["info", "warning"]

CODES: dict[str, str] = {
    "r_hat": "chains of one cell, or halves of its only chain, disagree",
    "ess": "a cell has few effective draws",
    "divergences": "true divergences, not due to the boundary",
    "nan_logp": "the model's log density was NaN",
    "several_modes": "a cell holds more than one mode, and its chains do not cross",
    "unvisited": "chains did not reach a part of what exploration saw in their cell",
    "boundary": "transitions often end at the boundary: it cuts through mass",
    "share_inside": "the bridge's proposal misses the cell",
    "pareto_k": "a few terms dominate the bridge",
    "bridge_disagreement": "chains or refits of one cell give different masses",
    "bridge_not_converged": "the bridge's equation was not solved",
    "weight_error": "a weight, or the evidence, is known too poorly",
    "occupancy": "weights differ from the shares of tempering's points",
    "evidence": "the evidence differs from that of tempering",
    "round_trips": "tempering hardly renewed its coldest replicas",
    "not_settled": "tempering was still changing when it stopped",
    "local_moves": "tempering hardly moved at some temperature",
    "one_temperature": "no replica of tempering but cold ones was ever in a cell",
    "rarely_seen": "tempering met a mode in few stretches of its run",
    "wandering": "chains went where exploration had no points",
    "few_landmarks": "a cell was learned from very few landmarks",
    "few_points": "the partition was learned from few points",
    "too_few_cells": "more modes were seen than there are cells",
    "too_many_cells": "there are more cells than modes were seen",
    "one_cell": "one mode was found: nothing to partition",
}
"""Every code that a finding can have, and what it says."""


@dataclass(frozen=True)
class Finding:
    """One thing to know about a result.

    Attributes
    ----------
    code : str
        One of `CODES`.
    severity : {"info", "warning"}
        ``"warning"``: some number in the result should not be believed as it stands.
    cell : int or None
        Cell concerned; None for the whole result.
    value : float
        The figure that gave rise to it.
    message : str
        What was seen.
    advice : str
        What to do.
    """

    code: str
    severity: Severity
    cell: int | None
    value: float
    message: str
    advice: str


Groups = dict[str, xr.Dataset]
"""Groups of a result by name."""


def cells_of(cells: xr.Dataset) -> range:
    """Numbers of the cells."""
    return range(cells.sizes["cell"])


def value_of(group: xr.Dataset, name: str, cell: int) -> float:
    """One figure of a cell, NaN where it was not recorded: no comparison with it holds."""
    return float(group[name].values[cell]) if name in group else float("nan")
