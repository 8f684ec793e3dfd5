"""Which cells failed their checks so that something else should stand in for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_spectral.diagnostics.findings import Finding, Groups, cells_of, finding, value_of
from pymc_spectral.result.reweighting import DRAWS_BY_TEMPERING, MASS_BY_TEMPERING

__all__ = ["FailedCells", "check_replaced", "failed_cells", "mended"]

# What says that the mass of a cell is not that of its bridge: the bridge itself, or chains that
# stayed in a part of their cell.
FAILS_MASS = frozenset(
    {"pareto_k", "bridge_not_converged", "several_modes", "unvisited", "bridge_disagreement"}
)
# What says that the draws are not those of the cell.
FAILS_DRAWS = frozenset({"several_modes", "unvisited", "r_hat"})


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


def failed_cells(
    groups: Groups, findings: Sequence[Finding], n_effective: np.ndarray, share_error: np.ndarray
) -> FailedCells:
    """Return the cells that failed, where tempering knows better.

    Parameters
    ----------
    groups : dict of Dataset
        The result.
    findings : sequence of Finding
    n_effective : ndarray, shape (cells,)
        Independent points that tempering has in each cell.
    share_error : ndarray, shape (cells,)
        Standard errors of the shares of its points.
    """
    cells = groups["cells"]
    warned = {code: _cells_with(findings, code) for code in FAILS_MASS | FAILS_DRAWS}
    mass = np.zeros(cells.sizes["cell"], dtype=bool)
    draws = mass.copy()
    for cell in cells_of(cells):
        mass[cell] = any(cell in warned[code] for code in FAILS_MASS)
        # A chain that is slow, but has seen more than tempering, stays.
        draws[cell] = any(cell in warned[code] for code in FAILS_DRAWS) and (
            n_effective[cell] > value_of(cells, "ess_bulk", cell)
        )
    return FailedCells(mass & (n_effective >= 1), draws & (n_effective >= 1))


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
