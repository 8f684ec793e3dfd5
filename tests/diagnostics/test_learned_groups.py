"""What is recorded of a run: partition and exploration, from which rules are rebuilt."""

import numpy as np
import pymc as pm
import pytest
from helpers import sample

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.learned_groups import independent_points, occupancies, rule_from

TARGET = targets.paper2d()


def test_record_of_the_partition(healthy, step):
    partition = open_groups(healthy)["partition"]
    np.testing.assert_array_equal(partition["landmarks"], step.partition.landmarks_)
    np.testing.assert_array_equal(partition["label"], step.partition.labels_)
    np.testing.assert_array_equal(partition["eigenvalues"], step.partition.eigenvalues_)
    np.testing.assert_array_equal(
        step.partition.predict(partition["start"].values), np.arange(step.n_cells)
    )
    assert partition["dim"].values.tolist() == ["x[0]", "x[1]"]
    draws, cell = partition["draws"].values, partition["draw_cell"].values
    assert 1000 <= len(draws) <= 2000
    np.testing.assert_array_equal(rule_from(partition).predict(draws), cell)


def test_record_of_the_exploration(healthy, step):
    exploration = open_groups(healthy)["exploration"]
    report = step.exploration.tempering
    assert exploration.attrs["source"] == "tempering"
    np.testing.assert_array_equal(exploration["betas"], report.betas)
    assert exploration["occupancy"].values.sum() == pytest.approx(1)
    assert exploration.sizes["round"] == len(report.rounds)
    assert int(exploration["round_trips"]) == report.round_trips


@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
def test_rules_are_rebuilt(extension):
    points = TARGET.sample(np.random.default_rng(0), 600)
    fitted = ps.SpectralPartition(4, extension=extension, n_landmarks=200, random_state=0)
    fitted.fit(points)
    check_rule(fitted, points)


def test_kmeans_rule_is_rebuilt():
    points = TARGET.sample(np.random.default_rng(0), 600)
    check_rule(ps.KMeansPartition(4, random_state=0).fit(points), points)


def check_rule(fitted, points):
    import xarray as xr

    from pymc_spectral.diagnostics.learned_groups import _rule_arrays

    rule = fitted.rule_
    stored = xr.Dataset(_rule_arrays(rule), attrs={"rule": type(rule).__name__})
    np.testing.assert_array_equal(rule_from(stored).predict(points), fitted.predict(points))


def test_transformed_and_missing_variables():
    """Draws go back to the unconstrained scale; where a variable was not kept, nothing fails."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", x**2, 0.2 + scale, observed=[4.0, 3.5, 4.5])
    with model:
        step = ps.SpectralPartitionStep(
            random_seed=1, progressbar=False, explore_kwargs={"n_points": 500, "n_rounds": 5}
        )
    idata = sample(model, step, draws=100)
    partition = open_groups(idata)["partition"]
    assert partition["dim"].values.tolist() == ["x", "scale_log__"]
    draws = open_groups(idata)["cell_posterior"]
    np.testing.assert_allclose(
        np.sort(partition["draws"].values[:, 1]), np.sort(np.log(draws["scale"].values.ravel()))
    )
    part = sample(model, step, draws=50, var_names=["x"])
    assert "draws" not in open_groups(part)["partition"]
    ps.diagnose(part)


def test_occupancy_error_covers_round_trips_that_last_unequally_long():
    """Each trip brings the chain to a cell for a random time: 400 are worth 200 draws."""
    rng = np.random.default_rng(1)
    shares, errors = [], []
    for _ in range(300):
        time = rng.exponential(10, 400).astype(int) + 1
        cell = np.repeat((rng.random(400) < 1 / 6).astype(int), time)
        # As explorers see it: points from all over, so that stretches look alike.
        occupancy, error, _ = occupancies(rng.permutation(cell), 2, 200)
        shares.append(occupancy[1])
        errors.append(error[1])
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.15)


def test_occupancy_error_covers_slow_visits():
    """Twenty independent stretches of one cell each: the error is that of twenty draws."""
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(300):
        cell = np.repeat(rng.random(20) < 0.3, 50).astype(int)
        occupancy, error, _ = occupancies(cell, 2, None)
        shares.append(occupancy[1])
        errors.append(error[1])
    # The sd of 300 shares is known to 4 %.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(shares), rel=0.15)
    # With few round trips, however smooth the points look.
    smooth = np.arange(1000) % 2
    assert occupancies(smooth, 2, 12.5)[1][0] == pytest.approx(np.sqrt(0.25 / 12.5), rel=0.01)
    assert occupancies(np.zeros(100, dtype=int), 2, 100)[2].tolist() == [20, 0]


def test_points_that_trade_places_without_crossing_are_worth_few(rng):
    """Round trips count replicas that travel; the log density tells whether they are mixed."""
    mixed = rng.standard_normal(4000)
    assert independent_points(mixed, 600) == 300
    # Ten visits to a narrow, high part, each of two hundred points.
    visits = mixed + np.repeat(rng.permutation(np.arange(20) % 2), 200) * 8.0
    assert independent_points(visits, 600) < 60
    assert independent_points(np.zeros(10), 6) == 3


def test_units_of_the_log_density_do_not_matter(rng):
    logp = np.cumsum(rng.standard_normal(4000))
    assert independent_points(logp, 600) == independent_points(np.exp(logp / 50), 600)
