"""Stage 1, exploration: points that cover the modes, from whatever the user has.

By default the points come from parallel tempering, in :mod:`pymc_spectral.exploration.tempering`. A
user who already has draws hands them in instead: stuck chains, an array, PyMC's SMC, or a function.
Whatever the source, the result is an `Exploration`: points of the unconstrained space with a finite
log density.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr

from pymc_spectral._inference_data import group, has_groups
from pymc_spectral._validate import check_names, one_of, options_of
from pymc_spectral.density.batched import BatchedDensity, batched_density
from pymc_spectral.density.model_graph import forward_transforms
from pymc_spectral.exploration.tempered_path import prior_sampler
from pymc_spectral.exploration.tempering import (
    N_POINTS,
    TEMPERING_OPTIONS,
    TemperingConfig,
    TemperingReport,
    check_n_points,
    temper,
)

__all__ = [
    "N_POINTS",
    "Exploration",
    "check_explore",
    "constrained_to_unconstrained",
    "explore",
    "unconstrained_draws",
]

_log = logging.getLogger(__name__)

Explorer = Callable[[pm.Model, np.random.Generator], np.ndarray]

# What `explore` takes beside a method's options: given there by the caller, never among options.
OWN_ARGUMENTS = ("model", "method", "density", "random_seed", "rng", "progressbar")
# PyMC's SMC: chains by default, and draws of each at least, as its last distribution has to be
# represented whatever the number of points wanted (heuristic).
SMC_CHAINS = 2
SMC_LEAST_DRAWS = 500
# Its result is read here, so how it comes is not for users to choose.
SMC_SET = ("return_inferencedata",)


@dataclass(frozen=True, eq=False)
class Exploration:
    """Points that cover the modes of a posterior.

    Attributes
    ----------
    points : array of shape (N0, d)
        Points of the unconstrained space: the raveled ``model.value_vars``.
    logp : array of shape (N0,)
        Their log density, finite.
    source : str
        Where they come from: ``"tempering"``, ``"smc"``, ``"array"``, ``"idata"`` or the name of
        the function.
    tempering : TemperingReport or None
        Temperatures, acceptance, barrier, round trips and log evidence, if tempering it was.
    round : array of int, shape (N0,)
        0 for the explorer's own points, k for draws that round k of partitioning added.
    """

    points: np.ndarray = field(repr=False)
    logp: np.ndarray = field(repr=False)
    source: str
    tempering: TemperingReport | None = field(default=None, repr=False)
    round: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int), repr=False)

    def __post_init__(self) -> None:
        """Count all points as the explorer's own if nothing else is said."""
        if len(self.round) != len(self.points):
            object.__setattr__(self, "round", np.zeros(len(self.points), dtype=int))

    def with_draws(self, points: np.ndarray, logp: np.ndarray) -> Exploration:
        """Return the exploration with the draws of one more round of partitioning."""
        new = np.full(len(points), self.round.max() + 1)
        return replace(
            self,
            points=np.concatenate([self.points, points]),
            logp=np.concatenate([self.logp, logp]),
            round=np.concatenate([self.round, new]),
        )

    def __repr__(self) -> str:
        """Return how many points there are, whence, and the main figures of tempering."""
        n, d = self.points.shape
        tail = f", {self.tempering.short()}" if self.tempering is not None else ""
        return f"Exploration({n} points in {d} dimensions by {self.source}{tail})"


def explore(
    model: pm.Model | None = None,
    method: str | np.ndarray | xr.Dataset | Explorer | Any | None = None,
    *,
    n_points: int = N_POINTS,
    density: BatchedDensity | None = None,
    random_seed: int | np.random.SeedSequence | None = None,
    rng: np.random.Generator | None = None,
    progressbar: bool = False,
    **options: Any,
) -> Exploration:
    """Find points that cover the modes of a model's posterior.

    Parameters
    ----------
    model : pymc.Model, optional
        Model, by default the one in context.
    method : str, array, InferenceData, DataTree or callable, optional
        - None or ``"tempering"``: parallel tempering from dispersed starts. The one to use when you
          do not know where the modes are.
        - ``"smc"``: PyMC's sequential Monte Carlo. Worth a try when the path from the prior is easy
          and gradients are not available.
        - an array of shape (N, d): points of the unconstrained space, the raveled
          ``model.value_vars`` side by side in their order.
        - an ``InferenceData`` or ``DataTree``: its posterior, say of chains that got stuck. Modes
          which no chain visited stay unknown.
        - a callable ``f(model, rng)`` that returns such an array.
    n_points : int
        How many points to return at most. More points show smaller modes.
    density : BatchedDensity, optional
        The model's compiled density, if it exists already.
    random_seed : int, optional
        Seed; the same seed gives the same exploration. Ignored if `rng` is given.
    rng : numpy.random.Generator, optional
        Source of random numbers.
    progressbar : bool
        Show how tempering proceeds, if it takes more than a second.
    **options
        Of the method given by name: fields of `TemperingConfig`, or arguments of ``pm.sample_smc``.

    Returns
    -------
    Exploration
    """
    check_explore(method, {"n_points": n_points, **options})
    model = pm.modelcontext(model)
    rng = np.random.default_rng(random_seed) if rng is None else rng
    density = batched_density(model) if density is None else density
    if method is None or isinstance(method, str):
        by = _METHODS["tempering" if method is None else method]
        return by(model, density, n_points, rng, progressbar, options)
    points: Any
    if has_groups(method):
        points, source = constrained_to_unconstrained(model, method), "idata"
    elif callable(method):
        points, source = method(model, rng), _name_of(method)
    else:
        points, source = method, "array"
    return _exploration_of(points, density, n_points, source)


