"""A proposal of one ellipsoid: a normal or Student density fitted to the moments of points.

:mod:`pymc_spectral.bridge.mixture` has densities of other shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from scipy.linalg import solve_triangular

from pymc_spectral._validate import one_of

__all__ = ["EllipsoidKind", "Proposal", "fit_proposal", "scale_of"]

EllipsoidKind = Literal["normal", "student"]

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

    kind: EllipsoidKind
    mean: np.ndarray
    covariance: np.ndarray
    _factor_t: np.ndarray = field(init=False, repr=False, compare=False)
    _whiten_t: np.ndarray = field(init=False, repr=False, compare=False)
    _log_norm: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Factor the covariance once, so that single points are cheap."""
        one_of("proposal", self.kind, get_args(EllipsoidKind))
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

    @property
    def scale_factor(self) -> np.ndarray:
        """Lower Cholesky factor of the scale matrix, (d, d); a normal's is its covariance."""
        return self._factor_t.T

    @property
    def dof(self) -> float:
        """Degrees of freedom; infinite for a normal."""
        return STUDENT_DOF if self.kind == "student" else math.inf

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
    draws: np.ndarray, kind: EllipsoidKind = "normal", *, fallback_scale: np.ndarray | None = None
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


def scale_of(points: np.ndarray) -> np.ndarray:
    """Return a scale for each coordinate, (d,): that of (m, d) points, or 1 where none varies."""
    if len(points) < 2:
        return np.ones(points.shape[1])
    sd = points.std(axis=0, ddof=1)
    varies = sd > _FLAT * np.abs(points.mean(axis=0))
    return np.where(varies, sd, np.median(sd[varies]) if varies.any() else 1.0)


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
