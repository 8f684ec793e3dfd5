"""The peaks that landmarks climb to, and the passes of the density between them.

Landmarks that were moved uphill end at few places where modes are compact, and along ridges where
they are bent. Places are joined to their neighbors in proportion to the conductance of the way: the
affinity of the paper, multiplied by exp(-depth) of the valley between, which is the acceptance of
the walk's step in a Metropolis chain. Where the density is flat no point moves, all depths are 0
inside the support, and distances alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from pymc_spectral.partition.cell_rules import Floats, Ints
from pymc_spectral.partition.quench import Quenched
from pymc_spectral.partition.segment_joining import (
    Joined,
    LogDensity,
    join_over_passes,
    lowest_between,
    saddles,
)
from pymc_spectral.partition.spectrum import KMEANS_STARTS, leading_eigenpairs, standardization

__all__ = ["Peaks", "find_peaks", "join_peaks"]

# Places nearer than this, in standard deviations of the landmarks, are one. Heuristic: the climb
# ends a thousand times nearer to a peak, and the walls of a needle are as far apart as this where
# it is fifty times narrower than all modes together.
ONE_PLACE = 0.02
# Up to so many places, the ways between all of them are tried; of more, those to the neighbors.
ALL_PAIRS = 40
NEIGHBORS = 10
# Points tried on the way to a neighbor, which is short (heuristic; see PATH_POINTS for long ways).
NEAR_PATH_POINTS = 5


@dataclass(frozen=True, eq=False)
class Peaks:
    """Places that landmarks ended at, and what lies between them.

    Attributes
    ----------
    points : array (m, d)
        The highest landmark of each place, as moved; the highest place first.
    heights : array (m,)
        Log density there.
    at_rest : array (m,) of bool
        Whether it had stopped gaining height.
    place : array (N,)
        Place of each landmark.
    first, second : array (e,)
        Pairs of places between which the straight way was looked at.
    passes : array (e,)
        The lowest log density on that way, ends included.
    eigenvalues : array
        Leading eigenvalues of the normalized, damped affinity, largest first.
    segment : array (m,)
        Group of each place, by k-means on the eigenvectors, if there are too many to be looked at
        one by one.
    """

    points: Floats
    heights: Floats
    at_rest: np.ndarray
    place: Ints
    first: Ints
    second: Ints
    passes: Floats
    eigenvalues: Floats
    segment: Ints


def find_peaks(
    landmarks: Floats,
    quenched: Quenched,
    logp: LogDensity,
    max_segments: int,
    rng: np.random.RandomState,
) -> Peaks:
    """Find the places where landmarks ended, and the spectrum of the ways between them.

    Parameters
    ----------
    landmarks : array (N, d)
        Before they were moved: their scale is the unit of distances.
    quenched : Quenched
        After.
    logp : callable
        Log density of an (m, d) array of points.
    max_segments : int
        Groups that places are put into at most.
    rng : RandomState
    """
    scaled = quenched.points / standardization(landmarks)[1]
    tops, place = _places(scaled, quenched.heights)
    points, heights, scaled = quenched.points[tops], quenched.heights[tops], scaled[tops]
    first, second, n_points = _pairs(scaled)
    lowest = lowest_between(points[first], points[second], logp, n_points)
    passes = np.minimum(lowest, np.minimum(heights[first], heights[second]))
    eigenvalues, segment = _spectrum(
        _damped_affinity(scaled, heights, first, second, passes, np.bincount(place)),
        max_segments,
        rng,
    )
    return Peaks(
        points,
        heights,
        quenched.at_rest[tops],
        place,
        first,
        second,
        passes,
        eigenvalues,
        segment,
    )


def join_peaks(
    peaks: Peaks, logp: LogDensity, *, n_cells: int | None, valley: float, min_size: int
) -> Joined:
    """Join the segments of places that no valley sets apart.

    The pass between two segments is the highest of all ways between their places, so that a bent
    mode is one although no straight way joins its ends.

    Parameters
    ----------
    peaks : Peaks
    logp : callable
        Log density of an (m, d) array of points.
    n_cells, valley, min_size
        As in :func:`pymc_spectral.partition.segment_joining.join_segments`.
    """
    n_segments = int(peaks.segment.max()) + 1
    # Places are in order of height: the first of a segment is its peak.
    top = np.array([int(np.argmax(peaks.segment == s)) for s in range(n_segments)])
    heights = peaks.heights[top]
    saddle = np.full((n_segments, n_segments), -np.inf)
    a, b = peaks.segment[peaks.first], peaks.segment[peaks.second]
    np.maximum.at(saddle, (a, b), peaks.passes)
    saddle = np.maximum(saddle, saddle.T)
    if len(peaks.points) > ALL_PAIRS:
        saddle = np.maximum(saddle, saddles(peaks.points[top], heights, logp))
    return join_over_passes(
        heights,
        saddle,
        np.bincount(peaks.segment[peaks.place], minlength=n_segments),
        n_cells=n_cells,
        valley=valley,
        min_size=min_size,
        founds=peaks.at_rest[top],
    )


def _places(scaled: Floats, heights: Floats) -> tuple[Ints, Ints]:
    """Return the highest point of each place, and the place of each point."""
    tops: list[int] = []
    place = np.empty(len(scaled), dtype=np.int64)
    centers = np.empty_like(scaled)
    for i in np.argsort(-heights, kind="stable"):
        squared = np.sum((centers[: len(tops)] - scaled[i]) ** 2, axis=1)
        if len(tops) and squared.min() < ONE_PLACE**2:
            place[i] = squared.argmin()
            continue
        place[i] = len(tops)
        centers[len(tops)] = scaled[i]
        tops.append(int(i))
    return np.array(tops), place


def _pairs(scaled: Floats) -> tuple[Ints, Ints, int]:
    """Return which places are joined by a way, and how many points to try on each."""
    m = len(scaled)
    if m <= ALL_PAIRS:
        first, second = np.triu_indices(m, 1)
        return first, second, 3 * NEAR_PATH_POINTS
    near = NearestNeighbors(n_neighbors=NEIGHBORS + 1).fit(scaled).kneighbors(scaled)[1][:, 1:]
    pairs = np.stack([np.repeat(np.arange(m), NEIGHBORS), near.ravel()], axis=1)
    first, second = np.unique(np.sort(pairs, axis=1), axis=0).T
    return first, second, NEAR_PATH_POINTS


def _damped_affinity(
    scaled: Floats, heights: Floats, first: Ints, second: Ints, passes: Floats, sizes: Ints
) -> Floats:
    """Return the normalized affinity of the places, (m, m), each as heavy as its landmarks."""
    m = len(scaled)
    k = min(NEIGHBORS, m - 1)
    distance = np.sum((scaled[first] - scaled[second]) ** 2, axis=1)
    local = np.ones(m)
    if k:
        far = NearestNeighbors(n_neighbors=k + 1).fit(scaled).kneighbors(scaled)[0][:, k]
        local = np.where(far > 0, far, 1.0)
    depth = np.minimum(heights[first], heights[second]) - passes
    weights = np.eye(m)
    weights[first, second] = np.exp(-distance / (local[first] * local[second]) - depth)
    weights = np.maximum(weights, weights.T) * np.outer(sizes, sizes)
    degree = weights.sum(axis=1)
    return weights / np.sqrt(np.outer(degree, degree))


def _spectrum(
    normalized: Floats, max_segments: int, rng: np.random.RandomState
) -> tuple[Floats, Ints]:
    """Return the leading eigenvalues, and the segment of each place."""
    m = len(normalized)
    values, vectors = leading_eigenpairs(normalized, min(m, max_segments + 1))
    if m <= max_segments:
        return values, np.arange(m)
    rows = vectors[:, :max_segments]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
    means = KMeans(max_segments, n_init=KMEANS_STARTS, random_state=rng).fit(rows)
    return values, np.unique(means.labels_, return_inverse=True)[1].astype(np.int64)