def check_explore(method: Any, options: Mapping[str, Any]) -> None:
    """Refuse what can be refused before any work: no model is looked at, nothing is compiled.

    Parameters
    ----------
    method : str, array, InferenceData, DataTree, callable or None
        What is to be passed to `explore`.
    options : dict
        Its options, `n_points` among them if it is set.

    Raises
    ------
    ValueError
        For an unknown method, an impossible value of an option, or an array that cannot be points.
    TypeError
        For an unknown option, options beside points that are handed in, a function that cannot be
        called with a model and a generator, or something that is no way to explore at all.
    """
    if "n_points" in options:
        check_n_points(options["n_points"])
    own = sorted(set(options) & set(OWN_ARGUMENTS))
    if own:
        raise TypeError(f"Options {own} are not for a method to set: leave them out.")
    settings = {name: value for name, value in options.items() if name != "n_points"}
    if method is None or isinstance(method, str):
        name = "tempering" if method is None else method
        if one_of("explore", name, list(_METHODS)) == "tempering":
            check_names("explore_kwargs", options, "tempering", TEMPERING_OPTIONS)
            TemperingConfig(**settings)
        else:
            _check_smc(settings)
        return
    if settings:
        raise TypeError(
            f"Options {sorted(settings)} are only for {sorted(_METHODS)}: when points are handed "
            "in there is nothing to set."
        )
    if has_groups(method):
        return
    if callable(method):
        _check_callable(method)
    else:
        _as_points(method)


def _check_smc(options: Mapping[str, Any]) -> None:
    """Refuse what ``pm.sample_smc`` would swallow, or refuse with its first chain."""
    kernel = options.get("kernel", pm.smc.IMH)
    if not isinstance(kernel, type):
        raise TypeError(f"kernel={kernel!r} is no class of SMC: pass kernel=pm.smc.MH, say.")
    own = inspect.signature(pm.sample_smc).parameters.values()
    names = {p.name for p in own if p.kind is not p.VAR_KEYWORD} | set(options_of(kernel) or ())
    known = sorted(names - {*OWN_ARGUMENTS, *SMC_SET} | {"n_points"})
    check_names("explore_kwargs", options, 'explore="smc"', known)
    for name in ("draws", "chains"):
        value = options.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}={value!r} must be a positive integer: pass {name}=2000, say.")


