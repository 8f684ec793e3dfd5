"""The knobs of a partition, and which values are refused before any work begins."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from pymc_spectral._validate import one_of
from pymc_spectral.partition.cell_rules import Floats
from pymc_spectral.partition.spectrum import Affinity

__all__ = [
    "N_LANDMARKS",
    "VALLEY",
    "Extension",
    "KMeansConfig",
    "SpectralConfig",
    "as_covariance",
]

Extension = Literal["discriminant", "nystrom"]

N_LANDMARKS = 1000
"""Landmarks by default: eigenvectors of as many take half a second."""

VALLEY = 0.25
"""Depth, in log density, from which a valley is one by default.

Heuristic. The densities of most unimodal posteriors have none along a straight path; the slack is
for those that bend, and for paths that cut corners. Between modes that chains hardly cross it is
ten times as deep. A valley that is joined though it is one costs little: chains cross what is so
shallow.
"""

# One landmark has no neighbor, and no spectrum.
FEWEST_LANDMARKS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class SpectralConfig:
    """The options of :class:`pymc_spectral.SpectralPartition`, checked against each other.

    Parameters
    ----------
    n_cells : int or "auto"
        Number of cells; ``"auto"``: one for each mode.
    affinity : {"self-tuning", "gaussian"}
        How the nearness of two landmarks is measured.
    Q : array-like (d, d), number or None
        Covariance of the paper's random walk; goes with ``affinity="gaussian"`` and only with it.
    extension : {"discriminant", "nystrom"}
        How cells reach beyond the landmarks.
    join : bool or None
        Whether segments are joined where no valley lies between. ``None``: yes, where the number
        of cells is open or the log density is known.
    n_landmarks : int
        Rows used as landmarks, at most.
    n_neighbors : int
        Neighbor that sets the local scale.
    valley : float
        Depth, in log density, from which a valley keeps two segments apart.
    min_landmarks : int
        A cell with fewer landmarks is joined to its neighbor.
    quench : int
        Evaluations by which each landmark moves uphill at most.
    random_state : int, RandomState instance or None
        Seed.

    Raises
    ------
    ValueError
        If a value is impossible, or contradicts another.
    """

    n_cells: int | Literal["auto"]
    affinity: Affinity
    Q: ArrayLike | None
    extension: Extension
    join: bool | None
    n_landmarks: int
    n_neighbors: int
    valley: float
    min_landmarks: int
    quench: int
    random_state: int | np.random.RandomState | None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        _check_n_cells(self.n_cells)
        one_of("affinity", self.affinity, get_args(Affinity))
        one_of("extension", self.extension, get_args(Extension))
        _check_n_landmarks(self.n_landmarks, self.wanted)
        _check_count("n_neighbors", self.n_neighbors, 1)
        _check_count("min_landmarks", self.min_landmarks, 1)
        _check_count("quench", self.quench, 0)
        if (
            isinstance(self.valley, bool)
            or not isinstance(self.valley, Real)
            or not self.valley > 0
        ):
            raise ValueError(
                f"valley={self.valley!r} must be a positive depth in log density: use {VALLEY}, "
                "say."
            )
        if self.join is False and self.n_cells == "auto":
            raise ValueError(
                "join=False is the paper's k-means with a given number of cells, but n_cells is "
                '"auto": pass n_cells=4, say, or join=True.'
            )
        self._check_Q()
        check_random_state(self.random_state)

    def _check_Q(self) -> None:
        """Refuse a Q without its affinity, an affinity without its Q, and what is no covariance."""
        if self.affinity != "gaussian" and self.Q is not None:
            raise ValueError('Q is given but affinity is not "gaussian": add affinity="gaussian".')
        if self.affinity == "gaussian" and self.Q is None:
            raise ValueError('affinity="gaussian" needs Q, e.g. Q=0.8 * np.eye(d).')
        if self.Q is not None:
            as_covariance(self.Q)

    @property
    def wanted(self) -> int:
        """Cells that there must be at least."""
        return 1 if self.n_cells == "auto" else int(self.n_cells)

    @property
    def quenches(self) -> bool:
        """Whether landmarks move uphill first: a Nystrom extension knows them only as they were."""
        return (
            self.quench > 0 and self.affinity == "self-tuning" and self.extension == "discriminant"
        )

    def joins(self, has_logp: bool) -> bool:
        """Return whether segments are joined, given whether the log density is known."""
        return self.n_cells == "auto" or has_logp if self.join is None else bool(self.join)


@dataclass(frozen=True, eq=False, kw_only=True)
class KMeansConfig:
    """The options of :class:`pymc_spectral.KMeansPartition`, checked.

    Parameters
    ----------
    n_cells : int
        Number of cells.
    n_landmarks : int
        Rows kept as landmarks, at most.
    standardize : bool
        Whether coordinates are divided by their standard deviations first.
    random_state : int, RandomState instance or None
        Seed.

    Raises
    ------
    ValueError
        If a value is impossible.
    """

    n_cells: int
    n_landmarks: int
    standardize: bool
    random_state: int | np.random.RandomState | None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if isinstance(self.n_cells, str) and self.n_cells == "auto":
            raise ValueError('KMeansPartition needs a number of cells, n_cells="auto" is not one.')
        _check_n_cells(self.n_cells)
        _check_n_landmarks(self.n_landmarks, self.wanted)
        check_random_state(self.random_state)

    @property
    def wanted(self) -> int:
        """Cells that there must be."""
        return int(self.n_cells)


def as_covariance(Q: ArrayLike, d: int | None = None) -> Floats:
    """Return a covariance as a matrix; a number stands for so many times the identity.

    Parameters
    ----------
    Q : number or array-like (d, d)
    d : int, optional
        Number of coordinates. Not given: that of Q itself, 1 for a number.

    Raises
    ------
    ValueError
        If the shape is wrong, or the matrix not positive definite.
    """
    Q = np.asarray(Q, dtype=float)
    if Q.ndim == 0:
        Q = Q * np.eye(1 if d is None else d)
    if d is None:
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise ValueError(f"Q has shape {Q.shape}: pass a number, or a (d, d) array.")
    elif Q.shape != (d, d):
        raise ValueError(f"Q has shape {Q.shape}, but X has {d} columns: pass a ({d}, {d}) array.")
    finite = bool(np.all(np.isfinite(Q)))
    if not finite or not np.allclose(Q, Q.T) or np.any(np.linalg.eigvalsh(Q) <= 0):
        raise ValueError("Q must be a positive definite covariance matrix.")
    return Q


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, 4.0 included."""
    return isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()


def _check_n_cells(n_cells: Any) -> None:
    """Refuse what is no number of cells."""
    if isinstance(n_cells, str) and n_cells == "auto":
        return
    if not _is_whole(n_cells) or n_cells < 1:
        raise ValueError(f'n_cells must be a positive integer or "auto", got {n_cells!r}.')


def _check_n_landmarks(n_landmarks: Any, wanted: int) -> None:
    """Refuse fewer landmarks than cells, or than a spectrum needs."""
    _check_count("n_landmarks", n_landmarks, 1)
    if n_landmarks < max(wanted, FEWEST_LANDMARKS):
        raise ValueError(
            f"n_landmarks={n_landmarks} is too few for {wanted} cells: use some hundreds, and "
            f"at least {FEWEST_LANDMARKS}."
        )


def _check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least so much."""
    if not _is_whole(value) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")
