"""Which cells failed their checks so that something else should stand in for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from pymc_spectral.diagnostics.findings import Finding, Groups, cells_of, finding, value_of
from pymc_spectral.result.reweighting import DRAWS_BY_TEMPERING, MASS_BY_TEMPERING
from pymc_spectral.result.tempering_stands_in import Tempered

__all__ = ["FailedCells", "check_replaced", "failed_cells", "mended"]

# Chains that stayed in a part of their cell: neither their draws nor their bridge know of the rest,
# and all figures of their own, errors and effective draws, look as if all were well.
STUCK = frozenset({"several_modes", "unvisited"})
# What makes the bridge suspect, and the draws.
FAILS_MASS = STUCK | {"pareto_k", "bridge_not_converged", "bridge_disagreement"}
FAILS_DRAWS = STUCK | {"r_hat", "ess"}
# Distance in standard errors of both from which the bridge of a cell that was warned of, and
# tempering, do not say the same: by chance once in 22 times, but the cell is suspect already.
APART = 2.0
# Tempering's points replace draws where they are worth this many times as much: the gain must pay
# for statistics that no longer belong to the draws.
MORE_DRAWS = 2.0


@dataclass(frozen=True)
class FailedCells:
    """Cells that failed.

    Attributes
    ----------
    mass, draws : ndarray of bool, shape (cells,)
        Whose masses, and whose draws, are not to be believed.
    """

    mass: np.ndarray
    draws: np.ndarray

    def __bool__(self) -> bool:
        """Return whether any did."""
        return bool(self.mass.any() or self.draws.any())


def failed_cells(groups: Groups, findings: Sequence[Finding], tempered: Tempered) -> FailedCells:
    """Return the cells that failed, where tempering knows better.

    Of chains that are stuck nothing is believed. Any other warning is no proof: a bridge that
    agrees with tempering within the errors of both, and is the more accurate, stays, and so does a
    chain with more effective draws.

    Parameters
    ----------
    groups : dict of Dataset
        The result.
    findings : sequence of Finding
    tempered : Tempered
        What tempering says about the cells.
    """
    cells = groups["cells"]
    warned = {code: _cells_with(findings, code) for code in FAILS_MASS | FAILS_DRAWS}
    n_effective = tempered.n_effective
    mass = np.zeros(cells.sizes["cell"], dtype=bool)
    draws = mass.copy()
    contradicted = _contradicted(cells, tempered)
    for cell in cells_of(cells):
        stuck = any(cell in warned[code] for code in STUCK)
        suspect = any(cell in warned[code] for code in FAILS_MASS)
        slow = any(cell in warned[code] for code in FAILS_DRAWS)
        few = value_of(cells, "ess_bulk", cell) * MORE_DRAWS < n_effective[cell]
        mass[cell] = stuck or (suspect and contradicted[cell])
        draws[cell] = stuck or (slow and few)
    known = n_effective >= 1
    return FailedCells(mass & known, draws & known)


def _contradicted(cells: xr.Dataset, tempered: Tempered) -> np.ndarray:
    """Return where weight or evidence disagree with tempering's, or are the less accurate."""
    weight, mcse = cells["weight"].values, cells["weight_mcse"].values
    share, error = tempered.share, tempered.share_error
    apart = np.abs(weight - share) > APART * np.hypot(mcse, error)
    total = float(cells["log_marginal_likelihood"]) - tempered.log_evidence
    total_mcse = float(cells["log_marginal_likelihood_mcse"])
    evidence_apart = abs(total) > APART * np.hypot(total_mcse, tempered.log_evidence_error)
    return apart | evidence_apart | (mcse > error) | (total_mcse > tempered.log_evidence_error)


def _cells_with(findings: Sequence[Finding], code: str) -> set[int | None]:
    """Return the cells that a warning is about."""
    return {f.cell for f in findings if f.code == code and f.severity == "warning"}


def check_replaced(groups: Groups) -> list[Finding]:
    """Say which cells have their mass or their draws from tempering."""
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        mass, draws = (
            value_of(cells, name, cell) == 1 for name in (MASS_BY_TEMPERING, DRAWS_BY_TEMPERING)
        )
        if mass or draws:
            what = "weight and draws" if mass and draws else "weight" if mass else "draws"
            words = {"what": what, "verb": "is that" if what == "weight" else "are those"}
            found.append(finding("by_tempering", "warning", cell, float(mass + draws), **words))
    return found


def mended(groups: Groups, findings: Sequence[Finding]) -> list[Finding]:
    """Make information of warnings about what tempering has replaced."""
    cells = groups["cells"]

    def settled(f: Finding) -> bool:
        if f.cell is None or f.code == "by_tempering":
            return False
        mass, draws = (
            value_of(cells, name, f.cell) == 1 for name in (MASS_BY_TEMPERING, DRAWS_BY_TEMPERING)
        )
        of_mass, of_draws = f.code in FAILS_MASS, f.code in FAILS_DRAWS
        return (of_mass or of_draws) and (mass or not of_mass) and (draws or not of_draws)

    return [replace(f, severity="info") if settled(f) else f for f in findings]
