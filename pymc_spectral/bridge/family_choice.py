"""Which density resembles a cell: a normal, a Student or a mixture, by what each foretells.

Candidates are fitted to some of the points that are known of a cell and judged by the density that
they give to the others. What wins is fitted to all of them, and mixed with a wide component, so
that a part of the cell that no point has shown is proposed now and then, and counts.

References
----------
Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions,
Technometrics 37.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spectral.bridge.mixture import (
    SPARE_POINTS,
    MixtureProposal,
    concatenate,
    expectation_maximization,
)
from pymc_spectral.bridge.proposal import EllipsoidKind, Proposal, fit_proposal

__all__ = ["DEFENSE", "Choice", "Density", "choose_family"]

# Share of the wide component. Hesterberg's advice is a tenth or more where the rest is only hoped
# to be right; here it was seen to foretell points, and half of that costs 5 % of the proposals.
DEFENSE = 0.05
# The wide component has this many times the standard deviations of all points, and the fewest
# degrees of freedom with a variance: ten standard deviations away it still proposes.
DEFENSE_WIDTH = 2.0
DEFENSE_DOF = 3.0
# Degrees of freedom tried: the fewest with a variance, and the paper's choice. Normal components
# foretell as well, but leave points far out that a chain jumps to and does not leave, as it was
# seen on the arms of `bananas`.
DOFS = (3.0, 10.0)
MIXTURE_DOF = 10.0
"""Degrees of freedom while the number of components is sought: the paper's choice."""
# Numbers of components tried, and how many in a row must be worse before the search ends, if none
# is worse beyond doubt. A factor of about 1.4 from one to the next: the density changes little in
# between.
COMPONENTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
WORSE_IN_A_ROW = 2
# Points are taken in stretches of time, every third of which is held out: neighbors of a slow chain
# are nearly the same point, and would foretell each other.
STRETCHES = 24
HELD_OUT = 3
# A more complicated family must be better by this many standard errors of the mean difference.
CONFIDENT = 2.0
# Points that are used at most: what more of them teach is below the differences that matter, and
# the time is in proportion.
MOST_POINTS = 1500
# Points that a mixture needs before it is tried at all.
FEWEST_POINTS = 60


Density = Proposal | MixtureProposal


@dataclass(frozen=True)
class Choice:
    """What was chosen for a cell.

    Attributes
    ----------
    name : {"normal", "student", "mixture"}
    density : Proposal or MixtureProposal
        Fitted to all points, with the wide component if there is one.
    refits : {"normal", "student"} or None
        How the core is to be fitted to further draws; None if it stays as it is.
    defense : MixtureProposal or None
        The wide component.
    """

    name: str
    density: Density
    refits: EllipsoidKind | None = None
    defense: MixtureProposal | None = None

    @classmethod
    def fixed(cls, points: np.ndarray, kind: EllipsoidKind, fallback_scale: np.ndarray) -> Choice:
        """Take one ellipsoid as it is, without a wide component: the paper's proposals."""
        return cls(kind, fit_proposal(points, kind, fallback_scale=fallback_scale), kind)

    def refitted(self, points: np.ndarray, fallback_scale: np.ndarray) -> Density:
        """Return the density with its core fitted to these points."""
        assert self.refits is not None
        core = fit_proposal(points, self.refits, fallback_scale=fallback_scale)
        return core if self.defense is None else defended(core, self.defense)


