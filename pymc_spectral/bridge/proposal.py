"""The bridge's proposal: a normal or Student density fitted to earlier draws of one cell.

Bridge sampling compares the draws of a chain with points proposed independently from a density
``p`` that can be sampled and normalized. The closer ``p`` is to the restricted posterior the
smaller the error, but ``p`` must not be fitted to the very draws it weighs: that biases the log
mass by about ``-d (d + 3) / (4 n)``. So every chain carries a :class:`StreamingProposal`, which is
fitted to the past only and refitted as the past grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from scipy.linalg import solve_triangular

from pymc_spectral._validate import one_of

__all__ = ["Proposal", "ProposalKind", "StreamingProposal", "fit_proposal"]

ProposalKind = Literal["normal", "student"]

STUDENT_DOF = 10.0
"""Degrees of freedom of the Student proposal, the paper's choice."""

# Candidates of the shrinkage: how far the correlations go towards zero, and how much the
# covariance is widened because mean and covariance are themselves uncertain. Heuristic: a factor of
# 1.8 from one intensity to the next, over all that matters; the widening for a chain that is worth
# only a few draws, which a normal predictive density would need, ends at 5.
_INTENSITIES = np.concatenate([[0.0], np.logspace(-6, 0, 25)])
_INFLATIONS = np.array([1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0])
# Stretches of draws that are held out in turn. Heuristic: few enough that a stretch of a slow chain
# is nearly independent of the rest, and that the rest is nearly all.
_FOLDS = 4
# Four draws in each stretch: with fewer a held-out one says nothing (heuristic).
_MIN_FOR_FOLDS = 16
# Least standard deviation, in units of that of all draws, that three quarters of them are credited
# with, and least eigenvalue of their shrunk correlation. Heuristics that keep quotients finite.
_LEAST_SD = 1e-3
_LEAST_EIGENVALUE = 1e-12
# Least eigenvalue, per dimension, of the correlation in use: far enough above rounding (1e-16 d)
# that its Cholesky factor exists (heuristic).
_LEAST_REGULAR = 1e-10

# A refit waits until the past has grown by this factor and this number of draws. The factor lowers
# the error against doubling, see the notes of StreamingProposal; the number is a heuristic, that
# of rows which the bridge tells apart from the next (bridge/runs_between_refits.py).
_GROWTH = 1.25
_MIN_STEP = 50
# Draws of its own on which a fit stands alone, without the seed points: this many, and this many a
# dimension (heuristic; with fewer the shrinkage does most of the work).
_ENOUGH = 100
_ENOUGH_BY_DIM = 10
# Part of the tuning draws that is dropped as warm-up: one in three (heuristic).
_WARM_UP = 3
# Draws kept for refits at least, so that thinning leaves enough for the folds.
_MIN_CAPACITY = _MIN_FOR_FOLDS
# Rows that the store begins with; it doubles when full, so this only saves memory.
_FIRST_ROWS = 256
# Relative to the size of the coordinate: below this its draws count as not varying. Rounding of
# the mean leaves about 1e-16 times the square root of the number of draws.
_FLAT = 1e-12


