"""From stats to weights: the delta method, what is refused, and the names of the stats."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from synthetic import Cells

from pymc_spectral.bridge.estimate import BridgeError, bridge_estimate
from pymc_spectral.bridge.weights import (
    BRIDGE_STATS,
    MARK,
    STATS,
    WEIGHING_STATS,
    cell_of_chain,
    cell_weights,
    weigh,
    weigh_arrays,
)


@pytest.fixture(scope="module")
def made():
    return Cells().chains(np.random.default_rng(1), phi=0.3, draws=200, chains_per_cell=2)


def fake(log_c, mcse):
    """Return an estimate with the given mass and error."""
    e = bridge_estimate(*Cells().chains(np.random.default_rng(15), draws=100).terms)
    return dataclasses.replace(e, log_c=log_c, mcse=mcse)


def test_weights_follow_the_delta_method():
    log_c, mcse = np.array([0.3, -1.0, 2.0]), np.array([0.01, 0.03, 0.02])
    w = cell_weights([fake(c, s) for c, s in zip(log_c, mcse, strict=True)])
    c = np.exp(log_c)
    np.testing.assert_allclose(w.weight, c / c.sum())
    assert w.log_marginal_likelihood == pytest.approx(np.log(c.sum()))
    noisy = log_c + mcse * np.random.default_rng(16).standard_normal((200_000, 3))
    weights = np.exp(noisy) / np.exp(noisy).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(w.weight_mcse, weights.std(axis=0), rtol=0.02)
    np.testing.assert_allclose(w.weight_cov, np.cov(weights.T), rtol=0.05, atol=1e-8)
    assert w.log_marginal_likelihood_mcse == pytest.approx(logsumexp(noisy, axis=1).std(), rel=0.02)
    np.testing.assert_allclose(w.weight_cov.sum(axis=0), 0.0, atol=1e-15)
    np.testing.assert_array_equal(w.log_evidence_mcse, mcse)


def test_weights_of_one_cell_and_of_tiny_masses():
    one = cell_weights([fake(-1e5, 0.1)])
    assert one.weight.tolist() == [1.0]
    assert one.weight_mcse[0] == 0.0
    assert one.log_marginal_likelihood_mcse == pytest.approx(0.1)
    two = cell_weights([fake(-1e5, 0.1), fake(-2e5, 0.1)])
    assert two.weight.tolist() == [1.0, 0.0]
    assert two.log_marginal_likelihood == -1e5


def test_a_mass_that_is_not_known_is_refused_with_its_cell(made):
    stats = made.stats()
    stats["log_target_fresh"][[2, 6]] = -np.inf
    with pytest.raises(BridgeError, match=r"cell 2: 0 of 400.*Tune longer"):
        weigh(stats, "optimal")
    stats["log_target_draw"][[1, 5]] = np.nan
    with pytest.raises(BridgeError, match=r"Cell 1: None of the 400 draws"):
        weigh(stats, "optimal")


def test_stats_and_arrays_give_the_same(made):
    for kind in ("optimal", "geometric"):
        a = weigh(made.stats(), kind).weights
        b = weigh_arrays(made.cell, made.terms, made.fits, kind).weights
        for field in dataclasses.fields(a):
            np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))
        # Within four errors of the truth.
        assert np.abs((a.weight - Cells().weight) / a.weight_mcse).max() < 4


def test_stats_may_have_their_dimensions_in_any_order_and_lack_the_fits(made):
    stats = made.stats()
    one = weigh(stats, "optimal").weights.weight
    np.testing.assert_array_equal(weigh(stats.transpose(), "optimal").weights.weight, one)
    # Each chain's proposal is then one fit, which enters the errors only, to first order.
    less = weigh(stats.drop_vars("proposal_fit"), "optimal")
    assert all(np.unique(e.runs).size == 2 for e in less.estimates)
    np.testing.assert_allclose(less.weights.weight, one, atol=0.5 * less.weights.weight_mcse.max())


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(8)))
def test_chains_may_come_in_any_order(made, order):
    order = np.array(order)
    stats = made.stats().isel(chain=order)
    weighing = weigh(stats, "optimal")
    np.testing.assert_array_equal(weighing.cell_of_chain, made.cell[order])
    for cell, chains in enumerate(weighing.chains_of_cell):
        np.testing.assert_array_equal(np.sort(order[chains]), [cell, cell + 4])
    base = weigh(made.stats(), "optimal").weights
    np.testing.assert_allclose(weighing.weights.weight, base.weight, rtol=1e-8)
    np.testing.assert_allclose(weighing.weights.weight_mcse, base.weight_mcse, rtol=1e-6)


def test_the_cell_of_every_chain_is_read_off(made):
    np.testing.assert_array_equal(cell_of_chain(made.stats()), [0, 1, 2, 3, 0, 1, 2, 3])


def test_a_chain_that_changed_cell_is_refused_by_its_name(made):
    stats = made.stats().assign_coords(chain=np.arange(10, 18))
    stats["cell"][3, 10:] = 1
    for read in (cell_of_chain, lambda s: weigh(s, "optimal")):
        with pytest.raises(ValueError, match=r"Chain 13 was in the cells 1, 3"):
            read(stats)
    stats["cell"][3] = -1
    with pytest.raises(ValueError, match="holds -1; cells are counted from 0"):
        cell_of_chain(stats)


def test_cells_without_a_chain_are_named(made):
    stats = made.stats()
    with pytest.raises(BridgeError, match=r"of 6; \[4, 5\] have no draws.*chains=6"):
        weigh(stats, "optimal", n_cells=6)
    with pytest.raises(BridgeError, match=r"cover the cells \[0, 1, 2, 3\] of 3\. Sample"):
        weigh(stats, "optimal", n_cells=3)
    stats["cell"][[1, 5]] = 2
    with pytest.raises(BridgeError, match=r"\[1\] have no draws.*chains=4"):
        weigh(stats, "optimal")
    # Who only asks for the cells is not told off.
    np.testing.assert_array_equal(cell_of_chain(stats), [0, 2, 2, 3, 0, 2, 2, 3])


def test_an_unknown_bridge_is_refused(made):
    with pytest.raises(ValueError, match="bridge='nice' is unknown: use one of optimal, geometric"):
        weigh(made.stats(), "nice")


def test_the_names_of_stats_are_those_of_files_already_written():
    # Renaming one would make results saved earlier unreadable.
    assert list(STATS) == [
        "cell",
        "log_target_draw",
        "log_proposal_draw",
        "log_target_fresh",
        "log_proposal_fresh",
        "proposal_fit",
        "boundary_hit",
        "nan_logp",
        "n_jumps",
        "jump_accepted",
    ]
    assert list(BRIDGE_STATS) == list(STATS)[1:5]
    assert set(WEIGHING_STATS) < set(STATS)
    assert MARK in BRIDGE_STATS
