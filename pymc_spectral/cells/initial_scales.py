"""How far a kernel should move in a cell, from the landmarks of the cell.

A chain starts with the shape of its cell known: no draws are spent on finding it, and the first
trajectories and proposals already have the right size.
"""

from __future__ import annotations

import warnings

import numpy as np
from pymc.step_methods.hmc.quadpotential import (
    QuadPotential,
    QuadPotentialDiagAdapt,
    QuadPotentialFullAdapt,
)

__all__ = ["mass_matrix", "walk_covariance"]

METROPOLIS_SCALE = 2.38
"""Random-walk scale: Roberts, Gelman & Gilks (1997), optimal times the root of the dimension."""
DENSE_MAX_DIM = 30
"""Largest dense mass matrix. Heuristic: beyond, it takes more draws to learn than tuning has."""
INITIAL_WEIGHT = 10
"""Worth of the landmarks in draws, when the mass matrix adapts: as in ``pm.init_nuts``."""
LANDMARKS_PER_DIM = 2
"""Landmarks a dimension that a covariance needs. Heuristic: with fewer, its smallest eigenvalues
are mostly noise, and a diagonal is the safer shape."""
RIDGE = 1e-9
"""Part of the variances added to a covariance, so that landmarks in a plane leave it invertible.
Heuristic: far above rounding, far below the error of any covariance."""


def mass_matrix(members: np.ndarray, rng: np.random.Generator) -> QuadPotential:
    """Return a mass matrix that starts at the landmarks of a cell and adapts from there.

    Dense up to `DENSE_MAX_DIM` dimensions: a cell is one mode, so it has one covariance, and on
    correlated modes that doubles or trebles the effective draws of PyMC's diagonal default.

    Parameters
    ----------
    members : array (n, d)
        Landmarks of the cell.
    rng : numpy.random.Generator
        Draws the momenta.
    """
    d = members.shape[1]
    mean = members.mean(axis=0)
    if d > DENSE_MAX_DIM:
        return QuadPotentialDiagAdapt(d, mean, variances(members), INITIAL_WEIGHT, rng=rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "QuadPotentialFullAdapt is an experimental feature")
        return QuadPotentialFullAdapt(d, mean, covariance(members), INITIAL_WEIGHT, rng=rng)


def walk_covariance(members: np.ndarray) -> np.ndarray:
    """Return the covariance of a random walk's proposal, of shape (d, d)."""
    scale = METROPOLIS_SCALE**2 / members.shape[1]
    return scale * covariance(members)


def variances(members: np.ndarray) -> np.ndarray:
    """Return the variances of the landmarks of a cell, 1 where they do not vary."""
    # Not the square of `partition.spectrum.standardization`: taking the root and squaring it again
    # would move the last digit, and with it every chain.
    if len(members) < 2:
        return np.ones(members.shape[1])
    variance = members.var(axis=0)
    return np.where(variance > 0, variance, 1.0)


def covariance(members: np.ndarray) -> np.ndarray:
    """Return the covariance of the landmarks of a cell, diagonal where they are few."""
    variance = variances(members)
    n, d = members.shape
    if n <= LANDMARKS_PER_DIM * d:
        return np.diag(variance)
    return np.atleast_2d(np.cov(members.T)) + RIDGE * np.diag(variance)
