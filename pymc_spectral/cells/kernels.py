"""Kernels that move inside a cell: PyMC step methods on the restricted target.

A kernel is made once for all cells and reset for each chain. What is ours is only how a chain
begins (scales from the cell's landmarks) and how a rejection at the boundary is told from a true
divergence.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator
from pymc.step_methods.hmc.quadpotential import (
    QuadPotential,
    QuadPotentialDiagAdapt,
    QuadPotentialFullAdapt,
)
from pymc.step_methods.metropolis import MultivariateNormalProposal

from pymc_spectral._pymc import exact_rounding, setup_kernel
from pymc_spectral.cells.nuts import CellNUTS
from pymc_spectral.cells.target import CODES_BELOW, NAN_LOGP, RestrictedTarget

__all__ = [
    "NUTS_OPTIONS",
    "JointMetropolis",
    "Kernel",
    "KernelName",
    "make_kernel",
    "resolve_kernel",
]

KernelName = Literal["nuts", "metropolis", "slice"]
# What users may set; PyMC swallows other names once it is handed a compiled function.
NUTS_OPTIONS = sorted(
    {
        name
        for cls in (pm.NUTS, BaseHMC)
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    - {"self", "vars", "model", "blocked", "rng", "initial_point"}
)
# Optimal random-walk scale of Roberts, Gelman & Gilks (1997).
METROPOLIS_SCALE = 2.38
# Beyond, a dense matrix would take more draws to learn than tuning has.
DENSE_MAX_DIM = 30
# Worth of the landmarks in draws, as in PyMC's own initialisation.
INITIAL_WEIGHT = 10


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


KERNELS: dict[str, type[BlockedStep]] = {
    "nuts": CellNUTS,
    "metropolis": JointMetropolis,
    "slice": pm.Slice,
}


def resolve_kernel(
    kernel: str | type[BlockedStep] | None, gradients: bool
) -> tuple[type[BlockedStep], str]:
    """Class and name of the kernel asked for; NUTS by default where there are gradients."""
    if kernel is None:
        kernel = "nuts" if gradients else "slice"
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise ValueError(
                f"kernel={kernel!r} is unknown: use one of {', '.join(get_args(KernelName))}, "
                "or a PyMC step class such as pm.HamiltonianMC."
            )
        cls = KERNELS[kernel]
    elif isinstance(kernel, type) and issubclass(kernel, BlockedStep):
        cls = kernel
    else:
        raise TypeError(
            f"kernel={kernel!r} is neither a name ({', '.join(get_args(KernelName))}) nor a PyMC "
            "step class. Pass the class, not an instance: kernel=pm.HamiltonianMC."
        )
    if issubclass(cls, BaseHMC) and not gradients:
        raise ValueError(
            f"kernel {cls.__name__} needs gradients, which this model's logp does not have: "
            'pass kernel="slice" or kernel="metropolis".'
        )
    return cls, getattr(cls, "name", cls.__name__)


class Kernel:
    """A PyMC step method on the restricted target, with a reset for each chain.

    Parameters
    ----------
    step : BlockedStep
        Made on the restricted target.
    fixed_proposal : array (d, d), optional
        Covariance of a random walk that must not be tuned: the paper's Q.
    """

    def __init__(self, step: BlockedStep, fixed_proposal: np.ndarray | None, custom: bool):
        self.step = step
        self.fixed_proposal = fixed_proposal
        # Scales that the user set are left alone.
        self._custom = custom
        self._snapshot = None if isinstance(step, BaseHMC) else step.sampling_state
        self.classify: Callable[[dict[str, Any]], tuple[bool, bool]]
        if isinstance(step, CellNUTS):
            self.classify = self._classify_cell_nuts
        elif isinstance(step, BaseHMC):
            self.classify = _classify_trajectory
        elif isinstance(step, JointMetropolis):
            self.classify = self._classify_walk
        else:
            self.classify = _classify_nothing

    def begin(self, members: np.ndarray, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget the previous chain and take scales from the landmarks of the cell."""
        step = self.step
        d = members.shape[1]
        if isinstance(step, BaseHMC):
            if not self._custom:
                potential = _mass_matrix(members, rng.spawn(1)[0])
                if isinstance(step, CellNUTS):
                    step.use_potential(potential)
                else:
                    step.potential = potential
                    step.integrator = CpuLeapfrogIntegrator(potential, step._logp_dlogp_func)
            step.reset_tuning()
            step._num_divs_sample = 0
            if hasattr(step, "_reached_max_treedepth"):
                step._reached_max_treedepth = 0
        else:
            step.sampling_state = self._snapshot
            if isinstance(step, JointMetropolis) and not self._custom:
                if self.fixed_proposal is not None:
                    step.proposal_dist = MultivariateNormalProposal(self.fixed_proposal)
                else:
                    scale = METROPOLIS_SCALE**2 / d
                    step.proposal_dist = MultivariateNormalProposal(scale * _covariance(members))
        setup_kernel(step, rng, tune, draws)

    def match(self, state: Any) -> None:
        """Make a state saved in another cell acceptable.

        PyMC restores the state of before the first chain between chains, and refuses one whose
        mass matrix started elsewhere. Ours starts at the cell's own landmarks.
        """
        potential = getattr(state, "potential", None)
        for name in ("_initial_mean", "_initial_diag", "_initial_cov", "_initial_weight"):
            if hasattr(potential, name):
                setattr(self.step.potential, name, getattr(potential, name))  # type: ignore[attr-defined]

    def _classify_walk(self, stats: dict[str, Any]) -> tuple[bool, bool]:
        """Tell a boundary hit and a NaN by the change of log density of the proposal."""
        return _codes(float(np.ravel(self.step.accept_rate_iter)[0]))  # type: ignore[attr-defined]

    def _classify_cell_nuts(self, stats: dict[str, Any]) -> tuple[bool, bool]:
        """Tell a trajectory that left the cell, which is no rejection, and one that met a NaN."""
        integrator = self.step.integrator  # type: ignore[attr-defined]
        return integrator.left_cell, integrator.saw_nan

    def forgive(self, stats: dict[str, Any], boundary_hit: bool, was_nan: bool) -> None:
        """Take a wall, or a NaN that is counted apart, out of the stats that count divergences."""
        if isinstance(self.step, CellNUTS) and not boundary_hit and not was_nan:
            # A trajectory that stayed inside: a true divergence. One that passed through other
            # cells, where the step size was not tuned, may fail there or after its return, and
            # says nothing about this one.
            return
        if stats.get("diverging"):
            stats["diverging"] = False
            stats["warning"] = None
            if not self.step.tune:  # type: ignore[attr-defined]
                self.step.divergences -= 1  # type: ignore[attr-defined]
                self.step._num_divs_sample -= 1  # type: ignore[attr-defined]
                stats["divergences"] = self.step.divergences  # type: ignore[attr-defined]


