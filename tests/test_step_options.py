"""Contradictory and impossible arguments are refused before any work, with what to type instead."""

import numpy as np
import pymc as pm
import pytest

import pymc_spectral as ps
from pymc_spectral import step as step_module
from pymc_spectral._step_options import LearningPlan
from pymc_spectral.exploration.tempering import TemperingConfig

POINTS = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[-3.0], [3.0]], 30, axis=0)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


@pytest.fixture
def no_work(monkeypatch):
    """Make compiling and exploring an error: a refusal must come before either."""

    def begun(*args, **kwargs):
        raise AssertionError("work has begun")

    for name in ("batched_density", "explore_model"):
        monkeypatch.setattr(step_module, name, begun)


def fitted():
    return ps.SpectralPartition(2, random_state=0).fit(POINTS)


REFUSED = {
    "estimator and n_cells": (
        lambda: {"n_cells": 3, "partition": ps.SpectralPartition(4)},
        r"n_cells=3 and a partition that has its own, n_cells=4.*leave n_cells out",
    ),
    "estimator and n_landmarks": (
        lambda: {"n_landmarks": 50, "partition": ps.SpectralPartition(4)},
        r"n_landmarks=50 .*leave n_landmarks out",
    ),
    "fitted and n_cells": (
        lambda: {"n_cells": 3, "partition": fitted()},
        r"n_cells=3 and a partition that has its own",
    ),
    "fitted and rounds": (
        lambda: {"rounds": 3, "partition": fitted()},
        r"rounds=3 would have no effect: the partition is fitted already.*Leave it out",
    ),
    "fitted and explore": (
        lambda: {"explore": POINTS, "explore_kwargs": {"n_points": 9}, "partition": fitted()},
        r"explore=.*explore_kwargs=.*would have no effect.*Leave them out",
    ),
    "fitted and round_draws": (
        lambda: {"round_draws": 7, "partition": fitted()},
        r"round_draws=7 would have no effect",
    ),
    "two numbers of cells": (
        lambda: {"n_cells": 3, "partition_kwargs": {"n_cells": 4}},
        r"contradict each other: pass n_cells=3 alone",
    ),
    "negative number of cells": (
        lambda: {"n_cells": -1},
        r"n_cells must be a positive integer or \"auto\", got -1",
    ),
    "no cells": (lambda: {"n_cells": 0}, r"n_cells must be .*got 0"),
    "half a cell": (lambda: {"n_cells": 2.5}, r"n_cells must be .*got 2\.5"),
    "one landmark": (lambda: {"n_landmarks": 1}, r"n_landmarks=1"),
    "unknown affinity": (
        lambda: {"partition_kwargs": {"affinity": "cosine"}},
        r"affinity='cosine' is unknown: use one of self-tuning, gaussian",
    ),
    "Q without its affinity": (lambda: {"partition_kwargs": {"Q": 1.0}}, r'affinity="gaussian"'),
    "unknown partition": (
        lambda: {"partition": "voronoi"},
        r"partition='voronoi' is unknown: use one of spectral, kmeans",
    ),
    "k-means without a number": (lambda: {"partition": "kmeans"}, r"pass n_cells=4"),
    "unknown explorer": (lambda: {"explore": "annealing"}, r"'annealing'.*tempering"),
    "no rounds of tempering": (lambda: {"explore_kwargs": {"n_rounds": 0}}, r"n_rounds"),
    "ladder upside down": (lambda: {"explore_kwargs": {"betas": [1.0, 0.5]}}, r"betas"),
    "no points": (lambda: {"explore_kwargs": {"n_points": 0}}, r"n_points"),
    "rounds of nothing": (lambda: {"rounds": 0}, r"rounds=0"),
    "draws of nothing": (lambda: {"rounds": 2, "round_draws": 0}, r"round_draws=0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_any_work(name, model, no_work):
    make, message = REFUSED[name]
    with model, pytest.raises(ValueError, match=message):
        ps.SpectralPartitionStep(progressbar=False, **make())


def test_options_of_a_partition_go_with_its_name(model, no_work):
    with model, pytest.raises(TypeError, match=r"partition=SpectralPartition\(valley=1.0\)"):
        ps.SpectralPartitionStep(
            partition=ps.SpectralPartition(2), partition_kwargs={"valley": 1.0}
        )


def test_what_is_not_refused_gets_to_work(model, no_work):
    """The negative control: with nothing to refuse, the step does begin."""
    with model, pytest.raises(AssertionError, match="work has begun"):
        ps.SpectralPartitionStep(progressbar=False)


def plan(**given):
    arguments = {
        "explore": None,
        "explore_kwargs": None,
        "partition": "spectral",
        "partition_kwargs": None,
        "n_cells": "auto",
        "rounds": 1,
        "n_landmarks": 1000,
        "round_draws": 500,
    }
    return LearningPlan.check(**{**arguments, **given})


def test_a_partition_by_name_takes_landmarks_round_by_round():
    found = plan(rounds=2, n_landmarks=[30, 40], n_cells=3)
    assert [found.estimator(k, 7).n_landmarks for k in (0, 1)] == [30, 40]
    assert found.estimator(0, 7).n_cells == 3
    assert found.estimator(0, 7).random_state == 7


def test_options_of_a_partition_by_name_count():
    found = plan(partition_kwargs={"n_landmarks": 33, "random_state": 5, "valley": 0.5})
    estimator = found.estimator(0, 7)
    assert (estimator.n_landmarks, estimator.random_state, estimator.valley) == (33, 5, 0.5)


def test_an_estimator_is_copied_and_keeps_its_own_seed():
    own = ps.SpectralPartition(3, random_state=9, n_landmarks=44)
    found = plan(partition=own).estimator(0, 7)
    assert found is not own
    assert found.get_params() == own.get_params()
    without = plan(partition=ps.SpectralPartition(3)).estimator(0, 7)
    assert without.random_state == 7


def test_the_knobs_of_tempering_may_come_as_an_object():
    config = TemperingConfig(n_rounds=3, n_copies=4)
    options = plan(explore_kwargs=config).explore_options
    assert vars(TemperingConfig(**options)) == vars(config)


def test_a_fitted_partition_is_taken_as_it_is():
    own = fitted()
    found = plan(partition=own)
    assert found.is_fitted
    assert found.partition is own
