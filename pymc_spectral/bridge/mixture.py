"""A mixture of Student densities: a proposal for cells that no single ellipsoid resembles.

A bent mode, a cell that holds several modes, or one that boundaries cut through is described by
components, each a Student (or normal) of its own location and scale matrix. They are fitted by the
expectation-maximization algorithm of Peel & McLachlan, in which a point far from its component
counts less, so that heavy tails do not spoil the scales.

References
----------
Peel & McLachlan (2000), Robust mixture modelling using the t distribution, Statistics and
Computing 10. Arthur & Vassilvitskii (2007), k-means++: the advantages of careful seeding.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

from pymc_spectral.bridge.proposal import Proposal

__all__ = ["SPARE_POINTS", "MixtureProposal", "concatenate", "expectation_maximization"]

# Rounds of the algorithm at most, and the gain of the mean log density by which it is over.
# Heuristic: held-out densities, which decide, differ by a hundred times as much.
EM_ROUNDS = 60
EM_TOLERANCE = 1e-4
# Variance added to each component, in units of that of all points: keeps a component of points that
# lie in a plane regular (scikit-learn's own default for its mixtures).
FLOOR = 1e-6
# Components up to which single points are faster to evaluate one component after the other
# (measured: a microsecond each, against fifteen for all at once).
FEW_COMPONENTS = 10
# A component needs so many points beyond those that fix its scale matrix (heuristic).
SPARE_POINTS = 2


@dataclass(frozen=True)
class MixtureProposal:
    """A mixture of Student and normal densities on R^d.

    Parameters
    ----------
    weights : ndarray, shape (k,)
        Shares of the components; they are normalized.
    means : ndarray, shape (k, d)
        Locations.
    factors : ndarray, shape (k, d, d)
        Lower Cholesky factors of the scale matrices.
    dofs : ndarray, shape (k,)
        Degrees of freedom; infinite for a normal.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    dofs: np.ndarray
    _center: np.ndarray = field(init=False, repr=False, compare=False)
    _whiten: np.ndarray = field(init=False, repr=False, compare=False)
    _offset: np.ndarray = field(init=False, repr=False, compare=False)
    _log_constants: np.ndarray = field(init=False, repr=False, compare=False)
    _plain: list[tuple[float, float, float]] = field(init=False, repr=False, compare=False)
    _cumulated: list[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare what makes single points cheap."""
        k, d = self.means.shape
        if self.factors.shape != (k, d, d) or self.weights.shape != (k,) or len(self.dofs) != k:
            raise ValueError(
                f"weights {self.weights.shape}, means {self.means.shape}, factors "
                f"{self.factors.shape} and dofs {np.shape(self.dofs)} do not describe one mixture."
            )
        weights = self.weights / self.weights.sum()
        # All at once: a triangular solver called for each wakes the threads of the BLAS each time.
        whiten = np.linalg.inv(self.factors)
        # Distances are taken from a center of all: the components' own would cancel in a product.
        center = weights @ self.means
        offset = np.einsum("kij,kj->ki", whiten, self.means - center)
        half_log_det = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        log_constants = np.log(weights) + _log_norms(self.dofs, d) - half_log_det
        for name, value in (
            ("weights", weights),
            ("_center", center),
            ("_whiten", np.ascontiguousarray(whiten.reshape(k * d, d))),
            ("_offset", offset.ravel()),
            ("_log_constants", log_constants),
        ):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        powers = 0.5 * (self.dofs + d)
        plain = zip(log_constants.tolist(), self.dofs.tolist(), powers.tolist(), strict=True)
        object.__setattr__(self, "_plain", list(plain))
        object.__setattr__(self, "_cumulated", np.cumsum(weights).tolist())

    @classmethod
    def of(cls, one: Proposal, *, width: float = 1.0, dof: float | None = None) -> MixtureProposal:
        """Return one ellipsoid as a mixture, `width` times as wide, with other tails if asked."""
        return cls(
            np.ones(1),
            one.mean[None],
            width * one.scale_factor[None],
            np.array([one.dof if dof is None else dof]),
        )

    def moved(self, shift: np.ndarray, scale: np.ndarray) -> MixtureProposal:
        """Return the density of ``shift + scale * x``."""
        return MixtureProposal(
            self.weights,
            shift + self.means * scale,
            self.factors * scale[:, None],
            self.dofs,
        )

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.means.shape[1]

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.weights)

    def logpdf(self, x: np.ndarray) -> float | np.ndarray:
        """Return the log density at one point (d,) as a float, or at (m, d) points as (m,)."""
        x = np.asarray(x, dtype=float)
        if x.ndim == 1:
            return self._at_one_point(x)
        terms = self.terms_at(self.squared_radii(x))
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))

    def _at_one_point(self, x: np.ndarray) -> float:
        """Return the log density at one point: a chain asks for it several times a draw.

        Of a few components, plain numbers are faster than arrays.
        """
        y = self._whiten @ (x - self._center) - self._offset
        if len(self._plain) > FEW_COMPONENTS:
            terms = self.terms_at(np.square(y.reshape(self.means.shape)).sum(axis=1))
            top = float(terms.max())
            return top + math.log(np.exp(terms - top).sum())
        d = self.means.shape[1]
        found, top = [], -math.inf
        for k, (constant, dof, power) in enumerate(self._plain):
            part = y[k * d : (k + 1) * d]
            squared = float(part @ part)
            fall = 0.5 * squared if dof == math.inf else power * math.log1p(squared / dof)
            term = constant - fall
            found.append(term)
            top = max(top, term)
        return top + math.log(sum(math.exp(term - top) for term in found))

    def terms_at(self, squared: np.ndarray) -> np.ndarray:
        """Return the log of share times density of each component, (m, k), at squared radii."""
        return self._log_constants - _fall(squared, self.dofs, self.dim)

    def squared_radii(self, x: np.ndarray) -> np.ndarray:
        """Return the squared whitened distance of (m, d) points from each component, (m, k)."""
        y = (x - self._center) @ self._whiten.T - self._offset
        return (y.reshape(len(x), *self.means.shape) ** 2).sum(axis=2)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> np.ndarray:
        """Draw one point (d,), or (size, d) independent points."""
        if size is None:
            return self.draw(rng)[0]
        which = rng.choice(self.n_components, size, p=self.weights)
        z = rng.standard_normal((size, self.dim))
        dofs = self.dofs[which]
        heavy = np.isfinite(dofs)
        z[heavy] *= np.sqrt(dofs[heavy] / rng.chisquare(dofs[heavy]))[:, None]
        return self.means[which] + np.einsum("mij,mj->mi", self.factors[which], z)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Draw one point and return it with its log density."""
        k = min(bisect_right(self._cumulated, rng.random()), len(self._plain) - 1)
        z = rng.standard_normal(self.means.shape[1])
        dof = self._plain[k][1]
        if dof < math.inf:
            z *= math.sqrt(dof / rng.chisquare(dof))
        x = self.means[k] + self.factors[k] @ z
        return x, self._at_one_point(x)


def concatenate(parts: list[tuple[float, MixtureProposal]]) -> MixtureProposal:
    """Return the mixture of mixtures, each with its share."""
    return MixtureProposal(
        np.concatenate([share * part.weights for share, part in parts]),
        np.concatenate([part.means for _, part in parts]),
        np.concatenate([part.factors for _, part in parts]),
        np.concatenate([part.dofs for _, part in parts]),
    )


def expectation_maximization(
    points: np.ndarray, n_components: int, dof: float, rng: np.random.Generator
) -> MixtureProposal | None:
    """Fit a mixture of Students with given degrees of freedom.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        In units in which coordinates are of size 1.
    n_components : int
        Components to begin with; those that end with too few points for a scale matrix are dropped.
    dof : float
        Degrees of freedom of all components; infinite for normals.
    rng : Generator
        Places the first centers.

    Returns
    -------
    MixtureProposal or None
        None if the points are too few for any component.
    """
    n, d = points.shape
    centers = _spread_centers(points, n_components, rng)
    squared = np.stack([np.sum((points - c) ** 2, axis=1) for c in centers], axis=1)
    share = np.zeros((n, len(centers)))
    share[np.arange(n), squared.argmin(axis=1)] = 1.0
    weight = share
    before = -np.inf
    fitted = None
    for _ in range(EM_ROUNDS):
        enough = share.sum(axis=0) > d + SPARE_POINTS
        if not enough.any():
            return None
        fitted = _maximize(points, share[:, enough], weight[:, enough], dof)
        radii = fitted.squared_radii(points)
        terms = fitted.terms_at(radii)
        top = terms.max(axis=1, keepdims=True)
        share = np.exp(terms - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        weight = share * ((dof + d) / (dof + radii)) if math.isfinite(dof) else share
        level = float(np.mean(top + np.log(total)))
        if level - before < EM_TOLERANCE:
            break
        before = level
    return fitted


def _maximize(
    points: np.ndarray, share: np.ndarray, weight: np.ndarray, dof: float
) -> MixtureProposal:
    """Return the mixture that is most probable given each point's shares and weights."""
    d = points.shape[1]
    counts = share.sum(axis=0)
    means = (weight.T @ points) / weight.sum(axis=0)[:, None]
    scales = np.empty((len(counts), d, d))
    for k, mean in enumerate(means):
        away = points - mean
        scales[k] = (away * weight[:, k, None]).T @ away / counts[k]
    scales += FLOOR * np.eye(d)
    factors = np.linalg.cholesky(scales)
    return MixtureProposal(counts / counts.sum(), means, factors, np.full(len(counts), dof))


def _spread_centers(points: np.ndarray, n_centers: int, rng: np.random.Generator) -> np.ndarray:
    """Choose points far from each other, as k-means++ does."""
    chosen = [points[rng.integers(len(points))]]
    squared = np.sum((points - chosen[0]) ** 2, axis=1)
    while len(chosen) < n_centers and squared.sum() > 0:
        chosen.append(points[rng.choice(len(points), p=squared / squared.sum())])
        squared = np.minimum(squared, np.sum((points - chosen[-1]) ** 2, axis=1))
    return np.array(chosen)


def _fall(squared: np.ndarray, dofs: np.ndarray, d: int) -> np.ndarray:
    """Return by how much each component's log density lies below that of its center."""
    heavy = np.isfinite(dofs)
    if not heavy.any():
        return 0.5 * squared
    finite = np.where(heavy, dofs, 1.0)
    student = 0.5 * (finite + d) * np.log1p(squared / finite)
    return student if heavy.all() else np.where(heavy, student, 0.5 * squared)


def _log_norms(dofs: np.ndarray, d: int) -> np.ndarray:
    """Return the log density of each component's standard form at its center."""
    heavy = np.isfinite(dofs)
    finite = np.where(heavy, dofs, 1.0)
    student = gammaln((finite + d) / 2) - gammaln(finite / 2) - 0.5 * d * np.log(finite * np.pi)
    return np.where(heavy, student, -0.5 * d * np.log(2 * np.pi))
