"""The group ``cells``, from chains whose stats are written by hand."""

import numpy as np
import pytest
from synthetic import Cells

from pymc_spectral.bridge.weights import BOUNDARY_HIT, NAN_LOGP, weigh
from pymc_spectral.result.cell_statistics import cells_group

DRAWS = 200


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
    cells = cells_group(chains.x, stats, weighing)
    both = 2 * np.arange(4) + 4
    np.testing.assert_allclose(cells["boundary_hit_rate"], both / (2 * DRAWS))
    np.testing.assert_array_equal(cells["n_nan_logp"], 2 * both)
    np.testing.assert_array_equal(cells["n_diverging"], 0)  # no such stat: slice has none
    np.testing.assert_array_equal(cells["n_chains"], 2)
    np.testing.assert_array_equal(cells["n_draws"], 2 * DRAWS)


def test_weights_are_those_of_the_weighing(made):
    chains, stats, weighing = made
    cells = cells_group(chains.x, stats, weighing)
    for name in ("weight", "weight_mcse", "weight_cov", "log_evidence", "log_marginal_likelihood"):
        np.testing.assert_array_equal(cells[name], getattr(weighing.weights, name))
    assert cells["weight"].values.sum() == pytest.approx(1)


def test_diagnostics_are_of_the_worst_parameter_that_varies(made):
    chains, stats, weighing = made
    apart = chains.x[:, :, 0] + np.where(np.arange(8) == 5, 9.0, 0.0)[:, None]  # in cell 1
    columns = np.stack([chains.x[:, :, 0], np.zeros((8, DRAWS)), apart], axis=-1)
    found = cells_group(columns, stats, weighing)
    plain = cells_group(chains.x, stats, weighing)
    assert found["r_hat"].values[1] > 1.5
    assert found["ess_bulk"].values[1] < 20
    for name in ("r_hat", "ess_bulk"):
        np.testing.assert_array_equal(found[name][[0, 2, 3]], plain[name][[0, 2, 3]])
        constant = cells_group(np.zeros((8, DRAWS, 1)), stats, weighing)[name]
        assert np.isnan(constant).all()
