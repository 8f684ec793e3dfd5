"""Rules that give every point of R^d exactly one cell.

A partition learns one of these; it is then frozen. Each rule is a few arrays and a
``predict``; :mod:`pymc_spectral.cells.target` builds the same arithmetic as a PyTensor graph.
Exactness of the sampler never depends on which rule is used or how well it fits, because
the restricted chains and the bridge see the same frozen rule; only efficiency does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DiscriminantRule", "Floats", "Ints", "NystromRule", "Rule", "VoronoiRule"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows handled at a time: bounds the (rows, landmarks) work arrays to tens of megabytes.
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class VoronoiRule:
    """Nearest centre, in coordinates divided by ``scale``.

    Parameters
    ----------
    shift, scale : array (d,)
        Standardisation of the coordinates.
    centres : array (n_segments, d)
        Centres in standardised coordinates.
    owner : array (n_segments,)
        Cell that each centre belongs to.
    """

    shift: Floats
    scale: Floats
    centres: Floats
    owner: Ints

    def segment(self, x: Floats) -> Ints:
        """Index of the nearest centre of each row."""
        return _by_chunks(self._segment, x)

    def _segment(self, x: Floats) -> Ints:
        y = (x - self.shift) / self.scale
        score = y @ self.centres.T - 0.5 * np.sum(self.centres**2, axis=1)
        return np.argmax(score, axis=1)

    def predict(self, x: Floats) -> Ints:
        """Cell of each row."""
        return self.owner[self.segment(x)]


@dataclass(frozen=True, eq=False)
class DiscriminantRule:
    r"""Owner of the most likely component of a Student mixture.

    The score of component c is
    :math:`a_c - \frac{\nu + d}{2}\log(1 + |F_c^T (x - m_c)|^2 / \nu)`.
    Where two scores are equal the estimated densities are equal, so the boundary runs along
    the valley between two modes, and a cell's stray pieces hold little mass. The cost of a point
    does not depend on the number of landmarks.

    Parameters
    ----------
    means : array (n_components, d)
    factors : array (n_components, d, d) or (n_components, d)
        ``factors[c] @ factors[c].T`` is the precision of component c; with two axes, its diagonal
        factor, which makes a point cost O(n_components d).
    log_constants : array (n_components,)
        Log of the component's share plus its normalising constant.
    owner : array (n_components,)
        Cell that each component belongs to.
    dof : float
        Degrees of freedom nu.
    """

    means: Floats
    factors: Floats
    log_constants: Floats
    owner: Ints
    dof: float

    def distances(self, x: Floats) -> Floats:
        """Squared Mahalanobis distance of each row to each component."""
        out = np.empty((len(x), len(self.means)))
        for c, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            y = (x - mean) * factor if factor.ndim == 1 else (x - mean) @ factor
            out[:, c] = np.sum(y**2, axis=1)
        return out

    def scores(self, x: Floats) -> Floats:
        """Log of share times density of each component at each row."""
        power = 0.5 * (self.dof + self.means.shape[1])
        return self.log_constants - power * np.log1p(self.distances(x) / self.dof)

    def segment(self, x: Floats) -> Ints:
        """Index of the most likely component of each row."""
        return _by_chunks(lambda rows: np.argmax(self.scores(rows), axis=1), x)

    def predict(self, x: Floats) -> Ints:
        """Cell of each row."""
        return self.owner[self.segment(x)]


@dataclass(frozen=True, eq=False)
class NystromRule:
    r"""Nearest k-means centre in the spectral embedding, extended to all of R^d.

    The extension is :math:`z_k(x) = \lambda_k^{-1} \sum_j V_{jk}\, q(x, x_j) / \sqrt{d_j}`,
    then divided by its norm. The paper prints it without :math:`\sqrt{d_j}` and without the
    norm; as printed, most landmarks leave their own cell when the units change.

    Parameters
    ----------
    shift : array (d,)
    whiten : array (d, d)
        Coordinates are ``(x - shift) @ whiten`` before distances are taken.
    landmarks : array (N, d)
        In those coordinates.
    local_scale : array (N,)
        Bandwidth of each landmark; the affinity is ``exp(-|y - y_j|^2 / (s(y) s_j))``.
    n_neighbours : int
        ``s(y)`` is the distance to this neighbour; 0 means that all scales are constant.
    half_log_degree : array (N,)
        Half the log degree of each landmark.
    vectors : array (N, k)
        Eigenvectors divided by their eigenvalues.
    centres : array (n_segments, k)
        Centres of k-means in the row-normalised embedding.
    owner : array (n_segments,)
        Cell that each centre belongs to.
    landmark_segment : array (N,)
        Segment of each landmark.
    far : float
        Beyond this many local scales from the nearest landmark, its segment is taken.
    """

    shift: Floats
    whiten: Floats
    landmarks: Floats
    local_scale: Floats
    n_neighbours: int
    half_log_degree: Floats
    vectors: Floats
    centres: Floats
    owner: Ints
    landmark_segment: Ints
    far: float

    def squared_distances(self, x: Floats) -> Floats:
        """Squared distance of each row to each landmark."""
        y = (x - self.shift) @ self.whiten
        # Differences, not the expanded square: that one loses the landmark's own zero, on which
        # `predict(landmarks) == labels` rests, when coordinates are large.
        return np.sum((y[:, None, :] - self.landmarks[None, :, :]) ** 2, axis=2)

    def embed(self, x: Floats) -> Floats:
        """Row-normalised spectral coordinates of each row."""
        return np.concatenate([self._embed(rows)[0] for rows in _chunks(x, self._rows)])

    @property
    def _rows(self) -> int:
        return max(1, 4_000_000 // self.landmarks.size)

    def _embed(self, x: Floats) -> tuple[Floats, Floats]:
        squared = self.squared_distances(x)
        if self.n_neighbours:
            kth = np.partition(squared, self.n_neighbours, axis=1)[:, self.n_neighbours]
            own_scale = np.maximum(np.sqrt(kth), self.local_scale.min())
        else:
            own_scale = np.full(len(squared), self.local_scale[0])
        log_affinity = -squared / (own_scale[:, None] * self.local_scale) - self.half_log_degree
        log_affinity -= log_affinity.max(axis=1, keepdims=True)
        z = np.exp(log_affinity) @ self.vectors
        norm = np.sqrt(np.sum(z**2, axis=1, keepdims=True))
        return z / np.where(norm > 0, norm, 1.0), squared

    def _segment(self, x: Floats) -> Ints:
        z, squared = self._embed(x)
        near = np.argmax(z @ self.centres.T - 0.5 * np.sum(self.centres**2, axis=1), axis=1)
        closest = np.argmin(squared, axis=1)
        limit = (self.far * self.local_scale[closest]) ** 2
        is_far = squared[np.arange(len(x)), closest] > limit
        return np.where(is_far, self.landmark_segment[closest], near)

    def segment(self, x: Floats) -> Ints:
        """Index of the k-means segment of each row."""
        return _by_chunks(self._segment, x, self._rows)

    def predict(self, x: Floats) -> Ints:
        """Cell of each row."""
        return self.owner[self.segment(x)]


Rule = VoronoiRule | DiscriminantRule | NystromRule


def _chunks(x: Floats, rows: int = CHUNK):
    """Yield blocks of rows."""
    for start in range(0, max(len(x), 1), rows):
        yield x[start : start + rows]


def _by_chunks(function, x: Floats, rows: int = CHUNK) -> Ints:
    """Apply a row-wise function block by block."""
    return np.concatenate([function(block) for block in _chunks(x, rows)])
