"""NUTS in a cell: trajectories pass through the walls, draws do not.

A wall in the density ends every trajectory that touches it, and the half of the tree built last
is thrown away: where a cut runs through mass, NUTS slows to a random walk. But a trajectory need
not follow the density that is sampled. Here it follows the whole model's, wherever that leads, and
a point outside the cell gets weight zero when the next draw is chosen from the trajectory. The
integrator is still reversible and volume-preserving, and the weights are those of the restricted
target, so the chain is exact; and it crosses a stretch of another cell to reach a part of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.blocking import RaveledVars, StatsType
from pymc.step_methods.hmc.quadpotential import QuadPotential

from pymc_spectral._pymc import (
    RaveledFunction,
    TreeNUTS,
    WatchedIntegrator,
    WeighedTree,
    without_divergence,
)

__all__ = ["CellNUTS"]

NO_WEIGHT = -1e300
"""Log weight of a trajectory's point outside the cell.

Finite, since differences of infinities are undefined, but so low that it never counts against the
start of the trajectory, which is inside. A weight, not a log density: nothing to do with the codes
of :mod:`pymc_spectral.cells.restricted_target`, which NUTS never sees.
"""


class CellIntegrator(WatchedIntegrator):
    """Leapfrog on the whole model, which remembers where its last point was.

    Attributes
    ----------
    inside : bool
        Whether the point evaluated last lies in the cell.
    left_cell, saw_nan : bool
        Whether any point since the last call of `forget` was outside, or had a NaN log density.
    """

    def __init__(self, potential: QuadPotential, function: RaveledFunction):
        super().__init__(potential, function)
        self._function = function.function
        self.inside = True
        self.forget()

    def forget(self) -> None:
        """Begin another trajectory."""
        self.left_cell = False
        self.saw_nan = False

    def evaluate(self, q: np.ndarray, point_map_info: Any) -> tuple[Any, Any]:
        """Return the model's log density and gradient, and note where the point lies."""
        logp, gradient, self.inside = self._function(q)
        if logp != logp:  # only a NaN differs from itself
            self.saw_nan = True
        return logp, gradient


class CellTree(WeighedTree):
    """Trajectory whose points outside the cell have no weight."""

    __slots__ = ()

    def weigh(self, point: Any) -> Any:
        """Take the weight from a point outside."""
        if self.integrator.inside:
            return point
        self.integrator.left_cell = True
        return point._replace(log_size=NO_WEIGHT)


class CellNUTS(TreeNUTS):
    """NUTS restricted to the selected cell of a target.

    Its divergences are those of trajectories that stayed inside. One that passed through other
    cells, where the step size was not tuned, may fail there or after its return, and says nothing
    about this one; one that met a NaN is counted apart.

    Parameters
    ----------
    vars, **kwargs
        As for :class:`pymc.NUTS`.
    logp_dlogp_func : RaveledFunction
        Log density, gradient and membership of the cell.
    """

    tree_class = CellTree
    integrator_class = CellIntegrator
    integrator: CellIntegrator

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Make one draw."""
        self.integrator.forget()
        q, [stats] = super().astep(q0)
        if stats["diverging"] and (self.integrator.left_cell or self.integrator.saw_nan):
            stats = without_divergence(self, stats)
        return q, [stats]
