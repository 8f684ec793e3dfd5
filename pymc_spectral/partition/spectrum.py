"""Landmarks, their affinity, and its spectrum (the paper's Algorithm 2, first half)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from pymc_spectral.partition.cell_rules import Floats, Ints, NystromRule

__all__ = [
    "KMEANS_STARTS",
    "Affinity",
    "Embedding",
    "choose_landmarks",
    "leading_eigenpairs",
    "nystrom_rule",
    "spectral_embedding",
    "standardization",
]

Affinity = Literal["self-tuning", "gaussian"]

# Beyond this many local scales from every landmark, the nearest landmark decides. Heuristic: there
# all affinities are below exp(-9), and the extension is a ratio of tiny numbers.
FAR = 3.0
# A coordinate whose standard deviation is below this share of its largest value is constant, its
# spread being rounding: some thousands of the spacing of double precision.
CONSTANT = 1e-12
# Groups of k-means among which landmarks are shared out, and the k-means steps spent on them.
# Heuristic: more groups than modes, and their exact boundaries do not matter.
LANDMARK_GROUPS = 50
LANDMARK_STEPS = 20
# Floor of the local scale, in medians: a tight knot of draws must not become a cell of its own.
# Heuristic: modes twenty times narrower than the typical one are still told apart.
SCALE_FLOOR = 0.05
# Eigenvalues below this are rounding: dividing by them would only amplify it.
RANK_EIGENVALUE = 1e-8
# Rows of the embedding that agree to so many digits are one point for k-means.
EMBEDDING_DIGITS = 9
# Starts of k-means on the embedding, scikit-learn's own default before 1.4.
KMEANS_STARTS = 10


def standardization(x: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each column, 1 where it is constant."""
    shift = x.mean(axis=0)
    scale = x.std(axis=0)
    tiny = CONSTANT * np.abs(x).max(axis=0)
    return shift, np.where(scale > tiny, scale, 1.0)


def choose_landmarks(x: Floats, n_landmarks: int, rng: np.random.RandomState) -> Ints:
    """Choose rows as landmarks, small groups of rows over-represented.

    Rows are grouped by k-means and every group gives landmarks in proportion to the square root
    of its size, so a mode with 2 % of the draws keeps several times 2 % of the landmarks. The
    paper subsamples uniformly. Repeated rows (rejected proposals) count once.
    """
    rows = np.sort(np.unique(x, axis=0, return_index=True)[1])
    if len(rows) <= n_landmarks:
        return rows
    shift, scale = standardization(x)
    n_groups = min(LANDMARK_GROUPS, n_landmarks)
    means = KMeans(n_groups, n_init=1, max_iter=LANDMARK_STEPS, random_state=rng)
    groups = means.fit_predict((x[rows] - shift) / scale)
    order = rng.permutation(len(rows))
    rank = np.empty(len(rows))  # position of each row within its group, in random order
    for g in range(n_groups):
        members = order[groups[order] == g]
        rank[members] = np.arange(len(members))
    # Taking rows by rank / sqrt(size) fills every group in proportion to the root of its size.
    priority = rank / np.sqrt(np.bincount(groups, minlength=n_groups))[groups]
    return np.sort(rows[np.argsort(priority, kind="stable")[:n_landmarks]])


@dataclass(frozen=True, eq=False)
class Embedding:
    """Affinity of the landmarks and its leading eigenpairs.

    ``eigenvalues`` (k,) and ``eigenvectors`` (N, k) are those of ``D^-1/2 Q D^-1/2``, largest
    first; the other fields say how affinities to new points are computed.
    """

    eigenvalues: Floats
    eigenvectors: Floats
    degree: Floats
    shift: Floats
    whiten: Floats
    coordinates: Floats
    local_scale: Floats
    n_neighbors: int

    def rows(self, n_vectors: int) -> Floats:
        """Return the row-normalized leading eigenvectors: the points that k-means clusters."""
        z = self.eigenvectors[:, :n_vectors]
        return z / np.linalg.norm(z, axis=1, keepdims=True)


def leading_eigenpairs(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix, largest first, and their vectors."""
    n = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[n - k, n - 1])
    if len(values) < k:
        # LAPACK's solver for a few pairs now and then returns none, and no error, where an
        # eigenvalue is repeated: that of separate modes is, being 1 for each of them.
        values, vectors = eigh(matrix, driver="evd")
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def spectral_embedding(
    x: Floats, *, affinity: Affinity, Q: Floats | None, n_neighbors: int, n_vectors: int
) -> Embedding:
    """Embed landmarks by the leading eigenvectors of their normalized affinity.

    Parameters
    ----------
    x : array (N, d)
    affinity, Q, n_neighbors
        As in :class:`pymc_spectral.SpectralPartition`, `Q` as a matrix.
    n_vectors : int
        At most so many eigenvectors are computed.
    """
    n, d = x.shape
    if affinity == "gaussian":
        assert Q is not None
        # The paper's Q is the proposal's density, exp(-|L^-1 (x - y)|^2 / 2) with L L' = Q.
        shift, whiten = np.zeros(d), np.linalg.inv(np.linalg.cholesky(Q)).T
    else:
        shift, scale = standardization(x)
        whiten = np.diag(1 / scale)
    y = (x - shift) @ whiten
    squared = cdist(y, y, "sqeuclidean")
    if affinity == "gaussian":
        k, local = 0, np.full(n, np.sqrt(2.0))
    else:
        k = min(n_neighbors, n - 1)
        local = np.sqrt(np.partition(squared, k, axis=1)[:, k])
        local = np.maximum(local, SCALE_FLOOR * np.median(local))
        local = np.where(local > 0, local, 1.0)
    weights = np.exp(-squared / np.outer(local, local))
    degree = weights.sum(axis=1)
    normalized = weights / np.sqrt(np.outer(degree, degree))
    values, vectors = leading_eigenpairs(normalized, min(n_vectors, n))
    return Embedding(
        eigenvalues=values,
        eigenvectors=vectors,
        degree=degree,
        shift=shift,
        whiten=whiten,
        coordinates=y,
        local_scale=local,
        n_neighbors=k,
    )


def nystrom_rule(embedding: Embedding, n_segments: int, rng: np.random.RandomState) -> NystromRule:
    """Cluster the embedding by k-means into segments; every segment is its own cell for now."""
    n_vectors = max(1, min(n_segments, int(np.sum(embedding.eigenvalues > RANK_EIGENVALUE))))
    z = embedding.rows(n_vectors)
    n_segments = min(n_segments, len(np.unique(z.round(EMBEDDING_DIGITS), axis=0)))
    means = KMeans(n_segments, n_init=KMEANS_STARTS, random_state=rng).fit(z)
    return NystromRule(
        shift=embedding.shift,
        whiten=embedding.whiten,
        landmarks=embedding.coordinates,
        local_scale=embedding.local_scale,
        n_neighbors=embedding.n_neighbors,
        half_log_degree=0.5 * np.log(embedding.degree),
        vectors=embedding.eigenvectors[:, :n_vectors] / embedding.eigenvalues[:n_vectors],
        centers=means.cluster_centers_,
        owner=np.arange(n_segments),
        landmark_segment=means.labels_.astype(np.int64),
        far=FAR,
    )
