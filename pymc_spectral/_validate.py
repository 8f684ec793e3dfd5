"""What a user passed to the step, checked before any work begins.

Every refusal says what was wrong, the value, and what to type instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_value_vars_from_user_vars
from pymc.vartypes import continuous_types

from pymc_spectral.partition.estimators import KMeansPartition, SpectralPartition

__all__ = [
    "PARTITIONS",
    "as_options",
    "check_model",
    "check_names",
    "check_partition",
    "check_rounds",
    "check_seed",
    "check_vars",
    "one_of",
]

PARTITIONS = {"spectral": SpectralPartition, "kmeans": KMeansPartition}


def one_of(name: str, value: Any, options: Sequence[str]) -> Any:
    """Refuse an unknown option."""
    if value not in options:
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(options)}.")
    return value


def check_model(model: pm.Model) -> None:
    """Refuse models without free variables, or with discrete ones."""
    if not model.free_RVs:
        raise ValueError(
            "This model has no free variables, only observed ones: there is nothing to sample."
        )
    discrete = [v.name for v in model.value_vars if v.dtype not in continuous_types]
    if discrete:
        raise ValueError(
            f"{', '.join(discrete)} discrete: SpectralPartitionStep needs a continuous space. "
            "Marginalise them (e.g. pymc_extras.marginalize, pm.Mixture), or sample with pm.sample "
            "alone."
        )


def check_vars(vars: Any, model: pm.Model) -> list[Any]:
    """Refuse variables that do not cover the model."""
    if vars is None:
        return model.value_vars
    chosen = get_value_vars_from_user_vars(
        vars if isinstance(vars, list | tuple) else [vars], model
    )
    missing = [v.name for v in model.value_vars if v not in chosen]
    if missing:
        raise ValueError(
            f"vars leaves out {', '.join(missing)}: the partition is of the whole space. Leave "
            "vars out, SpectralPartitionStep() takes all free variables."
        )
    return model.value_vars


def check_rounds(
    rounds: int, n_landmarks: int | Sequence[int], round_draws: int | Sequence[int]
) -> tuple[int, list[int], list[int]]:
    """Spread numbers over rounds."""
    if isinstance(rounds, bool) or int(rounds) != rounds or rounds < 1:
        raise ValueError(f"rounds={rounds!r} must be a positive integer.")
    out = []
    for name, value, n in (
        ("n_landmarks", n_landmarks, rounds),
        ("round_draws", round_draws, rounds - 1),
    ):
        many = [int(v) for v in np.ravel(value)]
        if np.ndim(value) == 0:
            many = many * max(n, 1)
        if len(many) < n:
            raise ValueError(
                f"{name} has {len(many)} numbers for {n} of the {rounds} rounds: give one number, "
                f"or {n}."
            )
        if min(many) < 1:
            raise ValueError(f"{name}={value!r} must be positive.")
        out.append(many)
    return int(rounds), out[0], out[1]


def as_options(name: str, value: Any) -> dict[str, Any]:
    """Return a dict of options, empty for None."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name}={value!r} is not a dict: pass {name}={{...}}.")
    return dict(value or {})


def check_names(name: str, options: Mapping[str, Any], taker: str, known: Iterable[str]) -> None:
    """Refuse options that nobody would look at."""
    known = list(known)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(
            f"{name} has unknown names {', '.join(unknown)}: {taker} takes {', '.join(known)}."
        )


def check_seed(random_seed: Any) -> None:
    """Refuse what NumPy would refuse with less to say."""
    if random_seed is not None and not isinstance(random_seed, int | np.integer):
        raise TypeError(
            f"random_seed={random_seed!r} is not an integer: pass random_seed=1, say, or None."
        )


def check_partition(partition: Any, n_cells: Any, options: dict[str, Any]) -> Any:
    """Return the estimator passed, or None if it was given by name."""
    if isinstance(partition, str):
        one_of("partition", partition, list(PARTITIONS))
        check_names("partition_kwargs", options, partition, PARTITIONS[partition]().get_params())
        if partition == "kmeans" and n_cells == "auto":
            raise ValueError('partition="kmeans" needs a number of cells: pass n_cells=4, say.')
        return None
    if not isinstance(partition, SpectralPartition | KMeansPartition):
        raise TypeError(
            f"partition={partition!r} is neither a name ({', '.join(PARTITIONS)}) nor a "
            "SpectralPartition or KMeansPartition."
        )
    if options:
        raise TypeError("partition_kwargs goes with a partition given by name; set them on it.")
    return partition
