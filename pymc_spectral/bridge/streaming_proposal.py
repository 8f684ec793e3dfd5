"""The proposal of one chain: what it jumps by, and what its bridge compares it with.

Bridge sampling compares the draws of a chain with points proposed independently from a density
``p`` that can be sampled and normalized. The closer ``p`` is to the restricted posterior the
smaller the error, but ``p`` must not be fitted to the very draws it weighs: that biases the log
mass by about ``-d (d + 3) / (4 n)``. So every chain carries a :class:`StreamingProposal`, which
knows the past only.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from pymc_spectral._threads import one_thread
from pymc_spectral._validate import one_of
from pymc_spectral.bridge.family_choice import Choice, Density, choose_family
from pymc_spectral.bridge.proposal import scale_of

__all__ = ["ProposalKind", "StreamingProposal"]

ProposalKind = Literal["auto", "normal", "student", "mixture"]

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
_MIN_CAPACITY = 16
# Rows that the store begins with; it doubles when full, so this only saves memory.
_FIRST_ROWS = 256


class StreamingProposal:
    """The proposal of one chain, fitted to what was known before the draw that it weighs.

    Call in this order, for each draw after tuning: take :attr:`current`, weigh the draw with it,
    then :meth:`observe` the draw. So no draw is ever weighed by a proposal that was fitted to it.

    Parameters
    ----------
    seed_points : ndarray, shape (m, d)
        Points of the cell known before sampling, m >= 1.
    kind : {"auto", "normal", "student", "mixture"}
        Family of the proposal. ``"auto"`` takes what foretells held-out points best.
    rng : Generator, optional
        Places the components of mixtures. Default: one with a fixed seed.
    capacity : int
        Draws kept for refits. A full store is thinned to every second draw, so memory is bounded
        and the whole past stays represented. Larger: slightly better fits in high dimension.

    Attributes
    ----------
    n_fits : int
        Number of fits so far; ``n_fits - 1`` labels the proposal in use. A proposal that is not
        fitted again gets another label all the same: stretches of a chain are then compared, and
        a chain that has settled elsewhere is noticed.

    Notes
    -----
    The first third of the tuning draws is dropped as warm-up. The family is chosen from the seed
    points at first, and from them and the tuning draws when tuning ends.

    A density of one ellipsoid is refitted as draws come in, whenever the number of draws behind the
    fit has grown by a quarter (and by 50 at least), so that the number of fits is logarithmic in
    that of the draws. Against doubling this lowers the error of the log mass by 10 to 13 % at d =
    30 to 100. Seed points drop out of these fits once the chain has ``max(100, 10 d)`` draws. A
    mixture stays as it was when tuning ended: it needs the seed points, which lie in parts of the
    cell that the chain may reach seldom.
    """

    def __init__(
        self,
        seed_points: np.ndarray,
        kind: ProposalKind = "auto",
        *,
        rng: np.random.Generator | None = None,
        capacity: int = 4096,
    ) -> None:
        one_of("proposal", kind, get_args(ProposalKind))
        seeds = np.array(seed_points, dtype=float)
        if seeds.ndim != 2 or seeds.shape[0] < 1:
            raise ValueError(f"seed_points has shape {seeds.shape}; expected (m, d) with m >= 1.")
        if capacity < _MIN_CAPACITY:
            raise ValueError(f"capacity={capacity} is too small; use at least {_MIN_CAPACITY}.")
        self.kind = kind
        self.n_fits = 0
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._seeds = seeds
        self._scale = scale_of(seeds)
        self._enough = max(_ENOUGH, _ENOUGH_BY_DIM * seeds.shape[1])
        self._tuning_store = _Store(seeds.shape[1], capacity)
        self._store = _Store(seeds.shape[1], capacity)
        self._warm: np.ndarray = np.empty((0, seeds.shape[1]))
        self._tuning = True
        self._refit_at = 0.0
        self._choice: Choice | None = None
        self._fitted: Density | None = None

    def observe(self, x: np.ndarray, *, tuning: bool = False) -> None:
        """Remember one draw (d,) for later fits; `tuning` says which stage it belongs to."""
        if tuning:
            self._tuning_store.append(x)
            return
        if self._tuning:
            self.stop_tuning()
        self._store.append(x)

    def stop_tuning(self) -> None:
        """Keep the later tuning draws, and choose and fit anew."""
        if not self._tuning:
            return
        self._tuning = False
        kept = self._tuning_store.array()
        self._warm = kept[len(kept) // _WARM_UP :].copy()
        self._tuning_store.clear()
        self._refit_at = 0.0
        if len(self._warm):
            self._choice = None

    @property
    def tuning_draws(self) -> np.ndarray:
        """The later draws of the tuning, (m, d), once it has ended."""
        return self._warm

    @property
    def choice(self) -> Choice:
        """What the family is, fitted to what was known when the stage began.

        It changes when tuning ends and never after, so that a chain may jump by it.
        """
        if self._choice is None:
            with one_thread():
                self._choice = self._choose()
        return self._choice

    def _choose(self) -> Choice:
        """Choose and fit by what is known now."""
        if self.kind == "normal" or self.kind == "student":
            return Choice.fixed(self._past(), self.kind, self._scale)
        return choose_family(
            np.concatenate([self._seeds, self._warm]),
            self._rng,
            fallback_scale=self._scale,
            only_mixtures=self.kind == "mixture",
        )

    @property
    def current(self) -> Density:
        """The proposal for the next draw, refitted first if enough draws have come in."""
        count = self._count()
        if self._fitted is None or count >= self._refit_at:
            choice = self.choice
            self.n_fits += 1
            self._refit_at = max(int(_GROWTH * count), count + _MIN_STEP)
            if choice.refits is None:
                self._fitted = choice.density
            else:
                with one_thread():
                    self._fitted = choice.refitted(self._past(), self._scale)
        return self._fitted

    def _count(self) -> int:
        """Return the number of draws seen that a fit would stand on."""
        if self._tuning:
            return self._tuning_store.seen - self._tuning_store.seen // _WARM_UP
        return len(self._warm) + self._store.seen

    def _past(self) -> np.ndarray:
        """Return the points of the next fit of one ellipsoid, in time order."""
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
