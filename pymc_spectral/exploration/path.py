"""Paths of densities for tempering, from something that can be sampled to the posterior.

``log target(x; beta) = log reference(x) + beta * V(x)`` with beta from 0 to 1. Either the reference
is the prior and V the likelihood, or the reference is a broad normal and V the log density less
that of the normal. The second is for models whose prior cannot be sampled: Flat, HalfFlat, a
CustomDist without ``random``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
import pymc as pm
from pymc.distributions.shape_utils import change_dist_size
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from scipy.linalg import solve_triangular

from pymc_spectral.density.batched import BatchedDensity
from pymc_spectral.exploration.reference import fit_normal

__all__ = ["NormalPath", "Path", "PriorPath", "Reference", "choose_path"]

_log = logging.getLogger(__name__)

Reference = Literal["auto", "prior", "normal"]


class Path(Protocol):
    """What tempering asks of a path."""

    name: str
    density: BatchedDensity
    scale: np.ndarray

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n independent points of the reference."""
        ...

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log reference and V at the rows of x."""
        ...

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log reference, V, and the gradient of log reference + beta V."""
        ...


class PriorPath:
    """From the prior to the posterior.

    Parameters
    ----------
    model : pymc.Model
        Model whose free variables can be forward-sampled.
    density : BatchedDensity
        Its density.
    seed : int
        Seed of the forward draws.
    """

    name = "prior"
    chunk = 256

    def __init__(self, model: pm.Model, density: BatchedDensity, seed: int):
        self.density = density
        self._draw = _prior_sampler(model, density, self.chunk, seed)
        self._pool = self._draw()
        log_prior, _ = density.parts(self._pool)
        if not np.isfinite(log_prior).all():
            raise ValueError(
                f"The prior log density is not finite at {(~np.isfinite(log_prior)).sum()} of "
                f"{self.chunk} of the prior's own draws."
            )
        self._used = 0
        self.scale = np.maximum(self._pool.std(axis=0), 1e-12)

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
        """Log prior and log likelihood."""
        return self.density.parts(x)

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log prior, log likelihood, and the gradient at inverse temperature beta."""
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
        """Log density of the normal, and the whitened points."""
        white = (x - self.mean) @ self._inverse_t
        return self._constant - 0.5 * np.square(white).sum(axis=1), white

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log normal, and log density less that."""
        reference, _ = self._reference(x)
        return reference, self.density.logp(x) - reference

    def evaluate_grad(
        self, x: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log normal, log density less that, and the gradient at inverse temperature beta."""
        reference, white = self._reference(x)
        logp, gradient = self.density.logp_and_grad(x)
        beta = beta[:, None]
        return reference, logp - reference, beta * gradient - (1 - beta) * (white @ self._inverse)


def choose_path(
    model: pm.Model,
    density: BatchedDensity,
    rng: np.random.Generator,
    reference: Reference = "auto",
    start: np.ndarray | None = None,
) -> Path:
    """Take the prior for a reference if it can be sampled, else fit a broad normal."""
    valid = ("auto", "prior", "normal")
    if reference not in valid:
        raise ValueError(f"Unknown reference {reference!r}. Use one of {valid}.")
    if reference != "normal":
        try:
            return PriorPath(model, density, int(rng.integers(2**31)))
        except Exception as error:
            if reference == "prior":
                raise ValueError(
                    f"The prior cannot be the reference, because it cannot be sampled: {error} "
                    'Leave `reference` out, or use reference="normal".'
                ) from error
            _log.debug("The prior cannot be sampled (%s): a normal is fitted.", error)
    mean, covariance = fit_normal(density, rng, start)
    return NormalPath(density, mean, covariance)


def _prior_sampler(
    model: pm.Model, density: BatchedDensity, n: int, seed: int
) -> Callable[[], np.ndarray]:
    """Make a function that draws n points of the prior, on the unconstrained space."""
    variables = model.free_RVs
    forward = []
    for variable in variables:
        transform = model.rvs_to_transforms.get(variable)
        forward.append(
            variable if transform is None else transform.forward(variable, *variable.owner.inputs)
        )
    order = [[model.rvs_to_values[v] for v in variables].index(value) for value in model.value_vars]
    # Drawing is a small share of the work: Python's linker spares seconds of compilation.
    mode = Mode(linker="py", optimizer="fast_compile")
    try:
        batched: dict[Any, Any] = {}
        for variable in variables:
            drawn = vectorize_graph(variable, batched) if batched else variable
            if drawn.type.ndim == variable.type.ndim:
                drawn = change_dist_size(variable, (n,), expand=True)
            batched[variable] = drawn
        outputs = vectorize_graph([forward[i] for i in order], batched)
        function = pm.compile([], outputs, random_seed=seed, mode=mode)

        def draw() -> np.ndarray:
            """Draw all points in one call."""
            return np.concatenate([value.reshape(n, -1) for value in function()], axis=1)

        trial = draw()
        if trial.shape == (n, density.d) and all(len(np.unique(c)) > n // 2 for c in trial.T):
            return draw
        raise ValueError(f"draws of shape {trial.shape} are not independent")
    except Exception as error:
        _log.debug("Prior draws cannot be vectorised (%s): one after another.", error)
    one = pm.compile([], [forward[i] for i in order], random_seed=seed, mode=mode)

    def loop() -> np.ndarray:
        """Draw point after point."""
        return np.array([np.concatenate([np.ravel(v) for v in one()]) for _ in range(n)])

    loop()
    return loop
