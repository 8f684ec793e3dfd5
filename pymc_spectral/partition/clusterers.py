"""Partition of the state space by spectral clustering of draws (the paper's Algorithm 2).

NumPy and scikit-learn only: nothing here knows about PyMC. The functions before the classes are the
stages of :meth:`SpectralPartition.fit`, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from pymc_spectral._validate import check_names, one_of
from pymc_spectral.partition.cell_rules import (
    Floats,
    Ints,
    NystromRule,
    Rule,
    VoronoiRule,
)
from pymc_spectral.partition.config import (
    N_LANDMARKS,
    VALLEY,
    Extension,
    KMeansConfig,
    SpectralConfig,
    as_covariance,
)
from pymc_spectral.partition.discriminant_fit import discriminant_rule, rule_of_basins
from pymc_spectral.partition.peaks import Peaks, find_peaks, join_peaks
from pymc_spectral.partition.quench import Gradient, quench, quench_at_random
from pymc_spectral.partition.segment_joining import (
    LogDensity,
    join_segments,
    kernel_log_density,
    split_along_directions,
)
from pymc_spectral.partition.spectrum import (
    KMEANS_STARTS,
    Affinity,
    Embedding,
    choose_landmarks,
    nystrom_rule,
    spectral_embedding,
    standardization,
)

__all__ = ["KMeansPartition", "SpectralPartition", "check_partition", "unfitted"]

# Share of the landmarks that must have come to rest uphill (heuristic: on all targets with peaks
# nearly all have, on a hierarchy without one in twenty).
LEAST_AT_REST = 0.5

# Eigenvalues below this belong to the inside of a mode rather than to a cut between modes. With
# ten neighbors, modes that are visibly apart stay above it up to 100 dimensions (heuristic, seen on
# pairs of normals).
SEGMENT_EIGENVALUE = 0.8
# Segments cut at most: the paths between them grow with the square of their number. Heuristic: more
# modes than anybody runs chains for.
MAX_SEGMENTS = 50
# Segments cut for each cell asked for: a long mode is cut before two near ones are told apart.
SEGMENTS_PER_CELL = 2
# Valleys of a kernel estimate shallower than this are noise (heuristic, seen on single normals).
KERNEL_VALLEY = 0.5
# Valleys looked for along single directions must be deeper than between segments: the paths cut
# corners of curved modes (heuristic).
DIRECTION_VALLEY = 2.0
# Starts of k-means with two centers, where a few are enough to find the best.
HALVING_STARTS = 3


# ---------------------------------------------------------------- the stages of a fit


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of the landmarks, as one stage hands them to the next.

    ``labels`` (N,) is the cell of each landmark, ``prominences`` the depth of the valley that sets
    each further segment apart. ``rule`` extends the embedding to new points; None once the labels
    are no longer those of the embedding.
    """

    labels: Ints
    prominences: Floats
    rule: NystromRule | None

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int((self.labels if self.rule is None else self.rule.owner).max()) + 1


def embed(landmarks: Floats, config: SpectralConfig) -> Embedding:
    """Embed the landmarks by as many eigenvectors as segments can need."""
    Q = None if config.Q is None else as_covariance(config.Q, landmarks.shape[1])
    return spectral_embedding(
        landmarks,
        affinity=config.affinity,
        Q=Q,
        n_neighbors=int(config.n_neighbors),
        n_vectors=max(MAX_SEGMENTS, config.wanted) + 1,
    )


def cut(
    embedding: Embedding, config: SpectralConfig, joins: bool, rng: np.random.RandomState
) -> NystromRule:
    """Cut the embedding into segments, more of them than cells if they are joined later."""
    n_segments = wanted = config.wanted
    if joins:
        n = len(embedding.coordinates)
        near_one = int(np.sum(embedding.eigenvalues > SEGMENT_EIGENVALUE))
        enough = max(near_one, min(SEGMENTS_PER_CELL * wanted, MAX_SEGMENTS), 2)
        n_segments = max(min(enough, MAX_SEGMENTS, n), min(wanted, n))
    return nystrom_rule(embedding, n_segments, rng)


