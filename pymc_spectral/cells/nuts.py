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
import pymc as pm
from pymc.blocking import RaveledVars, StatsType
from pymc.step_methods.hmc.base_hmc import HMCStepData
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from pymc.step_methods.hmc.nuts import _Tree

from pymc_spectral.cells.target import CellFunction

__all__ = ["CellNUTS"]

# Log weight of a point outside: finite, since differences of infinities are undefined, but so low
# that it never counts against the start of the trajectory, which is inside.
NO_WEIGHT = -1e300


class CellIntegrator(CpuLeapfrogIntegrator):
    """Leapfrog on the whole model, which remembers where its last point was.

    Attributes
    ----------
    inside : bool
        Whether the point evaluated last lies in the cell.
    left_cell, saw_nan : bool
        Whether any point since they were last reset was outside, or had a NaN log density.
    """

    def __init__(self, potential: Any, function: CellFunction):
        super().__init__(potential, function)
        self._function = function._pytensor_function
        self._logp_dlogp_func = self._evaluate
        self.inside = True
        self.left_cell = False
        self.saw_nan = False

    def _evaluate(self, q: np.ndarray, _: Any) -> tuple[Any, Any]:
        logp, gradient, self.inside = self._function(q)
        if logp != logp:
            self.saw_nan = True
        return logp, gradient


class CellTree(_Tree):
    """Trajectory whose points outside the cell have no weight."""

    __slots__ = ()

    def _single_step(self, left: State, epsilon: float) -> Any:
        subtree, divergence, turning = super()._single_step(left, epsilon)
        if not self.integrator.inside:
            self.integrator.left_cell = True
            subtree = subtree._replace(log_size=NO_WEIGHT)
        return subtree, divergence, turning


class CellNUTS(pm.NUTS):
    """NUTS restricted to the selected cell of a target.

    Parameters
    ----------
    vars, **kwargs
        As for :class:`pymc.NUTS`.
    logp_dlogp_func : CellFunction
        Log density, gradient and membership of the cell.
    """

    integrator: CellIntegrator

    def __init__(self, vars: Any = None, *, logp_dlogp_func: CellFunction, **kwargs: Any):
        super().__init__(vars, logp_dlogp_func=logp_dlogp_func, **kwargs)
        self.use_potential(self.potential)

    def use_potential(self, potential: Any) -> None:
        """Take another mass matrix."""
        self.potential = potential
        self.integrator = CellIntegrator(potential, self._logp_dlogp_func)

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Make one draw."""
        self.integrator.left_cell = False
        self.integrator.saw_nan = False
        return super().astep(q0)

    def _hamiltonian_step(self, start: State, p0: np.ndarray, step_size: float) -> HMCStepData:
        # PyMC's loop, with our tree: the class is not a parameter there.
        early = self.tune and self.iter_count < 200
        max_treedepth = self.early_max_treedepth if early else self.max_treedepth
        tree = CellTree(len(p0), self.integrator, start, step_size, self.Emax, rng=self.rng)
        divergence, turning = None, False
        while tree.depth < max_treedepth and not (divergence or turning):
            direction = 1 if self.rng.random() < 0.5 else -1
            divergence, turning = tree.extend(direction)
        stats = tree.stats()
        stopped = bool(divergence or turning)
        stats["reached_max_treedepth"] = not stopped and not self.tune
        return HMCStepData(tree.proposal, stats["mean_tree_accept"], divergence, stats)
