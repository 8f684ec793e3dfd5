"""Hamiltonian kernels by themselves: where the mass matrix starts, and what ends a trajectory."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_spectral.cells.hamiltonian_kernels import CellTrajectories, WalledTrajectories
from pymc_spectral.cells.kernel_choice import NAMED, make_kernel
from pymc_spectral.cells.restricted_target import RestrictedTarget
from pymc_spectral.partition.cell_rules import VoronoiRule

KINDS = {"nuts": NAMED["nuts"], "pm.NUTS": pm.NUTS, "hmc": pm.HamiltonianMC}
MOMENTUM = np.array([0.5, -2.0])


@pytest.fixture(scope="module")
def target():
    """A standard normal in the plane, cut at 0, with a cliff beyond 2 in the second coordinate."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("cliff", pt.switch(x[1] > 2, -1e6 * (x[1] - 2) ** 2, 0.0))
    centers = np.array([[-1.0, 0.0], [1.0, 0.0]])
    return RestrictedTarget(model, VoronoiRule(np.zeros(2), np.ones(2), centers, np.array([0, 1])))


def make(target, cls, **options):
    return make_kernel(target, cls, Q=None, kernel_kwargs=options, compile_kwargs={})


@pytest.fixture(scope="module", params=KINDS)
def kernel(request, target):
    return make(target, KINDS[request.param], step_scale=0.5, adapt_step_size=False)


def members(seed, spread):
    """Landmarks in the right half, in pairs above and below: their coordinates are uncorrelated."""
    half = np.abs(np.random.default_rng(seed).standard_normal((60, 2))) * spread
    return np.concatenate([half, half * [1, -1]])


def begin(kernel, target, landmarks, draws=0):
    target.select(1)
    kernel.begin(landmarks, np.random.default_rng(1), 0, draws)


def run(kernel, target, draws, start=(1.0, 0.0)):
    begin(kernel, target, members(0, [1.0, 1.0]), draws)
    kernel.step.stop_tuning()
    point, found = {"x": np.array(start)}, []
    for _ in range(draws):
        draw = kernel.draw(point)
        point = draw.point
        found.append(draw)
    return found


def test_the_mass_matrix_starts_at_the_landmarks_of_each_cell(kernel, target):
    """Velocity is their covariance times momentum, whatever chain ran before."""
    for seed, spread in ((0, [1.0, 1.0]), (1, [30.0, 0.01])):
        landmarks = members(seed, spread)
        begin(kernel, target, landmarks)
        velocity = kernel.step.potential.velocity(MOMENTUM)
        np.testing.assert_allclose(velocity, np.cov(landmarks.T) @ MOMENTUM, rtol=1e-6)
        assert kernel.step.integrator._potential is kernel.step.potential


@pytest.mark.parametrize("cls", KINDS.values(), ids=KINDS)
def test_a_mass_matrix_that_the_user_chose_is_kept(target, cls):
    kernel = make(target, cls, scaling=np.array([4.0, 9.0]), is_cov=True)
    before = kernel.step.potential.velocity(MOMENTUM)
    np.testing.assert_allclose(before, np.array([4.0, 9.0]) * MOMENTUM, rtol=1e-6)
    begin(kernel, target, members(0, [30.0, 0.01]))
    np.testing.assert_array_equal(kernel.step.potential.velocity(MOMENTUM), before)


def test_walls_are_hit_and_are_no_divergences(kernel, target):
    """Divergences are left to the cliff inside the cell: all that are reported began near it."""
    draws = run(kernel, target, 600)
    assert all(draw.point["x"][0] > 0 for draw in draws)
    hit = np.array([draw.boundary_hit for draw in draws])
    diverging = np.array([draw.stats["diverging"] for draw in draws])
    assert hit.mean() > 0.05
    assert diverging.any()
    assert not (hit & diverging).any()
    assert draws[-1].stats["divergences"] == diverging.sum()


def test_a_new_chain_counts_from_zero(kernel, target):
    first = run(kernel, target, 100)
    again = run(kernel, target, 100)
    assert [d.stats["divergences"] for d in first] == [d.stats["divergences"] for d in again]
    assert all((a.point["x"] == b.point["x"]).all() for a, b in zip(first, again, strict=True))


def test_only_what_is_known_of_the_draw_is_passed_as_its_log_density(kernel, target):
    """HMC reports that of the trajectory's end, which may have been refused."""
    assert isinstance(kernel, CellTrajectories | WalledTrajectories)
    for draw in run(kernel, target, 30):
        if isinstance(kernel.step, pm.NUTS):
            expected = -np.log(2 * np.pi) - 0.5 * np.sum(draw.point["x"] ** 2)
            assert draw.logp == pytest.approx(expected, abs=1e-6)
        else:
            assert draw.logp is None