@dataclass(frozen=True)
class Proposal:
    """A normal or Student density on R^d with given first two moments.

    Parameters
    ----------
    kind : {"normal", "student"}
        ``"student"`` has 10 degrees of freedom and heavier tails: safer where the cell's own
        tails are heavy, slightly less efficient where they are normal.
    mean : ndarray, shape (d,)
        Mean.
    covariance : ndarray, shape (d, d)
        Covariance, positive definite. The Student's scale matrix is this times 8/10, so that both
        kinds have the same two moments.
    """

    kind: ProposalKind
    mean: np.ndarray
    covariance: np.ndarray
    _factor_t: np.ndarray = field(init=False, repr=False, compare=False)
    _whiten_t: np.ndarray = field(init=False, repr=False, compare=False)
    _log_norm: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Factor the covariance once, so that single points are cheap."""
        one_of("proposal", self.kind, get_args(ProposalKind))
        mean = np.array(self.mean, dtype=float)
        covariance = np.array(self.covariance, dtype=float)
        if mean.ndim != 1 or covariance.shape != (mean.size, mean.size):
            raise ValueError(
                f"mean has shape {mean.shape} and covariance {covariance.shape}; "
                "expected (d,) and (d, d)."
            )
        d = mean.size
        # Factor the correlation: variances of mixed units may differ by 20 orders of magnitude.
        sd = np.sqrt(np.diag(covariance))
        factor = np.linalg.cholesky(covariance / np.outer(sd, sd)) * sd[:, None]
        if self.kind == "student":
            nu = STUDENT_DOF
            factor = factor * math.sqrt((nu - 2) / nu)
            log_norm = (
                math.lgamma((nu + d) / 2) - math.lgamma(nu / 2) - 0.5 * d * math.log(nu * math.pi)
            )
        else:
            log_norm = -0.5 * d * math.log(2 * math.pi)
        whiten = solve_triangular(factor / sd[:, None], np.eye(d), lower=True) / sd
        log_norm -= float(np.log(np.diag(factor)).sum())
        for name, value in (
            ("mean", mean),
            ("covariance", covariance),
            ("_factor_t", np.ascontiguousarray(factor.T)),
            ("_whiten_t", np.ascontiguousarray(whiten.T)),
        ):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_log_norm", log_norm)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.mean.size

    def logpdf(self, x: np.ndarray) -> float | np.ndarray:
        """Return the log density at one point (d,) as a float, or at (m, d) points as (m,)."""
        z = (x - self.mean) @ self._whiten_t
        if z.ndim == 1:
            return self._log_density(float(z @ z))
        q = np.einsum("ij,ij->i", z, z)
        if self.kind == "normal":
            return self._log_norm - 0.5 * q
        return self._log_norm - 0.5 * (STUDENT_DOF + self.dim) * np.log1p(q / STUDENT_DOF)

    def _log_density(self, q: float) -> float:
        """Return the log density at squared whitened radius `q`."""
        if self.kind == "normal":
            return self._log_norm - 0.5 * q
        return self._log_norm - 0.5 * (STUDENT_DOF + self.mean.size) * math.log1p(q / STUDENT_DOF)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> np.ndarray:
        """Draw one point (d,), or (size, d) independent points."""
        if size is None:
            return self.draw(rng)[0]
        z = rng.standard_normal((size, self.mean.size))
        if self.kind == "student":
            z *= np.sqrt(STUDENT_DOF / rng.chisquare(STUDENT_DOF, size))[:, None]
        return self.mean + z @ self._factor_t

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Draw one point and return it with its log density: the cheapest way to have both."""
        z = rng.standard_normal(self.mean.size)
        if self.kind == "student":
            z *= math.sqrt(STUDENT_DOF / rng.chisquare(STUDENT_DOF))
        return self.mean + z @ self._factor_t, self._log_density(float(z @ z))


def fit_proposal(
    draws: np.ndarray, kind: ProposalKind = "normal", *, fallback_scale: np.ndarray | None = None
) -> Proposal:
    """Fit a proposal to the moments of earlier draws, with shrinkage where they are few.

    Parameters
    ----------
    draws : ndarray, shape (n, d)
        Draws in time order, n >= 1.
    kind : {"normal", "student"}
        Family of the proposal.
    fallback_scale : ndarray, shape (d,), optional
        Standard deviation to use for a coordinate whose draws do not vary. Default: the median of
        the coordinates that do vary, or 1 when none does.

    Returns
    -------
    Proposal

    Notes
    -----
    1. Coordinates are standardized by their standard deviations, so the fit follows any change of
       units of the coordinates exactly.
    2. The correlation matrix R becomes ``k ((1 - a) R + a I)``. The intensity ``a`` and the
       widening ``k >= 1`` are those under which each quarter of the draws is most probable when
       the fit has seen only the other three. Quarters are contiguous in time, so autocorrelated
       draws count for what they are worth, which the closed form of Ledoit & Wolf cannot know: it
       takes draws as independent, and it minimizes a squared error of matrix entries, whereas the
       bridge needs densities that overlap: for 100 correlated coordinates with variances over 4
       decades and 500 draws, the log mass was off by 27 with it and by 0.08 with this. With many
       draws ``a`` and ``k`` go to 0 and 1 and the two moments are matched, as in the paper.
    3. With fewer than 16 draws there is nothing to hold out: ``a = d / (n + d)``, but at least
       1/n, and ``k = 1 + d / n``, at most 5.
    """
    draws = _checked(draws)
    n, d = draws.shape
    mean = draws.mean(axis=0)
    centered = draws - mean
    sd = np.sqrt(np.einsum("ij,ij->j", centered, centered) / max(n - 1, 1))
    varies = sd > _FLAT * np.abs(mean)
    if fallback_scale is None:
        fallback_scale = np.full(d, np.median(sd[varies]) if varies.any() else 1.0)
    sd = np.where(varies, sd, fallback_scale)
    z = np.where(varies, centered / sd, 0.0)
    correlation = z.T @ z / max(n - 1, 1)
    np.fill_diagonal(correlation, 1.0)
    # A coordinate that does not vary is predicted perfectly and would decide alone.
    intensity, inflation = _shrinkage(z[:, varies]) if varies.any() else (0.0, 1.0)
    correlation *= 1.0 - intensity
    np.fill_diagonal(correlation, 1.0)
    _make_regular(correlation)
    return Proposal(kind, mean, inflation * correlation * np.outer(sd, sd))


