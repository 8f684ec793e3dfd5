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

from pymc_spectral.partition.rules import Floats, Ints

__all__ = ["Joined", "LogDensity", "join_segments", "kernel_log_density", "split_along_directions"]

LogDensity = Callable[[Floats], Floats]

# Points tried on the straight path between two segments.
PATH_POINTS = 15


@dataclass(frozen=True, eq=False)
class Joined:
    """Outcome of joining segments.

    ``owner`` (n_segments,) is the cell of each segment, ``prominences`` (n_segments - 1,) the
    depth of the valley around each peak but the highest, deepest first.
    """

    owner: Ints
    prominences: Floats


def kernel_log_density(x: Floats) -> LogDensity:
    """Log of a kernel density estimate whose bandwidth follows the neighbours' distance."""
    x = np.unique(x, axis=0)
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    y = x / scale
    d = x.shape[1]
    k = min(max(10, int(np.sqrt(len(x)))), len(x) - 1)
    distance = NearestNeighbors(n_neighbors=k + 1).fit(y).kneighbors(y)[0][:, k]
    distance = np.maximum(distance, 0.05 * np.median(distance))
    distance = np.where(distance > 0, distance, 1.0)

    def density(points: Floats) -> Floats:
        squared = cdist(points / scale, y, "sqeuclidean") / distance**2
        return logsumexp(-0.5 * squared - d * np.log(distance), axis=1)

    return density


def representatives(x: Floats, segment: Ints, logp: LogDensity) -> tuple[Floats, Floats]:
    """Point that stands for each segment, and its log density.

    The best of the segment's rows and of its mean: in many dimensions every draw is far below
    its peak, and the mean is the better guess of it; where a segment is curved the mean may lie
    outside, and a draw stands in.
    """
    n_segments = int(segment.max()) + 1
    means = np.array([x[segment == s].mean(axis=0) for s in range(n_segments)])
    candidates = np.vstack([x, means])
    member = np.concatenate([segment, np.arange(n_segments)])
    values = finite(logp(candidates))
    best = np.array(
        [(rows := np.flatnonzero(member == s))[np.argmax(values[rows])] for s in range(n_segments)]
    )
    return candidates[best], values[best]


def finite(values: Floats) -> Floats:
    """Replace -inf and NaN by a very low number, so that differences stay defined."""
    return np.where(np.isfinite(values), values, -1e300)


def saddles(points: Floats, heights: Floats, logp: LogDensity) -> Floats:
    """Lowest log density on the straight path between every two points."""
    n = len(points)
    first, second = np.triu_indices(n, 1)
    steps = np.linspace(0, 1, PATH_POINTS + 2)[1:-1]
    out = np.full((n, n), -np.inf)
    for block in np.array_split(np.arange(len(first)), max(1, len(first) // 256)):
        a, b = points[first[block]], points[second[block]]
        path = a[:, None, :] + steps[None, :, None] * (b - a)[:, None, :]
        values = finite(logp(path.reshape(-1, points.shape[1]))).reshape(len(block), -1)
        ends = np.minimum(heights[first[block]], heights[second[block]])
        out[first[block], second[block]] = np.minimum(values.min(axis=1), ends)
    return np.maximum(out, out.T)


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
    n_segments = int(segment.max()) + 1
    if n_segments == 1:
        return Joined(np.zeros(1, dtype=np.int64), np.zeros(0))
    points, heights = representatives(x, segment, logp)
    saddle = saddles(points, heights, logp)
    # Kruskal's order: the highest passes first. When two peaks meet at a pass, the lower one
    # ends; its height above the pass is its prominence.
    first, second = np.triu_indices(n_segments, 1)
    order = np.argsort(-saddle[first, second], kind="stable")
    edges = [(first[e], second[e], saddle[first[e], second[e]]) for e in order]
    sizes = np.bincount(segment, minlength=n_segments)

    prominences = _merge(heights, edges, np.inf, sizes, 0)[1]
    prominences = np.sort(prominences)[::-1]
    depth = valley
    floor = min_size
    if n_cells is not None:
        floor = 0
        if n_cells <= len(prominences) and prominences[n_cells - 1] >= valley:
            # More modes than cells asked for: keep the n_cells - 1 most prominent further peaks.
            depth = np.nextafter(prominences[n_cells - 1], np.inf)
    owner = _merge(heights, edges, depth, sizes, floor)[0]
    # Number cells from the highest peak down, so that numbering does not follow k-means.
    peaks = {c: heights[owner == c].max() for c in np.unique(owner)}
    rank = {c: r for r, c in enumerate(sorted(peaks, key=lambda c: -peaks[c]))}
    return Joined(np.array([rank[c] for c in owner], dtype=np.int64), prominences)


def _merge(
    heights: Floats, edges: list, depth: float, sizes: Ints, min_size: int
) -> tuple[Ints, Floats]:
    """Union segments over passes whose lower peak rises less than `depth` above them."""
    n = len(heights)
    owner = np.arange(n)
    peak = heights.copy()
    count = sizes.copy()
    prominences = []
    for relaxed in (False, True):
        for a, b, height in edges:
            a, b = owner[a], owner[b]
            if a == b:
                continue
            low, high = (a, b) if peak[a] < peak[b] else (b, a)
            too_small = relaxed and min(count[a], count[b]) < min_size
            if peak[low] - height < depth or too_small:
                prominences.append(peak[low] - height)
                count[high] += count[low]
                owner[owner == low] = high
    return owner, np.array(prominences)


def split_along_directions(
    x: Floats, labels: Ints, logp: LogDensity, *, valley: float, min_size: int, max_cells: int
) -> Ints:
    """Cut cells in two where a valley crosses a coordinate or a principal direction.

    In many dimensions two modes that differ in one coordinate only are near neighbours in the
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
    """Rows on the far side of the cut with the deepest valley, or None if none is deep enough."""
    n, d = x.shape
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    y = (x - x.mean(axis=0)) / scale
    principal = np.linalg.svd(y, full_matrices=False)[2][: min(5, d)]
    sides, ends = [], []
    for projection in (*y.T, *(y @ principal.T).T):
        order = np.argsort(projection, kind="stable")
        total = np.cumsum(projection[order])
        below = np.arange(1, n)
        # Between-class variance of every cut (Otsu's criterion); projections have mean zero.
        between = total[:-1] ** 2 / (below * (n - below))
        between[: min_size - 1] = between[n - min_size :] = -1.0
        side = np.zeros(n, dtype=bool)
        side[order[int(np.argmax(between)) + 1 :]] = True
        sides.append(side)
        ends.append([x[~side].mean(axis=0), x[side].mean(axis=0)])
    points = np.array(ends)  # (cuts, 2, d)
    tops = finite(logp(points.reshape(-1, d))).reshape(-1, 2)
    # The mean of a curved side may lie off its mass, and any path from there shows a valley. Only
    # means at least as high as the typical row are to be trusted.
    typical = np.array([[np.median(heights[~side]), np.median(heights[side])] for side in sides])
    trusted = np.all(tops >= typical, axis=1)
    steps = np.linspace(0, 1, PATH_POINTS + 2)[1:-1]
    path = points[:, :1] + steps[None, :, None] * (points[:, 1:] - points[:, :1])
    lowest = finite(logp(path.reshape(-1, d))).reshape(len(sides), -1).min(axis=1)
    depth = np.where(trusted, tops.min(axis=1) - lowest, -np.inf)
    deepest = int(np.argmax(depth))
    return sides[deepest] if depth[deepest] >= valley else None
