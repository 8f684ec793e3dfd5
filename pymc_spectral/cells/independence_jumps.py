"""Jumps inside a cell: independent proposals from a density that resembles it, beside the kernel.

A kernel moves from where it is, and may not cross what lies inside its cell: the valley between two
modes that share it, the bend of a narrow one, a wall that cuts it in two. A point proposed
independently, from a density fitted to all that is known of the cell, lands on either side, and the
Metropolis-Hastings ratio makes the move exact whatever the density is. The density does not change
while draws count, so the chain is a Markov chain; it decides only how often a jump succeeds.

References
----------
Tierney (1994), Markov chains for exploring posterior distributions, The Annals of Statistics 22,
section 2.3.3: independence chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

__all__ = ["JumpDensity", "Jumped", "Jumps"]

Logp = Callable[[np.ndarray], float]

# Jumps of a draw while tuning, when their success is not known yet: what crosses a valley while
# tuning teaches the final proposal, and every fourth draw is enough to be taught.
WHILE_TUNING = 0.25
# Successes for each evaluation that the kernel makes, so that jumps which always succeed cost a
# tenth of a draw; and for each draw, at least and at most: a chain of which every fourth draw is
# nearly independent loses little by what happens in between, and beyond every one hardly anything
# is gained.
SUCCESSES_PER_EVALUATION = 0.1
LEAST_SUCCESSES, MOST_SUCCESSES = 0.25, 1.0
# But no more of them than half of the evaluations that the kernel makes by itself: jumps that fail
# may cost no more than half as much again. One for each draw is always allowed.
SHARE_OF_KERNEL = 0.5
# Points on either side from which the acceptance is foretold: all pairs of them count. One success
# in a hundred is mostly seen, and rarer ones are while tuning.
TRIED = 100
# Below this acceptance, fewer than one success in ten thousand draws, they are left out.
HOPELESS = 1e-4


class JumpDensity(Protocol):
    """A density that points can be drawn from."""

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Return a point and its log density."""
        ...

    def logpdf(self, x: np.ndarray) -> float | np.ndarray:
        """Return the log density of a point, or of the rows of an array."""
        ...


class Jumped(NamedTuple):
    """Where a draw is after its jumps.

    Attributes
    ----------
    x : array (d,)
    logp : float
        Log density there.
    tried, accepted : int
        Jumps of this draw.
    """

    x: np.ndarray
    logp: float
    tried: int
    accepted: int


class Jumps:
    """The jumps of one chain.

    Parameters
    ----------
    wanted : int or "auto"
        Jumps for each draw; 0 for none. ``"auto"`` decides when tuning ends.
    density : JumpDensity
        What points are proposed from, while tuning.
    rng : Generator

    Attributes
    ----------
    per_draw : float
        Jumps that a draw makes now, on average: of 1.3, three draws in ten make two, the others
        one. Which ones is left to chance, so that the chain stays a Markov chain.
    """

    def __init__(
        self, wanted: int | Literal["auto"], density: JumpDensity, rng: np.random.Generator
    ) -> None:
        self._wanted = wanted
        self._density = density
        self._rng = rng
        self._work = self._n_draws = 0.0
        self._tried = self._accepted = 0
        self.per_draw = WHILE_TUNING if wanted == "auto" else float(wanted)

    def settle(self, density: JumpDensity, draws: np.ndarray, logp: Logp) -> None:
        """End the tuning: take the density for good, and decide how many jumps a draw makes.

        Parameters
        ----------
        density : JumpDensity
        draws : array (m, d)
            Draws of the tuning, to foretell from how often a jump succeeds; may be empty.
        logp : callable
            Log density of a point in the cell, -inf outside.
        """
        self._density = density
        if self._wanted != "auto" or len(draws) == 0:
            return
        # The density is a better one than before, but what has succeeded can.
        seen = self._accepted / max(self._tried, 1)
        success = max(seen, self.foretold_acceptance(draws, logp))
        if success < HOPELESS:
            self.per_draw = 0.0
            return
        work = self._work / max(self._n_draws, 1.0)
        wanted = min(max(SUCCESSES_PER_EVALUATION * work, LEAST_SUCCESSES), MOST_SUCCESSES)
        self.per_draw = min(wanted / min(success, 1.0), max(1.0, SHARE_OF_KERNEL * work))

    def foretold_acceptance(self, draws: np.ndarray, logp: Logp) -> float:
        """Return how often a jump from one of these draws would be accepted."""
        draws = draws[:: -(-len(draws) // TRIED)]
        proposed = [self._density.draw(self._rng) for _ in range(TRIED)]
        here = np.array([logp(x) for x in draws]) - self._density.logpdf(draws)
        there = np.array([logp(x) - log_density for x, log_density in proposed])
        here = here[np.isfinite(here)]
        if len(here) == 0:
            return 0.0
        return float(np.mean(np.exp(np.minimum(there[:, None] - here[None, :], 0.0))))

    def observe_work(self, evaluations: float) -> None:
        """Remember how many evaluations of the density the kernel made for a draw of the tuning."""
        self._work += evaluations
        self._n_draws += 1.0

    def __call__(self, x: np.ndarray, level: float, logp: Logp) -> Jumped:
        """Make the jumps of one draw.

        Parameters
        ----------
        x : array (d,)
            Where the kernel ended.
        level : float
            Log density there, finite.
        logp : callable
            Log density of a point in the cell, -inf outside.
        """
        tried = int(self.per_draw)
        if tried < self.per_draw:
            tried += self._rng.random() < self.per_draw - tried
        if tried == 0:
            return Jumped(x, level, 0, 0)
        accepted = 0
        ratio = level - float(self._density.logpdf(x))
        for _ in range(tried):
            proposed, log_density = self._density.draw(self._rng)
            there = logp(proposed)
            if math.log1p(-self._rng.random()) < there - log_density - ratio:
                x, level, ratio = proposed, there, there - log_density
                accepted += 1
        self._accepted += accepted
        self._tried += tried
        return Jumped(x, level, tried, accepted)
