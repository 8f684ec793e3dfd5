"""What differs between PyMC 5 and 6, and the internals of PyMC that the step relies on."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pymc.sampling.mcmc as pymc_mcmc
import pytensor
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
