"""Metropolis' rule, and step sizes that find the acceptance they are steered to."""

import numpy as np
import pytest

from pymc_spectral.exploration.metropolis_acceptance import StepSize, accept


def test_acceptance_is_one_uphill_and_the_ratio_downhill():
    change = np.log(np.array([[0.25, 1.0, 4.0]])).repeat(20000, axis=0)
    accepted, probability = accept(change, np.random.default_rng(0))
    np.testing.assert_allclose(probability[0], [0.25, 1.0, 1.0])
    # A share of .25 among 20,000 has a standard error of .003.
    assert abs(accepted[:, 0].mean() - 0.25) < 4 * 0.003
    assert accepted[:, 1:].all()


def test_what_is_not_a_number_is_rejected():
    change = np.array([np.nan, -np.inf, np.inf])
    accepted, probability = accept(change, np.random.default_rng(0))
    np.testing.assert_array_equal(probability, [0, 0, 1])
    np.testing.assert_array_equal(accepted, [False, False, True])
    assert np.isnan(change[0]), "what was passed in is left alone"


def test_one_uniform_is_drawn_for_each_proposal():
    """Other random numbers do not depend on what is accepted."""
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    accept(np.zeros((4, 5)), one)
    other.random((4, 5))
    assert one.random() == other.random()


@pytest.mark.parametrize("first", [0.01, 100.0])
def test_steps_find_the_acceptance_they_are_steered_to(first):
    """With acceptance exp(-step) the step must come to -log(target), from wherever it starts."""
    target = np.array([0.2, 0.6])
    step = StepSize(np.log(np.full(2, first)), target)
    for _ in range(3000):
        step.update(np.exp(-np.exp(step.log)))
    np.testing.assert_allclose(np.exp(step.log), -np.log(target), rtol=0.02)


def test_gains_fade_and_start_anew_on_a_new_ladder():
    step = StepSize(np.zeros(2), 0.5)
    moved = []
    for _ in range(20):
        before = step.log
        step.update(np.ones(2))
        moved.append(step.log[0] - before[0])
    assert (np.diff(moved) < 0).all()
    step.carry_over(np.array([1, 1, 0]))
    before = step.log
    assert before.shape == (3,)
    step.update(np.ones(3))
    np.testing.assert_allclose(step.log - before, moved[0])
