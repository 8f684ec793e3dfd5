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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pytensor.graph.replace import graph_replace, vectorize_graph

from pymc_spectral._groups import group, has_groups
from pymc_spectral.density.batched import BatchedDensity, batched_density

if TYPE_CHECKING:
    from pymc_spectral.exploration.tempering import TemperingReport

__all__ = ["Exploration", "constrained_to_unconstrained", "explore"]

_log = logging.getLogger(__name__)

Explorer = Callable[[pm.Model, np.random.Generator], np.ndarray]


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
    """

    points: np.ndarray = field(repr=False)
    logp: np.ndarray = field(repr=False)
    source: str
    tempering: TemperingReport | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Tell how many points there are, whence, and what tempering says of itself."""
        n, d = self.points.shape
        tail = f", {self.tempering.short()}" if self.tempering is not None else ""
        return f"Exploration({n} points in {d} dimensions by {self.source}{tail})"


def explore(
    model: pm.Model | None = None,
    method: str | np.ndarray | xr.Dataset | Explorer | Any | None = None,
    *,
    n_points: int = 4000,
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
        - an array of shape (N, d): points of the unconstrained space, as `BatchedDensity.ravel`
          lays them out.
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
        Passed to `pymc_spectral.exploration.tempering.temper` or ``pm.sample_smc``.

    Returns
    -------
    Exploration
    """
    model = pm.modelcontext(model)
    if rng is None:
        rng = np.random.default_rng(random_seed)
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, got {n_points}.")
    density = batched_density(model) if density is None else density

    if method is None or isinstance(method, str):
        name = "tempering" if method is None else method
        if name not in _METHODS:
            raise ValueError(
                f"Unknown way to explore: {name!r}. Use one of {sorted(_METHODS)}, an array of "
                "shape (N, d), an InferenceData or DataTree, or a function of (model, rng)."
            )
        return _METHODS[name](model, density, n_points, rng, progressbar, options)
    if options:
        raise TypeError(
            f"Options {sorted(options)} are only for {sorted(_METHODS)}: when points are handed in "
            "there is nothing to set."
        )
    if has_groups(method):
        return _finish(constrained_to_unconstrained(model, method), density, n_points, "idata")
    if callable(method):
        name = getattr(method, "__name__", type(method).__name__)
        try:
            inspect.signature(method).bind(model, rng)
        except (TypeError, ValueError):
            raise TypeError(
                f"explore={name} cannot be called as {name}(model, rng): it must take the model "
                "and a NumPy random generator, and return an (n, d) array of points."
            ) from None
        return _finish(method(model, rng), density, n_points, name)
    return _finish(method, density, n_points, "array")


def _by_tempering(
    model: pm.Model,
    density: BatchedDensity,
    n_points: int,
    rng: np.random.Generator,
    progressbar: bool,
    options: dict[str, Any],
) -> Exploration:
    """Explore by non-reversible parallel tempering."""
    from pymc_spectral.exploration.tempering import temper

    points, logp, report = temper(
        model, density=density, n_points=n_points, rng=rng, progressbar=progressbar, **options
    )
    return Exploration(points=points, logp=logp, source="tempering", tempering=report)


def _by_smc(
    model: pm.Model,
    density: BatchedDensity,
    n_points: int,
    rng: np.random.Generator,
    progressbar: bool,
    options: dict[str, Any],
) -> Exploration:
    """Explore by PyMC's sequential Monte Carlo."""
    chains = int(options.pop("chains", 2))
    options.setdefault("draws", max(500, -(-n_points // chains)))
    options.setdefault("cores", 1)
    options.setdefault("compute_convergence_checks", False)
    logger = logging.getLogger("pymc")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # Its log lines speak of a sampler the user did not call.
        result = pm.sample_smc(
            model=model,
            chains=chains,
            random_seed=int(rng.integers(2**31)),
            progressbar=progressbar,
            **options,
        )
    finally:
        logger.setLevel(level)
    return _finish(constrained_to_unconstrained(model, result), density, n_points, "smc")


_METHODS: Mapping[str, Callable[..., Exploration]] = {"tempering": _by_tempering, "smc": _by_smc}


def _finish(points: Any, density: BatchedDensity, n_points: int, source: str) -> Exploration:
    """Check points that somebody handed in, thin them evenly, and evaluate their density."""
    try:
        points = np.array(points, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Exploration needs an array of shape (N, {density.d}), an InferenceData or DataTree, "
            f"one of {sorted(_METHODS)}, or a function that returns such an array; got "
            f"{type(points).__name__}."
        ) from error
    if points.ndim == 1 and density.d == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != density.d:
        raise ValueError(
            f"Points must have shape (N, {density.d}): one row per point of the unconstrained "
            f"space, columns in the order of {list(density.names)}; got shape {points.shape}. "
            "BatchedDensity.ravel lays value variables out like that."
        )
    if len(points) == 0:
        raise ValueError("There are no points to start from: the array has zero rows.")
    bad = ~np.isfinite(points).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{bad.sum()} of {len(points)} points are not finite (first at row {bad.argmax()}). "
            "Drop them, e.g. points[np.isfinite(points).all(axis=1)]."
        )
    if len(points) > n_points:
        points = points[np.linspace(0, len(points) - 1, n_points).round().astype(int)]
    logp = density.logp(points)
    inside = np.isfinite(logp)
    if not inside.any():
        raise ValueError(
            f"The log density is -inf or NaN at all {len(points)} points. Are they on the "
            "unconstrained scale, and in the order of the value variables "
            f"{list(density.names)}?"
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
    values = [model.rvs_to_values[variable] for variable in model.free_RVs]
    order = [values.index(value) for value in model.value_vars]
    if isinstance(result, xr.Dataset):
        posterior: xr.Dataset | None = result
    else:
        unconstrained = group(result, "unconstrained_posterior")
        if unconstrained is not None and all(v.name in unconstrained for v in values):
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
    draws = [_draws(posterior, variable.name) for variable in model.free_RVs]
    mapped = _forward(model)(draws)
    return np.concatenate([mapped[i].reshape(len(mapped[i]), -1) for i in order], axis=1)


def _draws(dataset: xr.Dataset, name: str) -> np.ndarray:
    """Draws of a variable with chains laid one after another: (chains * draws, ...)."""
    value = dataset[name].transpose("chain", "draw", ...).to_numpy()
    return value.reshape(-1, *value.shape[2:])


def _forward(model: pm.Model) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Compile the transforms of all free variables, from the constrained space, for many draws."""
    variables = model.free_RVs
    inputs = [variable.type(name=variable.name) for variable in variables]
    outputs = []
    for variable, value in zip(variables, inputs, strict=True):
        transform = model.rvs_to_transforms.get(variable)
        outputs.append(
            value if transform is None else transform.forward(value, *variable.owner.inputs)
        )
    # Bounds may depend on other variables.
    outputs = graph_replace(
        [output + 0.0 for output in outputs],
        dict(zip(variables, inputs, strict=True)),
        strict=False,
    )
    try:
        batched = [
            pytensor.tensor.tensor(
                name=value.name, dtype=value.dtype, shape=(None, *value.type.shape)
            )
            for value in inputs
        ]
        results = vectorize_graph(outputs, dict(zip(inputs, batched, strict=True)))
        function = pytensor.function(batched, results, on_unused_input="ignore")
        return lambda draws: function(*_cast(draws, inputs))
    except Exception as error:  # An Op without a vectorised form: one draw after another.
        _log.debug("Transforms are applied draw by draw (%s).", error)
        one = pytensor.function(inputs, outputs, on_unused_input="ignore")

        def loop(draws: list[np.ndarray]) -> list[np.ndarray]:
            """Apply the transforms draw by draw."""
            rows = [one(*row) for row in zip(*_cast(draws, inputs), strict=True)]
            return [np.array(column) for column in zip(*rows, strict=True)]

        return loop


def _cast(draws: list[np.ndarray], inputs: list[Any]) -> list[np.ndarray]:
    """Give draws the dtype that the compiled function takes."""
    return [draw.astype(value.dtype) for draw, value in zip(draws, inputs, strict=True)]
