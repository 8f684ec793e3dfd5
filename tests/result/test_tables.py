"""Tables of a result: cells of known weight and moments, made without PyMC."""

import numpy as np
import pytest
import xarray as xr
from helpers import container
from scipy.stats import norm
from synthetic import Cells

import pymc_spectral as ps
from pymc_spectral._inference_data import hdi_names

CELLS = Cells(d=2, log_z=-3.0)


def result_of(cells, rng, **kwargs):
    """Result of chains in known cells, as `reweight` returns it."""
    made = cells.chains(rng, **kwargs)
    posterior = xr.Dataset(
        {"x": (("chain", "draw", "k"), made.x), "first": (("chain", "draw"), made.x[:, :, 0])},
        {"chain": np.arange(len(made.x)), "draw": np.arange(made.x.shape[1])},
    )
    return ps.reweight(container(posterior=posterior, sample_stats=made.stats()))


@pytest.fixture(scope="module")
def idata():
    return result_of(CELLS, np.random.default_rng(3), draws=1000, chains_per_cell=2)


def test_means_and_spreads_are_right_within_their_errors(idata):
    table = ps.summary(idata, round_to=None)
    assert list(table.index) == ["x[0]", "x[1]", "first"]
    mean, sd = (np.append(v, v[0]) for v in (CELLS.mean(), CELLS.sd()))
    assert (abs(table["mean"] - mean) < 5 * table["mcse_mean"]).all()
    assert (abs(table["sd"] - sd) < 5 * table["mcse_sd"]).all()
    assert (table["r_hat"] < 1.02).all()
    np.testing.assert_allclose(table.loc["first"], table.loc["x[0]"])


def test_interval_is_the_narrowest_that_holds_its_mass():
    """Of one normal: the mass between its ends, known exactly, is binomial, and hardly wider."""
    one = Cells(weight=np.ones(1), center=np.zeros(1), spread=np.ones(1))
    idata = result_of(one, np.random.default_rng(5), draws=4000)
    for prob in (0.5, 0.94):
        low, high = ps.summary(idata, hdi_prob=prob, round_to=None).loc["first", [*hdi_names(prob)]]
        error = np.sqrt(prob * (1 - prob) / 4000)
        # The narrowest of many intervals holds a little less than it seems: so more is allowed.
        assert norm.cdf(high) - norm.cdf(low) == pytest.approx(prob, abs=6 * error)
        draws = np.sort(np.asarray(idata["cell_posterior"]["first"]).ravel())
        least = int(np.ceil(prob * 4000))
        assert high - low == (draws[least - 1 :] - draws[: len(draws) - least + 1]).min()


def test_cells_have_their_weights_evidence_and_means(idata):
    table = ps.cell_summary(idata)
    assert table.index.name == "cell"
    assert table["chains"].tolist() == [2] * 4
    assert (abs(table["weight"] - CELLS.weight) < 5 * table["weight_mcse"]).all()
    log_mass = np.log(CELLS.weight) + CELLS.log_z
    assert (abs(table["log_evidence"] - log_mass) < 5 * table["log_evidence_mcse"]).all()
    # Two thousand independent draws and as many proposed points a cell.
    error = CELLS.spread / np.sqrt(2000)
    for name in ("x[0]", "x[1]", "first"):
        assert (abs(table[name] - CELLS.center) < 5 * error).all()


def test_rounding_and_choice_of_variables(idata):
    exact = ps.summary(idata, round_to=None)
    np.testing.assert_array_equal(ps.summary(idata), exact.round(3))
    assert list(ps.summary(idata, "first").index) == ["first"]
    assert list(ps.cell_summary(idata, "~x").columns)[-1] == "first"
    none = ps.summary(idata, ["~x", "~first"])
    assert none.empty
    assert list(none.columns) == list(exact.columns)
    with pytest.raises(ValueError, match=r"hdi_prob=1.0 must lie between 0 and 1"):
        ps.summary(idata, hdi_prob=1.0)
