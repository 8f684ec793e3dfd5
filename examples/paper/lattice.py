"""What a restricted Metropolis chain must be expected to do: exact moments of its mean.

On a lattice the transition matrix K of a chain can be written down. It is reversible, so that one
eigendecomposition gives all its powers, and with them the first two moments of the mean of T
steps, from any start: no simulation, no error but that of the spacing. Two exhibits compare their
simulated squared errors, and the paper's, with these.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import eigh

# A spectral gap below this is taken as none: within the lengths used here nothing ever crosses.
NO_GAP = 1e-9
# What is this far below the top of the log density is left out: no chain comes there.
DEPTH = 12.5


def lattice(low: Sequence[float], high: Sequence[float], spacing: float) -> np.ndarray:
    """Points of a square lattice that fills a box, as rows."""
    axes = [np.arange(a, b, spacing) + spacing / 2 for a, b in zip(low, high, strict=True)]
    return np.column_stack([axis.ravel() for axis in np.meshgrid(*axes)])


class LatticeChain:
    """Metropolis with proposal N(0, variance I) on points of a lattice; outside, it is rejected.

    Parameters
    ----------
    points : array (n, d)
    log_density : array (n,)
        Of the target, not normalized.
    variance : float
        Of the proposal, large against the squared spacing.
    spacing : float
    """

    def __init__(self, points, log_density, variance: float, spacing: float):
        self.points = points
        mass = np.exp(log_density - log_density.max())
        squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
        d = points.shape[1]
        moves = np.exp(-squared / (2 * variance)) * (spacing**2 / (2 * np.pi * variance)) ** (d / 2)
        moves *= np.exp(np.minimum(0, log_density[None] - log_density[:, None]))
        np.fill_diagonal(moves, 0)
        np.fill_diagonal(moves, 1 - moves.sum(axis=1))
        self.kernel = moves
        self.mass = mass / mass.sum()
        root = np.sqrt(self.mass)
        symmetric = moves * root[:, None] / root[None, :]
        self.values, self.vectors = eigh((symmetric + symmetric.T) / 2)
        self.values = np.where(1 - self.values < NO_GAP, 1.0, self.values)

    def start_at(self, places: np.ndarray) -> np.ndarray:
        """Law of a start that is any of these places, as likely as another."""
        nearest = ((self.points[:, None] - places[None]) ** 2).sum(axis=2).argmin(axis=0)
        return np.bincount(nearest, minlength=len(self.points)) / len(places)

    def moments(self, T: int, start: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, float]:
        """E[m - truth] and E|m - truth|^2 for the mean m of the T steps after a start.

        With f = x - truth and eigenpairs (v, u), the second is the sum over steps s of
        ``start K^s f (f + 2 sum_{j <= T - s} K^j f)``, in which only powers of v depend on s and j.
        """
        f = self.points - truth
        v, u, root = self.values, self.vectors, np.sqrt(self.mass)
        a, c = u.T @ (start / root), u.T @ (root[:, None] * f)
        occupied = _powers(v, T)
        visits = root * (u @ (a * occupied))  # expected number of steps at each point
        pairs = _pairs(v, T)
        second = visits @ (f**2).sum(axis=1)
        for g, h in zip(f.T, c.T, strict=True):
            second += 2 * a @ ((pairs * (u.T @ (g[:, None] * u))) @ h)
        return visits @ f / T, float(second) / T**2


def _powers(v: np.ndarray, T: int) -> np.ndarray:
    """Sum of v^s over s = 1..T."""
    one = v == 1
    return np.where(one, T, v * (1 - v**T) / np.where(one, 1, 1 - v))


def _pairs(v: np.ndarray, T: int) -> np.ndarray:
    """Sum of v_k^s v_l^j over s = 1..T and j = 1..T - s, for all pairs (k, l)."""
    steps, high = _powers(v, T), v**T
    difference = v[:, None] - v[None, :]
    same = np.abs(difference) < 1e-10
    # Sum of v_k^s v_l^(T - s) over s, a geometric one too.
    crossed = v[:, None] * np.where(
        same, T * v[:, None] ** (T - 1), (high[:, None] - high) / np.where(same, 1, difference)
    )
    one = v == 1
    pairs = v / np.where(one, 1, 1 - v) * (steps[:, None] - crossed)
    # v_l = 1: the inner sum is T - s, and the outer one T times steps less the sum of s v_k^s.
    weighted = np.where(one, T * (T + 1) / 2, (steps - T * v * high) / np.where(one, 1, 1 - v))
    pairs[:, one] = (T * steps - weighted)[:, None]
    return pairs


def restricted_chains(
    predict: Callable, log_density: Callable, points: np.ndarray, variance: float, spacing: float
) -> tuple[list[LatticeChain], np.ndarray]:
    """One chain for each cell that `predict` finds among the points, and the cells' masses."""
    height, cell = log_density(points), predict(points)
    points, height, cell = (a[np.isfinite(height)] for a in (points, height, cell))
    total = np.exp(height - height.max())
    chains, masses = [], []
    for k in np.unique(cell):
        mine = cell == k
        masses.append(total[mine].sum() / total.sum())
        deep = mine & (height > height[mine].max() - DEPTH)
        chains.append(LatticeChain(points[deep], height[deep], variance, spacing))
    return chains, np.array(masses)


def expected_error(
    chains: Sequence[LatticeChain],
    starts: Sequence[np.ndarray],
    weights: np.ndarray,
    truth: np.ndarray,
    T: int,
) -> float:
    """E|sum_k w_k m_k - truth|^2 for means m_k of independent chains and weights that sum to 1."""
    return float(error_parts(chains, starts, weights, truth, T).sum())


def error_parts(
    chains: Sequence[LatticeChain],
    starts: Sequence[np.ndarray],
    weights: np.ndarray,
    truth: np.ndarray,
    T: int,
) -> np.ndarray:
    """What :func:`expected_error` consists of: the squared bias, then each cell's variance."""
    found = [chain.moments(T, s, truth) for chain, s in zip(chains, starts, strict=True)]
    bias = sum(w * first for w, (first, _) in zip(weights, found, strict=True))
    variances = [
        w**2 * (second - first @ first) for w, (first, second) in zip(weights, found, strict=True)
    ]
    return np.array([bias @ bias, *variances])
