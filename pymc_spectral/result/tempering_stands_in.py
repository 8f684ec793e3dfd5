"""Tempering's own points in place of what a cell's chains or its bridge could not deliver.

The points at the cold end of parallel tempering are draws of the whole posterior, fewer and more
dependent than those of chains that mix, but right where these are not. Where a cell fails its
checks its mass, its draws or both are taken from them, with their larger errors: the result is then
never worse than the exploration that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_spectral.bridge.weights import OtherMass, Weighing

__all__ = ["Tempered", "masses_of", "with_draws_of"]


@dataclass(frozen=True)
class Tempered:
    """What tempering says about the cells.

    Attributes
    ----------
    points : sequence of ndarray, shape (n, d)
        Its points in each cell, in the order of time.
    share, share_error : ndarray, shape (cells,)
        Share of all of its points in each cell, with its standard error.
    log_evidence, log_evidence_error : float
        Log of the posterior's whole mass.
    n_independent : float
        Independent points that all of its points are worth.
    """

    points: Sequence[np.ndarray]
    share: np.ndarray
    share_error: np.ndarray
    log_evidence: float
    log_evidence_error: float
    n_independent: float

    @property
    def n_effective(self) -> np.ndarray:
        """Independent points in each cell, (cells,)."""
        counts = np.array([len(points) for points in self.points], dtype=float)
        return np.minimum(counts, self.n_independent * self.share)


def masses_of(tempered: Tempered, weighing: Weighing, failed: np.ndarray) -> dict[int, OtherMass]:
    """Return the masses of cells that failed, by tempering's shares.

    Parameters
    ----------
    tempered : Tempered
    weighing : Weighing
        What the bridge says of all cells.
    failed : ndarray of bool, shape (cells,)
        Cells whose bridge is not to be believed.

    Notes
    -----
    A share is a mass once one mass is known: that of the cells which have not failed, by their
    bridges, or that of the whole, by tempering's evidence. What has the smaller error is taken.
    """
    share, error = tempered.share, tempered.share_error
    healthy = ~failed
    scale, variance = tempered.log_evidence, tempered.log_evidence_error**2
    known = share[healthy].sum()
    if known > 0:
        log_c = np.array([e.log_c for e in weighing.estimates])[healthy]
        mcse = np.array([e.mcse for e in weighing.estimates])[healthy]
        total = np.logaddexp.reduce(log_c)
        # Shares add up to one: that of the healthy cells is as uncertain as that of the failed.
        error_known = np.sqrt(np.sum(error[failed] ** 2))
        other = np.sum(np.exp(log_c - total) ** 2 * mcse**2) + (error_known / known) ** 2
        if np.isfinite(total) and other < variance:
            scale, variance = total - np.log(known), other
    found = {}
    for cell in np.flatnonzero(failed & (share > 0)).tolist():
        mcse = np.sqrt(variance + (error[cell] / share[cell]) ** 2)
        found[cell] = OtherMass(float(scale + np.log(share[cell])), float(mcse))
    return found


def with_draws_of(
    tempered: Tempered,
    chains: xr.Dataset,
    cell_of_chain: np.ndarray,
    failed: np.ndarray,
    names: Sequence[str],
    compute: Callable[[np.ndarray], Sequence[np.ndarray]],
) -> xr.Dataset:
    """Replace the draws of cells that failed by tempering's points.

    Parameters
    ----------
    tempered : Tempered
    chains : Dataset
        Chains as they ran; not changed.
    cell_of_chain : ndarray of int, shape (chains,)
    failed : ndarray of bool, shape (cells,)
        Cells whose chains are not to be believed.
    names : sequence of str
        Names of the variables that `compute` returns.
    compute : callable
        Values of all variables at one unconstrained point (d,).

    Returns
    -------
    Dataset
        As many points as tempering's are worth, each repeated in a row, so that autocorrelations
        say how few they are.
    """
    new = chains.copy(deep=True)
    n_draws = chains.sizes["draw"]
    for cell in np.flatnonzero(failed).tolist():
        points = tempered.points[cell]
        n = max(1, int(tempered.n_effective[cell]))
        points = points[np.linspace(0, len(points) - 1, n).round().astype(int)]
        values = [compute(x) for x in points]
        mine = np.flatnonzero(cell_of_chain == cell)
        # The chains of the cell share the points out among them, in the order of time.
        row = np.arange(len(mine) * n_draws) * n // (len(mine) * n_draws)
        for k, name in enumerate(names):
            if name not in new.data_vars:
                continue
            array = new[name].transpose("chain", "draw", ...)
            filled = np.array([value[k] for value in values])[row]
            data = array.values.copy()
            data[mine] = filled.reshape(len(mine), n_draws, *data.shape[2:])
            new[name] = (array.dims, data)
    return new
