"""Kernels in a cell leave the restricted target as it is: truncated normals, exactly known."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from helpers import group, make_step, sample
from scipy import stats

from pymc_spectral import KMeansPartition
from pymc_spectral.cells import wall_crossing_nuts
from pymc_spectral.cells.gradient_free_kernels import JointMetropolis
from pymc_spectral.partition.cell_rules import VoronoiRule

CUT = 0.3


@pytest.fixture(scope="module")
def model():
    """A strongly correlated normal in the plane, cut through its mass."""
    with pm.Model() as model:
        pm.MvNormal("x", mu=np.zeros(2), cov=np.array([[1.0, 0.9], [0.9, 1.0]]))
    return model


@pytest.fixture(scope="module")
def half_plane():
    """Two cells: first coordinate below and above CUT."""
    rng = np.random.default_rng(0)
    points = rng.multivariate_normal(np.zeros(2), [[1, 0.9], [0.9, 1]], 1000)
    fitted = KMeansPartition(2, random_state=0).fit(points)
    rule = VoronoiRule(
        shift=np.zeros(2),
        scale=np.ones(2),
        centers=np.array([[CUT - 1.0, 0.0], [CUT + 1.0, 0.0]]),
        owner=np.array([0, 1]),
    )
    fitted.rule_ = rule
    fitted.labels_ = rule.predict(fitted.landmarks_)
    return fitted


def truncated_moments():
    """Mean and variance of the first coordinate in both cells."""
    below = stats.truncnorm(-np.inf, CUT)
    above = stats.truncnorm(CUT, np.inf)
    return np.array([below.mean(), above.mean()]), np.array([below.var(), above.var()])


def errors_of_mean(values, chains):
    """Standard error of a mean of correlated draws, by batches."""
    batches = values.reshape(chains * 20, -1).mean(axis=1)
    return batches.std(ddof=1) / np.sqrt(len(batches))


@pytest.mark.parametrize(
    "kernel", ["nuts", "metropolis", "slice", pm.NUTS, pm.HamiltonianMC], ids=str
)
def test_moments_of_a_cut_normal(model, half_plane, kernel):
    """Both halves, first and second moments, and the coordinate that the cut leaves free."""
    step = make_step(model, None, partition=half_plane, kernel=kernel)
    # HamiltonianMC takes far more gradients a draw, and its draws are worth more.
    draws = 1000 if kernel is pm.HamiltonianMC else 4000
    idata = sample(model, step, draws=draws, tune=500, chains=2, random_seed=5)
    draws = group(idata, "cell_posterior")["x"].values
    means, variances = truncated_moments()
    for cell in range(2):
        first, second = draws[cell].T
        assert np.all((first < CUT) == (cell == 0))
        for values, truth in (
            (first, means[cell]),
            ((first - means[cell]) ** 2, variances[cell]),
            (second - 0.9 * first, 0.0),
        ):
            assert abs(values.mean() - truth) < 4.5 * errors_of_mean(values, 1)
    cells = group(idata, "cells")
    expected = [stats.norm.cdf(CUT), stats.norm.sf(CUT)]
    assert np.all(np.abs(cells["weight"].values - expected) < 4.5 * cells["weight_mcse"].values)


def test_walls_that_weigh_would_be_seen(model, half_plane, monkeypatch):
    """Negative control: with the weight of points outside left in place, draws leave the cell."""
    monkeypatch.setattr(wall_crossing_nuts.CellTree, "weigh", lambda tree, point: point)
    step = make_step(model, None, partition=half_plane)
    idata = sample(model, step, draws=300, tune=200, chains=2)
    draws = group(idata, "cell_posterior")["x"].values
    assert np.any(draws[0, :, 0] > CUT)


def test_passing_through_walls_pays(model, half_plane):
    """Trajectories that end at the wall make fewer effective draws than those that pass it."""
    ess = []
    for kernel in ("nuts", pm.NUTS):
        step = make_step(model, None, partition=half_plane, kernel=kernel, jumps=0)
        idata = sample(model, step, draws=2000, tune=500, chains=2)
        ess.append(float(group(idata, "cells")["ess_bulk"].values.min()))
        assert group(idata, "cell_sample_stats")["boundary_hit"].values.mean() > 0.05
        assert group(idata, "cell_sample_stats")["diverging"].values.sum() == 0
    assert ess[0] > ess[1]


def test_joint_metropolis_moves_all_coordinates(model, half_plane):
    step = make_step(model, None, partition=half_plane, kernel="metropolis", jumps=0)
    assert isinstance(step.kernel_step, JointMetropolis)
    idata = sample(model, step, draws=300, tune=300, chains=2)
    moved = np.diff(group(idata, "cell_posterior")["x"].values, axis=1) != 0
    np.testing.assert_array_equal(moved[..., 0], moved[..., 1])
    assert 0.1 < moved[..., 0].mean() < 0.7


@pytest.mark.parametrize("kernel", ["metropolis", "slice", "nuts"])
def test_first_move_is_made_without_fast_maths(model, half_plane, kernel, monkeypatch):
    """Numba finishes compiling then; with fast maths draws would depend on what its cache holds."""
    step = make_step(model, None, partition=half_plane, kernel=kernel)
    seen = []
    move = type(step.kernel_step).step

    def watch(self, point):
        seen.append(pytensor.config.numba__fastmath)
        return move(self, point)

    monkeypatch.setattr(type(step.kernel_step), "step", watch)
    usual = pytensor.config.numba__fastmath
    sample(model, step, draws=2, tune=1)
    # Three moves in each of two cells.
    assert seen == [False, usual, usual] * 2
