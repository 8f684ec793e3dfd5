"""What a step is asked to learn its cells from, checked as a whole before any work.

Exploring takes minutes. So options that contradict each other, or that no stage could use, are
refused here, with what to type instead, and the stages are handed what they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pymc_spectral._validate import as_options, check_rounds
from pymc_spectral.exploration.explorers import N_POINTS, check_explore
from pymc_spectral.exploration.tempering import TemperingConfig
from pymc_spectral.partition.clusterers import (
    KMeansPartition,
    SpectralPartition,
    check_partition,
    unfitted,
)
from pymc_spectral.partition.config import N_LANDMARKS

__all__ = ["N_LANDMARKS", "ROUND_DRAWS", "LearningPlan"]

ROUND_DRAWS = 500
"""Draws per cell between two partitions by default: PyMC's tuning is twice as long."""


@dataclass(frozen=True)
class LearningPlan:
    """How the cells of a step will be learned.

    Attributes
    ----------
    explore_options : dict
        Passed to the explorer.
    partition : str or estimator
        Name or estimator that was handed in.
    partition_options : dict
        Options of a partition given by name, the number of cells among them.
    is_fitted : bool
        Whether the partition is fitted already, so that nothing is explored.
    n_landmarks, round_draws : list of int
        For each round, and for each round but the last.
    """

    explore_options: dict[str, Any]
    partition: str | SpectralPartition | KMeansPartition
    partition_options: dict[str, Any]
    is_fitted: bool
    n_landmarks: list[int]
    round_draws: list[int]

    @property
    def rounds(self) -> int:
        """How often to partition."""
        return len(self.n_landmarks)

    def estimator(self, this_round: int, seed: int) -> SpectralPartition | KMeansPartition:
        """Return the unfitted partition of one round; `seed` counts unless it has its own."""
        return unfitted(
            self.partition,
            n_cells="auto",
            n_landmarks=self.n_landmarks[this_round],
            random_state=seed,
            options=self.partition_options,
        )

    @classmethod
    def check(
        cls,
        *,
        explore: Any,
        explore_kwargs: dict[str, Any] | TemperingConfig | None,
        partition: Any,
        partition_kwargs: dict[str, Any] | None,
        n_cells: int | Literal["auto"],
        rounds: int,
        n_landmarks: int | Sequence[int],
        round_draws: int | Sequence[int],
        n_dims: int,
    ) -> LearningPlan:
        """Check the arguments of a step that decide about its cells; they are documented there.

        `n_dims` is the dimension of the model's unconstrained space.
        """
        if isinstance(explore_kwargs, TemperingConfig):
            _refuse_other_explorer(explore)
            explore_kwargs = vars(explore_kwargs)
        explore_options = as_options("explore_kwargs", explore_kwargs)
        options = as_options("partition_kwargs", partition_kwargs)
        n_rounds, landmarks, draws = check_rounds(rounds, n_landmarks, round_draws)
        check_partition(partition, n_cells, options, tuple(landmarks))
        if isinstance(partition, str):
            _refuse_two_numbers(options, n_cells=n_cells, n_landmarks=n_landmarks)
            options = {"n_cells": n_cells, **options}
        else:
            _refuse_beside_estimator(partition, n_cells=n_cells, n_landmarks=n_landmarks)
        is_fitted = hasattr(partition, "rule_")
        if is_fitted:
            _refuse_exploring(explore, explore_options, n_rounds, round_draws)
        else:
            check_explore(explore, explore_options)
        if n_rounds == 1 and not _same(round_draws, ROUND_DRAWS):
            raise ValueError(
                f"round_draws={round_draws!r} would have no effect: with rounds=1 no draws are "
                "made between partitions. Leave it out, or pass rounds=2."
            )
        plan = cls(explore_options, partition, options, is_fitted, landmarks, draws)
        plan._refuse_other_dimension(n_dims)
        if not is_fitted:
            plan._refuse_few_points(explore)
        return plan

    def _asked(self, option: str) -> Any:
        """Return an option of the partition, whichever way it was given; None if it has none."""
        if isinstance(self.partition, str):
            return self.partition_options.get(option)
        return getattr(self.partition, option, None)

    def _refuse_other_dimension(self, n_dims: int) -> None:
        """Refuse a fitted partition, or a covariance, of another space than the model's."""
        fitted_on = getattr(self.partition, "n_features_in_", n_dims) if self.is_fitted else n_dims
        if fitted_on != n_dims:
            raise ValueError(
                f"The partition was fitted on {fitted_on} coordinates, but the model's "
                f"unconstrained space has {n_dims}: fit it on points of shape (n, {n_dims})."
            )
        Q = self._asked("Q")
        if Q is not None and np.ndim(Q) and len(Q) != n_dims:
            raise ValueError(
                f"Q has shape {np.shape(Q)}, but the model's unconstrained space has {n_dims} "
                f"dimensions: pass a number, or a ({n_dims}, {n_dims}) array."
            )

    def _refuse_few_points(self, explore: Any) -> None:
        """Refuse fewer points than cells, where their number is known before they are."""
        n_cells = self._asked("n_cells")
        if n_cells in (None, "auto"):
            return
        most, source = self.explore_options.get("n_points", N_POINTS), "n_points"
        if isinstance(explore, np.ndarray | list | tuple) and len(explore) < most:
            most, source = len(explore), "rows of explore"
        if n_cells > most:
            raise ValueError(
                f"n_cells={n_cells} cells cannot be learned from {most} points ({source}): each "
                "needs points of its own. Explore more of them, or ask for fewer cells."
            )


