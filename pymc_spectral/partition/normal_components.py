"""Normal components that describe the draws of one cell.

:mod:`pymc_spectral.partition.discriminant_fit` makes the rule of all cells from them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_spectral.partition.cell_rules import DiscriminantRule, Floats, Ints
from pymc_spectral.partition.spectrum import standardization

__all__ = ["Component", "cell_components", "follow_shapes"]

# Components tried for one cell. Heuristic: more are needed by no cell that a chain crosses.
MAX_COMPONENTS_PER_CELL = 8
# Rows of a cell that pay for one row of a component's covariance, or for its mean (heuristic).
ROWS_PER_PARAMETER = 10
# Numbers of components that must be worse than the best one, by BIC, before the search ends.
WORSE_IN_A_ROW = 2
# A covariance matrix needs rows, and BIC hardly ever grants a second one in more dimensions.
MIXTURE_MAX_DIM = 20
# Rows that a mixture is fitted to: its cost is in proportion, and boundaries do not ask for more.
MIXTURE_ROWS = 1000
# Variance added to every component of a mixture, scikit-learn's own default, in standard units.
MIXTURE_FLOOR = 1e-6
# Two rows know no scale; a cell of so few gets this share of the scale of all rows (heuristic).
FEWEST_ROWS = 2
BORROWED_SCALE = 0.1
# A coordinate of a cell is no narrower than this share of the scale of all rows, and its
# correlation matrix gets a little on the diagonal: both keep the Cholesky factor defined.
NARROWEST = 1e-6
JITTER = 1e-9
# A cell that would lose more than half of itself to the shapes is not described by them.
LEAST_KEPT = 0.5


@dataclass(frozen=True, eq=False)
class Component:
    """A location, a scale matrix as ``scale``-standardized Cholesky factor, and a share."""

    mean: Floats
    scale: Floats
    lower: Floats
    share: float


@dataclass(frozen=True, eq=False)
class Shape:
    """Pieces of cells taken together as one normal: its size, mean and scatter."""

    pieces: tuple[int, ...]
    size: int
    mean: Floats
    scatter: Floats

    def __add__(self, other: Shape) -> Shape:
        """Return both together."""
        size = self.size + other.size
        gap = other.mean - self.mean
        return Shape(
            self.pieces + other.pieces,
            size,
            self.mean + gap * (other.size / size),
            self.scatter + other.scatter + np.outer(gap, gap) * (self.size * other.size / size),
        )

    def log_likelihood(self, n: int) -> float:
        """Return the log likelihood of its rows, of `n`, under their normal, share included."""
        d = len(self.mean)
        log_det = np.linalg.slogdet(self.scatter / self.size)[1]
        return self.size * (np.log(self.size / n) - 0.5 * (log_det + d * np.log(2 * np.pi) + d))


def merged_shapes(rows: Floats, piece: Ints) -> list[Shape]:
    """Merge pieces two by two as long as one normal describes two better than two do, by BIC."""
    n, d = rows.shape
    shapes = []
    for c in np.unique(piece):
        own = rows[piece == c]
        if len(own) > d + 1:  # else no covariance to speak of
            mean = own.mean(axis=0)
            shape = Shape((int(c),), len(own), mean, (own - mean).T @ (own - mean))
            if np.isfinite(shape.log_likelihood(n)):  # rows in a plane have no covariance either
                shapes.append(shape)
    penalty = 0.5 * np.log(n) * (d + 1 + d * (d + 1) / 2)

    def gain(a: Shape, b: Shape) -> float:
        return (a + b).log_likelihood(n) - a.log_likelihood(n) - b.log_likelihood(n) + penalty

    gains = {pair: gain(*pair) for pair in combinations(shapes, 2)}
    while gains and gains[best := max(gains, key=gains.__getitem__)] > 0:
        gains = {pair: g for pair, g in gains.items() if not set(best) & set(pair)}
        shapes = [s for s in shapes if s not in best]
        merged = best[0] + best[1]
        gains |= {(other, merged): gain(other, merged) for other in shapes}
        shapes.append(merged)
    return shapes


def follow_shapes(
    x: Floats, rule: DiscriminantRule, n_cells: int, rng: np.random.RandomState
) -> tuple[list[list[Component]], Ints] | None:
    """Describe all cells by one mixture, in which each shape belongs to one cell.

    Where two long modes cross, a cut at the crossing leaves the far end of one with the other, and
    the chain has to turn a corner to reach it. So pieces of all cells are merged into shapes, each
    of which goes to the cell that it is the largest share of, and a mixture that starts from these
    shapes is fitted to all rows; of shapes that it can do without (by BIC) it gets rid.

    Returns
    -------
    components : list of list of Component
        Those of each cell.
    labels : array (n,)
        Cell of each row once the shapes are whole.

    ``None`` where every cell is a single piece anyway, or one would lose more than half of itself.
    """
    n, d = x.shape
    if n_cells == 1 or d > MIXTURE_MAX_DIM or np.all(np.bincount(rule.owner) == 1):
        return None
    piece = rule.segment(x)
    shift, scale = standardization(x)
    y = (x - shift) / scale
    shapes = merged_shapes(y, piece)
    before = rule.owner[piece]
    owner, after = owners_of_shapes(shapes, piece, before, n_cells)
    if min(np.mean(after[before == cell] == cell) for cell in range(n_cells)) < LEAST_KEPT:
        return None
    rows = y[rng.choice(n, min(n, 2 * MIXTURE_ROWS), replace=False)]
    mixture, owner = mixture_of_shapes(rows, shapes, owner, rng)
    components: list[list[Component]] = [[] for _ in range(n_cells)]
    for cell, mean, covariance, share in zip(
        owner, mixture.means_, mixture.covariances_, mixture.weights_, strict=True
    ):
        lower = np.linalg.cholesky(covariance)
        components[cell].append(Component(shift + scale * mean, scale, lower, n * share))
    return components, after


def owners_of_shapes(
    shapes: list[Shape], piece: Ints, before: Ints, n_cells: int
) -> tuple[list[int], Ints]:
    """Give each shape to the cell that it is the largest share of.

    Parameters
    ----------
    shapes : list of Shape
    piece, before : array (n,)
        Piece and cell of each row.
    n_cells : int

    Returns
    -------
    owner : list of int
        Cell of each shape.
    after : array (n,)
        Cell of each row once the shapes are whole; rows of no shape stay where they were.
    """
    sizes = np.bincount(before, minlength=n_cells)
    after = before.copy()
    owner = []
    for shape in shapes:
        own = np.isin(piece, shape.pieces)
        # By share of the cell, not by count: half of a small mode and a few stray points of a
        # large one outnumber the other half, but they are next to nothing to the large one.
        shares = np.bincount(before[own], minlength=n_cells) / np.maximum(sizes, 1)
        owner.append(int(shares.argmax()))
        after[own] = owner[-1]
    return owner, after


def mixture_of_shapes(
    rows: Floats, shapes: list[Shape], owner: list[int], rng: np.random.RandomState
) -> tuple[GaussianMixture, list[int]]:
    """Fit a mixture that starts from shapes; drop those that it can do without, by BIC.

    Parameters
    ----------
    rows : array (n, d)
    shapes : list of Shape
    owner : list of int
        Cell of each shape; the last shape of a cell is never dropped.
    rng : RandomState

    Returns
    -------
    mixture : GaussianMixture
    owner : list of int
        Cell of each of its components.
    """
    owner = list(owner)
    floor = MIXTURE_FLOOR * np.eye(rows.shape[1])
    best, bic = _fit_from(
        rows,
        np.array([s.mean for s in shapes]),
        np.array([s.scatter / s.size + floor for s in shapes]),
        np.array([s.size for s in shapes], dtype=float),
        rng,
    )
    while spare := [k for k in range(len(owner)) if owner.count(owner[k]) > 1]:
        trials = []
        for k in spare:
            keep = np.delete(np.arange(len(owner)), k)
            trials.append(
                _fit_from(
                    rows, best.means_[keep], best.covariances_[keep], best.weights_[keep], rng
                )
            )
        least = int(np.argmin([trial_bic for _, trial_bic in trials]))
        if trials[least][1] >= bic:
            break
        best, bic = trials[least]
        del owner[spare[least]]
    return best, owner


def _fit_from(
    rows: Floats,
    means: Floats,
    covariances: Floats,
    sizes: Floats,
    rng: np.random.RandomState,
) -> tuple[GaussianMixture, float]:
    """Fit a mixture from given components; return it and its BIC."""
    mixture = GaussianMixture(
        len(means),
        reg_covar=MIXTURE_FLOOR,
        weights_init=sizes / np.sum(sizes),
        means_init=means,
        precisions_init=np.linalg.inv(covariances),
        random_state=rng,
    )
    return _fitted(mixture, rows)


def _fitted(mixture: GaussianMixture, rows: Floats) -> tuple[GaussianMixture, float]:
    """Fit a mixture; return it and its BIC. One that has not converged is a description too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(rows)
    return mixture, float(mixture.bic(rows))


