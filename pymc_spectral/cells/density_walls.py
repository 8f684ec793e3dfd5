"""Walls of the density, and places without slope, at which trajectories are of no use.

A trajectory that meets a region of no density ends there, and one that feels no slope flies
straight on into it. Random walks and slices only ask whether a point is allowed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.neighbors import NearestNeighbors

__all__ = ["AT_WALLS", "obstacle"]

AT_WALLS = "slice"
"""Kernel that copes with walls: it shrinks its step until it is allowed, and needs no tuning."""

# Points that are looked at, and share of all that are neighbors of each: a step from one neighbor
# to another is as long as a trajectory's, a fraction of the mode (heuristic).
LOOKED_AT = 400
NEIGHBORS, NEIGHBOR_SHARE = 10, 0.05
# From this share of such steps that end at a density of zero on, most trajectories meet a wall. A
# uniform density in a square has a fifth of them.
WALLED_SHARE = 0.1
# Slope, in log density for one standard deviation of all points, that counts as none, and the share
# of points that must have none.
NO_SLOPE = 1e-6
FLAT_SHARE = 0.5


def obstacle(
    points: np.ndarray,
    logp: Callable[[np.ndarray], np.ndarray],
    gradient: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
) -> str | None:
    """Return what trajectories would run into, in words; None if nothing was found.

    Parameters
    ----------
    points : array (n, d)
        Explored points, where the density is positive.
    logp : callable
        Log density of an (m, d) array of points.
    gradient : callable
        Log density and its gradient, (m,) and (m, d), of such an array.
    rng : Generator
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) <= NEIGHBORS:
        return None
    rows = distinct[rng.choice(len(distinct), min(len(distinct), LOOKED_AT), replace=False)]
    slopes = np.abs(gradient(rows)[1]) * points.std(axis=0)
    flat = float(np.mean((slopes < NO_SLOPE).all(axis=1)))
    if flat > FLAT_SHARE:
        return f"the density has no slope at {flat:.0%} of the explored points"
    n_near = max(NEIGHBORS, int(NEIGHBOR_SHARE * len(distinct)))
    near = NearestNeighbors(n_neighbors=n_near).fit(distinct).kneighbors(rows)[1]
    pair = rng.permuted(near, axis=1)[:, :2]
    steps = distinct[pair[:, 0]] - distinct[pair[:, 1]]
    walled = float(np.mean(np.isneginf(logp(rows + steps))))
    if walled > WALLED_SHARE:
        return f"{walled:.0%} of short steps end where the density is zero"
    return None
