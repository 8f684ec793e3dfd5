"""NUTS in a cell by itself: what its trajectories see, and what its divergences count."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_spectral.cells.kernel_choice import make_kernel, resolve_kernel
from pymc_spectral.cells.restricted_target import RestrictedTarget
from pymc_spectral.cells.wall_crossing_nuts import CellNUTS
from pymc_spectral.partition.cell_rules import VoronoiRule

STEEP = -2.0
"""Left of it a density that no leapfrog of the right step size follows."""


@pytest.fixture(scope="module")
def kernel():
    """A line in two cells, cut at 0; far left of the cut a cliff, far right NaN."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=1)
        cliff = pt.switch(x[0] < STEEP, -1e6 * (x[0] - STEEP) ** 2, 0.0)
        pm.Potential("p", -0.5 * x[0] ** 2 + cliff + pt.switch(x[0] > 3, np.nan, 0.0))
    rule = VoronoiRule(np.zeros(1), np.ones(1), np.array([[-1.0], [1.0]]), np.array([0, 1]))
    cls, _ = resolve_kernel("nuts", True)
    options = {"step_scale": 0.5, "adapt_step_size": False}
    target = RestrictedTarget(model, rule)
    return make_kernel(target, cls, Q=None, kernel_kwargs=options, compile_kwargs={}), target


def run(kernel, cell, draws=800):
    """Draws of a chain in a cell, with all that happened."""
    kernel, target = kernel
    target.select(cell)
    sign = 2 * cell - 1
    members = sign * np.abs(np.random.default_rng(0).standard_normal((50, 1)))
    kernel.begin(members, np.random.default_rng(1), 0, draws)
    kernel.step.stop_tuning()
    point, found = {"x": np.array([sign * 0.5])}, []
    for _ in range(draws):
        draw = kernel.draw(point)
        point = draw.point
        found.append(draw)
    return found


def test_draws_stay_while_trajectories_leave(kernel):
    draws = run(kernel, 1)
    assert all(draw.point["x"][0] > 0 for draw in draws)
    assert np.mean([draw.boundary_hit for draw in draws]) > 0.1


def test_log_density_of_the_draw_is_the_models(kernel):
    for draw in run(kernel, 1, 50):
        assert draw.logp == pytest.approx(-0.5 * draw.point["x"][0] ** 2)


def test_divergence_in_another_cell_is_none_here(kernel):
    """Trajectories from the right fall off the cliff on the left: nothing is to be reported."""
    assert isinstance(kernel[0].step, CellNUTS)
    draws = run(kernel, 1)
    fell = [draw for draw in draws if draw.stats["energy_error"] == 0 and draw.boundary_hit]
    assert fell
    assert not any(draw.stats["diverging"] for draw in draws)
    assert draws[-1].stats["divergences"] == 0
    assert all(draw.stats["warning"] is None for draw in draws)


def test_divergence_in_the_own_cell_counts(kernel):
    """Negative control: the same cliff, met from the cell that it is in."""
    draws = run(kernel, 0)
    own = [draw for draw in draws if draw.stats["diverging"]]
    assert own
    assert not any(draw.boundary_hit or draw.nan_logp for draw in own)
    assert draws[-1].stats["divergences"] == len(own)


def test_nan_is_counted_apart(kernel):
    draws = run(kernel, 1)
    met = [draw for draw in draws if draw.nan_logp]
    assert met
    assert not any(draw.stats["diverging"] for draw in met)