def _checked(draws: np.ndarray) -> np.ndarray:
    """Return the draws as floats, after checking shape and values."""
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 2 or draws.shape[0] < 1:
        raise ValueError(f"draws has shape {draws.shape}; expected (n, d) with n >= 1.")
    if not np.isfinite(draws).all():
        raise ValueError("draws holds values that are not finite; drop them before the fit.")
    return draws


def _make_regular(correlation: np.ndarray) -> None:
    """Shrink a correlation in place, as little as leaves it regular.

    Perfectly dependent coordinates (a deterministic copy) would leave a singular matrix.
    """
    floor = _LEAST_REGULAR * len(correlation)
    smallest = float(np.linalg.eigvalsh(correlation)[0])
    if smallest < floor:
        extra = min(1.0, (floor - smallest) / max(1.0 - smallest, floor))
        correlation *= 1.0 - extra
        np.fill_diagonal(correlation, 1.0)


def _shrinkage(z: np.ndarray) -> tuple[float, float]:
    """Choose the intensity and widening that predict held-out stretches of draws best."""
    n, d = z.shape
    if n < _MIN_FOR_FOLDS:
        return max(d / (n + d), 1.0 / n), min(1.0 + d / n, float(_INFLATIONS[-1]))
    score = np.zeros((_INFLATIONS.size, _INTENSITIES.size))
    edges = np.linspace(0, n, _FOLDS + 1).astype(int)
    folds = [z[start:stop] for start, stop in pairwise(edges)]
    # Moments of the folds are all that is needed: of the rest they give those by subtraction, of
    # the held-out draws the squares along any direction.
    sums = [fold.sum(axis=0) for fold in folds]
    products = [fold.T @ fold for fold in folds]
    total, total_product = np.sum(sums, axis=0), np.sum(products, axis=0)
    for fold, own, product in zip(folds, sums, products, strict=True):
        held, rest = len(fold), n - len(fold)
        mean = (total - own) / rest
        train = (total_product - product - rest * np.outer(mean, mean)) / (rest - 1)
        shift = np.outer(own, mean)
        # Squares and products of the held-out draws about the mean of the rest.
        about = product - shift - shift.T + held * np.outer(mean, mean)
        score -= 0.5 * _surprise(train, about, held)
    k, a = np.unravel_index(int(np.argmax(score)), score.shape)
    return float(_INTENSITIES[a]), float(_INFLATIONS[k])


def _surprise(train: np.ndarray, about: np.ndarray, held: int) -> np.ndarray:
    """Return minus twice the log density of held-out draws under every candidate fit.

    Parameters
    ----------
    train : ndarray, shape (d, d)
        Covariance of the other draws.
    about : ndarray, shape (d, d)
        Sum of the held-out draws' products about the mean of the others.
    held : int
        Number of held-out draws.

    Returns
    -------
    ndarray, shape (inflations, intensities)
        Up to a constant.
    """
    sd = np.maximum(np.sqrt(np.maximum(np.diag(train), 0.0)), _LEAST_SD)
    scale = np.outer(sd, sd)
    power = about / scale
    values, vectors = np.linalg.eigh(train / scale)
    # In the basis of the correlation's eigenvectors every intensity is diagonal.
    power = np.einsum("ij,ij->j", vectors, power @ vectors)
    shrunk = (1.0 - _INTENSITIES) * np.maximum(values, 0.0)[:, None] + _INTENSITIES
    shrunk = np.maximum(shrunk, _LEAST_EIGENVALUE)
    quadratic = power @ (1.0 / shrunk)
    log_det = np.log(shrunk).sum(axis=0)
    inflation = _INFLATIONS[:, None]
    return quadratic / inflation + held * (log_det + len(train) * np.log(inflation))


