"""The group ``cells``, from chains whose stats are written by hand."""

import numpy as np
import pytest
from synthetic import Cells

from pymc_spectral.bridge.weights import BOUNDARY_HIT, NAN_LOGP, weigh
from pymc_spectral.result.cell_statistics import cells_group, chain_figures, with_slow_chains

DRAWS = 200


def cells_of(columns, stats, weighing):
    return cells_group(chain_figures(columns, stats, weighing), weighing)


@pytest.fixture(scope="module")
def made():
    """Four cells of two chains each; chain k met the boundary k times, a NaN 2 k times."""
    chains = Cells().chains(np.random.default_rng(1), draws=DRAWS, chains_per_cell=2)
    met = np.arange(DRAWS)[None] < np.arange(8)[:, None]
    stats = chains.stats(**{BOUNDARY_HIT: met, NAN_LOGP: 2 * met.astype(int)})
    return chains, stats, weigh(stats, "optimal")


def test_counts_are_those_of_the_cells_own_chains(made):
    """Chains k and k + 4 ran in cell k."""
    chains, stats, weighing = made
    cells = cells_of(chains.x, stats, weighing)
    both = 2 * np.arange(4) + 4
    np.testing.assert_allclose(cells["boundary_hit_rate"], both / (2 * DRAWS))
    np.testing.assert_array_equal(cells["n_nan_logp"], 2 * both)
    np.testing.assert_array_equal(cells["n_diverging"], 0)  # no such stat: slice has none
    np.testing.assert_array_equal(cells["n_chains"], 2)
    np.testing.assert_array_equal(cells["n_draws"], 2 * DRAWS)


def test_weights_are_those_of_the_weighing(made):
    chains, stats, weighing = made
    cells = cells_of(chains.x, stats, weighing)
    for name in ("weight", "weight_mcse", "weight_cov", "log_evidence", "log_marginal_likelihood"):
        np.testing.assert_array_equal(cells[name], getattr(weighing.weights, name))
    assert cells["weight"].values.sum() == pytest.approx(1)


def test_diagnostics_are_of_the_worst_parameter_that_varies(made):
    chains, stats, weighing = made
    apart = chains.x[:, :, 0] + np.where(np.arange(8) == 5, 9.0, 0.0)[:, None]  # in cell 1
    columns = np.stack([chains.x[:, :, 0], np.zeros((8, DRAWS)), apart], axis=-1)
    found = cells_of(columns, stats, weighing)
    plain = cells_of(chains.x, stats, weighing)
    assert found["r_hat"].values[1] > 1.5
    assert found["ess_bulk"].values[1] < 20
    for name in ("r_hat", "ess_bulk"):
        np.testing.assert_array_equal(found[name][[0, 2, 3]], plain[name][[0, 2, 3]])
        constant = cells_of(np.zeros((8, DRAWS, 1)), stats, weighing)[name]
        assert np.isnan(constant).all()


def test_errors_grow_where_chains_disagree_and_nowhere_else(made):
    """Of cell 1 the parameters say that its draws are worth ten; its terms say hundreds."""
    _, _, weighing = made
    slow = with_slow_chains(weighing, np.array([1.0, 1.8, 1.04, np.nan]), np.full(4, 10.0))
    before, after = weighing.estimates, slow.estimates
    assert after[1].slow == pytest.approx(before[1].ess / 10)
    grown = before[1].variance_draw * after[1].slow + before[1].variance_fresh
    assert after[1].mcse == pytest.approx(np.sqrt(grown))
    assert [after[k] is before[k] for k in (0, 2, 3)] == [True] * 3
    assert slow.weights.weight_mcse[1] > weighing.weights.weight_mcse[1]
    np.testing.assert_array_equal(slow.weights.weight, weighing.weights.weight)
    assert with_slow_chains(weighing, np.ones(4), np.full(4, 10.0)) is weighing
