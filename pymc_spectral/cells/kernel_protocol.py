"""What the step asks of a kernel, and what a kernel is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from pymc.blocking import PointType
from pymc.step_methods.compound import BlockedStep, CompoundStep

from pymc_spectral._pymc import exact_rounding
from pymc_spectral.cells.restricted_target import RestrictedTarget

__all__ = ["Draw", "Kernel", "Order"]


class Draw(NamedTuple):
    """A draw, and what happened on the way to it.

    Attributes
    ----------
    point : dict
        Values of the model's value variables.
    stats : dict
        Sampler stats to report: a rejection at the boundary is no divergence in them.
    boundary_hit, nan_logp : bool
        Whether a point outside the cell, or one of NaN log density, was met. Of a random walk and
        of a trajectory that stops at walls: whether that is why it was rejected.
    logp : float, optional
        Log density at the point, where the step method knows it.
    work : float
        Evaluations that the draw took, as far as the step method tells.
    """

    point: PointType
    stats: dict[str, Any]
    boundary_hit: bool = False
    nan_logp: bool = False
    logp: float | None = None
    work: float = 1.0


@dataclass(frozen=True)
class Order:
    """What a kernel is made from.

    Attributes
    ----------
    target : RestrictedTarget
        What its step method samples.
    step_class : step class
        PyMC's, or a user's.
    Q : array (d, d) or None
        Covariance of a random walk that must not be tuned: the paper's.
    kernel_kwargs : dict
        Options that the user chose for the step class.
    compile_kwargs : dict
        Options of PyTensor.
    """

    target: RestrictedTarget
    step_class: type[BlockedStep]
    Q: np.ndarray | None
    kernel_kwargs: Mapping[str, Any]
    compile_kwargs: Mapping[str, Any]

    def sets(self, *names: str) -> bool:
        """Return whether the user chose any of these options."""
        return not self.kernel_kwargs.keys().isdisjoint(names)

    def construct(
        self,
        options: Mapping[str, Any] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Construct the step method on all variables of the restricted target.

        Parameters
        ----------
        options : dict, optional
            Ours; those of the user come first.
        compile_kwargs : dict, optional
            Instead of the user's, where the step method has nothing left to compile.
        """
        compile_kwargs = self.compile_kwargs if compile_kwargs is None else compile_kwargs
        # Step classes without that argument are fine as long as there is nothing to pass.
        passed = {"compile_kwargs": dict(compile_kwargs)} if compile_kwargs else {}
        chosen = {**passed, **(options or {}), **self.kernel_kwargs}
        with self.target.confining_model() as model, exact_rounding():
            step = self.step_class(vars=model.value_vars, model=model, blocked=True, **chosen)
        if isinstance(step, CompoundStep):
            raise ValueError(
                f"kernel {self.step_class.__name__} splits into one step per variable; "
                "use a kernel that moves all variables together."
            )
        return step


class Kernel(Protocol):
    """A PyMC step method in a cell.

    `begin` is called once a chain, `draw` once a draw. `admit` comes before PyMC restores a saved
    `sampling_state` of :attr:`step`: between chains it puts back the one of before the first.

    Attributes
    ----------
    step : BlockedStep
        The step method, on the restricted target.
    """

    step: BlockedStep

    @classmethod
    def on(cls, order: Order) -> Self:
        """Make the kernel."""
        ...

    def begin(self, members: np.ndarray, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget the previous chain, and take scales from the landmarks of the cell."""
        ...

    def admit(self, state: Any, members: np.ndarray) -> None:
        """Prepare for a state of the step method that was saved in the cell of these landmarks."""
        ...

    def draw(self, point: PointType) -> Draw:
        """Make one draw in the selected cell."""
        ...