def _codes(change: float) -> tuple[bool, bool]:
    """Read (boundary hit, NaN) off a change of log density; -inf is the model's own wall."""
    return -np.inf < change < 10 * NAN_LOGP, 10 * NAN_LOGP <= change < CODES_BELOW


def _classify_trajectory(stats: dict[str, Any]) -> tuple[bool, bool]:
    """Tell a boundary hit and a NaN by the energy at which the trajectory ended."""
    if not stats.get("diverging"):
        return False, False
    return _codes(-abs(stats.get("max_energy_error", stats.get("energy_error", 0.0))))


def _classify_nothing(stats: dict[str, Any]) -> tuple[bool, bool]:
    """Slice and others try many points a draw; rejections there mean nothing."""
    return False, False


def _mass_matrix(members: np.ndarray, rng: np.random.Generator) -> QuadPotential:
    """Mass matrix that starts at the landmarks of a cell and adapts from there.

    Dense up to `DENSE_MAX_DIM` dimensions: a cell is one mode, so it has one covariance, and on
    correlated modes that doubles or trebles the effective draws of PyMC's diagonal default.
    """
    d = members.shape[1]
    mean = members.mean(axis=0)
    if d > DENSE_MAX_DIM:
        return QuadPotentialDiagAdapt(d, mean, _variances(members), INITIAL_WEIGHT, rng=rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "QuadPotentialFullAdapt is an experimental feature")
        return QuadPotentialFullAdapt(d, mean, _covariance(members), INITIAL_WEIGHT, rng=rng)


def _variances(members: np.ndarray) -> np.ndarray:
    """Variances of the landmarks of a cell, 1 where they do not vary."""
    if len(members) < 2:
        return np.ones(members.shape[1])
    variance = members.var(axis=0)
    return np.where(variance > 0, variance, 1.0)


def _covariance(members: np.ndarray) -> np.ndarray:
    """Covariance of the landmarks of a cell, diagonal where they are few."""
    variance = _variances(members)
    n, d = members.shape
    if n <= 2 * d:
        return np.diag(variance)
    covariance = np.atleast_2d(np.cov(members.T))
    return covariance + 1e-9 * np.diag(variance)


def make_kernel(
    target: RestrictedTarget,
    cls: type[BlockedStep],
    *,
    Q: np.ndarray | None,
    kernel_kwargs: dict[str, Any],
    compile_kwargs: dict[str, Any],
) -> Kernel:
    """Construct the step method on the restricted target."""
    kwargs = dict(kernel_kwargs)
    custom = any(k in kwargs for k in ("potential", "scaling", "S", "proposal_dist"))
    if cls is JointMetropolis and Q is not None and not custom:
        # The paper's Q is a fixed proposal: never tuned.
        kwargs.setdefault("tune_interval", 2**62)
    if issubclass(cls, CellNUTS):
        # A pickle or a reset never sees this function: it is compiled with the kernel.
        kwargs["logp_dlogp_func"] = target.compile_for_nuts(**compile_kwargs)
    if issubclass(cls, BaseHMC) and not custom:
        # Of the class that every chain will have: PyMC restores states only within a class.
        kwargs["potential"] = _mass_matrix(np.eye(target.dim), np.random.default_rng(0))
    if cls in (JointMetropolis, pm.Slice) and compile_kwargs:
        kwargs.setdefault("compile_kwargs", compile_kwargs)
    with target.confining_model() as model, exact_rounding():
        step = cls(vars=model.value_vars, model=model, blocked=True, **kwargs)
    if isinstance(step, CompoundStep):
        raise ValueError(
            f"kernel {cls.__name__} splits into one step per variable; "
            "use a kernel that moves all variables together."
        )
    return Kernel(step, Q, custom)
