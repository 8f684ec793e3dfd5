"""The group of values at proposed points, from arrays alone."""

import logging

import numpy as np
import pytest
import xarray as xr

from pymc_spectral.bridge.weights import FRESH_POINT, LOG_TARGET_FRESH
from pymc_spectral.result.proposed_values import with_proposed_points

POINTS = np.arange(12.0).reshape(2, 3, 2)
NAMES = ["x", "twice", "name"]
DIMS = ("chain", "draw")


def compute(point):
    return [point, 2 * point[0], "text"]


@pytest.fixture
def groups():
    """Two chains of three draws, whose second proposed point fell outside its cell."""
    logp = np.zeros((2, 3))
    logp[0, 1] = -np.inf
    x = (("draw", "chain", "k"), np.zeros((3, 2, 2)))
    posterior = {"x": x, "twice": (DIMS, np.zeros((2, 3))), "added": (DIMS, np.zeros((2, 3)))}
    posterior["name"] = (DIMS, np.full((2, 3), "text"))
    stats = {FRESH_POINT: ((*DIMS, "dim"), POINTS), LOG_TARGET_FRESH: (DIMS, logp)}
    return {"posterior": xr.Dataset(posterior), "sample_stats": xr.Dataset(stats)}


def test_values_of_the_numeric_variables_inside_the_cell(groups):
    found = with_proposed_points(groups, NAMES, compute)
    fresh = found["cell_fresh"]
    assert set(fresh.data_vars) == {"x", "twice"}
    expected = POINTS.copy()
    expected[0, 1] = np.nan
    np.testing.assert_array_equal(fresh["x"].transpose(*DIMS, "k"), expected)
    np.testing.assert_array_equal(fresh["twice"], 2 * expected[:, :, 0])


def test_the_stat_is_dropped_and_what_was_passed_is_left(groups):
    found = with_proposed_points(groups, NAMES, compute)
    assert set(found["sample_stats"].variables) == {LOG_TARGET_FRESH}
    assert FRESH_POINT in groups["sample_stats"]
    assert "cell_fresh" not in groups


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_draws_survive_a_variable_that_fails(groups, caplog, error):
    def fail(point):
        raise error

    with caplog.at_level(logging.WARNING, "pymc"):
        found = with_proposed_points(groups, NAMES, fail)
    assert set(found) == {"posterior", "sample_stats"}
    assert FRESH_POINT not in found["sample_stats"]
    assert "summary will use the draws alone" in caplog.text