def cell_components(
    rows: Floats, global_scale: Floats, rng: np.random.RandomState
) -> list[Component]:
    """Describe the draws of one cell by as many normal components as BIC asks for.

    One is enough for most modes. A bent or branching cell needs more: one wide component would
    claim the tails of its neighbors, and the pieces that it wins there are out of its chain's
    reach.

    Parameters
    ----------
    rows : array (n, d)
    global_scale : array (d,)
        Scale of the rows of all cells.
    rng : RandomState
    """
    n, d = rows.shape
    shift, scale = standardization(rows)
    if n <= FEWEST_ROWS:
        return [Component(shift, BORROWED_SCALE * global_scale, np.eye(d), n)]
    scale = np.maximum(scale, NARROWEST * global_scale)
    y = (rows - shift) / scale
    correlation = ledoit_wolf(y, assume_centered=True)[0]
    correlation[np.diag_indices(d)] += JITTER
    if n > MIXTURE_ROWS:
        y = y[rng.choice(n, MIXTURE_ROWS, replace=False)]
    affordable = n // (ROWS_PER_PARAMETER * (d + 1)) if d <= MIXTURE_MAX_DIM else 0
    mixture = mixture_by_bic(y, min(MAX_COMPONENTS_PER_CELL, affordable), rng)
    if mixture is None:
        return [Component(shift, scale, np.linalg.cholesky(correlation), n)]
    return [
        Component(shift + scale * mean, scale, np.linalg.cholesky(covariance), n * share)
        for mean, covariance, share in zip(
            mixture.means_, mixture.covariances_, mixture.weights_, strict=True
        )
    ]


def mixture_by_bic(y: Floats, most: int, rng: np.random.RandomState) -> GaussianMixture | None:
    """Return the mixture of at most so many components with the lowest BIC, None for a single one.

    The search ends early when more components are no better twice in a row.
    """
    best, least, worse = None, np.inf, 0
    for k in range(1, most + 1):
        mixture = GaussianMixture(k, reg_covar=MIXTURE_FLOOR, random_state=rng)
        mixture, bic = _fitted(mixture, y)
        if bic < least:
            best, least, worse = mixture, bic, 0
        else:
            worse += 1
            if worse == WORSE_IN_A_ROW:
                break
    return None if best is None or best.n_components == 1 else best
