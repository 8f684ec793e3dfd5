"""What the chains' sampler stats say about the cells, and means over cells as strata.

A pure function from sampler stats to weights, :func:`weigh`, and the estimate of any posterior mean
that follows from it, :func:`stratified_mean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_spectral._autocorrelation import mean_variance
from pymc_spectral.bridge.estimate import (
    BridgeError,
    BridgeEstimate,
    BridgeKind,
    CellWeights,
    bridge_estimate,
    cell_weights,
)

__all__ = [
    "BRIDGE_STATS",
    "Weighing",
    "choose_variables",
    "columns_of",
    "stat_values",
    "stratified_mean",
    "weigh",
]

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


def stat_values(stats: xr.Dataset, name: str) -> np.ndarray:
    """Return one stat as a (chain, draw) array."""
    values = stats[name]
    extra = [d for d in values.dims if d not in ("chain", "draw")]
    if extra and all(values.sizes[d] == 1 for d in extra):
        values = values.squeeze(extra, drop=True)
        extra = []
    if extra:
        raise ValueError(f"The stat {name} has dimensions {values.dims}; expected chain and draw.")
    return values.transpose("chain", "draw").values


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


def stratified_mean(
    h: np.ndarray, weighing: Weighing, *, mcse: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate posterior means of functions of the draws, and their standard errors.

    Parameters
    ----------
    h : ndarray, shape (chains, draws, p)
        Values of p functions at the chains' draws.
    weighing : Weighing
        Weights and influences, from :func:`weigh`.
    mcse : bool
        Whether to compute the errors, which is most of the work; NaN otherwise.

    Returns
    -------
    mean, mcse : ndarray, shape (p,)
    """
    weight = weighing.weights.weight
    members = [np.flatnonzero(weighing.cell_of_chain == cell) for cell in range(weight.size)]
    means = np.array([h[mine].mean(axis=(0, 1)) for mine in members])
    mean = weight @ means
    if not mcse:
        return mean, np.full(h.shape[2], np.nan)
    variance = np.zeros(h.shape[2])
    for cell, mine in enumerate(members):
        estimate = weighing.estimates[cell]
        offset = means[cell] - mean
        # Rows left out of the bridge have no influence there, the others the more.
        a = estimate.influence_draw * (estimate.influence_draw.size / estimate.n_draws)
        series = h[mine] - means[cell] + offset * a[:, :, None]
        # Disagreement between the cell's chains that the series, centred by fit, does not show.
        unseen = estimate.variance_draw * (1.0 - 1.0 / estimate.excess)
        variance += weight[cell] ** 2 * (
            mean_variance(series) + offset**2 * (estimate.variance_fresh + unseen)
        )
    return mean, np.sqrt(variance)


def columns_of(
    group: xr.Dataset, var_names: str | Sequence[str] | None = None
) -> tuple[list[str], np.ndarray]:
    """Lay the numeric variables of a group side by side.

    Parameters
    ----------
    group : Dataset
        With dimensions chain and draw.
    var_names : str or sequence of str, optional
        Variables to keep, or, with a leading ``~``, to leave out. Default: all.

    Returns
    -------
    names : list of str
        ``"mu"``, ``"theta[Chicago]"``, ``"cov[0, 1]"``, as ArviZ writes them.
    values : ndarray, shape (chains, draws, len(names))
        Draws as floats.
    """
    chosen = choose_variables(group, var_names)
    names: list[str] = []
    parts: list[np.ndarray] = []
    for name in chosen:
        values = group[name]
        if not {"chain", "draw"} <= set(values.dims) or values.dtype.kind not in "fiub":
            continue
        values = values.transpose("chain", "draw", ...)
        dims = values.dims[2:]
        labels = [values[d].values if d in values.coords else range(values.sizes[d]) for d in dims]
        for index in np.ndindex(*values.shape[2:]):
            inside = ", ".join(str(labels[k][i]) for k, i in enumerate(index))
            names.append(f"{name}[{inside}]" if dims else name)
        parts.append(values.values.reshape(*values.shape[:2], -1).astype(float))
    shape = (group.sizes["chain"], group.sizes["draw"], 0)
    return names, np.concatenate(parts, axis=2) if parts else np.empty(shape)


def choose_variables(group: xr.Dataset, var_names: str | Sequence[str] | None = None) -> list[str]:
    """Resolve `var_names` as ArviZ does, refusing names that do not exist."""
    known = [str(name) for name in group.data_vars]
    if var_names is None:
        return known
    asked = [var_names] if isinstance(var_names, str) else list(var_names)
    plain = [name.removeprefix("~") if name not in known else name for name in asked]
    unknown = [name for name in plain if name not in known]
    if unknown:
        raise KeyError(f"var_names {unknown} not found; the posterior has {', '.join(known)}.")
    negated = [a != p for a, p in zip(asked, plain, strict=True)]
    if any(negated) and not all(negated):
        raise ValueError(f"var_names={asked} mixes names to keep and names to leave out (~).")
    return [n for n in known if n not in plain] if any(negated) else plain
