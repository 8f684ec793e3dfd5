"""What each cell's chains saw, compared with what exploration saw there.

Arrays in, arrays out: the density of a cell comes as a function, so nothing here knows where the
points are from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from pymc_spectral.partition.cell_rules import Floats, Ints
from pymc_spectral.partition.segment_joining import (
    PRINCIPAL_DIRECTIONS,
    LogDensity,
    lowest_between,
    representative,
)
from pymc_spectral.partition.spectrum import standardization

__all__ = ["MAX_COMPARED", "Coverage", "coverage"]

MAX_COMPARED = 500
"""Points compared with draws, per cell, and draws looked at, per chain: distances cost their
product, and shares of half a percent are all that is asked for."""
# Draws of a cell compared with its points, in numbers of points: where chains went is to be known
# more densely than where they did not.
DRAWS_PER_POINT = 2
# Fewer points or draws than this have no scale to speak of.
FEWEST = 3
# A point is far from others beyond this many distances to their tenth neighbor. Heuristic: among
# draws of one mode such gaps are found in its outermost tail only.
FAR = 3.0
NEIGHBOR = 10
# Along one direction, what lies beyond the central 98 % of the others by half of that range is
# outside: 4.7 standard deviations of a normal.
TAILS = (0.01, 0.99)
MARGIN = 0.5
# Points tried on the path between two parts of a cell: more than between segments, for there are
# a few paths only, and a finding is reported from each.
PATH_POINTS = 25
# Rows tried as the point that stands for a part of a cell. Heuristic: the best of fifty draws is in
# the upper two percent.
ROWS_TRIED = 50
# Depth at which a valley is cut off: deeper ones are no different, and a file stores it.
DEEPEST = 1e6

CellDensity = Callable[[int, Floats], Floats]
Place = tuple[Floats, float]
Rows = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Coverage:
    """How well chains covered their cells, an array (n_cells,) for each figure.

    ``unvisited`` is the share of the explored points far from all draws, and ``wandering`` that of
    the draws far from all explored points. ``valley_unvisited`` is the depth of the valley between
    the draws and the unvisited points, ``valley_chains`` the deepest one between halves of chains.
    NaN where there are too few points to tell.
    """

    unvisited: Floats
    wandering: Floats
    valley_unvisited: Floats
    valley_chains: Floats


def coverage(
    draws: Floats,
    cell_of_chain: Ints,
    points: Floats,
    point_logp: Floats,
    point_cell: Ints,
    lowest_known: Floats,
    logp_in_cell: CellDensity,
) -> Coverage:
    """Compare what each cell's chains saw with what exploration saw there.

    Parameters
    ----------
    draws : array (chains, draws, d)
        Unconstrained draws; every cell has a chain.
    cell_of_chain : array (chains,)
    points : array (n, d)
        Points that the partition was learned from.
    point_logp : array (n,)
        Their log density.
    point_cell : array (n,)
        Their cells.
    lowest_known : array (n_cells,)
        Points of lower log density are no part of a mode. -inf: all are.
    logp_in_cell : callable
        ``logp_in_cell(cell, x)`` is the log density of an (m, d) array of points, and +inf
        where they are outside of the cell or where the density is not known.

    Returns
    -------
    Coverage
    """
    found = np.full((len(lowest_known), 4), np.nan)
    for cell, low in enumerate(lowest_known):
        mine = np.flatnonzero(point_cell == cell)
        mine = mine[_spread_out(points[mine])]
        found[cell] = _compare(
            draws[cell_of_chain == cell],
            points[mine],
            point_logp[mine] >= low,
            partial(logp_in_cell, cell),
        )
    return Coverage(*found.T)


def _spread_out(points: Floats) -> Ints:
    """Choose at most `MAX_COMPARED` distinct rows, evenly spaced in their order."""
    if len(points) == 0:
        return np.zeros(0, dtype=np.int64)
    rows = np.sort(np.unique(points, axis=0, return_index=True)[1])
    return rows[np.unique(np.linspace(0, len(rows) - 1, MAX_COMPARED).astype(int))]


def _compare(
    draws: Floats, points: Floats, known: Rows, logp: LogDensity
) -> tuple[float, float, float, float]:
    """Return the four figures of one cell, in the order of :class:`Coverage`."""
    places = _places_of_chains(draws, logp)
    valley_chains = max(
        (_valley(b, a, logp) for a, b in combinations(places, 2)),
        default=0.0,
    )
    some = _some_draws(draws)
    if len(points) < FEWEST or len(some) < FEWEST:
        return np.nan, np.nan, np.nan, valley_chains
    scale = standardization(points)[1]
    away, unvisited = _beyond(points / scale, some / scale)
    wandering = _beyond(some / scale, points / scale)[1]
    missed = away & known
    valley_unvisited = 0.0
    if missed.any():
        there = representative(points[missed], logp, n_tried=ROWS_TRIED)
        valley_unvisited = min(_valley(place, there, logp) for place in places)
    unvisited *= missed.sum() / max(int(away.sum()), 1)
    return unvisited, wandering, valley_unvisited, valley_chains


def _some_draws(draws: Floats) -> Floats:
    """Choose distinct draws of all chains, in a random order that is always the same."""
    flat = np.unique(draws.reshape(-1, draws.shape[2]), axis=0)
    rows = np.unique(np.linspace(0, len(flat) - 1, DRAWS_PER_POINT * MAX_COMPARED).astype(int))
    return np.random.default_rng(0).permutation(flat)[rows]


def _places_of_chains(draws: Floats, logp: LogDensity) -> list[Place]:
    """Return what stands for each half of each chain, and its log density."""
    halves = np.array_split(draws, 2, axis=1)
    parts = [half[chain] for chain in range(len(draws)) for half in halves]
    return [representative(part, logp, n_tried=ROWS_TRIED) for part in parts if len(part)]


def _valley(a: Place, b: Place, logp: LogDensity) -> float:
    """Return how far the log density drops between two places below the lower of them.

    Where the straight path leaves the cell it says nothing.
    """
    lowest = lowest_between(a[0][None], b[0][None], logp, PATH_POINTS)[0]
    return float(np.clip(min(a[1], b[1]) - lowest, 0.0, DEEPEST))


def _beyond(x: Floats, others: Floats) -> tuple[Rows, float]:
    """Return which rows of x lie beyond all `others`, and their share.

    Distances tell in few dimensions. In many, all points are far from each other alike, and a mode
    that differs in a few coordinates shows in those only: so single directions are looked at too,
    the coordinates, the leading principal components, and the one between the two means.
    """
    far = _is_far(x, others)
    both = np.concatenate([x, others])
    leading = np.linalg.svd(both - both.mean(axis=0), full_matrices=False)[2]
    leading = leading[:PRINCIPAL_DIRECTIONS]
    directions = np.concatenate(
        [np.eye(x.shape[1]), leading, [x.mean(axis=0) - others.mean(axis=0)]]
    )
    low, high = np.quantile(others @ directions.T, TAILS, axis=0)
    margin = MARGIN * (high - low)
    along = x @ directions.T
    outside = (along < low - margin) | (along > high + margin)
    worst = outside[:, int(outside.mean(axis=0).argmax())]
    return far | worst, float(max(far.mean(), worst.mean()))


def _is_far(x: Floats, others: Floats) -> Rows:
    """Return which rows of x lie far from all `others`, by the distances among those."""
    k = min(NEIGHBOR, len(others) - 1)
    local = np.partition(cdist(others, others), k, axis=1)[:, k]
    local = np.maximum(local, np.median(local))
    distance = cdist(x, others)
    nearest = distance.argmin(axis=1)
    return distance[np.arange(len(x)), nearest] > FAR * local[nearest]