def choose_family(
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    fallback_scale: np.ndarray | None = None,
    only_mixtures: bool = False,
) -> Choice:
    """Choose the family that foretells held-out points of a cell best, and fit it to all.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        What is known of the cell, in time order.
    rng : Generator
        Places the components at first.
    fallback_scale : ndarray, shape (d,), optional
        As in :func:`pymc_spectral.bridge.proposal.fit_proposal`.
    only_mixtures : bool
        Consider nothing else, where there are points enough for a mixture.
    """
    points = points[:: -(-len(points) // MOST_POINTS)]
    normal = fit_proposal(points, fallback_scale=fallback_scale)
    defense = MixtureProposal.of(normal, width=DEFENSE_WIDTH, dof=DEFENSE_DOF)
    scale = points.std(axis=0)
    best = _NORMAL
    if len(points) >= FEWEST_POINTS and np.all(scale > 0):
        shift = points.mean(axis=0)
        z = (points - shift) / scale
        held = (np.arange(len(z)) * STRETCHES // len(z)) % HELD_OUT == HELD_OUT - 1
        best = _Contest(z[~held], z[held], rng).winner(only_mixtures)
        if best.n_components:
            fitted = expectation_maximization(z, best.n_components, best.dof, rng)
            if fitted is not None:
                moved = fitted.moved(shift, scale)
                return Choice(best.name, defended(moved, defense), None, defense)
            best = _NORMAL
    core = fit_proposal(points, best.name, fallback_scale=fallback_scale)
    return Choice(best.name, defended(core, defense), best.name, defense)


def defended(core: Density, defense: MixtureProposal) -> MixtureProposal:
    """Mix a density with the wide component."""
    mixture = core if isinstance(core, MixtureProposal) else MixtureProposal.of(core)
    return concatenate([(1.0 - DEFENSE, mixture), (DEFENSE, defense)])


@dataclass(frozen=True)
class _Candidate:
    """A family, and the log density that it gives to each held-out point."""

    n_components: int  # 0 for one ellipsoid of shrunk moments
    dof: float
    foretold: np.ndarray

    @property
    def name(self) -> Any:
        """What users know it as."""
        if self.n_components > 1:
            return "mixture"
        return "student" if np.isfinite(self.dof) else "normal"

    @property
    def score(self) -> float:
        return float(self.foretold.mean())

    def beats(self, other: _Candidate, errors: float = 0.0) -> bool:
        """Return whether this one is better by so many standard errors."""
        gain = self.foretold - other.foretold
        return bool(gain.mean() > errors * gain.std() / np.sqrt(len(gain)))


_NORMAL = _Candidate(0, np.inf, np.zeros(0))


class _Contest:
    """Candidates on the same training and held-out points."""

    def __init__(self, train: np.ndarray, held: np.ndarray, rng: np.random.Generator) -> None:
        self._train, self._held, self._rng = train, held, rng
        self._defense = MixtureProposal.of(
            fit_proposal(train), width=DEFENSE_WIDTH, dof=DEFENSE_DOF
        )

    def winner(self, only_mixtures: bool) -> _Candidate:
        """Return the family to take."""
        single = self._best_single()
        mixture = self._best_mixture(None if only_mixtures else single)
        if mixture is None:
            return single
        return mixture if only_mixtures or mixture.beats(single, CONFIDENT) else single

    def _best_single(self) -> _Candidate:
        """Return the best density of one component."""
        best = self._shrunk("normal")
        for candidate in (self._shrunk("student"), self._mixture(1, DOFS[0])):
            if candidate is not None and candidate.beats(best, CONFIDENT):
                best = candidate
        return best

    def _best_mixture(self, single: _Candidate | None) -> _Candidate | None:
        """Return the best mixture: first the number of components, then their tails."""
        best: _Candidate | None = None
        worse = 0
        for n_components in COMPONENTS:
            if len(self._train) < n_components * (self._train.shape[1] + SPARE_POINTS):
                break
            candidate = self._mixture(n_components, MIXTURE_DOF)
            level = best or single
            if candidate is None:
                break
            if level is not None and not candidate.beats(level):
                worse += 1
                if worse == WORSE_IN_A_ROW or level.beats(candidate, CONFIDENT):
                    break
                continue
            best, worse = candidate, 0
        if best is None:
            return None
        others = [self._mixture(best.n_components, dof) for dof in DOFS if dof != MIXTURE_DOF]
        return max([best, *filter(None, others)], key=lambda candidate: candidate.score)

    def _shrunk(self, kind: EllipsoidKind) -> _Candidate:
        fitted = fit_proposal(self._train, kind)
        dof = np.inf if kind == "normal" else MIXTURE_DOF
        return _Candidate(0, dof, self._foretell(fitted.logpdf))

    def _mixture(self, n_components: int, dof: float) -> _Candidate | None:
        fitted = expectation_maximization(self._train, n_components, dof, self._rng)
        if fitted is None:
            return None
        return _Candidate(n_components, dof, self._foretell(fitted.logpdf))

    def _foretell(self, logpdf: Callable[[np.ndarray], float | np.ndarray]) -> np.ndarray:
        """Return what a density gives to the held-out points, with its share of defense.

        Without it, one point far out would decide.
        """
        core = np.log1p(-DEFENSE) + logpdf(self._held)
        return np.logaddexp(core, np.log(DEFENSE) + self._defense.logpdf(self._held))