def _check_callable(method: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called with a model and a generator."""
    name = _name_of(method)
    try:
        inspect.signature(method).bind(None, None)
    except (TypeError, ValueError):
        raise TypeError(
            f"explore={name} cannot be called as {name}(model, rng): it must take the model "
            "and a NumPy random generator, and return an (n, d) array of points."
        ) from None


def _name_of(method: Callable[..., Any]) -> str:
    """Return the name of a function, or of an object's class."""
    return getattr(method, "__name__", type(method).__name__)


def _by_tempering(
    model: pm.Model,
    density: BatchedDensity,
    n_points: int,
    rng: np.random.Generator,
    progressbar: bool,
    options: dict[str, Any],
) -> Exploration:
    """Explore by non-reversible parallel tempering."""
    found = temper(
        density,
        TemperingConfig(**options),
        prior=partial(prior_sampler, model),
        n_points=n_points,
        rng=rng,
        progressbar=progressbar,
    )
    return Exploration(found.points, found.logp, source="tempering", tempering=found.report)


def _by_smc(
    model: pm.Model,
    density: BatchedDensity,
    n_points: int,
    rng: np.random.Generator,
    progressbar: bool,
    options: dict[str, Any],
) -> Exploration:
    """Explore by PyMC's sequential Monte Carlo."""
    chains = int(options.pop("chains", SMC_CHAINS))
    options.setdefault("draws", max(SMC_LEAST_DRAWS, -(-n_points // chains)))
    options.setdefault("cores", 1)
    options.setdefault("compute_convergence_checks", False)
    logger = logging.getLogger("pymc")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # Hide SMC's own log messages.
        result = pm.sample_smc(
            model=model,
            chains=chains,
            random_seed=int(rng.integers(2**31)),
            progressbar=progressbar,
            **options,
        )
    finally:
        logger.setLevel(level)
    points = constrained_to_unconstrained(model, result)
    return _exploration_of(points, density, n_points, "smc")


_METHODS: Mapping[str, Callable[..., Exploration]] = {"tempering": _by_tempering, "smc": _by_smc}


def _as_points(points: Any) -> np.ndarray:
    """Return handed-in points as an array of numbers, refused if it cannot be (N, d)."""
    try:
        points = np.array(points, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "Exploration needs an array of shape (N, d), an InferenceData or DataTree, one of "
            f"{sorted(_METHODS)}, or a function that returns such an array; got "
            f"{type(points).__name__}."
        ) from error
    if points.ndim not in (1, 2):
        raise ValueError(
            "Points must have shape (N, d), one row per point of the unconstrained space; got "
            f"shape {points.shape}."
        )
    if len(points) == 0:
        raise ValueError("There are no points to start from: the array has zero rows.")
    bad = ~np.isfinite(points.reshape(len(points), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{bad.sum()} of {len(points)} points are not finite (first at row {bad.argmax()}). "
            "Drop them, e.g. points[np.isfinite(points).all(axis=1)]."
        )
    return points


def _exploration_of(
    points: Any, density: BatchedDensity, n_points: int, source: str
) -> Exploration:
    """Check points that somebody handed in, thin them evenly, and evaluate their density."""
    points = _as_points(points)
    if points.ndim == 1 and density.d == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != density.d:
        raise ValueError(
            f"Points must have shape (N, {density.d}): one row per point of the unconstrained "
            f"space, columns in the order of {list(density.names)}; got shape {points.shape}. "
            "A point as PyMC has it becomes a row by "
            "np.concatenate([np.ravel(point[v.name]) for v in model.value_vars])."
        )
    if len(points) > n_points:
        points = points[np.linspace(0, len(points) - 1, n_points).round().astype(int)]
    logp = density.logp(points)
    inside = np.isfinite(logp)
    if not inside.any():
        raise ValueError(
            f"The log density is -inf or NaN at all {len(points)} points. Are they on the "
            f"unconstrained scale, and in the order of the value variables {list(density.names)}?"
        )
    if not inside.all():
        _log.info("Dropped %d of %d points with log density -inf.", (~inside).sum(), len(points))
        points, logp = points[inside], logp[inside]
    if (points == points[0]).all():
        raise ValueError(
            f"All {len(points)} points are the same, so they cannot show any modes. Hand in draws, "
            "or leave `explore` out to let tempering find the modes."
        )
    return Exploration(points=points, logp=logp, source=source)


def constrained_to_unconstrained(model: pm.Model, result: Any) -> np.ndarray:
    """Map posterior draws to the unconstrained space of the model.

    Parameters
    ----------
    model : pymc.Model
        The model the draws belong to.
    result : InferenceData, DataTree or Dataset
        With a ``posterior`` group, or an ``unconstrained_posterior`` one which is then taken as it
        is. A Dataset is taken for the posterior itself. Dimensions ``chain`` and ``draw`` come
        first.

    Returns
    -------
    array of shape (chains * draws, d)
        Rows of raveled ``model.value_vars``, chain after chain.
    """
    if isinstance(result, xr.Dataset):
        posterior: xr.Dataset | None = result
    else:
        unconstrained = group(result, "unconstrained_posterior")
        if unconstrained is not None and all(v.name in unconstrained for v in model.value_vars):
            rows = [_draws(unconstrained, value.name) for value in model.value_vars]
            return np.concatenate([row.reshape(len(row), -1) for row in rows], axis=1)
        posterior = group(result, "posterior")
    if posterior is None:
        raise ValueError("The result has no posterior group, so there are no points to start from.")
    missing = [variable.name for variable in model.free_RVs if variable.name not in posterior]
    if missing:
        raise ValueError(
            f"The posterior lacks {missing}, free variables of the model; it holds "
            f"{sorted(map(str, posterior.data_vars))}. Sample the same model, without `var_names`."
        )
    draws = {variable.name: _draws(posterior, variable.name) for variable in model.free_RVs}
    return forward_transforms(model)(draws)


def unconstrained_draws(model: pm.Model, chains: xr.Dataset, most: int) -> np.ndarray | None:
    """Map the chains of a posterior to the unconstrained space, evenly thinned.

    Parameters
    ----------
    model : pymc.Model
        The model the draws belong to.
    chains : Dataset
        Draws with dimensions chain and draw.
    most : int
        Draws of each chain at most.

    Returns
    -------
    array of shape (chains, draws, d), or None
        None where some free variable was not kept (``var_names=...``).
    """
    if any(v.name not in chains for v in model.free_RVs):
        return None
    n = chains.sizes["draw"]
    keep = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))
    chains = chains.isel(draw=keep)
    # A few thousand rows once: compiling the transforms to machine code would take longer.
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        rows = constrained_to_unconstrained(model, chains)
    return rows.reshape(chains.sizes["chain"], len(keep), -1)


def _draws(dataset: xr.Dataset, name: str) -> np.ndarray:
    """Return draws of a variable, chain after chain: (chains * draws, ...)."""
    value = dataset[name].transpose("chain", "draw", ...).to_numpy()
    return value.reshape(-1, *value.shape[2:])
