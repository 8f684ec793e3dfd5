"""Paths of densities for tempering, from something that can be sampled to the posterior.

``log target(x; beta) = log reference(x) + beta * V(x)`` with beta from 0 to 1. Either the reference
is the prior and V the likelihood, or the reference is a broad normal and V the log density less
that of the normal. The second is for models whose prior cannot be sampled: Flat, HalfFlat, a
CustomDist without ``random``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

import numpy as np
import pymc as pm
from pymc.distributions.shape_utils import change_dist_size
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from scipy.linalg import solve_triangular

from pymc_spectral._validate import one_of
from pymc_spectral.density.batched import BatchedDensity
from pymc_spectral.density.model_graph import forward_graphs
from pymc_spectral.exploration.normal_reference import fit_normal

__all__ = [
    "NormalPath",
    "Path",
    "PriorPath",
    "PriorSampler",
    "Reference",
    "choose_path",
    "prior_sampler",
]

_log = logging.getLogger(__name__)

Reference = Literal["auto", "prior", "normal"]

PriorSampler = Callable[[int, int], Callable[[], np.ndarray]]
"""Called with (n, seed), returns a function that draws n points of the prior, shape (n, d), at each
call. Raises where the prior cannot be sampled."""

# Draws of the prior made in one call: about as many replicas as a ladder of a dozen temperatures
# has, so that a call, which costs as much as a few draws, serves many scans (heuristic).
PRIOR_CHUNK = 256
# Least standard deviation of a coordinate's prior draws that is believed: moves divide by it.
LEAST_SCALE = 1e-12
# Draws are independent if in every coordinate at least this share of them differs from the others;
# where an Op ignores the batch, all are the same.
LEAST_DISTINCT = 0.5


class Path(Protocol):
    """What tempering asks of a path."""

    name: str
    density: BatchedDensity
    scale: np.ndarray

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n independent points of the reference."""
        ...

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate log reference and V at the rows of x."""
        ...

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate log reference, V, and the gradient of log reference + beta V."""
        ...


