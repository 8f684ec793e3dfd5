"""What a user passed to the step, checked before any work begins.

Every refusal says what was wrong, the value, and what to type instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_value_vars_from_user_vars

__all__ = [
    "as_options",
    "check_jumps",
    "check_names",
    "check_rounds",
    "check_seed",
    "check_vars",
    "one_of",
    "options_of",
]


def one_of(name: str, value: Any, options: Sequence[str]) -> Any:
    """Return an option, or refuse one that is unknown."""
    if value not in options:
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(options)}.")
    return value


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
    """Spread numbers over rounds.

    Returns
    -------
    rounds : int
    n_landmarks : list of int
        One number a round.
    round_draws : list of int
        One number a round but the last: with one round they are looked at by nobody.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1:
        raise ValueError(f"rounds={rounds!r} must be a positive integer: pass rounds=2, say.")
    out = []
    for name, value, n in (
        ("n_landmarks", n_landmarks, rounds),
        ("round_draws", round_draws, rounds - 1),
    ):
        many = np.ravel(value).tolist()
        if not all(isinstance(v, int | float) and v >= 1 and float(v).is_integer() for v in many):
            raise ValueError(f"{name}={value!r} must be positive, in whole numbers.")
        if np.ndim(value) == 0:
            many = many * n
        elif len(many) != n:
            raise ValueError(
                f"{name}={value!r} has {len(many)} numbers for {n} of the {rounds} rounds: give "
                f"one number, or {n}."
            )
        out.append([int(v) for v in many])
    return int(rounds), out[0], out[1]


def options_of(cls: type) -> list[str] | None:
    """Return the names that a class can be constructed with; None if it takes any.

    Those of its bases are among them, as far as its constructor hands on what it does not know.
    """
    names: list[str] = []
    for base in cls.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is None or base is object:
            continue
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names += [p.name for p in parameters if p.kind not in starred]
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            return sorted(set(names))
    return None


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


def check_jumps(jumps: Any) -> Any:
    """Return the number of jumps for each draw, or "auto"."""
    if jumps == "auto":
        return jumps
    if isinstance(jumps, bool) or not isinstance(jumps, int | np.integer) or jumps < 0:
        raise ValueError(
            f'jumps={jumps!r} is no number of jumps: pass "auto", or an integer from 0 on.'
        )
    return int(jumps)


def check_seed(random_seed: Any) -> None:
    """Refuse what NumPy would refuse with less to say."""
    if random_seed is not None and not isinstance(random_seed, int | np.integer):
        raise TypeError(
            f"random_seed={random_seed!r} is not an integer: pass random_seed=1, say, or None."
        )
