"""A target: a PyMC model together with the truth about it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray

__all__ = ["FloatArray", "IntArray", "Target"]

FloatArray = NDArray[np.float64]


IntArray = NDArray[np.int64]


def _identity(points: FloatArray) -> FloatArray:
    """Return the points as they are."""
    return points


@dataclass(frozen=True, eq=False)
class Target:
    """A PyMC model and the truth about it.

    Attributes
    ----------
    name : str
        What reports and test ids call it.
    dim : int
        Length of the raveled unconstrained vector.
    build : callable
        ``build()`` makes a fresh PyMC model.
    logp : callable
        ``logp(points)``: (m, dim) to (m,). Written in NumPy apart from the model, normalized as
        the model is (Jacobians included), so that the two can check each other.
    sample : callable or None
        ``sample(rng, n)``: (n, dim) independent exact draws; None where nobody can draw exactly.
    classify : callable
        ``classify(points)``: (m, dim) to (m,), the index of the mode each point belongs to.
    centers : ndarray, shape (n_modes, dim)
        A point well inside each mode.
    weights : ndarray, shape (n_modes,)
        Mass of each mode. Where modes overlap (``crossing``, ``pair1d`` with a wide s) this is the
        mass of the mixture component; ask :meth:`region_mass` for the mass of a region.
    mean, variance : ndarray, shape (size of ``variable``,)
        Posterior mean and variance of ``variable``, on the scale of the model's own variable. Nan
        where they do not exist or are not known.
    log_z : float
        Log of the integral of ``exp(logp)``: the log evidence.
    log_z_error : float
        Numerical error of ``log_z``; zero where it is a closed form.
    variable : str
        Name of the free variable that ``mean`` and ``variance`` are about: the model's only one, or
        where there are several the one that tells the modes apart.
    constrain : callable
        ``constrain(points)``: unconstrained points (m, dim) to the values of ``variable``, on its
        own scale, (m, size of ``variable``).
    """

    name: str
    dim: int
    build: Callable[[], pm.Model]
    logp: Callable[[FloatArray], FloatArray]
    sample: Callable[[np.random.Generator, int], FloatArray] | None
    classify: Callable[[FloatArray], IntArray]
    centers: FloatArray
    weights: FloatArray
    mean: FloatArray
    variance: FloatArray
    log_z: float
    log_z_error: float = 0.0
    variable: str = "x"
    constrain: Callable[[FloatArray], FloatArray] = _identity

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.weights)

    def __repr__(self) -> str:
        """Show what matters when a test prints it."""
        return f"Target({self.name!r}, dim={self.dim}, n_modes={self.n_modes})"

    def region_mass(
        self,
        classify: Callable[[FloatArray], ArrayLike],
        rng: np.random.Generator,
        n: int = 100_000,
        n_regions: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Measure the mass of any regions of the space by exact draws.

        Parameters
        ----------
        classify : callable
            (n, dim) points to (n,) region numbers counted from 0, a partition's ``predict`` say.
        rng : numpy.random.Generator
            Source of the exact draws.
        n : int
            Number of draws; the error falls as its square root.
        n_regions : int, optional
            Length of the answer. The default is the largest region number seen plus one, which
            is too short if the last regions are empty.

        Returns
        -------
        mass, error : ndarray, shape (n_regions,)
            Fraction of the draws in each region and its binomial standard error.
        """
        if self.sample is None:
            raise ValueError(
                f"{self.name} has no exact draws, so the mass of a region is not known; only that "
                f"of each of its {self.n_modes} modes is, target.weights."
            )
        region = np.asarray(classify(self.sample(rng, n)))
        mass = np.bincount(region, minlength=n_regions or 0) / n
        return mass, np.sqrt(mass * (1 - mass) / n)