def join(
    cells: Cells, landmarks: Floats, logp: LogDensity, valley: float, config: SpectralConfig
) -> Cells:
    """Join what no valley sets apart."""
    joined = join_segments(
        landmarks,
        cells.labels,
        logp,
        n_cells=None if config.n_cells == "auto" else config.wanted,
        valley=valley,
        min_size=int(config.min_landmarks),
    )
    rule = None if cells.rule is None else replace(cells.rule, owner=joined.owner)
    return Cells(joined.owner[cells.labels], joined.prominences, rule)


def cells_of_peaks(
    landmarks: Floats,
    logp: LogDensity,
    gradient: Gradient | None,
    config: SpectralConfig,
    rng: np.random.RandomState,
) -> tuple[Cells, Peaks] | None:
    """Move the landmarks uphill, and join the places where they end unless a valley lies between.

    What is left of the landmarks then tells modes apart, whatever other coordinates there are. None
    where most of them are still on their way: the density has no peak, as that of a hierarchy whose
    scale may vanish, and where they are says nothing.
    """
    n_steps = int(config.quench)
    moved = (
        quench_at_random(landmarks, logp, n_steps, rng)
        if gradient is None
        else quench(landmarks, gradient, n_steps)
    )
    if moved.at_rest.mean() < LEAST_AT_REST:
        return None
    peaks = find_peaks(landmarks, moved, logp, max(MAX_SEGMENTS, config.wanted), rng)
    joined = join_peaks(
        peaks,
        logp,
        n_cells=None if config.n_cells == "auto" else config.wanted,
        valley=config.valley,
        min_size=int(config.min_landmarks),
    )
    # One place is one mode, and that is known: a further one would rise by nothing.
    rises = joined.prominences if len(joined.prominences) else np.zeros(1)
    return Cells(joined.owner[peaks.segment[peaks.place]], rises, None), peaks


def split(cells: Cells, landmarks: Floats, logp: LogDensity, config: SpectralConfig) -> Cells:
    """Cut cells that hold two modes which the spectrum did not tell apart."""
    auto = config.n_cells == "auto"
    if not auto and cells.n_cells >= config.wanted:
        return cells
    labels = split_along_directions(
        landmarks,
        cells.labels,
        logp,
        valley=max(config.valley, DIRECTION_VALLEY),
        min_size=int(config.min_landmarks),
        max_cells=MAX_SEGMENTS if auto else config.wanted,
    )
    if int(labels.max()) + 1 <= cells.n_cells:
        return cells
    # A cut that the spectrum made across both modes falls away once they are apart.
    return join(Cells(labels, cells.prominences, None), landmarks, logp, config.valley, config)


def fill(cells: Cells, landmarks: Floats, wanted: int, rng: np.random.RandomState) -> Cells:
    """Cut the largest cells where more are asked for than there are modes, or distinct rows."""
    if int(cells.labels.max()) + 1 >= wanted:
        return cells
    return Cells(split_labels(landmarks, cells.labels, wanted, rng), cells.prominences, None)


def describe(
    cells: Cells,
    x: Floats,
    landmarks: Floats,
    extension: Extension,
    rng: np.random.RandomState,
    *,
    basins: bool,
) -> Rule:
    """Return the rule that extends the cells of the landmarks to all points.

    `basins` says that landmarks are labeled by the peaks that they climb to.
    """
    if basins:
        rule = rule_of_basins(x, landmarks, cells.labels, cells.n_cells, rng)
        if rule is not None:
            return rule
    if cells.rule is None:
        return rule_of_labels(landmarks, cells.labels, int(cells.labels.max()) + 1, rng)
    if extension == "nystrom":
        return cells.rule
    return discriminant_rule(x, cells.rule.predict(x), cells.n_cells, rng) or cells.rule


def split_labels(x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState) -> Ints:
    """Cut the cell with most landmarks in two by k-means until there are enough cells."""
    labels = np.unique(labels, return_inverse=True)[1]
    while (n_now := labels.max() + 1) < n_cells:
        sizes = [len(np.unique(x[labels == c], axis=0)) for c in range(n_now)]
        rows = np.flatnonzero(labels == int(np.argmax(sizes)))
        shift, scale = standardization(x[rows])
        means = KMeans(2, n_init=HALVING_STARTS, random_state=rng)
        half = means.fit_predict((x[rows] - shift) / scale)
        labels[rows[half == 1]] = n_now
    return labels


