"""Temperatures are spread by what was rejected; the evidence comes with an honest error."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from toy_path import BETAS, ToyPath

from pymc_spectral.exploration.ladder import (
    first_betas,
    next_betas,
    respread,
    stepping_stone,
    swap_probability,
)


@st.composite
def ladders(draw):
    """Increasing betas from 0 to 1, over decades, and a rejection for each pair."""
    n = draw(st.integers(2, 20))
    steps = draw(arrays(float, n, elements=st.floats(1e-3, 1.0)))
    betas = np.concatenate([[0.0], np.cumsum(steps) / steps.sum()]) ** draw(st.floats(1.0, 4.0))
    betas[-1] = 1.0
    return betas, draw(arrays(float, n, elements=st.floats(0.0, 1.0)))


@given(ladders(), st.integers(2, 40))
@settings(deadline=None)
def test_new_ladders_increase_and_keep_their_ends(ladder, n):
    new = next_betas(*ladder, n)
    assert len(new) == n
    assert new[0] == 0.0
    assert new[-1] == 1.0
    assert (np.diff(new) > 0).all()


@given(ladders(), st.integers(3, 40))
@settings(deadline=None)
def test_length_of_the_ladder_follows_the_barrier(ladder, most):
    betas, rejection = ladder
    new, origin = respread(betas, rejection, most)
    assert len(new) == min(max(int(np.ceil(2 * rejection.sum())) + 2, 3), most)
    # The posterior is carried over, and the reference goes to no warmer temperature.
    assert origin[0] == 0
    assert origin[-1] == len(betas) - 1
    assert (origin[1:] >= 1).all()
    assert (np.diff(origin) >= 0).all()


values = arrays(float, (4, 3), elements=st.floats(-1e6, 1e6) | st.sampled_from([-np.inf, -1e300]))


@given(values, ladders())
@settings(max_examples=200, deadline=None)
def test_swaps_are_probabilities_and_certain_where_both_gain(values, ladder):
    betas = first_betas(4)
    probability = swap_probability(values, betas)
    assert probability.shape == (3, 3)
    assert ((probability >= 0) & (probability <= 1)).all()
    # V larger at the warmer of the two: swapped, the product of both densities is larger.
    assert (probability[values[:-1] > values[1:]] == 1).all()


@given(arrays(float, (2, 3), elements=st.floats(-50, 50)))
@settings(deadline=None)
def test_swaps_are_in_detailed_balance(values):
    """Chances there and back differ by the ratio of the product densities, whatever V."""
    betas = np.array([0.2, 0.7])
    there, back = swap_probability(values, betas), swap_probability(values[::-1], betas)
    ratio = (betas[1] - betas[0]) * (values[0] - values[1])
    np.testing.assert_allclose(np.log(there[0]) - np.log(back[0]), ratio, atol=1e-9)


def test_first_ladder_is_crowded_near_the_reference():
    betas = first_betas(12)
    assert betas[0] == 0.0
    assert betas[-1] == 1.0
    assert (np.diff(betas, 2) > 0).all()


def test_replicas_at_zero_density_are_never_swapped_down():
    values = np.array([[-np.inf, -np.inf, 3.0], [1.0, -np.inf, -np.inf]])
    np.testing.assert_array_equal(swap_probability(values, np.array([0.0, 1.0])), [[0, 0, 1]])


def test_the_ladder_spreads_rejection_evenly():
    betas = np.array([0.0, 0.01, 0.1, 1.0])
    np.testing.assert_allclose(next_betas(betas, np.full(3, 0.4), 4), betas, atol=1e-12)
    finer = next_betas(betas, np.full(3, 0.4), 7)
    assert (np.diff(finer) > 0).all()
    np.testing.assert_allclose(finer[::2], betas, atol=1e-12)
    uneven = next_betas(betas, np.array([0.05, 0.05, 0.9]), 4)
    assert uneven[1] > 0.1, "most temperatures belong where swaps are rejected"


def test_evidence_from_exact_draws_and_its_error():
    """Forward, backward and both together agree with log Z = 0, and the error is honest."""
    path, z = ToyPath(), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = path.exact(rng, BETAS, 200 * 8).value.reshape(len(BETAS), 200, 8)
        evidence = stepping_stone(values.transpose(1, 0, 2), BETAS)
        assert abs(evidence.forward) < 0.5
        assert abs(evidence.backward) < 0.5
        z.append(evidence.combined / evidence.error)
    # 60 squared standard normals have mean 1 +- .18; the error is the largest of several.
    assert 0.4 < np.mean(np.square(z)) < 1.6


def test_error_of_the_evidence_sees_autocorrelation():
    """Repeat every scan 20 times: the same information, so the same error."""
    path, rng = ToyPath(), np.random.default_rng(0)
    values = path.exact(rng, BETAS, 400 * 8).value.reshape(len(BETAS), 400, 8).transpose(1, 0, 2)
    once = stepping_stone(values, BETAS).error
    repeated = stepping_stone(np.repeat(values, 20, axis=0), BETAS).error
    assert 0.8 < repeated / once < 1.6


@given(shift=st.floats(-1e3, 1e3))
@settings(max_examples=20, deadline=None)
def test_a_constant_in_v_is_a_constant_in_the_evidence(shift):
    """V + c at beta 1 multiplies the target by e^c, and tells nothing about the error."""
    path, rng = ToyPath(), np.random.default_rng(0)
    values = path.exact(rng, BETAS, 50 * 4).value.reshape(len(BETAS), 50, 4).transpose(1, 0, 2)
    plain, shifted = stepping_stone(values, BETAS), stepping_stone(values + shift, BETAS)
    for name in ("forward", "backward", "combined"):
        np.testing.assert_allclose(
            getattr(shifted, name), getattr(plain, name) + shift, rtol=1e-9, atol=1e-7
        )
    np.testing.assert_allclose(shifted.error, plain.error, rtol=1e-6)


def test_copies_and_scans_may_be_permuted_in_the_evidence():
    path, rng = ToyPath(), np.random.default_rng(0)
    values = path.exact(rng, BETAS, 50 * 4).value.reshape(len(BETAS), 50, 4).transpose(1, 0, 2)
    mixed = rng.permuted(rng.permutation(values, axis=0), axis=2)
    np.testing.assert_allclose(
        stepping_stone(mixed, BETAS).combined, stepping_stone(values, BETAS).combined, atol=1e-9
    )