class PriorPath:
    """From the prior to the posterior.

    Parameters
    ----------
    density : BatchedDensity
        The model's density.
    draw : callable
        Returns points of the prior, an array of shape (n, d), new ones at each call.
    """

    name = "prior"

    def __init__(self, density: BatchedDensity, draw: Callable[[], np.ndarray]):
        self.density = density
        self._draw = draw
        self._pool = self._draw()
        log_prior, _ = density.parts(self._pool)
        if not np.isfinite(log_prior).all():
            raise ValueError(
                f"The prior log density is not finite at {(~np.isfinite(log_prior)).sum()} of "
                f"{len(self._pool)} of the prior's own draws."
            )
        self._used = 0
        self.scale = np.maximum(self._pool.std(axis=0), LEAST_SCALE)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw from the prior."""
        pieces = []
        while n > 0:
            if self._used == len(self._pool):
                self._pool, self._used = self._draw(), 0
            piece = self._pool[self._used : self._used + n]
            self._used += len(piece)
            n -= len(piece)
            pieces.append(piece)
        return pieces[0].copy() if len(pieces) == 1 else np.concatenate(pieces)

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate log prior and log likelihood."""
        return self.density.parts(x)

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate log prior, log likelihood, and the gradient at inverse temperature beta."""
        return self.density.parts_and_grad(x, beta)


class NormalPath:
    """From a normal to the posterior.

    Parameters
    ----------
    density : BatchedDensity
        The model's density.
    mean, covariance : array of shape (d,), (d, d)
        The normal's.
    """

    name = "normal"

    def __init__(self, density: BatchedDensity, mean: np.ndarray, covariance: np.ndarray):
        self.density = density
        self.mean = mean
        self._lower = np.linalg.cholesky(covariance)
        inverse = solve_triangular(self._lower, np.eye(density.d), lower=True)
        self._inverse_t = inverse.T.copy()
        self._inverse = inverse
        self._constant = -np.log(np.diag(self._lower)).sum() - 0.5 * density.d * np.log(2 * np.pi)
        self.scale = np.sqrt(np.diag(covariance))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw from the normal."""
        return self.mean + rng.standard_normal((n, self.density.d)) @ self._lower.T

    def _reference(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate the log density of the normal, and whiten the points."""
        white = (x - self.mean) @ self._inverse_t
        return self._constant - 0.5 * np.square(white).sum(axis=1), white

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate log normal, and log density less that."""
        reference, _ = self._reference(x)
        return reference, self.density.logp(x) - reference

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate log normal, log density less that, and the gradient at that temperature."""
        reference, white = self._reference(x)
        logp, gradient = self.density.logp_and_grad(x)
        beta = beta[:, None]
        return reference, logp - reference, beta * gradient - (1 - beta) * (white @ self._inverse)


def choose_path(
    density: BatchedDensity,
    rng: np.random.Generator,
    reference: Reference = "auto",
    start: np.ndarray | None = None,
    prior: PriorSampler | None = None,
) -> Path:
    """Take the prior for a reference if it can be sampled, else fit a broad normal.

    Parameters
    ----------
    density : BatchedDensity
        The model's density.
    rng : numpy.random.Generator
        Seeds the draws of the prior, or the search for a normal.
    reference : {"auto", "prior", "normal"}
        What to take; ``"prior"`` raises where it cannot be sampled.
    start : array of shape (d,) or (m, d), optional
        Points to look from when the normal is fitted.
    prior : callable, optional
        How to draw from the prior, see `PriorSampler`.
    """
    one_of("reference", reference, get_args(Reference))
    if reference != "normal":
        try:
            seed = int(rng.integers(2**31))
            if prior is None:
                raise ValueError("only the density is known.")
            return PriorPath(density, prior(PRIOR_CHUNK, seed))
        except Exception as error:
            if reference == "prior":
                reason = str(error).strip().partition("\n")[0].rstrip(".")
                raise ValueError(
                    f"The prior cannot be the reference, because it cannot be sampled: {reason}. "
                    'Leave `reference` out, or use reference="normal".'
                ) from error
            _log.debug("The prior cannot be sampled (%s): a normal is fitted.", error)
    mean, covariance = fit_normal(density, rng, start)
    return NormalPath(density, mean, covariance)


def prior_sampler(model: pm.Model, n: int, seed: int) -> Callable[[], np.ndarray]:
    """Compile a function that draws n points of a model's prior, on the unconstrained space.

    Parameters
    ----------
    model : pymc.Model
        Model whose free variables can be forward-sampled.
    n : int
        Points in one call.
    seed : int
        Seed of the draws.

    Returns
    -------
    callable
        Returns an array of shape (n, d), other points at each call. The generators belong to the
        model: a later sampler of the same model seeds them anew.
    """
    forward = forward_graphs(model)
    # Drawing is a small share of the work: Python's linker spares seconds of compilation.
    mode = Mode(linker="py", optimizer="fast_compile")
    try:
        outputs = vectorize_graph(forward, _batched_draws(model, n))
        if any(
            many.type.ndim != one.type.ndim + 1 for many, one in zip(outputs, forward, strict=True)
        ):
            raise ValueError(f"draws have axes beside one of length {n}")
        function = pm.compile([], outputs, random_seed=seed, mode=mode)

        def draw() -> np.ndarray:
            """Draw all points in one call."""
            return np.concatenate([value.reshape(n, -1) for value in function()], axis=1)

        trial = draw()
        if all(len(np.unique(column)) > LEAST_DISTINCT * n for column in trial.T):
            return draw
        raise ValueError(f"draws of shape {trial.shape} are not independent")
    except Exception as error:
        _log.debug("Prior draws cannot be vectorized (%s): one after another.", error)
    single = pm.compile([], forward, random_seed=seed, mode=mode)

    def loop() -> np.ndarray:
        """Draw point after point."""
        return np.array([np.concatenate([np.ravel(v) for v in single()]) for _ in range(n)])

    loop()
    return loop


def _batched_draws(model: pm.Model, n: int) -> dict[Any, Any]:
    """Give each random variable a leading axis of n independent draws."""
    batched: dict[Any, Any] = {}
    for variable in model.free_RVs:
        drawn = vectorize_graph(variable, batched) if batched else variable
        if drawn.type.ndim == variable.type.ndim:
            drawn = change_dist_size(variable, (n,), expand=True)
        batched[variable] = drawn
    return batched
