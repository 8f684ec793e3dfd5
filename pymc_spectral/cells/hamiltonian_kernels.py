"""Kernels that follow trajectories: Hamiltonian step methods.

Two kinds: trajectories that pass through the walls of the cell, those of
:mod:`pymc_spectral.cells.wall_crossing_nuts`, and those of other Hamiltonian step methods, which
end there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pymc as pm
from pymc.blocking import PointType
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pymc.step_methods.hmc.quadpotential import QuadPotential

from pymc_spectral._pymc import (
    forget_trajectories,
    setup_kernel,
    start_alike,
    use_mass_matrix,
    without_divergence,
)
from pymc_spectral.cells.initial_scales import mass_matrix
from pymc_spectral.cells.kernel_protocol import Draw, Order
from pymc_spectral.cells.restricted_target import Verdict, verdict

__all__ = ["CellTrajectories", "WalledTrajectories"]

MassMatrix = Callable[[np.ndarray, np.random.Generator], QuadPotential]


class _Trajectories:
    """What all Hamiltonian kernels share: a mass matrix that starts at the landmarks of the cell.

    Parameters
    ----------
    step : BaseHMC
    scales : callable, optional
        Mass matrix for the landmarks of a cell; None if the user chose one.
    """

    def __init__(self, step: BaseHMC, scales: MassMatrix | None):
        self.step: Any = step
        self._scales = scales

    def begin(self, members: np.ndarray, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget the previous chain, and start the mass matrix at the landmarks of the cell."""
        if self._scales is not None:
            use_mass_matrix(self.step, self._scales(members, rng.spawn(1)[0]))
        forget_trajectories(self.step)
        setup_kernel(self.step, rng, tune, draws)

    def admit(self, state: Any, members: np.ndarray) -> None:
        """Let the mass matrix have started where that of the state did, in its own cell."""
        start_alike(self.step.potential, state.potential)


class CellTrajectories(_Trajectories):
    """NUTS whose trajectories pass through walls: the default."""

    @classmethod
    def on(cls, order: Order) -> Self:
        """Make the kernel."""
        scales, options = _mass_matrix(order)
        # A pickle or a reset never sees this function: it is compiled with the kernel.
        options["logp_dlogp_func"] = order.target.compile_for_nuts(**order.compile_kwargs)
        return cls(order.construct(options, compile_kwargs={}), scales)

    def draw(self, point: PointType) -> Draw:
        """Make one draw; leaving the cell on the way is no rejection."""
        point, [stats] = self.step.step(point)
        seen = self.step.integrator
        return Draw(
            point, stats, seen.left_cell, seen.saw_nan, stats["model_logp"], stats["tree_size"]
        )


class WalledTrajectories(_Trajectories):
    """Other Hamiltonian step methods: a trajectory ends at a wall, as a divergence does."""

    @classmethod
    def on(cls, order: Order) -> Self:
        """Make the kernel."""
        scales, options = _mass_matrix(order)
        return cls(order.construct(options), scales)

    def draw(self, point: PointType) -> Draw:
        """Make one draw; the energy at which a trajectory ended tells why."""
        point, [stats] = self.step.step(point)
        # NUTS reports the log density of the draw, others that of the trajectory's end.
        logp = stats["model_logp"] if isinstance(self.step, pm.NUTS) else None
        work = float(stats.get("tree_size", stats.get("n_steps", 1.0)))
        if not stats["diverging"]:
            return Draw(point, stats, logp=logp, work=work)
        error = stats.get("max_energy_error", stats.get("energy_error", 0.0))
        met = verdict(-abs(error))
        if met is not Verdict.INSIDE:
            stats = without_divergence(self.step, stats)
        return Draw(point, stats, met is Verdict.OUTSIDE, met is Verdict.NAN, logp, work)


def _mass_matrix(order: Order) -> tuple[MassMatrix | None, dict[str, Any]]:
    """Return what makes the mass matrix of each chain, and the options that prepare for it."""
    if order.sets("potential", "scaling"):
        return None, {}
    # Of the class that every chain will have: PyMC restores states only within a class.
    first = mass_matrix(np.eye(order.target.dim), np.random.default_rng(0))
    return mass_matrix, {"potential": first}
