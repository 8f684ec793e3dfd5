"""Inside one pm.sample the result is opened, weighed and closed once, by one look at the caller."""

from collections import Counter

import numpy as np
import pytest
from helpers import group, make_step, sample

from pymc_spectral import _inference_data, _pymc, targets
from pymc_spectral import step as step_module
from pymc_spectral.result import reweighting

TARGET = targets.paper2d()


@pytest.fixture(scope="module")
def step():
    points = TARGET.sample(np.random.default_rng(0), 600)
    return make_step(TARGET.build(), points, rounds=2, round_draws=40, n_landmarks=300)


@pytest.fixture(scope="module")
def counted(step):
    """Calls made on the way out of one run, and its result."""
    calls = Counter()
    patch = pytest.MonkeyPatch()

    def count(where, name):
        original = getattr(where, name)

        def counting(*args, **kwargs):
            calls[name] += 1
            return original(*args, **kwargs)

        patch.setattr(where, name, counting)

    count(step_module, "open_groups")
    count(reweighting, "open_groups")
    count(step_module, "close_groups")
    count(reweighting, "close_groups")
    count(reweighting, "weigh")
    count(_pymc, "_frames")
    idata = sample(step.model, step, draws=60, tune=60)
    patch.undo()
    return calls, idata


def test_one_opening_one_weighing_one_closing_one_look_at_the_caller(counted):
    calls, _ = counted
    assert calls == {"open_groups": 1, "close_groups": 1, "weigh": 1, "_frames": 1}


def test_all_rounds_are_what_the_partition_was_learned_from(step, counted):
    """Explored points come first, then the later three quarters of the draws of the first round."""
    explored = step.exploration
    assert len(explored.points) == 600 + 4 * 30
    np.testing.assert_array_equal(explored.round, np.repeat([0, 1], [600, 120]))
    np.testing.assert_allclose(explored.logp, TARGET.logp(explored.points), rtol=1e-6, atol=1e-9)
    rows = {tuple(row) for row in explored.points}
    assert all(tuple(row) in rows for row in step.partition.landmarks_)
    recorded = group(counted[1], "exploration")
    assert recorded.attrs["n_points"] == 720
    assert set(recorded["point_round"].values) == {0, 1}


def test_shares_are_those_of_the_explorer_alone(step, counted):
    """Draws of single cells say nothing about the cells' weights."""
    cell = step.partition.predict(step.exploration.points[:600])
    share = np.bincount(cell, minlength=step.n_cells) / 600
    np.testing.assert_allclose(group(counted[1], "exploration")["occupancy"].values, share)


def test_the_energy_of_repeated_rows_is_left_out(counted):
    """Its statistics compare a row with the one before it; the chains as they ran keep it."""
    _, idata = counted
    assert "energy" not in group(idata, "sample_stats")
    assert "energy" in group(idata, "cell_sample_stats")
    names = _inference_data.open_groups(idata)
    assert names["sample_stats"].sizes["draw"] == names["posterior"].sizes["draw"]
