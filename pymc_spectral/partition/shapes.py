"""Shapes of modes: normal components that describe the draws of a cell."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter

import numpy as np
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_spectral.partition.rules import DiscriminantRule, Floats, Ints
from pymc_spectral.partition.spectrum import standardisation

__all__ = ["Component", "cell_components", "follow_shapes"]


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
        """Log likelihood of its rows, out of `n`, under their normal, share included."""
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
            shapes.append(Shape((int(c),), len(own), mean, (own - mean).T @ (own - mean)))
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
    shift, scale = standardisation(x)
    y = (x - shift) / scale
    shapes = merged_shapes(y, piece)
    before = rule.owner[piece]
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
    if min(np.mean(after[before == cell] == cell) for cell in range(n_cells)) < 0.5:
        return None
    rows = y[rng.choice(n, min(n, 2 * MIXTURE_ROWS), replace=False)]

    def fitted(means: Floats, covariances: Floats, sizes: Floats) -> tuple[GaussianMixture, float]:
        mixture = GaussianMixture(
            len(means),
            reg_covar=1e-6,
            weights_init=sizes / np.sum(sizes),
            means_init=means,
            precisions_init=np.linalg.inv(covariances),
            random_state=rng,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(rows)
        return mixture, mixture.bic(rows)

    floor = 1e-6 * np.eye(d)
    best, bic = fitted(
        np.array([s.mean for s in shapes]),
        np.array([s.scatter / s.size + floor for s in shapes]),
        np.array([s.size for s in shapes], dtype=float),
    )
    while True:
        spare = [k for k in range(len(owner)) if owner.count(owner[k]) > 1]
        trials = []
        for k in spare:
            keep = np.delete(np.arange(len(owner)), k)
            trial = fitted(best.means_[keep], best.covariances_[keep], best.weights_[keep])
            trials.append((trial[1], k, trial[0]))
        if not trials or min(trials, key=itemgetter(0))[0] >= bic:
            break
        bic, k, best = min(trials, key=itemgetter(0))
        del owner[k]
    components: list[list[Component]] = [[] for _ in range(n_cells)]
    for cell, mean, covariance, share in zip(
        owner, best.means_, best.covariances_, best.weights_, strict=True
    ):
        lower = np.linalg.cholesky(covariance)
        components[cell].append(Component(shift + scale * mean, scale, lower, n * share))
    return components, after


MAX_COMPONENTS_PER_CELL = 8


MIXTURE_MAX_DIM = 20


MIXTURE_ROWS = 1000


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
