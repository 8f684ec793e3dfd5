"""What the chains' sampler stats say about the cells, and means over cells as strata.

A pure function from sampler stats to weights, :func:`weigh`, and the estimate of any posterior mean
that follows from it, :func:`stratified_mean`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_spectral._groups import stat_values
from pymc_spectral.bridge.estimate import (
    BridgeError,
    BridgeEstimate,
    BridgeKind,
    CellWeights,
    bridge_estimate,
    cell_weights,
)

__all__ = ["BRIDGE_STATS", "Weighing", "weigh"]

BRIDGE_STATS = (
    "log_target_draw",
    "log_proposal_draw",
    "log_target_fresh",
    "log_proposal_fresh",
)
"""The four bridge terms that every draw carries in its sampler stats."""


@dataclass(frozen=True)
class Weighing:
    """What the bridge terms of all chains say.

    Attributes
    ----------
    cell_of_chain : ndarray of int, shape (chains,)
        Cell in which each chain ran.
    estimates : list of BridgeEstimate
        One per cell; rows of their arrays are the cell's chains in order.
    weights : CellWeights
        Weights, evidence and their errors.
    """

    cell_of_chain: np.ndarray
    estimates: list[BridgeEstimate]
    weights: CellWeights


def weigh(stats: xr.Dataset, kind: BridgeKind, n_cells: int | None = None) -> Weighing:
    """Compute the cells' weights from sampler stats (chain, draw), and from nothing else."""
    cell_of_chain = _cell_of_chain(stats, n_cells)
    terms = [stat_values(stats, name) for name in BRIDGE_STATS]
    fit = stat_values(stats, "proposal_fit") if "proposal_fit" in stats else None
    found = int(cell_of_chain.max()) + 1
    estimates = []
    for cell in range(found):
        mine = np.flatnonzero(cell_of_chain == cell)
        try:
            estimate = bridge_estimate(
                *(term[mine] for term in terms),
                proposal_fit=None if fit is None else fit[mine],
                kind=kind,
                bounded=found > 1,
            )
        except BridgeError as error:
            raise BridgeError(f"Cell {cell}: {error}") from None
        estimates.append(estimate)
    return Weighing(cell_of_chain, estimates, cell_weights(estimates))


def _cell_of_chain(stats: xr.Dataset, n_cells: int | None) -> np.ndarray:
    """Return the cell of each chain, after checking that all cells are there."""
    cell = stat_values(stats, "cell").astype(int)
    moved = np.flatnonzero((cell != cell[:, :1]).any(axis=1))
    if moved.size:
        k = int(moved[0])
        raise ValueError(
            f"Chain {stats['chain'].values[k]} was in the cells "
            f"{', '.join(map(str, np.unique(cell[k])))}; a chain must stay in one. The stats were "
            "altered, or they are those of a reweighted posterior without its cell_sample_stats."
        )
    cells = cell[:, 0]
    if cells.min() < 0:
        raise ValueError(f"The stat cell holds {cells.min()}; cells are counted from 0.")
    expected = int(cells.max()) + 1 if n_cells is None else n_cells
    empty = sorted(set(range(expected)) - set(cells.tolist()))
    if empty or cells.max() >= expected:
        raise BridgeError(
            f"The {cells.size} chains cover the cells {sorted(set(cells.tolist()))} of {expected}"
            + (f"; {empty} have no draws, so their weight is unknown" if empty else "")
            + f". Sample with chains={expected} or a multiple of it, and let every chain finish. "
            "The draws made so far are in the attribute idata of this error."
        )
    return cells
