"""Random walks by themselves: all coordinates at once, the paper's Q as it is, exact acceptance."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_spectral.cells.gradient_free_kernels import AnyStep, JointMetropolis, JointWalk
from pymc_spectral.cells.kernel_choice import make_kernel
from pymc_spectral.cells.restricted_target import RestrictedTarget
from pymc_spectral.partition.cell_rules import VoronoiRule

WALL = 0.0


@pytest.fixture(scope="module")
def target():
    """A standard normal in the plane, cut at WALL; NaN beyond 2.5 in the second coordinate."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("trap", pt.switch(x[1] > 2.5, np.nan, 0.0))
    centers = np.array([[WALL - 1.0, 0.0], [WALL + 1.0, 0.0]])
    return RestrictedTarget(model, VoronoiRule(np.zeros(2), np.ones(2), centers, np.array([0, 1])))


@pytest.fixture(scope="module")
def line():
    """A standard normal on the line, in one cell."""
    with pm.Model() as model:
        pm.Normal("x", shape=1)
    rule = VoronoiRule(np.zeros(1), np.ones(1), np.zeros((1, 1)), np.zeros(1, dtype=int))
    return RestrictedTarget(model, rule)


def make(target, cls=JointMetropolis, Q=None, **options):
    return make_kernel(target, cls, Q=Q, kernel_kwargs=options, compile_kwargs={})


def run(kernel, target, start, draws, tune=0, seed=1):
    """All draws of a chain, in the cell of its start."""
    target.select(len(start) - 1)
    members = np.random.default_rng(0).standard_normal((50, len(start))) + start
    kernel.begin(members, np.random.default_rng(seed), tune, draws)
    point, found = {"x": np.array(start, dtype=float)}, []
    for i in range(tune + draws):
        if i == tune:
            kernel.step.stop_tuning()
        draw = kernel.draw(point)
        point = draw.point
        found.append(draw)
    return found


def moved(draws):
    """Which coordinates each draw but the first moved."""
    return np.diff([draw.point["x"] for draw in draws], axis=0) != 0


@pytest.mark.parametrize(("cls", "together"), [(JointMetropolis, True), (pm.Metropolis, False)])
def test_all_coordinates_are_accepted_together(target, cls, together):
    """PyMC's own class, the negative control, accepts them one by one."""
    found = moved(run(make(target, cls), target, [1.0, 0.0], 200))
    assert found.any()
    assert (~found).any()
    assert (found[:, 0] == found[:, 1]).all() == together


def test_the_papers_walk_is_never_tuned(line):
    """A walk of standard deviation s on N(0, 1) is accepted with probability 2 / pi atan(2 / s)."""
    Q = np.array([[2.4**2]])
    kernel = make(line, Q=Q)
    draws = run(kernel, line, [0.3], 8000, tune=1000)[1000:]
    assert isinstance(kernel, JointWalk)
    assert kernel.step.scaling == 1
    rate = moved(draws)[:, 0].astype(float)[:7960].reshape(40, -1).mean(axis=1)
    error = rate.std(ddof=1) / np.sqrt(40)
    assert abs(rate.mean() - 2 / np.pi * np.arctan(2 / 2.4)) < 4 * error


def test_a_walk_without_Q_takes_its_shape_from_the_cell_and_tunes(line):
    kernel = make(line)
    run(kernel, line, [0.3], 0, tune=1000)
    assert kernel.step.scaling != 1
    shape = np.abs(kernel.step.proposal_dist(num_draws=4000)).mean() * np.sqrt(np.pi / 2)
    members = np.random.default_rng(0).standard_normal((50, 1))
    assert shape == pytest.approx(2.38 * members.std(ddof=1), rel=5 / np.sqrt(4000))


def test_what_the_user_chose_is_left_alone(line):
    chosen = pm.step_methods.metropolis.NormalProposal(np.array([0.1]))
    kernel = make(line, proposal_dist=lambda s: chosen, S=np.array([0.1]))
    run(kernel, line, [0.3], 0, tune=10)
    assert kernel.step.proposal_dist is chosen


def test_refusals_tell_why(target):
    """At the wall, at a NaN, and where the density is just too low."""
    draws = run(make(target, Q=4 * np.eye(2)), target, [1.0, 0.0], 2000)
    assert all(draw.point["x"][0] > WALL for draw in draws)
    refused = ~moved(draws)[:, 0]
    hit, nan = ([getattr(d, name) for d in draws[1:]] for name in ("boundary_hit", "nan_logp"))
    assert np.mean(hit) > 0.2
    assert np.mean(nan) > 0.01
    assert not np.any(np.logical_and(hit, nan))
    assert refused[np.logical_or(hit, nan)].all()
    assert (refused & ~np.logical_or(hit, nan)).any()


def test_other_step_methods_say_nothing_of_walls_and_forget_their_chains(target):
    kernel = make(target, pm.Slice)
    assert isinstance(kernel, AnyStep)
    first = run(kernel, target, [1.0, 0.0], 30, tune=30)
    assert all(draw.point["x"][0] > WALL for draw in first)
    assert not any(draw.boundary_hit or draw.nan_logp for draw in first)
    run(kernel, target, [3.0, -1.0], 30, tune=30, seed=2)
    again = run(kernel, target, [1.0, 0.0], 30, tune=30)
    assert all((a.point["x"] == b.point["x"]).all() for a, b in zip(first, again, strict=True))
