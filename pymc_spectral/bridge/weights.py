"""The names of the stats that every draw carries, and the cells' weights that follow from them.

:func:`weigh_arrays` is the computation, on arrays; :func:`weigh` takes the arrays out of sampler
stats. Nothing else is needed, so a file with the stats can be weighed again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_spectral._inference_data import stat_values
from pymc_spectral.bridge.estimate import (
    BridgeError,
    BridgeEstimate,
    BridgeKind,
    bridge_estimate,
)
from pymc_spectral.bridge.log_sums import log_sum

__all__ = [
    "BOUNDARY_HIT",
    "BRIDGE_STATS",
    "CELL",
    "FRESH_POINT",
    "JUMP_ACCEPTED",
    "LOG_PROPOSAL_DRAW",
    "LOG_PROPOSAL_FRESH",
    "LOG_TARGET_DRAW",
    "LOG_TARGET_FRESH",
    "MARK",
    "NAN_LOGP",
    "N_JUMPS",
    "PROPOSAL_FIT",
    "STATS",
    "WEIGHING_STATS",
    "CellWeights",
    "OtherMass",
    "Weighing",
    "cell_of_chain",
    "cell_weights",
    "weigh",
    "weigh_arrays",
]

CELL = "cell"
LOG_TARGET_DRAW = "log_target_draw"
LOG_PROPOSAL_DRAW = "log_proposal_draw"
LOG_TARGET_FRESH = "log_target_fresh"
LOG_PROPOSAL_FRESH = "log_proposal_fresh"
PROPOSAL_FIT = "proposal_fit"
BOUNDARY_HIT = "boundary_hit"
NAN_LOGP = "nan_logp"
N_JUMPS = "n_jumps"
JUMP_ACCEPTED = "jump_accepted"

FRESH_POINT = "fresh_point"
"""Sampler stat that carries a draw's proposed point, until the group ``cell_fresh`` is made."""

BRIDGE_STATS = (LOG_TARGET_DRAW, LOG_PROPOSAL_DRAW, LOG_TARGET_FRESH, LOG_PROPOSAL_FRESH)
"""The four bridge terms that every draw carries in its sampler stats."""

STATS: dict[str, tuple[Any, list[int]]] = {
    CELL: (np.int64, []),
    **{name: (np.float64, []) for name in BRIDGE_STATS},
    PROPOSAL_FIT: (np.int64, []),
    BOUNDARY_HIT: (bool, []),
    NAN_LOGP: (np.int64, []),
    N_JUMPS: (np.int64, []),
    JUMP_ACCEPTED: (np.int64, []),
}
"""Sampler stats of every draw, beside those of the kernel; see ``docs/result.md``."""

WEIGHING_STATS = (*BRIDGE_STATS, PROPOSAL_FIT, NAN_LOGP)
"""Stats about the weighing of one draw: without meaning for a row of the reweighted posterior."""

MARK = LOG_PROPOSAL_FRESH
"""Sampler stat by which a trace is recognized as ours: no other step method has it."""


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

    @property
    def chains_of_cell(self) -> list[np.ndarray]:
        """Indices of the chains that ran in each cell, in order."""
        return _chains_of_cell(self.cell_of_chain)


@dataclass(frozen=True)
class OtherMass:
    """The mass of a cell as it was found another way than by its bridge.

    Attributes
    ----------
    log_c, mcse : float
        Log of the mass and its standard error.
    """

    log_c: float
    mcse: float

    def instead_of(self, estimate: BridgeEstimate) -> BridgeEstimate:
        """Return the estimate of a cell with this mass: none of its rows has a say in it."""
        return replace(
            estimate,
            log_c=self.log_c,
            mcse=self.mcse,
            influence_draw=np.zeros_like(estimate.influence_draw),
            term_draw=np.ones_like(estimate.term_draw),
            term_fresh=np.ones_like(estimate.term_fresh),
            variance_draw=0.0,
            variance_fresh=self.mcse**2,
            variance_unseen=0.0,
            # All of the error is beyond what the rows show.
            excess=np.inf,
        )


@dataclass(frozen=True)
class CellWeights:
    """Weights of the cells and the evidence they add up to.

    Attributes
    ----------
    weight, weight_mcse : ndarray, shape (cells,)
        Posterior mass of each cell and its standard error.
    weight_cov : ndarray, shape (cells, cells)
        Covariance of the errors; rows sum to 0.
    log_evidence, log_evidence_mcse : ndarray, shape (cells,)
        Log mass of each cell, unnormalized, and its standard error.
    log_marginal_likelihood, log_marginal_likelihood_mcse : float
        Log of the summed masses and its standard error.
    """

    weight: np.ndarray
    weight_mcse: np.ndarray
    weight_cov: np.ndarray
    log_evidence: np.ndarray
    log_evidence_mcse: np.ndarray
    log_marginal_likelihood: float
    log_marginal_likelihood_mcse: float


