"""Partition of the state space by spectral clustering of draws (the paper's Algorithm 2).

Functions first, estimators after. NumPy only: nothing here knows about PyMC.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_random_state

from pymc_spectral.rules import DiscriminantRule, Floats, Ints, NystromRule, Rule, VoronoiRule
from pymc_spectral.valleys import (
    LogDensity,
    join_segments,
    kernel_log_density,
    split_along_directions,
)

__all__ = ["KMeansPartition", "SpectralPartition"]

Affinity = Literal["self-tuning", "gaussian"]
Extension = Literal["discriminant", "nystrom"]

# Eigenvalues below this belong to the inside of a mode rather than to a cut between modes. With
# ten neighbours, modes that are visibly apart stay above it up to 100 dimensions.
SEGMENT_EIGENVALUE = 0.8
MAX_SEGMENTS = 50
# Degrees of freedom tried for the discriminant.
DISCRIMINANT_DOFS = (3.0, 5.0, 10.0, 30.0, 100.0)
# The discriminant replaces the Nystrom rule only where it keeps this share of every cell.
DISCRIMINANT_AGREEMENT = 0.8
MAX_COMPONENTS_PER_CELL = 8
MIXTURE_MAX_DIM = 20
# Above this dimension a diagonal rule is taken if it reproduces this share of the labels.
FULL_MAX_DIM = 8
DIAGONAL_AGREEMENT = 0.999
MIXTURE_ROWS = 1000
# Valleys of a kernel estimate shallower than this are noise.
KERNEL_VALLEY = 0.5
# Valleys looked for along single directions must be deeper than between segments: the paths cut
# corners of curved modes.
DIRECTION_VALLEY = 2.0
# Beyond this many local scales from every landmark, the nearest landmark decides.
FAR = 3.0


# ---------------------------------------------------------------- landmarks


def standardisation(x: Floats) -> tuple[Floats, Floats]:
    """Mean and scale of each coordinate; a constant coordinate keeps scale 1."""
    shift = x.mean(axis=0)
    scale = x.std(axis=0)
    tiny = 1e-12 * np.abs(x).max(axis=0)
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
    shift, scale = standardisation(x)
    n_groups = min(50, n_landmarks)
    means = KMeans(n_groups, n_init=1, max_iter=20, random_state=rng)
    groups = means.fit_predict((x[rows] - shift) / scale)
    order = rng.permutation(len(rows))
    rank = np.empty(len(rows))  # position of each row within its group, in random order
    for g in range(n_groups):
        members = order[groups[order] == g]
        rank[members] = np.arange(len(members))
    # Taking rows by rank / sqrt(size) fills every group in proportion to the root of its size.
    priority = rank / np.sqrt(np.bincount(groups, minlength=n_groups))[groups]
    return np.sort(rows[np.argsort(priority, kind="stable")[:n_landmarks]])


# ---------------------------------------------------------------- spectrum


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
    n_neighbours: int

    def rows(self, n_vectors: int) -> Floats:
        """Row-normalised leading eigenvectors: the points that k-means clusters."""
        z = self.eigenvectors[:, :n_vectors]
        return z / np.linalg.norm(z, axis=1, keepdims=True)


def spectral_embedding(
    x: Floats, *, affinity: Affinity, Q: Floats | None, n_neighbours: int, n_vectors: int
) -> Embedding:
    """Embed landmarks by the leading eigenvectors of their normalised affinity."""
    n, d = x.shape
    if affinity == "gaussian":
        assert Q is not None
        # The paper's Q is the proposal's density, exp(-|L^-1 (x - y)|^2 / 2) with L L' = Q.
        shift, whiten = np.zeros(d), np.linalg.inv(np.linalg.cholesky(Q)).T
    else:
        shift, scale = standardisation(x)
        whiten = np.diag(1 / scale)
    y = (x - shift) @ whiten
    squared = cdist(y, y, "sqeuclidean")
    if affinity == "gaussian":
        k, local = 0, np.full(n, np.sqrt(2.0))
    else:
        k = min(n_neighbours, n - 1)
        local = np.sqrt(np.partition(squared, k, axis=1)[:, k])
        # Floor of the bandwidth: a tight knot of draws must not become a cell of its own.
        local = np.maximum(local, 0.05 * np.median(local))
        local = np.where(local > 0, local, 1.0)
    weights = np.exp(-squared / np.outer(local, local))
    degree = weights.sum(axis=1)
    normalised = weights / np.sqrt(np.outer(degree, degree))
    k_pairs = min(n_vectors, n)
    values, vectors = eigh(normalised, subset_by_index=[n - k_pairs, n - 1])
    return Embedding(
        eigenvalues=values[::-1],
        eigenvectors=vectors[:, ::-1],
        degree=degree,
        shift=shift,
        whiten=whiten,
        coordinates=y,
        local_scale=local,
        n_neighbours=k,
    )


def nystrom_rule(embedding: Embedding, n_segments: int, rng: np.random.RandomState) -> NystromRule:
    """Cluster the embedding by k-means into segments; every segment is its own cell for now."""
    # Beyond the numerical rank, dividing by the eigenvalue would only amplify rounding.
    n_vectors = max(1, min(n_segments, int(np.sum(embedding.eigenvalues > 1e-8))))
    z = embedding.rows(n_vectors)
    n_segments = min(n_segments, len(np.unique(z.round(9), axis=0)))
    means = KMeans(n_segments, n_init=10, random_state=rng).fit(z)
    return NystromRule(
        shift=embedding.shift,
        whiten=embedding.whiten,
        landmarks=embedding.coordinates,
        local_scale=embedding.local_scale,
        n_neighbours=embedding.n_neighbours,
        half_log_degree=0.5 * np.log(embedding.degree),
        vectors=embedding.eigenvectors[:, :n_vectors] / embedding.eigenvalues[:n_vectors],
        centres=means.cluster_centers_,
        owner=np.arange(n_segments),
        landmark_segment=means.labels_.astype(np.int64),
        far=FAR,
    )


# ---------------------------------------------------------------- discriminant


@dataclass(frozen=True, eq=False)
class Component:
    """A location, a scale matrix as ``scale``-standardised Cholesky factor, and a share."""

    mean: Floats
    scale: Floats
    lower: Floats
    share: float


def cell_components(
    rows: Floats, global_scale: Floats, rng: np.random.RandomState
) -> list[Component]:
    """Describe the draws of one cell by as many normal components as BIC asks for.

    One is enough for most modes. A bent or branching cell needs more: one wide component would
    claim the tails of its neighbours, and the pieces that it wins there are out of its chain's
    reach.
    """
    n, d = rows.shape
    shift, scale = standardisation(rows)
    if n <= 2:  # too few rows to know a scale: borrow a tenth of the scale of all rows
        return [Component(shift, 0.1 * global_scale, np.eye(d), n)]
    scale = np.maximum(scale, 1e-6 * global_scale)
    y = (rows - shift) / scale
    correlation = ledoit_wolf(y, assume_centered=True)[0]
    correlation[np.diag_indices(d)] += 1e-9
    single = [Component(shift, scale, np.linalg.cholesky(correlation), n)]
    best, best_bic = single, np.inf
    # A covariance matrix needs rows, and BIC hardly ever grants a second one in many dimensions.
    most = min(MAX_COMPONENTS_PER_CELL, n // (10 * (d + 1))) if d <= MIXTURE_MAX_DIM else 0
    if n > MIXTURE_ROWS:
        y = y[rng.choice(n, MIXTURE_ROWS, replace=False)]
    worse = 0
    for k in range(1, most + 1):
        mixture = GaussianMixture(k, reg_covar=1e-6, random_state=rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            bic = mixture.fit(y).bic(y)
        if bic < best_bic:
            worse = 0
            best_bic = bic
            if k > 1:
                best = [
                    Component(shift + scale * m, scale, np.linalg.cholesky(c), n * w)
                    for m, c, w in zip(
                        mixture.means_, mixture.covariances_, mixture.weights_, strict=True
                    )
                ]
        else:
            worse += 1
            if worse == 2:
                break
    return best


def student_rule(components: list[list[Component]], dof: float) -> DiscriminantRule:
    """Turn the components of all cells into one rule, with covariances as given."""
    flat = [(c, cell) for cell, own in enumerate(components) for c in own]
    d = len(flat[0][0].mean)
    total = sum(c.share for c, _ in flat)
    # A Student with scale matrix S has covariance S nu / (nu - 2).
    shrink = np.sqrt((dof - 2) / dof)
    constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * np.log(dof * np.pi)
    log_constants = [
        np.log(c.share / total) + constant - np.sum(np.log(np.diag(c.lower) * c.scale * shrink))
        for c, _ in flat
    ]
    return DiscriminantRule(
        means=np.array([c.mean for c, _ in flat]),
        factors=np.array([np.linalg.inv(c.lower).T / (shrink * c.scale[:, None]) for c, _ in flat]),
        log_constants=np.array(log_constants),
        owner=np.array([cell for _, cell in flat]),
        dof=dof,
    )


def most_likely_rule(components: list[list[Component]], x: Floats) -> DiscriminantRule:
    """Choose the degrees of freedom under which the draws are most likely.

    Tails too heavy for the modes move boundaries off the valleys; tails too light leave the far
    side of a narrow mode to a wide one.
    """
    rules = [student_rule(components, dof) for dof in DISCRIMINANT_DOFS]
    return max(rules, key=lambda rule: float(rule.scores(x).max(axis=1).sum()))


def mend_islands(labels: Ints, graph: csr_matrix) -> tuple[Ints, float]:
    """Give small pieces that are cut off from the rest of their cell to the cell around them.

    A chain does not reach an island of its own cell, so the mass there would be missed. A piece
    is a connected component of the neighbour graph within the cell; it moves to the cell most
    frequent among its neighbours. A piece without neighbours elsewhere, or with a fifth of its
    cell, is a mode in its own right and stays.

    Returns
    -------
    labels : array (n,)
    share : float
        Share of the rows that moved.
    """
    rows, columns = graph.nonzero()
    same = labels[rows] == labels[columns]
    inner = csr_matrix((np.ones(same.sum()), (rows[same], columns[same])), shape=graph.shape)
    piece = connected_components(inner, directed=False)[1]
    sizes = np.bincount(piece)
    cell_of_piece = np.zeros(len(sizes), dtype=int)
    cell_of_piece[piece] = labels
    small = sizes < 0.2 * np.bincount(labels)[cell_of_piece]
    mended = labels.copy()
    # Votes of the neighbours outside: one row per piece, one column per cell.
    votes = csr_matrix(
        (np.ones((~same).sum()), (piece[rows[~same]], labels[columns[~same]])),
        shape=(len(sizes), labels.max() + 1),
    ).toarray()
    moves = small & (votes.sum(axis=1) > 0)
    moved = moves[piece]
    mended[moved] = votes.argmax(axis=1)[piece[moved]]
    return mended, float(moved.mean())


def discriminant_rule(
    x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState
) -> DiscriminantRule | None:
    """Compress a labelling of draws into a few Student components per cell.

    ``None`` if they do not reproduce it, which leaves the Nystrom rule in charge.
    """
    shift, global_scale = standardisation(x)
    n_neighbours = min(10, len(x) - 1)
    graph = kneighbors_graph((x - shift) / global_scale, n_neighbours)
    graph = graph.maximum(graph.T).tocsr()
    current = mend_islands(labels, graph)[0]
    sample = x[rng.choice(len(x), min(len(x), 2000), replace=False)]

    def fit(current: Ints) -> tuple[DiscriminantRule, Ints] | None:
        """Rule for a labelling and its own labels, or None if it loses much of some cell."""
        if len(np.unique(current)) < n_cells:
            return None
        components = [
            cell_components(x[current == cell], global_scale, rng) for cell in range(n_cells)
        ]
        rule = most_likely_rule(components, sample)
        found = rule.predict(x)
        kept = [np.mean(found[labels == cell] == cell) for cell in range(n_cells)]
        return None if min(kept) < DISCRIMINANT_AGREEMENT else (rule, found)

    best: tuple[DiscriminantRule, Ints] | None = None
    least = np.inf
    for attempt in range(4):
        # Later fits are on the rule's own labels: that drops the stray tail points of a
        # neighbouring mode, which a segment at the edge of a valley tends to pick up.
        fitted = fit(current)
        if fitted is None:
            break
        current, islands = mend_islands(fitted[1], graph)
        if islands <= least:
            best, least = fitted, islands
        if attempt and islands == 0:
            break
    if best is None:
        return None
    if x.shape[1] > FULL_MAX_DIM:
        # In many dimensions modes that are apart are apart in the diagonal metric too, and the
        # rule is evaluated at every leapfrog step.
        cheap = diagonal_rule(x, best[1], n_cells, sample)
        if np.mean(cheap.predict(x) == best[1]) > DIAGONAL_AGREEMENT:
            return cheap
    continued = follow_shapes(x, *best)
    if continued is not None:
        best = fit(continued) or best
    return best[0]


def diagonal_rule(x: Floats, labels: Ints, n_cells: int, sample: Floats) -> DiscriminantRule:
    """One component with independent coordinates for each cell."""
    components = []
    for cell in range(n_cells):
        rows = x[labels == cell]
        shift, scale = standardisation(rows)
        components.append([Component(shift, scale, np.eye(x.shape[1]), len(rows))])
    rule = most_likely_rule(components, sample)
    return replace(rule, factors=np.array([np.diag(f) for f in rule.factors]))


def follow_shapes(x: Floats, rule: DiscriminantRule, labels: Ints) -> Ints | None:
    """Give a piece of a cell to another cell whose shape it continues.

    Where two long modes cross, a cut at the crossing leaves the far end of one with the other, and
    the chain has to turn a corner to reach it. If one normal describes that end together with a
    component of another cell better than two do (by BIC), it belongs there: trajectories run
    straight through the crossing.

    Returns
    -------
    array (n,) or None
        New labels, or ``None`` if no piece moves.
    """
    piece = rule.segment(x)
    n, d = x.shape
    owner = rule.owner
    sizes = np.bincount(piece, minlength=len(owner))
    if len(np.unique(owner)) == 1 or np.all(np.bincount(owner) == 1):
        return None
    penalty = 0.5 * np.log(n) * (d + 1 + d * (d + 1) / 2)
    alone = np.array([_normal_log_likelihood(x[piece == c], n) for c in range(len(owner))])
    moved = labels.copy()
    for c in np.argsort(sizes):
        own = sizes[owner == owner[c]]
        if sizes[c] <= d + 1 or sizes[c] > 0.5 * own.sum():
            continue
        gains: dict[int, float] = {}
        for cell in np.unique(owner[owner != owner[c]]):
            others = np.flatnonzero(owner == cell)
            # With one of its components, or with the whole cell as one.
            for group in (*(others[k : k + 1] for k in range(len(others))), others):
                rows = x[(piece == c) | np.isin(piece, group)]
                gain = _normal_log_likelihood(rows, n) - alone[c] - alone[group].sum()
                gains[cell] = max(gains.get(cell, -np.inf), gain + penalty * len(group))
        target = max(gains, key=gains.__getitem__)
        if gains[target] > 0:
            moved[piece == c] = target
    return moved if np.any(moved != labels) else None


def _normal_log_likelihood(rows: Floats, n: int) -> float:
    """Log likelihood of rows under the normal fitted to them, shares included."""
    m, d = rows.shape
    if m <= d + 1:  # no covariance to speak of: never a reason to move anything
        return 0.0
    _, log_det = np.linalg.slogdet(np.atleast_2d(np.cov(rows.T, bias=True)))
    return m * (np.log(m / n) - 0.5 * (log_det + d * np.log(2 * np.pi) + d))


# ---------------------------------------------------------------- estimators


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
    prominences_ : array (n_segments_ - 1,)
        Depth of the valley that sets each further mode apart, deepest first, in log density.
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
            labels = join_segments(
                landmarks,
                labels,
                logp,
                n_cells=None if self.n_cells == "auto" else wanted,
                valley=self.valley,
                min_size=self.min_landmarks,
            ).owner[labels]
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
