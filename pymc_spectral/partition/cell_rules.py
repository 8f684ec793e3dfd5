"""Rules that give every point of R^d exactly one cell.

A partition learns one of these; it is then frozen. Each rule is a few arrays and a ``predict``;
:mod:`pymc_spectral.cells.restricted_target` builds the same arithmetic as a PyTensor graph.
Exactness of the sampler never depends on which rule is used or how well it fits, because the
restricted chains and the bridge see the same frozen rule; only efficiency does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pymc_spectral._row_blocks import fitting, slices

__all__ = [
    "FULL_MAX_DIM",
    "RULES",
    "DiscriminantRule",
    "Floats",
    "Ints",
    "NystromRule",
    "Rule",
    "VoronoiRule",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows handled at a time: bounds the (rows, components) work arrays to tens of megabytes.
ROWS_AT_ONCE = 2048
# Numbers in the (rows, landmarks, d) work array of a Nystrom rule: 32 MB.
NYSTROM_BUDGET = 4_000_000

FULL_MAX_DIM = 8
"""Above this dimension the factors of a discriminant rule cost its graph a product per component.

Up to it, elementwise work beats the overhead of calling products. Heuristic, and the same on any
machine: what a rule looks like must not depend on a clock.
"""


class FrozenRule:
    """What all rules share: cells from segments, and a form that a file can hold."""

    owner: Ints

    def segment(self, x: Floats) -> Ints:
        """Return the index of the segment of each row."""
        raise NotImplementedError

    def predict(self, x: Floats) -> Ints:
        """Return the cell of each row."""
        return self.owner[self.segment(x)]

    def eccentricity(self, x: Floats) -> Floats:
        """Return how far each row is from the center of its segment."""
        raise NotImplementedError

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the fields by name, numbers as arrays without axes."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Rebuild a rule from what :meth:`to_arrays` returned."""
        values = {f.name: np.asarray(arrays[f.name]) for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{n: v.item() if v.ndim == 0 else v for n, v in values.items()})


@dataclass(frozen=True, eq=False)
class VoronoiRule(FrozenRule):
    """Nearest center, in coordinates divided by ``scale``.

    Parameters
    ----------
    shift, scale : array (d,)
        Standardization of the coordinates.
    centers : array (n_segments, d)
        Centers in standardized coordinates.
    owner : array (n_segments,)
        Cell that each center belongs to.
    """

    shift: Floats
    scale: Floats
    centers: Floats
    owner: Ints

    def segment(self, x: Floats) -> Ints:
        """Return the index of the nearest center of each row."""
        return _by_chunks(self._segment, x)

    def eccentricity(self, x: Floats) -> Floats:
        """Return the distance of each row from the nearest center."""
        return np.linalg.norm((x - self.shift) / self.scale - self.centers[self.segment(x)], axis=1)

    def _segment(self, x: Floats) -> Ints:
        y = (x - self.shift) / self.scale
        score = y @ self.centers.T - 0.5 * np.sum(self.centers**2, axis=1)
        return np.argmax(score, axis=1)


@dataclass(frozen=True, eq=False)
class DiscriminantRule(FrozenRule):
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
        Log of the component's share plus its normalizing constant.
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
        """Return the squared Mahalanobis distance of each row to each component."""
        out = np.empty((len(x), len(self.means)))
        for c, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            y = (x - mean) * factor if factor.ndim == 1 else (x - mean) @ factor
            out[:, c] = np.sum(y**2, axis=1)
        return out

    def scores(self, x: Floats) -> Floats:
        """Return the log of share times density of each component at each row."""
        power = 0.5 * (self.dof + self.means.shape[1])
        return self.log_constants - power * np.log1p(self.distances(x) / self.dof)

    def eccentricity(self, x: Floats) -> Floats:
        """Return the squared Mahalanobis distance of each row from its component."""
        return self.distances(x)[np.arange(len(x)), self.segment(x)]

    def segment(self, x: Floats) -> Ints:
        """Return the index of the most likely component of each row."""
        return _by_chunks(lambda rows: np.argmax(self.scores(rows), axis=1), x)


@dataclass(frozen=True, eq=False)
class NystromRule(FrozenRule):
    r"""Nearest k-means center in the spectral embedding, extended to all of R^d.

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
    n_neighbors : int
        ``s(y)`` is the distance to this neighbor; 0 means that all scales are constant.
    half_log_degree : array (N,)
        Half the log degree of each landmark.
    vectors : array (N, k)
        Eigenvectors divided by their eigenvalues.
    centers : array (n_segments, k)
        Centers of k-means in the row-normalized embedding.
    owner : array (n_segments,)
        Cell that each center belongs to.
    landmark_segment : array (N,)
        Segment of each landmark.
    far : float
        Beyond this many local scales from the nearest landmark, its segment is taken.
    """

    shift: Floats
    whiten: Floats
    landmarks: Floats
    local_scale: Floats
    n_neighbors: int
    half_log_degree: Floats
    vectors: Floats
    centers: Floats
    owner: Ints
    landmark_segment: Ints
    far: float

    def squared_distances(self, x: Floats) -> Floats:
        """Return the squared distance of each row to each landmark."""
        y = (x - self.shift) @ self.whiten
        # Differences, not the expanded square: that one loses the landmark's own zero, on which
        # `predict(landmarks) == labels` rests, when coordinates are large.
        return np.sum((y[:, None, :] - self.landmarks[None, :, :]) ** 2, axis=2)

    def embed(self, x: Floats) -> Floats:
        """Return the row-normalized spectral coordinates of each row."""
        return _by_chunks(lambda rows: self._embed(rows)[0], x, self._rows_at_once)

    def eccentricity(self, x: Floats) -> Floats:
        """Return the distance of each row from the center of its segment, in the embedding."""
        return np.linalg.norm(self.embed(x) - self.centers[self.segment(x)], axis=1)

    @property
    def _rows_at_once(self) -> int:
        return fitting(NYSTROM_BUDGET, self.landmarks.size)

    def _embed(self, x: Floats) -> tuple[Floats, Floats]:
        squared = self.squared_distances(x)
        if self.n_neighbors:
            kth = np.partition(squared, self.n_neighbors, axis=1)[:, self.n_neighbors]
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
        near = np.argmax(z @ self.centers.T - 0.5 * np.sum(self.centers**2, axis=1), axis=1)
        closest = np.argmin(squared, axis=1)
        limit = (self.far * self.local_scale[closest]) ** 2
        is_far = squared[np.arange(len(x)), closest] > limit
        return np.where(is_far, self.landmark_segment[closest], near)

    def segment(self, x: Floats) -> Ints:
        """Return the index of the k-means segment of each row."""
        return _by_chunks(self._segment, x, self._rows_at_once)


Rule = VoronoiRule | DiscriminantRule | NystromRule

RULES: dict[str, type[Rule]] = {r.__name__: r for r in (VoronoiRule, DiscriminantRule, NystromRule)}
"""Rules by the name that a file knows them by."""


def _by_chunks(function: Callable[[Floats], Any], x: Floats, rows: int = ROWS_AT_ONCE) -> Any:
    """Apply a row-wise function block by block; no rows make one empty block."""
    blocks = [x[piece] for piece in slices(len(x), rows)] or [x]
    return np.concatenate([function(block) for block in blocks])
