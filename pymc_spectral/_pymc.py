"""What differs between PyMC 5 and 6, and the internals of PyMC that the step relies on."""

from __future__ import annotations

import functools
import sys
import weakref
from types import FrameType
from typing import Any

import numpy as np
import pymc as pm
import pymc.sampling.mcmc as pymc_mcmc
import pytensor
from pymc.backends.base import MultiTrace
from pymc.step_methods.compound import BlockedStep, CompoundStep

__all__ = [
    "all_variables_at",
    "calling_pm_sample",
    "chain_index",
    "exact_rounding",
    "in_compound",
    "setup_kernel",
]


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
    """Tell which chain a generator was spawned for.

    ``pm.sample`` spawns one generator a chain, in order, whatever the number of cores and
    however processes are started; the last element of the spawn key counts them.
    """
    seed_seq = rng.bit_generator.seed_seq
    key = getattr(seed_seq, "spawn_key", ())
    return int(key[-1]) if key else 0


def all_variables_at(trace: Any) -> tuple[list[str], Any]:
    """Names of the variables that a ``MultiTrace`` records, and the function that computes them.

    The function takes the value variables by position, in the model's order, as PyMC calls it.
    """
    recorder = trace._straces[trace.chains[0]]
    return list(recorder.varnames), recorder.fn


def _frames() -> list[FrameType]:
    """Frames of the callers, innermost first."""
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return frames


def calling_pm_sample() -> dict[str, Any] | None:
    """Local variables of the ``pm.sample`` call in progress, if any.

    A step method is told neither whether its draws will be returned as inference data nor where
    they are stored, and both decide whether the weights can be applied.
    """
    code = pymc_mcmc.sample.__code__
    for frame in _frames():
        if frame.f_code is code:
            return dict(frame.f_locals)
    return None


def in_compound(step: BlockedStep) -> bool:
    """Whether the call in progress came through a compound of several step methods."""
    for frame in _frames()[:4]:
        owner = frame.f_locals.get("self")
        if isinstance(owner, CompoundStep) and any(m is step for m in owner.methods):
            return len(owner.methods) > 1
    return False


MARK = "log_proposal_fresh"
"""Sampler stat by which a trace is recognised as ours."""


class UnweightedDrawsError(RuntimeError):
    """Draws of single cells would be returned as if they were draws of the posterior."""


_running: weakref.ref[Any] | None = None


def install() -> None:
    """Wrap ``pm.to_inference_data``, once."""
    if hasattr(pm.to_inference_data, "_reweights_spectral_draws"):
        return
    original = pm.to_inference_data

    @functools.wraps(original)
    def to_inference_data(trace: Any = None, *args: Any, **kwargs: Any) -> Any:
        idata = original(trace, *args, **kwargs)
        if not isinstance(trace, MultiTrace) or MARK not in trace.stat_names:
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


def check_route() -> None:
    """Raise unless the draws about to be made will be reweighted."""
    reaches = "to_inference_data" in pymc_mcmc._sample_return.__code__.co_names
    if not reaches or not hasattr(pm.to_inference_data, "_reweights_spectral_draws"):
        raise UnweightedDrawsError(
            f"pm.sample of PyMC {pm.__version__} no longer returns its draws through "
            "pm.to_inference_data (or something replaced it after the step was constructed), so "
            "they would not be reweighted. Construct the step again; if that does not help, use "
            "a PyMC version that pymc_spectral supports."
        )
    call = calling_pm_sample()
    if call is None:
        return
    if not call.get("return_inferencedata", True):
        raise UnweightedDrawsError(
            "return_inferencedata=False would return the draws of single cells without their "
            "weights. Leave it at its default, True."
        )
    if call.get("trace") is not None:
        raise UnweightedDrawsError(
            "trace= stores the draws of single cells without their weights. Leave it out, and "
            "save the result with idata.to_netcdf(...)."
        )
