"""Every private name of PyMC that the package relies on, and what differs between PyMC 5 and 6.

Nothing else in the package may touch a name of PyMC that starts with an underscore, or count on how
PyMC works inside. `PRIVATE_NAMES` lists them, with the versions on which each was last checked;
``docs/how_it_works.md`` shows that list, and a test resolves each name on the PyMC installed.

One function of PyMC is wrapped. No hook of a step method comes after sampling, but ``pm.sample``
looks ``pm.to_inference_data`` up when it has all draws. The first step that is constructed replaces
it by a function that does the same, and has the result reweighted if, and only if, the draws carry
a spectral step's stats. Importing the package changes nothing. If PyMC stopped calling it, nothing
would be weighed; so every run is checked before its first draw (:func:`check_route`): an error
then, never unweighted draws.
"""

from __future__ import annotations

import functools
import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pymc.sampling.mcmc as pymc_mcmc
import pytensor
from pymc.backends.base import MultiTrace
from pymc.logprob.utils import CheckParameterValue
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pymc.step_methods.hmc.base_hmc import BaseHMC, HMCStepData
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from pymc.step_methods.hmc.nuts import _Tree
from pymc.step_methods.hmc.quadpotential import QuadPotential

__all__ = [
    "PyMCCall",
    "RaveledFunction",
    "ShowsKernel",
    "TreeNUTS",
    "WatchedIntegrator",
    "WeighedTree",
    "all_variables_at",
    "chain_index",
    "check_route",
    "exact_rounding",
    "forget_trajectories",
    "install",
    "is_parameter_check",
    "register",
    "replacing_logp",
    "setup_kernel",
    "start_alike",
    "use_mass_matrix",
    "without_divergence",
]


class PrivateName(NamedTuple):
    """A name of PyMC's that is not part of its public interface.

    Attributes
    ----------
    owner : str
        Module or class, as a dotted path.
    names : tuple of str
        Its members, attributes of instances among them.
    purpose : str
        What they are needed for.
    checked : tuple of str
        Version of each series of PyMC on which their use was last read and tested.
    since : tuple of int
        First version of PyMC that has them.
    """

    owner: str
    names: tuple[str, ...]
    purpose: str
    checked: tuple[str, ...]
    since: tuple[int, int] = (5, 28)


PRIVATE_NAMES = (
    PrivateName(
        "pymc",
        ("to_inference_data",),
        "public, but wrapped when the first step is constructed: the way out of `pm.sample`",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.sampling.mcmc",
        ("_sample_return",),
        "its code is read, to be sure that draws leave through `pm.to_inference_data`",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.sampling.mcmc.sample",
        ("progressbar", "quiet", "compute_convergence_checks", "return_inferencedata", "trace"),
        "local variables of the call in progress: no step is told what the user asked for",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.compound.CompoundStep",
        ("methods",),
        "whether the step is one of several, which is refused",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.compound.BlockedStep",
        ("_progressbar_config", "_make_progressbar_update_functions"),
        "the kernel's columns of the progress bar; the first is called once before the first draw, "
        "in the parent, where a run is checked as a whole",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.metropolis.Metropolis",
        ("elemwise_update", "enum_dims", "accept_rate_iter", "accepted_iter", "accepted_sum"),
        "one entry for each coordinate that is accepted by itself: ours accepts all of them "
        "together, and the change of log density tells where a proposal fell",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.backends.base.MultiTrace",
        ("_straces",),
        "the compiled function that computes all recorded variables at a point",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.logprob.utils",
        ("CheckParameterValue",),
        "checks of parameter values, which become -inf in a batch of points",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.model.core.ValueGradFunction",
        ("_pytensor_function", "_raveled_inputs", "_extra_vars_shared"),
        "what a Hamiltonian step asks of its density: ours has the same attributes",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.model.core.FrozenModel",
        ("_cached_logp_dlogp_function", "_logp_dlogp_function"),
        "a frozen model keeps compiled gradients: none of them may be one of a cell",
        ("6.4.0",),
        since=(6, 4),
    ),
    PrivateName(
        "pymc.step_methods.hmc.integration.CpuLeapfrogIntegrator",
        ("_logp_dlogp_func",),
        "the density that a trajectory follows: ours remembers whether it left the cell",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.hmc.nuts._Tree",
        ("_single_step",),
        "the tree of a NUTS trajectory: points outside the cell have no weight in ours",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.hmc.nuts.NUTS",
        ("_hamiltonian_step", "_reached_max_treedepth"),
        "the loop that grows the tree, with our class of tree; a counter that no reset resets",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.hmc.base_hmc.BaseHMC",
        ("_logp_dlogp_func", "_num_divs_sample"),
        "the density, for a new mass matrix; the count of divergences, of which hits of the "
        "boundary are taken back",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.hmc.quadpotential.QuadPotentialFullAdapt",
        ("_initial_mean", "_initial_cov", "_initial_weight"),
        "where a dense mass matrix started: PyMC refuses to restore one that started elsewhere",
        ("5.28.5", "6.4.0"),
    ),
    PrivateName(
        "pymc.step_methods.hmc.quadpotential.QuadPotentialDiagAdapt",
        ("_initial_mean", "_initial_diag", "_initial_weight"),
        "the same of a diagonal one",
        ("5.28.5", "6.4.0"),
    ),
)
"""What the package needs of PyMC beyond its public interface."""


