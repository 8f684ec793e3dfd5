"""Kernels without gradients: the paper's random walk, and any other PyMC step method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pymc as pm
from pymc.blocking import PointType
from pymc.step_methods.compound import BlockedStep
from pymc.step_methods.metropolis import MultivariateNormalProposal

from pymc_spectral._pymc import setup_kernel
from pymc_spectral.cells.initial_scales import walk_covariance
from pymc_spectral.cells.kernel_protocol import Draw, Order
from pymc_spectral.cells.restricted_target import Verdict, verdict

__all__ = ["AnyStep", "JointMetropolis", "JointWalk"]

NEVER = 2**62
"""Draws between two tunings of a proposal that is not tuned: PyMC counts down from it."""
SLICE_STEPS = ("nstep_out", "nstep_in")
"""Stats of PyMC's slice sampler that count its evaluations."""


class JointMetropolis(pm.Metropolis):
    """Random-walk Metropolis that moves all coordinates at once, as the paper's does.

    PyMC's own accepts or rejects coordinate by coordinate.
    """

    def __init__(self, vars: Any = None, **kwargs: Any):
        super().__init__(vars, **kwargs)
        self.elemwise_update = False
        self.enum_dims = np.arange(1)
        self.accept_rate_iter = np.zeros(1)
        self.accepted_iter = np.zeros(1, dtype=bool)
        self.accepted_sum = np.zeros(1, dtype=int)


class JointWalk:
    """Metropolis by all coordinates at once: the paper's kernel with its Q, or tuned.

    Parameters
    ----------
    step : JointMetropolis
    scales : callable, optional
        Covariance of the proposal for the landmarks of a cell; None if the user chose one.
    """

    def __init__(self, step: JointMetropolis, scales: Callable[[np.ndarray], np.ndarray] | None):
        self.step: Any = step
        self._scales = scales
        self._untouched = step.sampling_state

    @classmethod
    def on(cls, order: Order) -> Self:
        """Make the kernel."""
        if order.sets("S", "proposal_dist", "scaling"):
            return cls(order.construct(), None)
        if order.Q is None:
            return cls(order.construct(), walk_covariance)
        # The paper's Q is the same in all cells and never tuned.
        Q = order.Q
        return cls(order.construct({"tune_interval": NEVER}), lambda members: Q)

    def begin(self, members: np.ndarray, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget the previous chain, and take the proposal of the cell."""
        self.step.sampling_state = self._untouched
        self._propose_as(members)
        setup_kernel(self.step, rng, tune, draws)

    def _propose_as(self, members: np.ndarray) -> None:
        """Take the proposal of the cell that these landmarks are of."""
        if self._scales is not None:
            self.step.proposal_dist = MultivariateNormalProposal(self._scales(members))

    def admit(self, state: Any, members: np.ndarray) -> None:
        """Take the proposal of the cell: PyMC's state has its scaling, but not its covariance."""
        self._propose_as(members)

    def draw(self, point: PointType) -> Draw:
        """Make one draw; the change of log density of the proposal tells where it fell."""
        point, [stats] = self.step.step(point)
        met = verdict(float(np.ravel(self.step.accept_rate_iter)[0]))
        return Draw(point, stats, met is Verdict.OUTSIDE, met is Verdict.NAN)


class AnyStep:
    """Slice, and step methods of which nothing is known.

    They try many points a draw, and a rejection on the way means nothing.

    Parameters
    ----------
    step : BlockedStep
    """

    def __init__(self, step: BlockedStep):
        self.step = step
        self._untouched = step.sampling_state

    @classmethod
    def on(cls, order: Order) -> Self:
        """Make the kernel."""
        return cls(order.construct())

    def begin(self, members: np.ndarray, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget the previous chain."""
        self.step.sampling_state = self._untouched
        setup_kernel(self.step, rng, tune, draws)

    def admit(self, state: Any, members: np.ndarray) -> None:
        """Do nothing: the state is all there is."""

    def draw(self, point: PointType) -> Draw:
        """Make one draw."""
        point, [stats] = self.step.step(point)
        tried = (stats[name] for name in SLICE_STEPS if name in stats)
        return Draw(point, stats, work=1.0 + sum(float(np.sum(n)) for n in tried))