def rule_of_labels(x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState) -> Rule:
    """Return a rule for labels of no embedding: discriminant if it serves, else Voronoi."""
    rule = discriminant_rule(x, labels, n_cells, rng)
    if rule is not None and len(np.unique(rule.predict(x))) == n_cells:
        return rule
    shift, scale = standardization(x)
    y = (x - shift) / scale
    centers = np.array([y[labels == c].mean(axis=0) for c in range(n_cells)])
    voronoi = VoronoiRule(shift, scale, centers, np.arange(n_cells))
    if len(np.unique(voronoi.predict(x))) == n_cells:
        return voronoi
    # Every landmark its own center: always reproduces the labels.
    return VoronoiRule(shift, scale, y, labels)


# ---------------------------------------------------------------- the estimators


class _Partition(ClusterMixin, BaseEstimator):
    """What both partitions share: points in, prediction, and points to start from."""

    rule_: Rule
    n_cells_: int
    landmarks_: Floats
    labels_: Ints
    n_features_in_: int

    def _config(self) -> SpectralConfig | KMeansConfig:
        """Return the options in one object, which refuses impossible ones."""
        raise NotImplementedError

    def validate(self) -> None:
        """Refuse impossible or contradictory options; no data are needed.

        Raises
        ------
        ValueError
            Says which option, its value, and what to pass instead.
        """
        self._config()

    def predict(self, X: ArrayLike) -> Ints:
        """Return the cell of each row of X.

        Parameters
        ----------
        X : array-like (m, d)

        Returns
        -------
        array (m,)
            Integers from 0 to ``n_cells_ - 1``.
        """
        if not hasattr(self, "rule_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted: call fit(X) first.")
        d = self.n_features_in_
        if np.ndim(X) == 2 and np.shape(X)[1] not in (0, d):
            raise ValueError(
                f"X has {np.shape(X)[1]} features, but {type(self).__name__} is expecting {d} "
                f"features as input: it was fitted on {d} coordinates, pass an array of shape "
                f"(m, {d})."
            )
        return self.rule_.predict(self._points(X, reset=False))

    def fit_predict(self, X: ArrayLike, y: Any = None, **kwargs: Any) -> Ints:
        """Fit on X and return the cell of each of its rows."""
        return self.fit(X, y, **kwargs).predict(X)  # type: ignore[attr-defined]

    def members(self, cell: int) -> Floats:
        """Return the landmarks of one cell, the most central first."""
        rows = self.landmarks_[self.labels_ == cell]
        return rows[np.argsort(self.rule_.eccentricity(rows), kind="stable")]

    def _points(self, X: ArrayLike, *, reset: bool) -> Floats:
        """Return X as an array of finite rows; with `reset`, remember its columns."""
        if np.ndim(X) != 2:
            raise ValueError(
                f"Points must be an array of shape (n, d), got shape {np.shape(X)}. Reshape your "
                "data, by np.reshape(X, (-1, 1)) if there is one coordinate."
            )
        x = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        finite = np.all(np.isfinite(x), axis=1)
        if not np.all(finite):
            raise ValueError(
                f"{np.sum(~finite)} of {len(x)} points are not finite (NaN or inf): "
                "drop them first."
            )
        return x

    def _training_points(self, X: ArrayLike, wanted: int) -> Floats:
        """Return X as an array of rows, enough of them distinct for the cells wanted."""
        x = self._points(X, reset=True)
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


