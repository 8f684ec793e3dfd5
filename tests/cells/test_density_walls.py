"""Walls and flat places are seen before a kernel is chosen; slopes are left alone."""

import numpy as np
import pytest

from pymc_spectral.cells.density_walls import obstacle


def slope(logp, gradient):
    return lambda x: (logp(x), gradient(x))


def look(x, logp, gradient, seed=0):
    return obstacle(x, logp, slope(logp, gradient), np.random.default_rng(seed))


@pytest.mark.parametrize("d", [1, 2, 30])
def test_a_smooth_density_has_none(rng, d):
    x = rng.standard_normal((1000, d)) * np.logspace(-3, 3, d)
    scale = np.logspace(-3, 3, d)
    assert look(x, lambda x: -0.5 * ((x / scale) ** 2).sum(1), lambda x: -x / scale**2) is None


def test_a_flat_density_has_no_slope(rng):
    x = rng.uniform(size=(1000, 2))
    found = look(x, lambda x: np.zeros(len(x)), lambda x: np.zeros_like(x))
    assert found == "the density has no slope at 100% of the explored points"


def test_density_walls_are_met(rng):
    """A thin shell, with a slope along it: a step to the side ends outside."""
    angle = rng.uniform(0, 2 * np.pi, 1000)
    x = rng.uniform(1, 1.02, 1000)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def logp(x):
        radius = np.linalg.norm(x, axis=1)
        return np.where((radius > 1) & (radius < 1.02), x[:, 0], -np.inf)

    found = look(x, logp, lambda x: np.tile([1.0, 0.0], (len(x), 1)))
    assert found.endswith("of short steps end where the density is zero")


@pytest.mark.parametrize("seed", range(5))
def test_a_box_is_all_walls(seed):
    """With a slope that tells nothing of them."""
    x = np.random.default_rng(seed).uniform(-1, 1, (4000, 2))
    box = lambda x: np.where((np.abs(x) < 1).all(1), x[:, 0], -np.inf)  # noqa: E731
    assert look(x, box, lambda x: np.tile([1.0, 0.0], (len(x), 1)), seed) is not None


def test_a_wall_that_few_points_are_near_does_not_count(rng):
    """A normal cut three standard deviations out."""
    x = rng.standard_normal((2000, 2))
    x = x[x[:, 0] < 3]
    cut = lambda x: np.where(x[:, 0] < 3, -0.5 * (x**2).sum(1), -np.inf)  # noqa: E731
    assert look(x, cut, lambda x: -x) is None


def test_few_points_say_nothing():
    x = np.zeros((5, 2))
    assert look(x, lambda x: np.zeros(len(x)), lambda x: np.zeros_like(x)) is None