def _same(value: Any, default: Any) -> bool:
    """Return whether a number, which may be a sequence of them, is the default."""
    return np.ndim(value) == 0 and value == default


def _refuse_other_explorer(explore: Any) -> None:
    """Refuse the knobs of tempering beside another way to explore."""
    if explore is not None and not (isinstance(explore, str) and explore == "tempering"):
        shown = repr(explore) if isinstance(explore, str) else "..."
        raise TypeError(
            f"explore_kwargs=TemperingConfig(...) and explore={shown} contradict each other: these "
            'are the knobs of explore="tempering". Leave one of them out.'
        )


def _refuse_two_numbers(
    options: dict[str, Any],
    *,
    n_cells: int | Literal["auto"],
    n_landmarks: int | Sequence[int],
) -> None:
    """Refuse two different numbers of cells, or of landmarks."""
    for option, value, default in (
        ("n_cells", n_cells, "auto"),
        ("n_landmarks", n_landmarks, N_LANDMARKS),
    ):
        other = options.get(option, value)
        if not _same(value, default) and not np.array_equal(value, other):
            raise ValueError(
                f"{option}={value!r} and partition_kwargs={{'{option}': {other!r}}} "
                f"contradict each other: pass {option}={value!r} alone."
            )


def _refuse_beside_estimator(
    partition: SpectralPartition | KMeansPartition,
    *,
    n_cells: int | Literal["auto"],
    n_landmarks: int | Sequence[int],
) -> None:
    """Refuse what an estimator decides by itself."""
    name = type(partition).__name__
    for option, value, default in (
        ("n_cells", n_cells, "auto"),
        ("n_landmarks", n_landmarks, N_LANDMARKS),
    ):
        if not _same(value, default):
            raise ValueError(
                f"{option}={value!r} and a partition that has its own, "
                f"{option}={getattr(partition, option)!r}, contradict each other: pass "
                f"partition={name}({option}={value!r}, ...) and leave {option} out."
            )


def _refuse_exploring(
    explore: Any, options: dict[str, Any], rounds: int, round_draws: int | Sequence[int]
) -> None:
    """Refuse what a fitted partition leaves without effect."""
    given = {
        "explore": None if explore is None else "...",
        "explore_kwargs": options or None,
        "rounds": None if rounds == 1 else rounds,
        "round_draws": None if _same(round_draws, ROUND_DRAWS) else round_draws,
    }
    without = [f"{name}={value}" for name, value in given.items() if value is not None]
    if without:
        raise ValueError(
            f"{', '.join(without)} would have no effect: the partition is fitted already, so "
            "nothing is explored. Leave "
            f"{'it' if len(without) == 1 else 'them'} out, or pass an unfitted partition."
        )