class SpectralPartition(_Partition):
    """Partition of R^d into cells by spectral clustering of draws.

    Parameters
    ----------
    n_cells : int or "auto"
        Number of cells. ``"auto"`` lets the spectrum propose segments and joins those with no
        valley of the density between them, so that each mode gets a cell.
    affinity : {"self-tuning", "gaussian"}
        ``"self-tuning"`` scales distances by the distance to each landmark's
        `n_neighbors`-th neighbor, and so copes with modes of very different width and with
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
        eigenvectors, with its normalization corrected.
    join : bool, optional
        ``True``: cut the embedding into more segments than needed and join them again where no
        valley lies between. ``False`` is the paper's Algorithm 2: k-means with `n_cells` centers;
        it needs an integer `n_cells`. Default: ``True`` if `n_cells` is ``"auto"`` or `fit` is
        given the log density.
    n_landmarks : int
        At most so many rows of X are used as landmarks (the paper's N). The cost of the
        eigenvectors grows with its cube, that of a Nystrom prediction in proportion.
    n_neighbors : int
        Neighbor that sets the local scale. More neighbors smooth over gaps. Ignored by
        ``affinity="gaussian"``.
    valley : float
        Two segments are kept apart when the log density on the path between them drops at least
        this far below the lower of the two. Larger values give fewer cells.
    min_landmarks : int
        A cell with fewer landmarks is joined to its neighbor (``n_cells="auto"`` only).
    quench : int
        Evaluations by which each landmark moves uphill at most before landmarks are compared, so
        that coordinates without modes do not drown those that have some. More of them help where
        peaks are far or ridges narrow, at that price. 0: landmarks are compared where they are.
        Needs the log density; ignored with ``affinity="gaussian"``, ``extension="nystrom"`` and
        ``join=False``, which are the paper's.
    random_state : int, RandomState instance or None
        Seeds the choice of landmarks and k-means.

    Attributes
    ----------
    landmarks_ : array (N, d)
    labels_ : array (N,)
        Cell of each landmark; equals ``predict(landmarks_)``.
    n_cells_ : int
    eigenvalues_ : array
        Leading eigenvalues of the normalized affinity, largest first.
    n_segments_ : int
        Number of segments that were cut before joining.
    prominences_ : array
        Depth of the valley that sets each further segment apart, deepest first, in log density.
    rule_ : Rule
        The frozen function from points to cells.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Names of the columns of X, if it was a table that has names.

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
        n_landmarks: int = N_LANDMARKS,
        n_neighbors: int = 10,
        valley: float = VALLEY,
        min_landmarks: int = 5,
        quench: int = 80,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_cells = n_cells
        self.affinity = affinity
        self.Q = Q
        self.extension = extension
        self.join = join
        self.n_landmarks = n_landmarks
        self.n_neighbors = n_neighbors
        self.valley = valley
        self.min_landmarks = min_landmarks
        self.quench = quench
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        logp: LogDensity | None = None,
        gradient: Gradient | None = None,
    ) -> Self:
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
        gradient : callable, optional
            Log density and its gradient, (m,) and (m, d), of such an array: landmarks then move
            uphill by it. Without it they move by trial and error. Ignored without `logp`.

        Returns
        -------
        self
        """
        config = self._config()
        x = self._training_points(X, config.wanted)
        rng = check_random_state(config.random_state)
        landmarks = x[choose_landmarks(x, int(config.n_landmarks), rng)]
        joins = config.joins(logp is not None)

        climbed = None
        if joins and logp is not None and config.quenches:
            climbed = cells_of_peaks(landmarks, logp, gradient, config, rng)
        if climbed is not None:
            cells, peaks = climbed
            self.eigenvalues_ = peaks.eigenvalues
            self.n_segments_ = int(peaks.segment.max()) + 1
            basins = True
        else:
            embedding = embed(landmarks, config)
            segments = cut(embedding, config, joins, rng)
            cells = Cells(segments.landmark_segment, np.zeros(0), segments)
            if joins and logp is None:
                valley = max(config.valley, KERNEL_VALLEY)
                cells = join(cells, landmarks, kernel_log_density(x), valley, config)
            elif joins and logp is not None:
                cells = join(cells, landmarks, logp, config.valley, config)
                cells = split(cells, landmarks, logp, config)
            self.eigenvalues_ = embedding.eigenvalues
            self.n_segments_ = len(segments.owner)
            basins = False
        cells = fill(cells, landmarks, config.wanted, rng)

        self.landmarks_ = landmarks
        self.prominences_ = cells.prominences
        self.rule_: Rule = describe(cells, x, landmarks, config.extension, rng, basins=basins)
        self._label_landmarks()
        return self

    def _config(self) -> SpectralConfig:
        return SpectralConfig(**self.get_params())

    def _label_landmarks(self) -> None:
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


