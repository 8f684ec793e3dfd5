"""The one place where PyMC is wrapped: the result of ``pm.sample`` is reweighted on its way out.

No hook of a step method comes after sampling, but ``pm.sample`` looks ``pm.to_inference_data`` up
when it has all draws. The first step that is constructed replaces it by a function that does the
same, and reweights the result if, and only if, the draws carry a spectral step's stats. Importing
the package changes nothing.

If PyMC stops calling it, nothing would be weighed. So every run is checked before its first draw
(:func:`check_route`): an error then, never unweighted draws.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import pymc as pm
import pymc.sampling.mcmc as pymc_mcmc
from pymc.backends.base import MultiTrace

from pymc_spectral._pymc import calling_pm_sample

__all__ = ["UnweightedDrawsError", "check_route", "install", "register"]

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
