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
    "draws of halves": (lambda: {"rounds": 2, "round_draws": 7.5}, r"round_draws=7\.5 .*whole"),
    "draws between no rounds": (
        lambda: {"round_draws": 7},
        r"round_draws=7 would have no effect: with rounds=1.*pass rounds=2",
    ),
    "landmarks for more rounds than there are": (
        lambda: {"rounds": 2, "n_landmarks": [50, 60, 70]},
        r"n_landmarks=\[50, 60, 70\] has 3 numbers for 2 of the 2 rounds: give one number, or 2",
    ),
    "draws for more rounds than there are": (
        lambda: {"rounds": 2, "round_draws": [50, 60]},
        r"round_draws=\[50, 60\] has 2 numbers for 1 of the 2 rounds",
    ),
    "two numbers of landmarks": (
        lambda: {"n_landmarks": 50, "partition_kwargs": {"n_landmarks": 33}},
        r"n_landmarks=50 and .*33.* contradict each other: pass n_landmarks=50 alone",
    ),
    "landmarks by round and for all": (
        lambda: {"rounds": 2, "n_landmarks": [50, 60], "partition_kwargs": {"n_landmarks": 50}},
        r"n_landmarks=\[50, 60\] and .*50.* contradict each other",
    ),
    "more cells than points": (
        lambda: {"n_cells": 90, "explore_kwargs": {"n_points": 80}},
        r"n_cells=90 cells cannot be learned from 80 points \(n_points\)",
    ),
    "more cells than points handed in": (
        lambda: {"explore": POINTS, "partition": ps.KMeansPartition(61)},
        r"n_cells=61 cells cannot be learned from 60 points \(rows of explore\)",
    ),
    "Q of another space": (
        lambda: {"partition": ps.SpectralPartition(2, affinity="gaussian", Q=np.eye(3))},
        r"Q has shape \(3, 3\), but the model's .* 2 dimensions: .*\(2, 2\) array",
    ),
    "Q of another space, by name": (
        lambda: {"partition_kwargs": {"affinity": "gaussian", "Q": np.eye(3)}},
        r"Q has shape \(3, 3\)",
    ),
    "fitted in another space": (
        lambda: {"partition": ps.SpectralPartition(2, random_state=0).fit(POINTS[:, :1])},
        r"fitted on 1 coordinates, but .* has 2: fit it on points of shape \(n, 2\)",
    ),
    "option that SMC has not": (
        lambda: {"explore": "smc", "explore_kwargs": {"n_rounds": 3}},
        r'unknown names n_rounds: explore="smc" takes .*chains.*draws.*threshold',
    ),
    "SMC of no draws": (
        lambda: {"explore": "smc", "explore_kwargs": {"draws": 0}},
        r"draws=0 must be a positive integer",
    ),
    "knobs of tempering and SMC": (
        lambda: {"explore": "smc", "explore_kwargs": TemperingConfig()},
        r"TemperingConfig\(...\) and explore='smc' contradict each other",
    ),
    "knobs of tempering and points": (
        lambda: {"explore": POINTS, "explore_kwargs": TemperingConfig()},
        r"TemperingConfig\(...\) and explore=\.\.\. contradict each other",
    ),
    "option that Metropolis has not": (
        lambda: {"kernel": "metropolis", "kernel_kwargs": {"target_accept": 0.9}},
        r'unknown names target_accept: kernel="metropolis" takes .*scaling',
    ),
    "option that slice has not": (
        lambda: {"kernel": "slice", "kernel_kwargs": {"width": 1}},
        r'unknown names width: kernel="slice" takes .*w',
    ),
    "option that a class has not": (
        lambda: {"kernel": pm.HamiltonianMC, "kernel_kwargs": {"path_lenght": 1}},
        r"unknown names path_lenght: kernel HamiltonianMC takes .*path_length",
    ),
    "option of no kernel": (
        lambda: {"kernel_kwargs": {"target_acept": 0.9}},
        r"unknown names target_acept: the kernel takes .*target_accept",
    ),
    "density of one's own": (
        lambda: {"kernel": pm.NUTS, "kernel_kwargs": {"logp_dlogp_func": max}},
        r"unknown names logp_dlogp_func",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_any_work(name, model, no_work):
    make, message = REFUSED[name]
    with model, pytest.raises((ValueError, TypeError), match=message):
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
        "n_dims": 2,
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


def test_numbers_said_twice_alike_are_no_contradiction():
    found = plan(n_cells=3, n_landmarks=50, partition_kwargs={"n_cells": 3, "n_landmarks": 50})
    assert (found.estimator(0, 7).n_cells, found.estimator(0, 7).n_landmarks) == (3, 50)


def test_a_number_stands_for_a_covariance_in_any_space():
    assert plan(partition_kwargs={"affinity": "gaussian", "Q": 0.5}, n_dims=7).rounds == 1


@pytest.mark.parametrize("name", ["kernel", "threshold", "correlation_threshold", "cores"])
def test_smc_gets_its_own_options_and_those_of_its_kernel(name):
    options = {name: {"kernel": pm.smc.MH}.get(name, 1), "n_points": 100}
    assert plan(explore="smc", explore_kwargs=options).explore_options == options


def test_a_fitted_partition_is_taken_as_it_is():
    own = fitted()
    found = plan(partition=own)
    assert found.is_fitted
    assert found.partition is own
