"""Whether a valley of the density lies between two groups of points.

Spectral clustering with a small bandwidth cuts a mode into pieces, and its eigengap is fooled by
long or unequal modes. Here pieces are joined again unless the log density drops on the way from
one to the other: the persistence of the peaks of a graph whose nodes are segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors

from pymc_spectral.partition.cell_rules import Floats, Ints
from pymc_spectral.partition.spectrum import standardization

__all__ = [
    "PRINCIPAL_DIRECTIONS",
    "Joined",
    "LogDensity",
    "finite",
    "join_over_passes",
    "join_segments",
    "kernel_log_density",
    "lowest_between",
    "representative",
    "saddles",
    "split_along_directions",
]

LogDensity = Callable[[Floats], Floats]

# Points tried on the straight path between two segments. Heuristic: a valley as wide as a twentieth
# of the path is met, and the points of all pairs of `MAX_SEGMENTS` segments are still few.
PATH_POINTS = 15
# Pairs of segments whose paths are evaluated in one call: bounds the array of points.
PAIRS_AT_ONCE = 256
# Stands for a log density of -inf or NaN, so that differences stay defined.
VERY_LOW = -1e300
# Neighbor whose distance sets the bandwidth of the kernel estimate: the square root of the number
# of rows, as Loftsgaarden and Quesenberry (1965) advise, and at least this one.
MIN_BANDWIDTH_NEIGHBOR = 10
# Floor of the bandwidth, in medians: a tight knot of draws must not become a peak of its own.
# Heuristic, the same as that of the affinity.
BANDWIDTH_FLOOR = 0.05
# Principal directions looked along beside the coordinates. Heuristic: modes differ in few.
PRINCIPAL_DIRECTIONS = 5


@dataclass(frozen=True, eq=False)
class Joined:
    """Outcome of joining segments.

    ``owner`` (n_segments,) is the cell of each segment, ``prominences`` (n_segments - 1,) the
    depth of the valley around each peak but the highest, deepest first.
    """

    owner: Ints
    prominences: Floats


def kernel_log_density(x: Floats) -> LogDensity:
    """Return the log of a kernel density estimate whose bandwidth follows the neighbors' distance.

    Parameters
    ----------
    x : array (n, d)
        Draws, at least two of them distinct. Repeated rows count once.

    Returns
    -------
    callable
        Log density of an (m, d) array of points, up to a constant.
    """
    x = np.unique(x, axis=0)
    scale = standardization(x)[1]
    y = x / scale
    d = x.shape[1]
    k = min(max(MIN_BANDWIDTH_NEIGHBOR, int(np.sqrt(len(x)))), len(x) - 1)
    distance = NearestNeighbors(n_neighbors=k + 1).fit(y).kneighbors(y)[0][:, k]
    distance = np.maximum(distance, BANDWIDTH_FLOOR * np.median(distance))
    distance = np.where(distance > 0, distance, 1.0)

    def density(points: Floats) -> Floats:
        squared = cdist(points / scale, y, "sqeuclidean") / distance**2
        return logsumexp(-0.5 * squared - d * np.log(distance), axis=1)

    return density


# ---------------------------------------------------------------- points and paths


def finite(values: Floats) -> Floats:
    """Replace what is not finite by a very low number, so that differences stay defined."""
    return np.where(np.isfinite(values), values, VERY_LOW)


def representative(rows: Floats, logp: LogDensity, *, n_tried: int) -> tuple[Floats, float]:
    """Return the point that stands for some rows, and its log density.

    The mean of all rows or the best of a few of them, as :func:`representatives` does it for many
    groups at once.

    Parameters
    ----------
    rows : array (n, d)
    logp : callable
        Log density of an (m, d) array of points; a point where it is not finite stands for nothing
        unless all are so.
    n_tried : int
        At most so many rows, evenly spaced, are tried.
    """
    few = rows[np.linspace(0, len(rows) - 1, min(len(rows), n_tried)).astype(int)]
    candidates = np.vstack([rows.mean(axis=0), few])
    points, heights = _highest(candidates, np.zeros(len(candidates), dtype=np.int64), logp)
    return points[0], float(heights[0])


def representatives(x: Floats, segment: Ints, logp: LogDensity) -> tuple[Floats, Floats]:
    """Return the point that stands for each segment, and its log density.

    The best of the segment's rows and of its mean: in many dimensions every draw is far below
    its peak, and the mean is the better guess of it; where a segment is curved the mean may lie
    outside, and a draw stands in.

    Parameters
    ----------
    x : array (n, d)
    segment : array (n,)
        Segment of each row, all numbers from 0 on used.
    logp : callable
        Log density of an (m, d) array of points.

    Returns
    -------
    points : array (n_segments, d)
    heights : array (n_segments,)
    """
    n_segments = int(segment.max()) + 1
    means = np.array([x[segment == s].mean(axis=0) for s in range(n_segments)])
    # One call for all candidates: a compiled density is fastest on many points.
    member = np.concatenate([segment, np.arange(n_segments)])
    return _highest(np.vstack([x, means]), member, logp)


def _highest(candidates: Floats, group: Ints, logp: LogDensity) -> tuple[Floats, Floats]:
    """Return the candidate of each group with the highest log density, the first of equals."""
    values = finite(logp(candidates))
    best = []
    for g in range(int(group.max()) + 1):
        rows = np.flatnonzero(group == g)
        best.append(rows[np.argmax(values[rows])])
    return candidates[best], values[best]


def lowest_between(
    starts: Floats, ends: Floats, logp: LogDensity, n_points: int = PATH_POINTS
) -> Floats:
    """Return the lowest log density on the straight path between points, the ends left out.

    Parameters
    ----------
    starts, ends : array (m, d)
        Ends of m paths.
    logp : callable
        Log density of a (k, d) array of points. -inf and NaN count as very low; +inf says that
        nothing is known there, because the point is outside of what is looked at, say.
    n_points : int
        Points tried on each path, evenly spaced.

    Returns
    -------
    array (m,)
        +inf for a path of which nothing is known.
    """
    steps = np.linspace(0, 1, n_points + 2)[1:-1]
    path = starts[:, None, :] + steps[None, :, None] * (ends - starts)[:, None, :]
    values = np.asarray(logp(path.reshape(-1, starts.shape[1]))).reshape(len(starts), n_points)
    return np.where(values == np.inf, np.inf, finite(values)).min(axis=1)


def saddles(points: Floats, heights: Floats, logp: LogDensity) -> Floats:
    """Return the lowest log density on the path between every two points, (n, n), -inf inside."""
    n = len(points)
    first, second = np.triu_indices(n, 1)
    out = np.full((n, n), -np.inf)
    for block in np.array_split(np.arange(len(first)), max(1, len(first) // PAIRS_AT_ONCE)):
        a, b = first[block], second[block]
        lowest = lowest_between(points[a], points[b], logp)
        out[a, b] = np.minimum(lowest, np.minimum(heights[a], heights[b]))
    return np.maximum(out, out.T)


# ---------------------------------------------------------------- joining and splitting


def join_segments(
    x: Floats,
    segment: Ints,
    logp: LogDensity,
    *,
    n_cells: int | None,
    valley: float,
    min_size: int,
) -> Joined:
    """Join segments that no valley sets apart.

    Parameters
    ----------
    x : array (N, d)
    segment : array (N,)
        Segment of each row, all numbers from 0 on used.
    logp : callable
        Log density, up to a constant.
    n_cells : int or None
        Join until so many cells are left (never joins across fewer valleys than asked: the
        shallowest go first). ``None``: decided by `valley`.
    valley : float
        Depth from which a valley counts.
    min_size : int
        With ``n_cells=None``, a cell with fewer rows is joined across its shallowest valley.
    """
    if segment.max() == 0:
        return Joined(np.zeros(1, dtype=np.int64), np.zeros(0))
    points, heights = representatives(x, segment, logp)
    saddle = saddles(points, heights, logp)
    sizes = np.bincount(segment)
    return join_over_passes(
        heights, saddle, sizes, n_cells=n_cells, valley=valley, min_size=min_size
    )


def join_over_passes(
    heights: Floats,
    saddle: Floats,
    sizes: Ints,
    *,
    n_cells: int | None,
    valley: float,
    min_size: int,
    founds: NDArray[np.bool_] | None = None,
) -> Joined:
    """Join segments of known heights over known passes.

    Parameters
    ----------
    heights : array (n_segments,)
        Log density at the peak of each segment.
    saddle : array (n_segments, n_segments)
        Log density at the pass between every two.
    sizes : array (n_segments,)
        Rows of each segment.
    n_cells, valley, min_size
        As in :func:`join_segments`.
    founds : array (n_segments,) of bool, optional
        Segments that may become cells of their own. The others are joined to a higher one however
        deep the valley, as long as there is one that may. Default: all may.
    """
    n_segments = len(heights)
    founds = np.ones(n_segments, dtype=bool) if founds is None or not founds.any() else founds
    # Kruskal's order: the highest passes first. When two peaks meet at a pass, the lower one
    # ends; its height above the pass is its prominence.
    first, second = np.triu_indices(n_segments, 1)
    order = np.argsort(-saddle[first, second], kind="stable")
    edges = [(first[e], second[e], saddle[first[e], second[e]]) for e in order]

    # What is too small for a cell of its own is no mode that a cell should be asked for.
    floor = min_size if n_cells is None else 0
    prominences = np.sort(_merge(heights, edges, np.inf, sizes, floor, founds)[1])[::-1]
    depth = valley
    if n_cells is not None and n_cells <= len(prominences):
        if prominences[n_cells - 1] >= valley:
            # More modes than cells asked for: keep the n_cells - 1 most prominent further peaks.
            depth = np.nextafter(prominences[n_cells - 1], np.inf)
    owner = _merge(heights, edges, depth, sizes, floor, founds)[0]
    return Joined(_numbered_by_height(owner, heights), prominences)


def _numbered_by_height(owner: Ints, heights: Floats) -> Ints:
    """Give cells numbers from the highest peak down, so that numbering does not follow k-means."""
    peaks = {c: heights[owner == c].max() for c in np.unique(owner)}
    rank = {c: r for r, c in enumerate(sorted(peaks, key=lambda c: -peaks[c]))}
    return np.array([rank[c] for c in owner], dtype=np.int64)


def _merge(
    heights: Floats,
    edges: list,
    depth: float,
    sizes: Ints,
    min_size: int,
    founds: NDArray[np.bool_],
) -> tuple[Ints, Floats]:
    """Union segments over passes whose lower peak rises less than `depth` above them.

    Returns the group of each segment, and how far the peaks of groups of `min_size` rows rose above
    the passes over which they were joined. Of two groups of which only one has a segment that
    founds a cell, the other is the lower one.
    """
    n = len(heights)
    owner = np.arange(n)
    # Compared in this order: what founds a cell is above all that does not.
    rank = np.lexsort((heights, founds)).argsort()
    peak = np.arange(n)
    count = sizes.copy()
    prominences = []
    for relaxed in (False, True):
        for a, b, height in edges:
            a, b = owner[a], owner[b]
            if a == b:
                continue
            low, high = (a, b) if rank[peak[a]] < rank[peak[b]] else (b, a)
            too_small = relaxed and min(count[a], count[b]) < min_size
            rise = heights[peak[low]] - height
            if rise < depth or too_small or not founds[peak[low]]:
                if founds[peak[low]] and count[low] >= min_size:
                    prominences.append(rise)
                count[high] += count[low]
                owner[owner == low] = high
    return owner, np.array(prominences)


def split_along_directions(
    x: Floats, labels: Ints, logp: LogDensity, *, valley: float, min_size: int, max_cells: int
) -> Ints:
    """Cut cells in two where a valley crosses a coordinate or a principal direction.

    In many dimensions two modes that differ in one coordinate only are near neighbors in the
    rest, and no spectrum sees them. Along the coordinate itself they are plain: the two sides of
    its best cut, averaged over everything else, have a valley between them.

    Parameters
    ----------
    x : array (N, d)
    labels : array (N,)
        Cells so far.
    logp : callable
        Log density, up to a constant. An estimate would not do here: the paths tried run through
        places where there are no points.
    valley : float
        Depth from which a valley counts.
    min_size : int
        Rows that each side must have.
    max_cells : int
        Stop at so many cells.
    """
    labels = labels.copy()
    heights = finite(logp(x))
    pending = list(range(int(labels.max()) + 1))
    while pending and labels.max() + 1 < max_cells:
        cell = pending.pop()
        rows = np.flatnonzero(labels == cell)
        if len(rows) < 2 * min_size:
            continue
        side = _deepest_cut(x[rows], heights[rows], logp, valley, min_size)
        if side is not None:
            new = int(labels.max()) + 1
            labels[rows[side]] = new
            pending += [cell, new]
    return labels


def _deepest_cut(
    x: Floats, heights: Floats, logp: LogDensity, valley: float, min_size: int
) -> NDArray[np.bool_] | None:
    """Return the far side of the cut with the deepest valley, or None if none is deep enough."""
    d = x.shape[1]
    shift, scale = standardization(x)
    y = (x - shift) / scale
    principal = np.linalg.svd(y, full_matrices=False)[2][: min(PRINCIPAL_DIRECTIONS, d)]
    sides = [_best_cut(along, min_size) for along in (*y.T, *(y @ principal.T).T)]
    # The means of the two sides of each cut, (cuts, 2, d).
    points = np.array([[x[~side].mean(axis=0), x[side].mean(axis=0)] for side in sides])
    tops = finite(logp(points.reshape(-1, d))).reshape(-1, 2)
    # The mean of a curved side may lie off its mass, and any path from there shows a valley. Only
    # means at least as high as the typical row are to be trusted.
    typical = np.array([[np.median(heights[~side]), np.median(heights[side])] for side in sides])
    trusted = np.all(tops >= typical, axis=1)
    lowest = lowest_between(points[:, 0], points[:, 1], logp)
    depth = np.where(trusted, tops.min(axis=1) - lowest, -np.inf)
    deepest = int(np.argmax(depth))
    return sides[deepest] if depth[deepest] >= valley else None


def _best_cut(projection: Floats, min_size: int) -> NDArray[np.bool_]:
    """Return the far side of the cut with the largest variance between classes (Otsu 1979).

    Parameters
    ----------
    projection : array (n,)
        Rows along one direction, of mean zero.
    min_size : int
        Rows that each side must have.
    """
    n = len(projection)
    order = np.argsort(projection, kind="stable")
    total = np.cumsum(projection[order])
    below = np.arange(1, n)
    between = total[:-1] ** 2 / (below * (n - below))
    between[: min_size - 1] = between[n - min_size :] = -1.0
    side = np.zeros(n, dtype=bool)
    side[order[int(np.argmax(between)) + 1 :]] = True
    return side
