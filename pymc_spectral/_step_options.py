"""What a step is asked to learn its cells from, checked as a whole before any work.

Exploring takes minutes. So options that contradict each other, or that no stage could use, are
refused here, with what to type instead, and the stages are handed what they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pymc_spectral._validate import as_options, check_rounds
from pymc_spectral.exploration.explorers import check_explore
from pymc_spectral.exploration.tempering import TemperingConfig
from pymc_spectral.partition.clusterers import (
    KMeansPartition,
    SpectralPartition,
    check_partition,
    unfitted,
)

__all__ = ["N_LANDMARKS", "ROUND_DRAWS", "LearningPlan"]

N_LANDMARKS = 1000
"""Landmarks by default: eigenvectors of as many take half a second."""

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
    ) -> LearningPlan:
        """Check the arguments of a step that decide about its cells; they are documented there."""
        if isinstance(explore_kwargs, TemperingConfig):
            explore_kwargs = vars(explore_kwargs)
        explore_options = as_options("explore_kwargs", explore_kwargs)
        options = as_options("partition_kwargs", partition_kwargs)
        n_rounds, landmarks, draws = check_rounds(rounds, n_landmarks, round_draws)
        check_partition(partition, n_cells, options, tuple(landmarks[:n_rounds]))
        if isinstance(partition, str):
            _refuse_two_numbers(n_cells, options)
            options = {"n_cells": n_cells, **options}
        else:
            _refuse_beside_estimator(partition, n_cells=n_cells, n_landmarks=n_landmarks)
        is_fitted = hasattr(partition, "rule_")
        if is_fitted:
            _refuse_exploring(explore, explore_options, n_rounds, round_draws)
        else:
            check_explore(explore, explore_options)
        return cls(explore_options, partition, options, is_fitted, landmarks[:n_rounds], draws)


def _refuse_two_numbers(n_cells: int | Literal["auto"], options: dict[str, Any]) -> None:
    """Refuse two different numbers of cells."""
    if n_cells != "auto" and options.get("n_cells", n_cells) != n_cells:
        raise ValueError(
            f"n_cells={n_cells!r} and partition_kwargs={{'n_cells': {options['n_cells']!r}}} "
            f"contradict each other: pass n_cells={n_cells!r} alone."
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
        if value != default:
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
        "round_draws": None if round_draws == ROUND_DRAWS else round_draws,
    }
    without = [f"{name}={value}" for name, value in given.items() if value is not None]
    if without:
        raise ValueError(
            f"{', '.join(without)} would have no effect: the partition is fitted already, so "
            "nothing is explored. Leave "
            f"{'it' if len(without) == 1 else 'them'} out, or pass an unfitted partition."
        )