class KMeansPartition(_Partition):
    """Voronoi partition by k-means: what the paper compares spectral clustering with.

    Parameters
    ----------
    n_cells : int
        Number of cells.
    n_landmarks : int
        At most so many rows of X are kept as landmarks; k-means sees all rows.
    standardize : bool
        Divide coordinates by their standard deviation first (default), which makes cells
        independent of units. ``False`` is the paper's.
    random_state : int, RandomState instance or None
        Seeds k-means.

    Attributes
    ----------
    landmarks_, labels_, n_cells_, rule_
        As in :class:`SpectralPartition`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Names of the columns of X, if it was a table that has names.
    """

    def __init__(
        self,
        n_cells: int = 2,
        *,
        n_landmarks: int = N_LANDMARKS,
        standardize: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_cells = n_cells
        self.n_landmarks = n_landmarks
        self.standardize = standardize
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        logp: LogDensity | None = None,
        gradient: Gradient | None = None,
    ) -> Self:
        """Learn the cells from draws; `y`, `logp` and `gradient` are ignored."""
        config = self._config()
        n_cells = config.wanted
        x = self._training_points(X, n_cells)
        rng = check_random_state(config.random_state)
        d = x.shape[1]
        shift, scale = standardization(x) if config.standardize else (np.zeros(d), np.ones(d))
        means = KMeans(n_cells, n_init=KMEANS_STARTS, random_state=rng).fit((x - shift) / scale)
        self.rule_ = VoronoiRule(shift, scale, means.cluster_centers_, np.arange(n_cells))
        self.landmarks_ = x[choose_landmarks(x, int(config.n_landmarks), rng)]
        self.labels_ = self.rule_.predict(self.landmarks_)
        self.n_cells_ = n_cells
        return self

    def _config(self) -> KMeansConfig:
        return KMeansConfig(**self.get_params())


# ---------------------------------------------------------------- choosing one


PARTITIONS: dict[str, type[SpectralPartition] | type[KMeansPartition]] = {
    "spectral": SpectralPartition,
    "kmeans": KMeansPartition,
}
"""Partitions by the name that the step takes."""


def unfitted(
    partition: str | SpectralPartition | KMeansPartition,
    *,
    n_cells: int | Literal["auto"],
    n_landmarks: int,
    random_state: int | None,
    options: dict[str, Any],
) -> SpectralPartition | KMeansPartition:
    """Return a new estimator of the name given, or an unfitted copy of the one given.

    Parameters
    ----------
    partition : str or estimator
        An estimator decides itself about all but its seed.
    n_cells, n_landmarks
        Options of an estimator given by name.
    random_state : int, optional
        Used where nothing else says how to seed it.
    options : dict
        Further options of an estimator given by name; they override the others.
    """
    if isinstance(partition, str):
        defaults = {"n_cells": n_cells, "n_landmarks": n_landmarks, "random_state": random_state}
        return PARTITIONS[partition](**{**defaults, **options})
    copy = clone(partition)
    if copy.random_state is None:
        copy.set_params(random_state=random_state)
    return copy


def check_partition(
    partition: Any, n_cells: Any, options: dict[str, Any], n_landmarks: tuple[int, ...] = ()
) -> None:
    """Refuse what is no partition, and a partition with impossible options.

    Parameters
    ----------
    partition : str or estimator
    n_cells : int or "auto"
        Asked for beside a name.
    options : dict
        Options beside a name.
    n_landmarks : tuple of int
        Numbers of landmarks that it will be fitted with, if given by name.
    """
    if isinstance(partition, str):
        cls = PARTITIONS[one_of("partition", partition, list(PARTITIONS))]
        check_names("partition_kwargs", options, partition, cls().get_params())
        if partition == "kmeans" and options.get("n_cells", n_cells) == "auto":
            raise ValueError('partition="kmeans" needs a number of cells: pass n_cells=4, say.')
        for n in n_landmarks or (cls().n_landmarks,):
            unfitted(
                partition, n_cells=n_cells, n_landmarks=n, random_state=None, options=options
            ).validate()
        return
    if not isinstance(partition, SpectralPartition | KMeansPartition):
        raise TypeError(
            f"partition={partition!r} is neither a name ({', '.join(PARTITIONS)}) nor a "
            "SpectralPartition or KMeansPartition."
        )
    if options:
        own = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise TypeError(
            f"partition_kwargs={options!r} goes with a partition given by name: pass "
            f"partition={type(partition).__name__}({own})."
        )
    partition.validate()