class StreamingProposal:
    """The proposal of one chain, fitted to what the chain has already seen.

    Call in this order, for each draw after tuning: take :attr:`current`, weigh the draw with it,
    then :meth:`observe` the draw. So no draw is ever weighed by a proposal that was fitted to it.

    Parameters
    ----------
    seed_points : ndarray, shape (m, d)
        Points of the cell known before sampling (its landmarks), m >= 1. They alone make the first
        fit when there was no tuning; they drop out once the chain has ``max(100, 10 d)`` draws.
    kind : {"normal", "student"}
        Family of the proposal.
    capacity : int
        Draws kept for refits. A full store is thinned to every second draw, so memory is bounded
        and the whole past stays represented. Larger: slightly better fits in high dimension.

    Attributes
    ----------
    n_fits : int
        Number of fits so far; ``n_fits - 1`` labels the proposal in use.

    Notes
    -----
    The first third of the tuning draws is dropped as warm-up. Fits happen at the end of tuning and
    whenever the number of draws behind the fit has grown by a quarter (and by 50 at least), so
    their number is logarithmic in that of the draws. Against doubling this lowers the error of the
    log mass by 10 to 13 % at d = 30 to 100.
    """

    def __init__(
        self, seed_points: np.ndarray, kind: ProposalKind = "normal", *, capacity: int = 4096
    ) -> None:
        one_of("proposal", kind, get_args(ProposalKind))
        seeds = np.array(seed_points, dtype=float)
        if seeds.ndim != 2 or seeds.shape[0] < 1:
            raise ValueError(f"seed_points has shape {seeds.shape}; expected (m, d) with m >= 1.")
        if capacity < _MIN_CAPACITY:
            raise ValueError(f"capacity={capacity} is too small; use at least {_MIN_CAPACITY}.")
        self.kind = kind
        self.n_fits = 0
        self._seeds = seeds
        self._scale = _seed_scale(seeds)
        self._enough = max(_ENOUGH, _ENOUGH_BY_DIM * seeds.shape[1])
        self._tuning_store = _Store(seeds.shape[1], capacity)
        self._store = _Store(seeds.shape[1], capacity)
        self._warm: np.ndarray = np.empty((0, seeds.shape[1]))
        self._tuning = True
        self._refit_at = 0
        self._fitted: Proposal | None = None

    def observe(self, x: np.ndarray, *, tuning: bool = False) -> None:
        """Remember one draw (d,) for later fits; `tuning` says which stage it belongs to."""
        if tuning:
            self._tuning_store.append(x)
            return
        if self._tuning:
            self.stop_tuning()
        self._store.append(x)

    def stop_tuning(self) -> None:
        """Keep the later tuning draws and have the next :attr:`current` refit."""
        if not self._tuning:
            return
        self._tuning = False
        kept = self._tuning_store.array()
        self._warm = kept[len(kept) // _WARM_UP :].copy()
        self._tuning_store.clear()
        self._refit_at = 0

    @property
    def current(self) -> Proposal:
        """The proposal for the next draw, refitted first if enough draws have come in."""
        count = self._count()
        if self._fitted is None or count >= self._refit_at:
            self._fitted = fit_proposal(self._past(), self.kind, fallback_scale=self._scale)
            self.n_fits += 1
            self._refit_at = max(int(_GROWTH * count), count + _MIN_STEP)
        return self._fitted

    def _count(self) -> int:
        """Return the number of draws seen that a fit would stand on."""
        if self._tuning:
            return self._tuning_store.seen - self._tuning_store.seen // _WARM_UP
        return len(self._warm) + self._store.seen

    def _past(self) -> np.ndarray:
        """Return the points of the next fit, in time order."""
        if self._tuning:
            kept = self._tuning_store.array()
            own = kept[len(kept) // _WARM_UP :]
        else:
            # When the store was thinned, thin the tuning draws alike: equal weight in time.
            own = np.concatenate([self._warm[:: self._store.stride], self._store.array()])
        return own if len(own) >= self._enough else np.concatenate([self._seeds, own])


class _Store:
    """A bounded record of a sequence of points, thinned evenly when full."""

    def __init__(self, dim: int, capacity: int) -> None:
        self._rows = np.empty((min(capacity, _FIRST_ROWS), dim))
        self._capacity = capacity
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._kept = 0
        self.seen = 0
        self.stride = 1

    def append(self, x: np.ndarray) -> None:
        """Add a point, or skip it when the store is thinned."""
        if self.seen % self.stride == 0:
            if self._kept == self._capacity:
                half = self._rows[: self._kept : 2].copy()
                self._kept = len(half)
                self._rows[: self._kept] = half
                self.stride *= 2
            elif self._kept == len(self._rows):
                grown = np.empty((min(2 * self._kept, self._capacity), self._rows.shape[1]))
                grown[: self._kept] = self._rows
                self._rows = grown
            if self.seen % self.stride == 0:
                self._rows[self._kept] = x
                self._kept += 1
        self.seen += 1

    def array(self) -> np.ndarray:
        """Return the kept points, (k, d), a view."""
        return self._rows[: self._kept]


def _seed_scale(seeds: np.ndarray) -> np.ndarray:
    """Return the scale for coordinates whose draws do not vary: that of the seed points, or 1."""
    if len(seeds) < 2:
        return np.ones(seeds.shape[1])
    sd = seeds.std(axis=0, ddof=1)
    varies = sd > _FLAT * np.abs(seeds.mean(axis=0))
    return np.where(varies, sd, np.median(sd[varies]) if varies.any() else 1.0)
