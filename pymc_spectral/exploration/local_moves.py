"""Local moves of tempering: every replica at every temperature moves in one batch.

A move leaves each temperature's density unchanged. What it has to learn (step sizes and shapes, one
per temperature) it learns in the early rounds; in the last one it is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from pymc_spectral.exploration.path import Path

__all__ = ["Hamiltonian", "Moves", "RandomWalk", "Replicas"]

DENSE_LIMIT = 30
"""Up to this dimension shapes are full matrices, above it diagonals."""


@dataclass
class Replicas:
    """Where the replicas are: arrays of shape (temperatures, copies) and points (..., d)."""

    x: np.ndarray
    reference: np.ndarray
    value: np.ndarray

    def take(self, index: np.ndarray) -> None:
        """Rearrange the temperatures of each copy: `index` has shape (temperatures, copies)."""
        copies = np.arange(index.shape[1])
        self.x = self.x[index, copies]
        self.reference = self.reference[index, copies]
        self.value = self.value[index, copies]


class Moves(Protocol):
    """What tempering asks of its local moves.

    `move` is called once a scan on the temperatures above the reference, and returns the mean
    acceptance per temperature. `learn` is called between rounds, with the place of each new
    temperature among the old ones.
    """

    def move(
        self, path: Path, state: Replicas, betas: np.ndarray, rng: np.random.Generator, adapt: bool
    ) -> np.ndarray:
        """Move all replicas but those of the reference, in place."""
        ...

    def learn(self, origin: np.ndarray) -> None:
        """Update shapes from the round that ended, for a new ladder."""
        ...


class Hamiltonian:
    """A few leapfrog steps, with a step size and a metric for each temperature.

    The metric is the inverse of the mean outer product of gradients. For one normal that is its
    covariance; for several modes it is the shape of a mode, whereas the covariance of the draws
    would be that of the whole landscape.

    Parameters
    ----------
    n_temperatures, d : int
        Temperatures above the reference, and dimension.
    target : float
        Acceptance to steer the step sizes to.
    """

    max_leapfrog = 12

    def __init__(self, n_temperatures: int, d: int, scale: np.ndarray, target: float = 0.87):
        self.d, self.target = d, target
        self.dense = d <= DENSE_LIMIT
        self.log_step = np.full(n_temperatures, np.log(0.3))
        factor = np.diag(scale) if self.dense else scale
        self.factor = np.repeat(factor[None], n_temperatures, axis=0)
        self.n_leapfrog = 4
        self._reset(n_temperatures)

    def _reset(self, n: int) -> None:
        """Forget the gradients and acceptances of the last round."""
        self._outer = np.zeros((n, self.d, self.d) if self.dense else (n, self.d))
        self._sum = np.zeros((n, self.d))
        self._square = np.zeros((n, self.d))
        self._count = 0
        self._moves = 0
        self._outside = np.zeros(n)

    @property
    def outside(self) -> float:
        """Share of trajectories of this round that ended at zero density, at its worst."""
        return float(self._outside.max() / max(self._moves, 1))

    def move(
        self, path: Path, state: Replicas, betas: np.ndarray, rng: np.random.Generator, adapt: bool
    ) -> np.ndarray:
        """Run one trajectory at every temperature above the reference."""
        n, copies, d = state.x.shape[0] - 1, state.x.shape[1], self.d
        weight = np.repeat(betas[1:], copies)
        shape = (n, copies, d)
        x = state.x[1:].reshape(-1, d)
        log_reference, value, gradient = path.evaluate_grad(x, weight)
        start = (log_reference + weight * value).reshape(n, copies)
        if adapt:
            self._observe(state.x[1:], gradient.reshape(shape))
        velocity = rng.standard_normal(shape)
        kinetic = 0.5 * np.square(velocity).sum(axis=-1)
        step = np.exp(self.log_step)[:, None] * rng.uniform(0.7, 1.3, size=(n, copies))
        step = step[:, :, None]
        n_leapfrog = int(rng.integers(self.n_leapfrog // 2 + 1, self.n_leapfrog + 1))
        velocity += 0.5 * step * self._pull(gradient.reshape(shape))
        for i in range(n_leapfrog):
            x = x + (step * self._push(velocity)).reshape(-1, d)
            log_reference, value, gradient = path.evaluate_grad(x, weight)
            size = 1.0 if i < n_leapfrog - 1 else 0.5
            velocity += (size * step) * self._pull(gradient.reshape(shape))
        end = (log_reference + weight * value).reshape(n, copies)
        with np.errstate(invalid="ignore", over="ignore"):
            change = end - start + kinetic - 0.5 * np.square(velocity).sum(axis=-1)
            change[np.isnan(change)] = -np.inf
            probability = np.exp(np.minimum(0.0, change))
        accept = rng.random((n, copies)) < probability
        state.x[1:][accept] = x.reshape(shape)[accept]
        state.reference[1:][accept] = log_reference.reshape(n, copies)[accept]
        state.value[1:][accept] = value.reshape(n, copies)[accept]
        mean = probability.mean(axis=1)
        if adapt:
            self._moves += 1
            self._outside += np.isneginf(end).mean(axis=1)
            self.log_step += 1.5 / (self._moves + 5) ** 0.6 * (mean - self.target)
        return mean

    def _push(self, velocity: np.ndarray) -> np.ndarray:
        """From whitened velocity to a change of position."""
        if self.dense:
            return velocity @ self.factor.transpose(0, 2, 1)
        return velocity * self.factor[:, None]

    def _pull(self, gradient: np.ndarray) -> np.ndarray:
        """From the gradient to a change of whitened velocity."""
        return gradient @ self.factor if self.dense else gradient * self.factor[:, None]

    def _observe(self, x: np.ndarray, gradient: np.ndarray) -> None:
        """Add up outer products of gradients, and moments of the points."""
        self._sum += x.sum(axis=1)
        self._square += np.square(x).sum(axis=1)
        if self.dense:
            self._outer += gradient.transpose(0, 2, 1) @ gradient
        else:
            self._outer += np.square(gradient).sum(axis=1)
        self._count += gradient.shape[1]

    def learn(self, origin: np.ndarray) -> None:
        """Take shapes from the gradients, and carry both shapes and steps over to a new ladder."""
        n = self._count
        if n > 2 * self.d + 16:
            outer = self._outer / n
            # Where a density is flat, inside hard walls say, gradients tell nothing of its extent.
            variance = self._square / n - np.square(self._sum / n)
            least = 1.0 / np.maximum(variance, 1e-200)
            if self.dense:
                seen = np.einsum("kii->ki", outer)
                keep = n / (n + 5.0 * self.d)
                lift = (1 + 1e-10) * np.maximum(seen, least) - keep * seen
                precision = keep * outer + lift[:, :, None] * np.eye(self.d)
                lower = np.linalg.cholesky(precision)
                self.factor = np.stack(
                    [solve_triangular(c, np.eye(self.d), lower=True).T for c in lower]
                )
            else:
                self.factor = 1.0 / np.sqrt(np.maximum(outer, least))
            self.log_step = np.clip(self.log_step, np.log(0.05), np.log(1.2))
        self.factor = self.factor[origin]
        self.log_step = self.log_step[origin]
        steps = np.exp(np.quantile(self.log_step, 0.3))
        self.n_leapfrog = int(np.clip(np.ceil(1.6 / steps), 2, self.max_leapfrog))
        self._reset(len(origin))


class RandomWalk:
    """Metropolis steps of many sizes, for models without gradients.

    The shape of the steps is the covariance of the draws at that temperature. With several modes it
    is too wide, which is why each step is shortened by a random factor.
    """

    def __init__(
        self, n_temperatures: int, d: int, scale: np.ndarray, n_steps: int = 6, target: float = 0.25
    ):
        self.d, self.target, self.n_steps = d, target, n_steps
        self.log_step = np.full(n_temperatures, np.log(2.4 / np.sqrt(d)))
        self.factor = np.repeat(np.diag(scale)[None], n_temperatures, axis=0)
        self._reset(n_temperatures)

    def _reset(self, n: int) -> None:
        """Forget the draws of the last round."""
        self._sum = np.zeros((n, self.d))
        self._outer = np.zeros((n, self.d, self.d))
        self._count = 0
        self._moves = 0

    def move(
        self, path: Path, state: Replicas, betas: np.ndarray, rng: np.random.Generator, adapt: bool
    ) -> np.ndarray:
        """Take a few Metropolis steps at every temperature above the reference."""
        n, copies, d = state.x.shape[0] - 1, state.x.shape[1], self.d
        weight = betas[1:, None]
        total = np.zeros(n)
        for _ in range(self.n_steps):
            shrink = np.exp(-2.0 * np.abs(rng.standard_normal((n, copies))))
            size = np.exp(self.log_step)[:, None] * shrink
            jump = rng.standard_normal((n, copies, d)) @ self.factor.transpose(0, 2, 1)
            x = state.x[1:] + size[:, :, None] * jump
            log_reference, value = path.evaluate(x.reshape(-1, d))
            log_reference, value = log_reference.reshape(n, copies), value.reshape(n, copies)
            with np.errstate(invalid="ignore", over="ignore"):
                change = log_reference - state.reference[1:] + weight * (value - state.value[1:])
                change[np.isnan(change)] = -np.inf
                probability = np.exp(np.minimum(0.0, change))
            accept = rng.random((n, copies)) < probability
            state.x[1:][accept] = x[accept]
            state.reference[1:][accept] = log_reference[accept]
            state.value[1:][accept] = value[accept]
            mean = probability.mean(axis=1)
            total += mean
            if adapt:
                self._moves += 1
                gain = 1.5 / (self._moves + 5) ** 0.6
                self.log_step += gain * (mean - self.target)
        if adapt:
            self._sum += state.x[1:].sum(axis=1)
            self._outer += state.x[1:].transpose(0, 2, 1) @ state.x[1:]
            self._count += copies
        return total / self.n_steps

    def learn(self, origin: np.ndarray) -> None:
        """Take shapes from the draws, and carry both shapes and steps over to a new ladder."""
        n = self._count
        if n > 2 * self.d + 16:
            mean = self._sum / n
            covariance = self._outer / n - mean[:, :, None] * mean[:, None, :]
            diagonal = np.maximum(np.einsum("kii->ki", covariance), 1e-200)
            keep = n / (n + 5.0 * self.d)
            covariance = keep * covariance + (1 - keep) * diagonal[:, :, None] * np.eye(self.d)
            covariance += 1e-8 * diagonal[:, :, None] * np.eye(self.d)
            self.factor = np.linalg.cholesky(covariance)
        self.factor = self.factor[origin]
        self.log_step = self.log_step[origin]
        self._reset(len(origin))