def exact_rounding() -> Any:
    """Let Numba round as written, in what is compiled (and called for the first time) inside.

    With its fast maths the last digit depends on which functions came out of Numba's cache: a
    process that compiles and one that loads would draw different chains from the same seed.
    """
    return pytensor.config.change_flags(numba__fastmath=False)


def setup_kernel(kernel: BlockedStep, rng: np.random.Generator, tune: int, draws: int) -> None:
    """Hand a chain's generator to a step method.

    ``setup_chain(rng, tune, draws)`` from PyMC 6.3 on, ``set_rng(rng)`` before.
    """
    if hasattr(kernel, "setup_chain"):
        kernel.setup_chain(rng, tune, draws)
    else:
        kernel.set_rng(rng)


def chain_index(rng: np.random.Generator) -> int:
    """Return the number of the chain that a generator was spawned for.

    ``pm.sample`` spawns one generator a chain, in order, whatever the number of cores and
    however processes are started; the last element of the spawn key counts them.
    """
    seed_seq = rng.bit_generator.seed_seq
    key = getattr(seed_seq, "spawn_key", ())
    return int(key[-1]) if key else 0


def all_variables_at(trace: Any) -> tuple[list[str], Any]:
    """Return the names of the variables that a ``MultiTrace`` records, and what computes them.

    The function takes the value variables by position, in the model's order, as PyMC calls it.
    """
    recorder = trace._straces[trace.chains[0]]
    return list(recorder.varnames), recorder.fn


# ---------------------------------------------------------------- the call in progress


@dataclass(frozen=True)
class PyMCCall:
    """What the ``pm.sample`` in progress was asked for; the defaults are those of no call at all.

    A step method is told neither whether its draws will be returned as inference data nor where
    they are stored, and both decide whether the weights can be applied.

    Attributes
    ----------
    progressbar : bool
        Whether progress is shown.
    log : bool
        Whether findings are said: not with ``quiet`` or ``compute_convergence_checks=False``.
    return_inferencedata : bool
        Whether the result is an InferenceData or DataTree.
    has_trace : bool
        Whether draws are stored in a trace of the user's.
    in_compound : bool
        Whether the step is one of several.
    """

    progressbar: bool = True
    log: bool = True
    return_inferencedata: bool = True
    has_trace: bool = False
    in_compound: bool = False

    @classmethod
    def in_progress(cls, step: BlockedStep) -> PyMCCall:
        """Look for the ``pm.sample`` that has called a method of `step`, once for a whole run."""
        compound = False
        for frame in _frames():
            owner = frame.f_locals.get("self")
            if isinstance(owner, CompoundStep) and any(m is step for m in owner.methods):
                compound = len(owner.methods) > 1
            if frame.f_code is pymc_mcmc.sample.__code__:
                asked = frame.f_locals
                quiet = bool(asked.get("quiet", False))
                return cls(
                    progressbar=bool(asked.get("progressbar", True)) and not quiet,
                    log=bool(asked.get("compute_convergence_checks", True)) and not quiet,
                    return_inferencedata=bool(asked.get("return_inferencedata", True)),
                    has_trace=asked.get("trace") is not None,
                    in_compound=compound,
                )
        return cls(in_compound=compound)


