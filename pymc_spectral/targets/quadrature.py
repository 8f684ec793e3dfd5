"""Quadrature on even grids, and draws from the densities that are tabulated there."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pymc_spectral.targets.target import FloatArray, IntArray

__all__ = ["GridDensity", "grid_jitter", "log_trapezoid_weights"]


def log_trapezoid_weights(nodes: FloatArray) -> FloatArray:
    """Give the log weight of each of some evenly spaced nodes in the trapezoidal rule."""
    weights = np.full(len(nodes), nodes[1] - nodes[0])
    weights[[0, -1]] /= 2
    return np.log(weights)


def grid_jitter(rng: np.random.Generator, nodes: FloatArray, index: IntArray) -> FloatArray:
    """Move draws of nodes to draws from the density interpolated linearly between the nodes.

    If node i is drawn with its trapezoidal weight times its density, a triangular step of one
    spacing to either side (folded back at the ends) makes the draw one from the interpolant. Its
    variance is too large by a sixth of the squared spacing, which a fine grid makes negligible.
    """
    spacing = nodes[1] - nodes[0]
    moved = nodes[index] + rng.triangular(-spacing, 0, spacing, size=len(index))
    moved = np.abs(moved - nodes[0]) + nodes[0]
    return nodes[-1] - np.abs(nodes[-1] - moved)


@dataclass(frozen=True, eq=False)
class GridDensity:
    """A density of one variable, tabulated on nodes that lie close together.

    Attributes
    ----------
    nodes : ndarray, shape (n_nodes,)
        Evenly spaced, from where the density has not begun to where it has died out.
    logp : ndarray, shape (n_nodes,)
        Log density at the nodes; it need not be normalized.
    """

    nodes: FloatArray
    logp: FloatArray

    @property
    def log_mass_of_nodes(self) -> FloatArray:
        """Log of the trapezoidal weight times the density of each node."""
        return self.logp + log_trapezoid_weights(self.nodes)

    @property
    def log_z(self) -> float:
        """Log of the integral."""
        return float(logsumexp(self.log_mass_of_nodes))

    @property
    def mass(self) -> FloatArray:
        """Share of each node in the integral."""
        mass = np.exp(self.log_mass_of_nodes - self.log_z)
        return mass / mass.sum()

    @property
    def mean(self) -> float:
        """Mean of the density."""
        return float(self.mass @ self.nodes)

    @property
    def variance(self) -> float:
        """Variance of the density."""
        return float(self.mass @ (self.nodes - self.mean) ** 2)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw independently."""
        index = rng.choice(len(self.nodes), size=n, p=self.mass)
        return grid_jitter(rng, self.nodes, index)