def cell_weights(estimates: Sequence[BridgeEstimate]) -> CellWeights:
    """Turn the cells' masses into weights and the total evidence, errors by the delta method.

    Parameters
    ----------
    estimates : sequence of BridgeEstimate
        One per cell, from independent chains.

    Returns
    -------
    CellWeights

    Raises
    ------
    BridgeError
        When a cell's mass could not be estimated: one unknown mass leaves every weight unknown.
    """
    log_c = np.array([e.log_c for e in estimates])
    if not np.isfinite(log_c).all():
        bad = np.flatnonzero(~np.isfinite(log_c)).tolist()
        counts = ", ".join(f"cell {i}: 0 of {estimates[i].n_fresh}" for i in bad)
        raise BridgeError(
            f"No proposed point of the bridge's proposal fell inside its cell ({counts}), so the "
            "mass of the cell cannot be estimated. Tune longer (tune=2000), or choose fewer cells "
            "(n_cells=...): a cell cut through the middle of a mode is hard to propose into."
        )
    variance = np.array([e.mcse for e in estimates]) ** 2
    total = float(log_sum(log_c))
    weight = np.exp(log_c - total)
    weight /= weight.sum()
    jacobian = np.diag(weight) - np.outer(weight, weight)
    covariance = (jacobian * variance) @ jacobian.T
    return CellWeights(
        weight=weight,
        weight_mcse=np.sqrt(np.maximum(np.diag(covariance), 0.0)),
        weight_cov=covariance,
        log_evidence=log_c,
        log_evidence_mcse=np.sqrt(variance),
        log_marginal_likelihood=total,
        log_marginal_likelihood_mcse=float(np.sqrt(np.sum(weight**2 * variance))),
    )


def weigh(
    stats: xr.Dataset,
    kind: BridgeKind,
    n_cells: int | None = None,
    others: Mapping[int, OtherMass] | None = None,
) -> Weighing:
    """Compute the cells' weights from sampler stats.

    Parameters
    ----------
    stats : Dataset
        With dimensions chain and draw, and the stats ``cell`` and :data:`BRIDGE_STATS`;
        ``proposal_fit`` too, or each chain's proposal is taken to be one fit.
    kind : {"optimal", "geometric"}
        Bridge function.
    n_cells : int, optional
        Number of cells of the partition, to notice when the last ones have no chain. Default: one
        more than the highest cell seen.
    others : mapping, optional
        Masses of some cells to be taken instead of those by the bridge.
    """
    cells = cell_of_chain(stats)
    _refuse_missing_cells(cells, int(cells.max()) + 1 if n_cells is None else n_cells)
    terms = [stat_values(stats, name) for name in BRIDGE_STATS]
    fit = stat_values(stats, PROPOSAL_FIT) if PROPOSAL_FIT in stats else None
    return weigh_arrays(cells, terms, fit, kind, others)


def weigh_arrays(
    cell_of_chain: np.ndarray,
    terms: Sequence[np.ndarray],
    proposal_fit: np.ndarray | None,
    kind: BridgeKind,
    others: Mapping[int, OtherMass] | None = None,
) -> Weighing:
    """Compute the cells' weights from the bridge terms of all chains.

    Parameters
    ----------
    cell_of_chain : ndarray of int, shape (chains,)
        Cell in which each chain ran; each from 0 to the highest has at least one chain.
    terms : sequence of four ndarray, shape (chains, draws)
        Log target and log proposal at the draws, then at the proposed points.
    proposal_fit : ndarray of int, shape (chains, draws), or None
        Which fit of its chain's proposal each row used; None for one fit per chain.
    kind : {"optimal", "geometric"}
        Bridge function.
    others : mapping, optional
        Masses of some cells to be taken instead of those by the bridge.
    """
    members = _chains_of_cell(cell_of_chain)
    estimates = []
    for cell, mine in enumerate(members):
        try:
            estimate = bridge_estimate(
                *(term[mine] for term in terms),
                proposal_fit=None if proposal_fit is None else proposal_fit[mine],
                kind=kind,
                bounded=len(members) > 1,
            )
        except BridgeError as error:
            raise BridgeError(f"Cell {cell}: {error}") from None
        other = (others or {}).get(cell)
        estimates.append(estimate if other is None else other.instead_of(estimate))
    return Weighing(cell_of_chain, estimates, cell_weights(estimates))


def cell_of_chain(stats: xr.Dataset) -> np.ndarray:
    """Return the cell in which each chain ran, (chains,), after checking that it stayed there."""
    cell = stat_values(stats, CELL).astype(int)
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
    return cells


def _chains_of_cell(cell_of_chain: np.ndarray) -> list[np.ndarray]:
    """Return the indices of each cell's chains, from cell 0 to the highest."""
    return [np.flatnonzero(cell_of_chain == cell) for cell in range(int(cell_of_chain.max()) + 1)]


def _refuse_missing_cells(cells: np.ndarray, expected: int) -> None:
    """Raise unless every one of the expected cells, and no other, has a chain."""
    found = set(cells.tolist())
    empty = sorted(set(range(expected)) - found)
    if empty or cells.max() >= expected:
        raise BridgeError(
            f"The {cells.size} chains cover the cells {sorted(found)} of {expected}"
            + (f"; {empty} have no draws, so their weight is unknown" if empty else "")
            + f". Sample with chains={expected} or a multiple of it, and let every chain finish. "
            "The draws made so far are in the attribute idata of this error."
        )