class ShowsKernel:
    """Base of a step method with a kernel inside: the columns of the progress bar are the kernel's.

    PyMC asks for them once before the first draw, in the parent process. No other method is told
    the number of chains, so a run is checked as a whole then, by `before_first_draw`.
    """

    kernel_step: BlockedStep

    def before_first_draw(self, n_chains: int) -> None:
        """Refuse a run of so many chains, or let it begin."""
        raise NotImplementedError

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        self.before_first_draw(n_chains)
        return self.kernel_step._progressbar_config(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return self.kernel_step._make_progressbar_update_functions()


def _frames() -> list[FrameType]:
    """Return the frames of the callers, innermost first."""
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return frames


# ---------------------------------------------------------------- the way out


class UnweightedDrawsError(RuntimeError):
    """Draws of single cells would be returned as if they were draws of the posterior."""


_running: weakref.ref[Any] | None = None


class OwnAdvice(logging.Filter):
    """Keeps back what PyMC would advise against our own findings, after a run of ours.

    The number of chains follows from that of the cells, and divergences are told from hits of the
    boundary; both have findings of their own.
    """

    BEGINNINGS = ("We recommend running at least 4 chains", "Only one chain was sampled")
    DIVERGENCES = "target_accept"

    def __init__(self) -> None:
        super().__init__()
        self.is_ours = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be shown."""
        said = record.getMessage()
        return not self.is_ours or not (
            said.startswith(self.BEGINNINGS) or self.DIVERGENCES in said
        )


def install(mark: str) -> None:
    """Wrap ``pm.to_inference_data``, once, for traces that have the sampler stat `mark`."""
    if hasattr(pm.to_inference_data, "_reweights_spectral_draws"):
        return
    original = pm.to_inference_data
    advice = OwnAdvice()
    logging.getLogger("pymc.stats.convergence").addFilter(advice)

    @functools.wraps(original)
    def to_inference_data(trace: Any = None, *args: Any, **kwargs: Any) -> Any:
        idata = original(trace, *args, **kwargs)
        advice.is_ours = isinstance(trace, MultiTrace) and mark in trace.stat_names
        if not advice.is_ours:
            return idata
        step = _running() if _running is not None else None
        if step is None:
            raise UnweightedDrawsError(
                "These draws come from a SpectralPartitionStep that is gone, so the number of "
                "cells is unknown. Keep the step alive until pm.sample returns."
            )
        return step.finish(idata, trace)

    to_inference_data._reweights_spectral_draws = True  # type: ignore[attr-defined]
    pm.to_inference_data = to_inference_data


def register(step: Any) -> None:
    """Remember whose chains are about to run."""
    global _running
    _running = weakref.ref(step)


def check_route(call: PyMCCall) -> None:
    """Raise unless the draws about to be made will be reweighted."""
    reaches = "to_inference_data" in pymc_mcmc._sample_return.__code__.co_names
    if not reaches or not hasattr(pm.to_inference_data, "_reweights_spectral_draws"):
        raise UnweightedDrawsError(
            f"pm.sample of PyMC {pm.__version__} no longer returns its draws through "
            "pm.to_inference_data (or something replaced it after the step was constructed), so "
            "they would not be reweighted. Construct the step again; if that does not help, use "
            "a PyMC version that pymc_spectral supports."
        )
    if not call.return_inferencedata:
        raise UnweightedDrawsError(
            "return_inferencedata=False would return the draws of single cells without their "
            "weights. Leave it at its default, True."
        )
    if call.has_trace:
        raise UnweightedDrawsError(
            "trace= stores the draws of single cells without their weights. Leave it out, and "
            "save the result with idata.to_netcdf(...)."
        )


# ---------------------------------------------------------------- the graph of a model


def is_parameter_check(node: Any) -> bool:
    """Return whether a node raises where parameters are invalid, and may answer -inf instead."""
    return isinstance(node.op, CheckParameterValue) and node.op.can_be_replaced_by_ninf


# ---------------------------------------------------------------- kernels in a cell
#
# What a kernel has to reach behind PyMC's step methods for.

EARLY_DRAWS = 200
"""Draws of tuning with shallower trees, typed into ``pm.NUTS``."""


@contextmanager
def replacing_logp(model: pm.Model, logp: Callable[..., Any]) -> Iterator[None]:
    """Let a model answer with another log density, to step methods constructed inside.

    A frozen model (PyMC 6.4) keeps the gradients that it has compiled: a step method would get one
    of before, and others later the one from here, so meanwhile it has to compile anew.
    """
    replaced = {"logp": logp}
    if hasattr(model, "_cached_logp_dlogp_function"):
        makers = [vars(base).get("_logp_dlogp_function") for base in type(model).__mro__]
        uncached = [maker for maker in makers if maker is not None][-1]
        replaced["_logp_dlogp_function"] = functools.partial(uncached, model)
    for name, value in replaced.items():
        setattr(model, name, value)
    try:
        yield
    finally:
        for name in replaced:
            delattr(model, name)


class RaveledFunction:
    """Compiled function of the raveled point, as a Hamiltonian step takes its density.

    Has what PyMC asks of a ``logp_dlogp_func`` (a ``ValueGradFunction`` there), and no more.

    Parameters
    ----------
    function : compiled function
        Of one float64 vector.
    """

    def __init__(self, function: Any):
        self.function = function
        self.dtype = "float64"
        self._pytensor_function = function
        self._raveled_inputs = True
        self._extra_vars_shared: dict[str, Any] = {}


class WatchedIntegrator(CpuLeapfrogIntegrator):
    """PyMC's leapfrog, with the evaluation of the density in the hands of a subclass."""

    def __init__(self, potential: QuadPotential, function: RaveledFunction):
        super().__init__(potential, function)
        self._logp_dlogp_func = self.evaluate

    def evaluate(self, q: np.ndarray, point_map_info: Any) -> tuple[Any, Any]:
        """Return log density and gradient at a point."""
        raise NotImplementedError


class WeighedTree(_Tree):
    """PyMC's tree of a NUTS trajectory, with the weight of each point open to a subclass."""

    __slots__ = ()

    def weigh(self, point: Any) -> Any:
        """Return the subtree of the point just reached, with another ``log_size`` if need be."""
        raise NotImplementedError

    def _single_step(self, left: State, epsilon: float) -> Any:
        subtree, divergence, turning = super()._single_step(left, epsilon)
        return self.weigh(subtree), divergence, turning


class TreeNUTS(pm.NUTS):
    """PyMC's NUTS, with the classes of its tree and integrator open to a subclass."""

    tree_class: type[_Tree]
    integrator_class: type[WatchedIntegrator]

    def __init__(self, vars: Any = None, *, logp_dlogp_func: RaveledFunction, **kwargs: Any):
        super().__init__(vars, logp_dlogp_func=logp_dlogp_func, **kwargs)
        self.integrator = self.integrator_class(self.potential, self._logp_dlogp_func)

    def _hamiltonian_step(self, start: State, p0: np.ndarray, step_size: float) -> HMCStepData:
        # PyMC's loop, with our tree: the class is not a parameter there.
        early = self.tune and self.iter_count < EARLY_DRAWS
        max_treedepth = self.early_max_treedepth if early else self.max_treedepth
        tree = self.tree_class(len(p0), self.integrator, start, step_size, self.Emax, rng=self.rng)
        divergence, turning = None, False
        while tree.depth < max_treedepth and not (divergence or turning):
            direction = 1 if self.rng.random() < 0.5 else -1
            divergence, turning = tree.extend(direction)
        stats = tree.stats()
        stopped = bool(divergence or turning)
        stats["reached_max_treedepth"] = not stopped and not self.tune
        return HMCStepData(tree.proposal, stats["mean_tree_accept"], divergence, stats)


def use_mass_matrix(step: BaseHMC, potential: QuadPotential) -> None:
    """Give a Hamiltonian step another mass matrix; its integrator holds the old one."""
    step.potential = potential
    step.integrator = type(step.integrator)(potential, step._logp_dlogp_func)


def forget_trajectories(step: BaseHMC) -> None:
    """Undo tuning and counts of a Hamiltonian step: ``reset_tuning`` leaves some counters."""
    step.reset_tuning()
    step._num_divs_sample = 0
    if hasattr(step, "_reached_max_treedepth"):  # NUTS has it, other Hamiltonian steps do not
        step._reached_max_treedepth = 0


def without_divergence(step: BaseHMC, stats: dict[str, Any]) -> dict[str, Any]:
    """Return the stats of the last draw with its divergence taken back, in the counters too."""
    stats = {**stats, "diverging": False, "warning": None}
    if not step.tune:
        step.divergences -= 1
        step._num_divs_sample -= 1
        stats["divergences"] = step.divergences
    return stats


def start_alike(potential: QuadPotential, state: Any) -> None:
    """Let a mass matrix have started where that of a saved state did.

    PyMC counts the start among the frozen fields: it refuses a state that started elsewhere.
    """
    for name in ("_initial_mean", "_initial_diag", "_initial_cov", "_initial_weight"):
        if hasattr(state, name):
            setattr(potential, name, getattr(state, name))
