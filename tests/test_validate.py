"""What a user passed: spread over rounds, and compared with what a class takes."""

import numpy as np
import pytest

from pymc_spectral._validate import check_rounds, options_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1, 1000, 500), (1, [1000], [])),
        ((3, 1000, 500), (3, [1000] * 3, [500] * 2)),
        ((2, [30, 40], [7]), (2, [30, 40], [7])),
        ((np.int64(2), np.array([30, 40]), 7.0), (2, [30, 40], [7])),
        ((1, (30,), []), (1, [30], [])),
    ],
)
def test_numbers_are_spread_over_rounds(given, expected):
    assert check_rounds(*given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 30, 7), "rounds=0 must be a positive integer"),
        ((True, 30, 7), "rounds=True"),
        ((1.0, 30, 7), r"rounds=1\.0"),
        ((3, [30, 40], 7), r"n_landmarks=\[30, 40\] has 2 numbers for 3 of the 3 rounds: .*or 3"),
        ((2, 30, [7, 8]), r"round_draws=\[7, 8\] has 2 numbers for 1 of the 2 rounds"),
        ((2, [], 7), "n_landmarks=.* has 0 numbers"),
        ((2, [30, 0], 7), r"n_landmarks=\[30, 0\] must be positive"),
        ((2, 30, np.inf), "round_draws=inf must be positive, in whole numbers"),
        ((2, "many", 7), "n_landmarks='many' must be positive"),
    ],
)
def test_other_numbers_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_rounds(*given)


class Base:
    def __init__(self, a, *, b=1):
        pass


class HandsOn(Base):
    def __init__(self, c=1, *args, **kwargs):
        super().__init__(*args, **kwargs)


class KeepsToItself(Base):
    def __init__(self, d):
        super().__init__(d)


class TakesAnything:
    def __init__(self, **options):
        pass


class Inherits(HandsOn):
    pass


def test_options_of_a_class_are_those_that_reach_a_constructor():
    assert options_of(Base) == ["a", "b"]
    assert options_of(HandsOn) == options_of(Inherits) == ["a", "b", "c"]
    assert options_of(KeepsToItself) == ["d"]
    assert options_of(TakesAnything) is None
