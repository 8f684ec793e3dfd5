"""Partition of the state space by spectral clustering of draws (the paper's Algorithm 2).

NumPy only: nothing here knows about PyMC.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from pymc_spectral.partition.compression import discriminant_rule
from pymc_spectral.partition.joining import (
    LogDensity,
    join_segments,
    kernel_log_density,
    split_along_directions,
)
from pymc_spectral.partition.rules import (
    DiscriminantRule,
    Floats,
    Ints,
    NystromRule,
    Rule,
    VoronoiRule,
)
from pymc_spectral.partition.spectrum import (
    Affinity,
    choose_landmarks,
    nystrom_rule,
    spectral_embedding,
    standardisation,
)

__all__ = ["KMeansPartition", "SpectralPartition"]

Extension = Literal["discriminant", "nystrom"]

# Eigenvalues below this belong to the inside of a mode rather than to a cut between modes. With
# ten neighbours, modes that are visibly apart stay above it up to 100 dimensions.
SEGMENT_EIGENVALUE = 0.8
MAX_SEGMENTS = 50
# Valleys of a kernel estimate shallower than this are noise.
KERNEL_VALLEY = 0.5
# Valleys looked for along single directions must be deeper than between segments: the paths cut
# corners of curved modes.
DIRECTION_VALLEY = 2.0


class _Partition(ClusterMixin, BaseEstimator):
    """What both partitions share: prediction, and points to start from."""

    rule_: Rule
    n_cells_: int
    landmarks_: Floats
    labels_: Ints
    n_features_in_: int

    def predict(self, X: ArrayLike) -> Ints:
        """Cell of each row of X.

        Parameters
        ----------
        X : array-like (m, d)

        Returns
        -------
        array (m,)
            Integers from 0 to ``n_cells_ - 1``.
        """
        x = np.asarray(X, dtype=float)
        if not hasattr(self, "rule_"):
            raise ValueError(f"This {type(self).__name__} is not fitted: call fit(X) first.")
        if x.ndim != 2 or x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {x.shape}, but the partition was fitted on {self.n_features_in_} "
                f"coordinates: pass an array of shape (m, {self.n_features_in_})."
            )
        return self.rule_.predict(x)

    def fit_predict(self, X: ArrayLike, y: Any = None, **kwargs: Any) -> Ints:
        """Fit on X and return the cell of each of its rows."""
        return self.fit(X, y, **kwargs).predict(X)  # type: ignore[attr-defined]

    def members(self, cell: int) -> Floats:
        """Landmarks of one cell, the most central first."""
        rows = self.landmarks_[self.labels_ == cell]
        return rows[np.argsort(self._eccentricity(rows), kind="stable")]

    def _eccentricity(self, rows: Floats) -> Floats:
        """Distance of landmarks of one cell from the centre of their segment."""
        rule = self.rule_
        segment = rule.segment(rows)
        if isinstance(rule, DiscriminantRule):
            return rule.distances(rows)[np.arange(len(rows)), segment]
        if isinstance(rule, NystromRule):
            return np.linalg.norm(rule.embed(rows) - rule.centres[segment], axis=1)
        return np.linalg.norm((rows - rule.shift) / rule.scale - rule.centres[segment], axis=1)


class SpectralPartition(_Partition):
    """Partition of R^d into cells by spectral clustering of draws.

    Parameters
    ----------
    n_cells : int or "auto"
        Number of cells. ``"auto"`` lets the spectrum propose segments and joins those with no
        valley of the density between them, so that each mode gets a cell.
    affinity : {"self-tuning", "gaussian"}
        ``"self-tuning"`` scales distances by the distance to each landmark's
        `n_neighbours`-th neighbour, and so copes with modes of very different width and with
        any units. ``"gaussian"`` is the paper's: the density of a random walk with covariance
        `Q`, in the units of X.
    Q : array-like (d, d), optional
        Covariance of the paper's random walk. Required by ``affinity="gaussian"``, refused
        otherwise. Small values cut the space into many separate pieces, large ones blur modes
        together.
    extension : {"discriminant", "nystrom"}
        How cells reach beyond the landmarks. ``"discriminant"`` compresses the labels into a few
        Student components: fast, with boundaries along the valleys; where it cannot reproduce
        the clusters the Nystrom extension is kept. ``"nystrom"`` is the paper's extension of the
        eigenvectors, with its normalisation mended.
    join : bool, optional
        ``True``: cut the embedding into more segments than needed and join them again where no
        valley lies between. ``False`` is the paper's Algorithm 2: k-means with `n_cells` centres;
        it needs an integer `n_cells`. Default: ``True`` if `n_cells` is ``"auto"`` or `fit` is
        given the log density.
    n_landmarks : int
        At most so many rows of X are used as landmarks (the paper's N). The cost of the
        eigenvectors grows with its cube, that of a Nystrom prediction in proportion.
    n_neighbours : int
        Neighbour that sets the local scale. More neighbours smooth over gaps. Ignored by
        ``affinity="gaussian"``.
    valley : float
        Two segments are kept apart when the log density on the path between them drops at least
        this far below the lower of the two. Larger values give fewer cells.
    min_landmarks : int
        A cell with fewer landmarks is joined to its neighbour (``n_cells="auto"`` only).
    random_state : int, RandomState instance or None
        Seeds the choice of landmarks and k-means.

    Attributes
    ----------
    landmarks_ : array (N, d)
    labels_ : array (N,)
        Cell of each landmark; equals ``predict(landmarks_)``.
    n_cells_ : int
    eigenvalues_ : array
        Leading eigenvalues of the normalised affinity, largest first.
    n_segments_ : int
        Number of segments that were cut before joining.
    prominences_ : array
        Depth of the valley that sets each further segment apart, deepest first, in log density.
    rule_ : Rule
        The frozen function from points to cells.

    References
    ----------
    .. [1] G. Basse, N. Pillai, A. Smith. Parallel Markov Chain Monte Carlo via Spectral
       Clustering. AISTATS 2016.
    .. [2] L. Zelnik-Manor, P. Perona. Self-tuning spectral clustering. NIPS 2004.
    .. [3] Y. Bengio et al. Out-of-sample extensions for LLE, Isomap, MDS, eigenmaps, and
       spectral clustering. NIPS 2003.
    """

    def __init__(
        self,
        n_cells: int | Literal["auto"] = "auto",
        *,
        affinity: Affinity = "self-tuning",
        Q: ArrayLike | None = None,
        extension: Extension = "discriminant",
        join: bool | None = None,
        n_landmarks: int = 1000,
        n_neighbours: int = 10,
        valley: float = 0.25,
        min_landmarks: int = 5,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_cells = n_cells
        self.affinity = affinity
        self.Q = Q
        self.extension = extension
        self.join = join
        self.n_landmarks = n_landmarks
        self.n_neighbours = n_neighbours
        self.valley = valley
        self.min_landmarks = min_landmarks
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None, *, logp: LogDensity | None = None) -> Self:
        """Learn the cells from draws.

        Parameters
        ----------
        X : array-like (m, d)
            Draws that cover the modes.
        y : Ignored
            Present for API consistency.
        logp : callable, optional
            Log density of an (m, d) array of points, up to a constant, to look for valleys with.
            Without it a kernel estimate from the landmarks is used.

        Returns
        -------
        self
        """
        x = check_points(X, self.n_cells, self.n_landmarks)
        Q = self._check_options(x.shape[1])
        rng = check_random_state(self.random_state)
        landmarks = x[choose_landmarks(x, self.n_landmarks, rng)]
        n = len(landmarks)
        wanted = 1 if self.n_cells == "auto" else int(self.n_cells)
        embedding = spectral_embedding(
            landmarks,
            affinity=self.affinity,
            Q=Q,
            n_neighbours=self.n_neighbours,
            n_vectors=max(MAX_SEGMENTS, wanted) + 1,
        )
        self.n_features_in_ = x.shape[1]
        self.landmarks_ = landmarks
        self.eigenvalues_ = embedding.eigenvalues
        join = self.join
        if join is None:
            join = self.n_cells == "auto" or logp is not None
        if join:
            near_one = int(np.sum(embedding.eigenvalues > SEGMENT_EIGENVALUE))
            n_segments = min(max(near_one, min(2 * wanted, MAX_SEGMENTS), 2), MAX_SEGMENTS, n)
            n_segments = max(n_segments, min(wanted, n))
        else:
            n_segments = wanted
        rule = nystrom_rule(embedding, n_segments, rng)
        self.n_segments_ = len(rule.owner)
        labels = rule.landmark_segment
        self.prominences_ = np.zeros(0)
        if join:
            density = logp or kernel_log_density(x)
            joined = join_segments(
                landmarks,
                labels,
                density,
                n_cells=None if self.n_cells == "auto" else wanted,
                valley=self.valley if logp else max(self.valley, KERNEL_VALLEY),
                min_size=self.min_landmarks,
            )
            self.prominences_ = joined.prominences
            rule = replace(rule, owner=joined.owner)
            labels = joined.owner[labels]
            n_found = int(joined.owner.max()) + 1
        else:
            n_found = self.n_segments_
        if join and logp is not None and (self.n_cells == "auto" or n_found < wanted):
            labels = split_along_directions(
                landmarks,
                labels,
                logp,
                valley=max(self.valley, DIRECTION_VALLEY),
                min_size=self.min_landmarks,
                max_cells=MAX_SEGMENTS if self.n_cells == "auto" else wanted,
            )
        changed = int(labels.max()) + 1 > n_found
        if changed and logp is not None:
            # A cut that the spectrum made across both modes falls away once they are apart.
            joined = join_segments(
                landmarks,
                labels,
                logp,
                n_cells=None if self.n_cells == "auto" else wanted,
                valley=self.valley,
                min_size=self.min_landmarks,
            )
            self.prominences_ = joined.prominences
            labels = joined.owner[labels]
        n_split = int(labels.max()) + 1
        if n_split < wanted:
            # More cells than modes (or than distinct rows of the embedding): cut the largest.
            labels = split_labels(landmarks, labels, wanted, rng)
            n_split = wanted
            changed = True
        if changed:
            self.rule_: Rule = _split_rule(landmarks, labels, n_split, rng)
        else:
            self.rule_ = rule
            if self.extension == "discriminant":
                compressed = discriminant_rule(x, rule.predict(x), n_found, rng)
                if compressed is not None:
                    self.rule_ = compressed
        self._finish()
        return self

    def _finish(self) -> None:
        """Label the landmarks by the frozen rule and number the cells without gaps."""
        labels = self.rule_.predict(self.landmarks_)
        used, labels = np.unique(labels, return_inverse=True)
        n_owned = int(self.rule_.owner.max()) + 1
        if len(used) < n_owned:
            raise ValueError(
                f"Only {len(used)} of {n_owned} cells hold a landmark. Pass a smaller n_cells "
                f"(now {self.n_cells!r}) or more distinct points."
            )
        self.labels_ = labels.astype(np.int64)
        self.n_cells_ = n_owned

    def _check_options(self, d: int) -> Floats | None:
        """Refuse contradictory options before anything runs; return Q as a matrix."""
        for name, value, options in (
            ("affinity", self.affinity, get_args(Affinity)),
            ("extension", self.extension, get_args(Extension)),
        ):
            if value not in options:
                raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(options)}.")
        if self.join is False and self.n_cells == "auto":
            raise ValueError(
                "join=False is the paper's k-means with a given number of cells, but n_cells is "
                '"auto": pass n_cells=4, say, or join=True.'
            )
        if self.affinity != "gaussian":
            if self.Q is not None:
                raise ValueError(
                    'Q is given but affinity is not "gaussian": add affinity="gaussian".'
                )
            return None
        if self.Q is None:
            raise ValueError('affinity="gaussian" needs Q, e.g. Q=0.8 * np.eye(d).')
        Q = np.asarray(self.Q, dtype=float)
        if Q.ndim == 0:
            Q = Q * np.eye(d)
        if Q.shape != (d, d):
            raise ValueError(
                f"Q has shape {Q.shape}, but X has {d} columns: pass a ({d}, {d}) array."
            )
        if not np.all(np.isfinite(Q)) or np.any(np.linalg.eigvalsh(Q) <= 0):
            raise ValueError("Q must be a positive definite covariance matrix.")
        return Q


class KMeansPartition(_Partition):
    """Voronoi partition by k-means: what the paper compares spectral clustering with.

    Parameters
    ----------
    n_cells : int
        Number of cells.
    n_landmarks : int
        At most so many rows of X are kept as landmarks; k-means sees all rows.
    standardise : bool
        Divide coordinates by their standard deviation first (default), which makes cells
        independent of units. ``False`` is the paper's.
    random_state : int, RandomState instance or None
        Seeds k-means.

    Attributes
    ----------
    landmarks_, labels_, n_cells_, rule_
        As in :class:`SpectralPartition`.
    """

    def __init__(
        self,
        n_cells: int = 2,
        *,
        n_landmarks: int = 1000,
        standardise: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_cells = n_cells
        self.n_landmarks = n_landmarks
        self.standardise = standardise
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None, *, logp: LogDensity | None = None) -> Self:
        """Learn the cells from draws; `y` and `logp` are ignored."""
        if self.n_cells == "auto":
            raise ValueError('KMeansPartition needs a number of cells, n_cells="auto" is not one.')
        x = check_points(X, self.n_cells, self.n_landmarks)
        rng = check_random_state(self.random_state)
        d = x.shape[1]
        shift, scale = standardisation(x) if self.standardise else (np.zeros(d), np.ones(d))
        means = KMeans(self.n_cells, n_init=10, random_state=rng).fit((x - shift) / scale)
        self.rule_ = VoronoiRule(shift, scale, means.cluster_centers_, np.arange(self.n_cells))
        self.n_features_in_ = d
        self.landmarks_ = x[choose_landmarks(x, self.n_landmarks, rng)]
        self.labels_ = self.rule_.predict(self.landmarks_)
        self.n_cells_ = self.n_cells
        return self


def check_points(X: ArrayLike, n_cells: int | str, n_landmarks: int) -> Floats:
    """Validate draws, numbers of cells and of landmarks."""
    x = np.asarray(X, dtype=float)
    if x.ndim != 2:
        raise ValueError(f"Points must be an array of shape (n, d), got shape {x.shape}.")
    if not np.all(np.isfinite(x)):
        bad = int(np.sum(~np.all(np.isfinite(x), axis=1)))
        raise ValueError(f"{bad} of {len(x)} points are not finite: drop them first.")
    if n_cells != "auto" and (
        isinstance(n_cells, str | bool) or int(n_cells) != n_cells or n_cells < 1
    ):
        raise ValueError(f'n_cells must be a positive integer or "auto", got {n_cells!r}.')
    wanted = 1 if n_cells == "auto" else int(n_cells)
    if n_landmarks < max(wanted, 2):
        raise ValueError(
            f"n_landmarks={n_landmarks} is too few for {wanted} cells: use some hundreds."
        )
    distinct = len(np.unique(x, axis=0))
    if distinct < 2:
        raise ValueError(
            f"All {len(x)} points are the same point: give draws that cover the modes."
        )
    if distinct < wanted:
        raise ValueError(
            f"{distinct} distinct points cannot fill {wanted} cells: "
            f"give more points or n_cells={distinct}."
        )
    return x


def split_labels(x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState) -> Ints:
    """Cut the cell with most landmarks in two by k-means until there are enough cells."""
    labels = np.unique(labels, return_inverse=True)[1]
    while (n_now := labels.max() + 1) < n_cells:
        sizes = [len(np.unique(x[labels == c], axis=0)) for c in range(n_now)]
        rows = np.flatnonzero(labels == int(np.argmax(sizes)))
        shift, scale = standardisation(x[rows])
        half = KMeans(2, n_init=3, random_state=rng).fit_predict((x[rows] - shift) / scale)
        labels[rows[half == 1]] = n_now
    return labels


def _split_rule(x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState) -> Rule:
    """Rule for labels that no embedding describes: discriminant if it serves, else Voronoi."""
    rule = discriminant_rule(x, labels, n_cells, rng)
    if rule is not None and len(np.unique(rule.predict(x))) == n_cells:
        return rule
    shift, scale = standardisation(x)
    y = (x - shift) / scale
    centres = np.array([y[labels == c].mean(axis=0) for c in range(n_cells)])
    voronoi = VoronoiRule(shift, scale, centres, np.arange(n_cells))
    if len(np.unique(voronoi.predict(x))) == n_cells:
        return voronoi
    # Every landmark its own centre: always reproduces the labels.
    return VoronoiRule(shift, scale, y, labels)
