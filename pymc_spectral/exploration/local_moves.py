"""Local moves of tempering: every replica at every temperature moves in one batch.

A move leaves each temperature's density unchanged. What it has to learn (step sizes and shapes, one
per temperature) it learns in the early rounds; in the last one it is frozen.

References
----------
.. [1] Neal. MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo (2011).
   https://arxiv.org/abs/1206.1901
.. [2] Roberts, Gelman and Gilks. Weak convergence and optimal scaling of random walk Metropolis
   algorithms. Annals of Applied Probability 7 (1997).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from pymc_spectral.exploration.metropolis_acceptance import StepSize, accept
from pymc_spectral.exploration.tempered_path import Path

__all__ = ["Hamiltonian", "Moves", "RandomWalk", "Replicas"]

DENSE_LIMIT = 30
"""Up to this dimension shapes are full matrices, above it diagonals. Heuristic: the limit that the
kernels in a cell have too; a matrix of more columns takes more points than early rounds have."""

# Least number of points that a shape is learned from, by dimension, and of points that the shape of
# before (a diagonal) is worth. Heuristics: Stan, whose metric starts anew in each window too,
# shrinks by n / (n + 5); by dimension, since a matrix of d columns has that many more directions.
LEAST_POINTS = 16
LEAST_POINTS_PER_DIMENSION = 2
PRIOR_POINTS_PER_DIMENSION = 5.0
# Below this a variance is rounding only: a reciprocal or a Cholesky factor would overflow.
TINY_VARIANCE = 1e-200
# By this part the diagonal of a precision matrix is raised, so that Cholesky does not fail by
# rounding: far above that, far below what is known of the matrix.
LIFT = 1e-10


@dataclass
class Replicas:
    """Where the replicas are.

    Attributes
    ----------
    x : array of shape (temperatures, copies, d)
        Points.
    reference, value : arrays of shape (temperatures, copies)
        Log density of the reference there, and V of the path.
    """

    x: np.ndarray
    reference: np.ndarray
    value: np.ndarray

    def take(self, index: np.ndarray) -> None:
        """Rearrange the temperatures of each copy: `index` has shape (temperatures, copies)."""
        copies = np.arange(index.shape[1])
        self.x = self.x[index, copies]
        self.reference = self.reference[index, copies]
        self.value = self.value[index, copies]

    def move_to(
        self, moved: np.ndarray, x: np.ndarray, reference: np.ndarray, value: np.ndarray
    ) -> None:
        """Put those above the reference that `moved`, a mask, where they proposed to go."""
        shape = moved.shape
        self.x[1:][moved] = x.reshape(*shape, -1)[moved]
        self.reference[1:][moved] = reference.reshape(shape)[moved]
        self.value[1:][moved] = value.reshape(shape)[moved]


class Moves(Protocol):
    """What tempering asks of its local moves.

    `move` is called once a scan on the temperatures above the reference, and returns the mean
    acceptance per temperature. `learn` is called between rounds, with the place of each new
    temperature among the old ones.

    Attributes
    ----------
    adapting : bool
        Whether moves look at what they see, to learn from it. False in the last round.
    outside : float
        Share of this round's moves that were lost at zero density, at the worst temperature, as far
        as other moves would do better.
    """

    adapting: bool

    @property
    def outside(self) -> float:
        """Share of this round's moves that were lost at zero density."""
        ...

    def move(
        self, path: Path, replicas: Replicas, betas: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Move all replicas but those of the reference, in place."""
        ...

    def learn(self, origin: np.ndarray) -> None:
        """Update shapes from the round that ended, for a new ladder."""
        ...


class Hamiltonian:
    """A few leapfrog steps, with a step size and a metric for each temperature [1]_.

    The metric is the inverse of the mean outer product of gradients. For one normal that is its
    covariance; for several modes it is the shape of a mode, whereas the covariance of the draws
    would be that of the whole landscape.

    Parameters
    ----------
    n_temperatures, d : int
        Temperatures above the reference, and dimension.
    scale : array of shape (d,)
        Standard deviations of the reference: shapes to begin with.
    """

    # Above the 0.65 that is best for long trajectories and PyMC's 0.8 (heuristic: one step size for
    # all modes of a temperature, so the narrow ones need some reserve).
    target_acceptance = 0.87
    # In units of the shape, so that 1 is a standard deviation (heuristic: errs on the short side).
    first_step = 0.3
    # Step sizes are multiplied by a random factor, lest trajectories be periodic: [1]_, 5.4.2.2.
    jitter = (0.7, 1.3)
    # Between rounds steps stay between a crawl and the edge of stability, which for a normal is at
    # 2 standard deviations [1]_; whatever was learned goes on being corrected from there.
    step_limits = (0.05, 1.2)
    # A trajectory as long as a quarter of a normal's orbit, pi / 2, ends at an independent point.
    trajectory = 1.6
    # Of the step sizes of all temperatures this quantile decides on the number of steps: all of a
    # batch take equally many, and the few smallest steps must not make everybody pay (heuristic).
    step_quantile = 0.3
    first_leapfrog, min_leapfrog, max_leapfrog = 4, 2, 12

    def __init__(self, n_temperatures: int, d: int, scale: np.ndarray):
        self.d = d
        self.adapting = True
        self.dense = d <= DENSE_LIMIT
        self.step = StepSize(
            np.full(n_temperatures, np.log(self.first_step)), self.target_acceptance
        )
        factor = np.diag(scale) if self.dense else scale
        self.factor = np.repeat(factor[None], n_temperatures, axis=0)
        self.n_leapfrog = self.first_leapfrog
        self._reset(n_temperatures)

    def _reset(self, n: int) -> None:
        """Forget the gradients and acceptances of the last round."""
        self._outer = np.zeros((n, self.d, self.d) if self.dense else (n, self.d))
        self._sum = np.zeros((n, self.d))
        self._square = np.zeros((n, self.d))
        self._count = 0
        self._outside = np.zeros(n)

    @property
    def outside(self) -> float:
        """Share of trajectories of this round that ended at zero density, at its worst."""
        return float(self._outside.max() / max(self.step.n_updates, 1))

    def move(
        self, path: Path, replicas: Replicas, betas: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Run one trajectory at every temperature above the reference."""
        shape = replicas.x[1:].shape
        n, copies, d = shape
        weight = np.repeat(betas[1:], copies)
        x = replicas.x[1:].reshape(-1, d)
        log_reference, value, gradient = path.evaluate_grad(x, weight)
        start = (log_reference + weight * value).reshape(n, copies)
        if self.adapting:
            self._observe(replicas.x[1:], gradient.reshape(shape))
        velocity = rng.standard_normal(shape)
        kinetic = 0.5 * np.square(velocity).sum(axis=-1)
        step = np.exp(self.step.log)[:, None] * rng.uniform(*self.jitter, size=(n, copies))
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
        accepted, probability = accept(change, rng)
        replicas.move_to(accepted, x, log_reference, value)
        mean = probability.mean(axis=1)
        if self.adapting:
            self._outside += np.isneginf(end).mean(axis=1)
            self.step.update(mean)
        return mean

    def _push(self, velocity: np.ndarray) -> np.ndarray:
        """Turn whitened velocity into a change of position."""
        if self.dense:
            return velocity @ self.factor.transpose(0, 2, 1)
        return velocity * self.factor[:, None]

    def _pull(self, gradient: np.ndarray) -> np.ndarray:
        """Turn the gradient into a change of whitened velocity."""
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
        if _enough(self._count, self.d):
            self.factor = self._learned_factor()
            self.step.log = np.clip(self.step.log, *np.log(self.step_limits))
        self.factor = self.factor[origin]
        self.step.carry_over(origin)
        steps = np.exp(np.quantile(self.step.log, self.step_quantile))
        wanted = np.ceil(self.trajectory / steps)
        self.n_leapfrog = int(np.clip(wanted, self.min_leapfrog, self.max_leapfrog))
        self._reset(len(origin))

    def _learned_factor(self) -> np.ndarray:
        """Factor the inverse of the mean outer product of gradients, at each temperature."""
        n = self._count
        outer = self._outer / n
        # Where a density is flat, inside hard walls say, gradients tell nothing of its extent.
        variance = self._square / n - np.square(self._sum / n)
        least = 1.0 / np.maximum(variance, TINY_VARIANCE)
        if not self.dense:
            return 1.0 / np.sqrt(np.maximum(outer, least))
        seen = np.einsum("kii->ki", outer)
        keep = _trust(n, self.d)
        # The diagonal is not shrunk, and a trifle larger: Cholesky must not fail by rounding.
        lift = (1 + LIFT) * np.maximum(seen, least) - keep * seen
        precision = keep * outer + lift[:, :, None] * np.eye(self.d)
        lower = np.linalg.cholesky(precision)
        return np.stack([solve_triangular(c, np.eye(self.d), lower=True).T for c in lower])


class RandomWalk:
    """Metropolis steps of many sizes, for models without gradients.

    The shape of the steps is the covariance of the draws at that temperature. With several modes it
    is too wide, which is why each step is shortened by a random factor.

    Parameters
    ----------
    n_temperatures, d : int
        Temperatures above the reference, and dimension.
    scale : array of shape (d,)
        Standard deviations of the reference: shapes to begin with.
    """

    # Between 0.23, best in many dimensions, and 0.44, best in one [2]_.
    target_acceptance = 0.25
    # Over sqrt(d): the step that is best for a normal [2]_.
    first_step = 2.4
    # Steps are shortened by exp(-2 |z|), z standard normal, half of them to less than a quarter,
    # since a mode may be that much narrower than the draws of all modes (heuristic).
    shrinkage = 2.0
    # Steps in one move (heuristic: about the evaluations that a trajectory takes).
    n_steps = 6
    # Added to the diagonal, relative to it: Cholesky must not fail by rounding.
    jitter = 1e-8

    def __init__(self, n_temperatures: int, d: int, scale: np.ndarray):
        self.d = d
        self.adapting = True
        self.step = StepSize(
            np.full(n_temperatures, np.log(self.first_step / np.sqrt(d))), self.target_acceptance
        )
        self.factor = np.repeat(np.diag(scale)[None], n_temperatures, axis=0)
        self._reset(n_temperatures)

    def _reset(self, n: int) -> None:
        """Forget the draws of the last round."""
        self._sum = np.zeros((n, self.d))
        self._outer = np.zeros((n, self.d, self.d))
        self._count = 0

    @property
    def outside(self) -> float:
        """Zero: a step that leaves the support is rejected, and no other moves would do better."""
        return 0.0

    def move(
        self, path: Path, replicas: Replicas, betas: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Take a few Metropolis steps at every temperature above the reference."""
        n, copies, d = replicas.x[1:].shape
        weight = betas[1:, None]
        total = np.zeros(n)
        for _ in range(self.n_steps):
            shrink = np.exp(-self.shrinkage * np.abs(rng.standard_normal((n, copies))))
            size = np.exp(self.step.log)[:, None] * shrink
            jump = rng.standard_normal((n, copies, d)) @ self.factor.transpose(0, 2, 1)
            x = replicas.x[1:] + size[:, :, None] * jump
            log_reference, value = path.evaluate(x.reshape(-1, d))
            log_reference, value = log_reference.reshape(n, copies), value.reshape(n, copies)
            with np.errstate(invalid="ignore", over="ignore"):
                gained = weight * (value - replicas.value[1:])
                change = log_reference - replicas.reference[1:] + gained
            accepted, probability = accept(change, rng)
            replicas.move_to(accepted, x, log_reference, value)
            mean = probability.mean(axis=1)
            total += mean
            if self.adapting:
                self.step.update(mean)
        if self.adapting:
            self._sum += replicas.x[1:].sum(axis=1)
            self._outer += replicas.x[1:].transpose(0, 2, 1) @ replicas.x[1:]
            self._count += copies
        return total / self.n_steps

    def learn(self, origin: np.ndarray) -> None:
        """Take shapes from the draws, and carry both shapes and steps over to a new ladder."""
        n = self._count
        if _enough(n, self.d):
            mean = self._sum / n
            covariance = self._outer / n - mean[:, :, None] * mean[:, None, :]
            diagonal = np.maximum(np.einsum("kii->ki", covariance), TINY_VARIANCE)
            keep = _trust(n, self.d)
            covariance = keep * covariance + (1 - keep) * diagonal[:, :, None] * np.eye(self.d)
            covariance += self.jitter * diagonal[:, :, None] * np.eye(self.d)
            self.factor = np.linalg.cholesky(covariance)
        self.factor = self.factor[origin]
        self.step.carry_over(origin)
        self._reset(len(origin))


def _enough(n: int, d: int) -> bool:
    """Return whether n points are enough to learn a shape from."""
    return n > LEAST_POINTS_PER_DIMENSION * d + LEAST_POINTS


def _trust(n: int, d: int) -> float:
    """Return the weight of a matrix from n points against its own diagonal."""
    return n / (n + PRIOR_POINTS_PER_DIMENSION * d)
