"""Metropolis' rule for a batch of proposals, and step sizes that learn from its answers.

References
----------
.. [1] Andrieu and Thoms. A tutorial on adaptive MCMC. Statistics and Computing 18 (2008).
   https://doi.org/10.1007/s11222-008-9110-y
"""

from __future__ import annotations

import numpy as np

__all__ = ["StepSize", "accept"]


def accept(change: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Accept or reject a batch of proposals by Metropolis' rule.

    Parameters
    ----------
    change : array
        Log density at the proposal less that at the current point, for a symmetric proposal. NaN
        is rejected: it comes from a difference of infinities, or from a trajectory that overflowed.
    rng : numpy.random.Generator
        Source of random numbers: one uniform per proposal.

    Returns
    -------
    accepted : array of bool
    probability : array
        Of accepting.
    """
    change = np.where(np.isnan(change), -np.inf, change)
    probability = np.exp(np.minimum(0.0, change))
    return rng.random(change.shape) < probability, probability


class StepSize:
    """Logarithms of step sizes, steered to an acceptance by stochastic approximation [1]_.

    Robbins and Monro: ``log += gain / (n + delay) ** 0.6 * (acceptance - target)`` at update n,
    counted from zero.

    Parameters
    ----------
    log : array of shape (k,)
        Logarithms to begin with.
    target : float
        Acceptance to steer to.
    gain, delay : float
        How far the first update goes, and how many updates the gains take to fade. Heuristics: one
        update at acceptance 0 or 1 changes a step by a third to a half, not by a factor of ten.
    """

    # Gains must sum to infinity and their squares must not: an exponent above 1/2, at most 1 [1]_.
    # Close to the lower end: rounds are short, and the target changes as replicas settle.
    exponent = 0.6

    def __init__(self, log: np.ndarray, target: float, gain: float = 1.5, delay: int = 6):
        self.log, self.target, self.gain, self.delay = log, target, gain, delay
        self.n_updates = 0

    def update(self, acceptance: np.ndarray) -> None:
        """Lengthen steps that are accepted too often, shorten the others."""
        gain = self.gain / (self.n_updates + self.delay) ** self.exponent
        self.log = self.log + gain * (acceptance - self.target)
        self.n_updates += 1

    def carry_over(self, origin: np.ndarray) -> None:
        """Start the gains anew, with the steps of those temperatures."""
        self.log = self.log[origin]
        self.n_updates = 0
