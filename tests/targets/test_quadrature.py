"""Densities on a grid, against those that SciPy knows."""

import numpy as np
import pytest
from scipy import stats

from pymc_spectral.targets.quadrature import GridDensity, grid_jitter, log_trapezoid_weights


@pytest.mark.parametrize("spacing", [0.01, 0.5])
def test_integral_and_moments_of_a_normal(spacing):
    # The trapezoidal rule of a normal is exact to 1e-16 at half a standard deviation already.
    nodes = 3 + 2 * np.arange(-10, 10 + spacing / 2, spacing)
    density = GridDensity(nodes, stats.norm(3, 2).logpdf(nodes) + 1.5)
    assert density.log_z == pytest.approx(1.5, abs=1e-12)
    assert density.mean == pytest.approx(3, abs=1e-12)
    assert density.variance == pytest.approx(4, abs=1e-12)
    assert density.mass.sum() == pytest.approx(1, abs=1e-14)


def test_draws_are_those_of_the_density(rng):
    nodes = np.linspace(-4, 16, 2001)
    density = GridDensity(nodes, stats.gamma(3).logpdf(np.maximum(nodes, 1e-300)))
    draws = density.sample(rng, 40_000)
    assert stats.kstest(draws, stats.gamma(3).cdf).pvalue > 1e-6
    # Negative control: the same test tells a gamma of three per cent more.
    assert stats.kstest(draws, stats.gamma(3.1).cdf).pvalue < 1e-6


def test_a_coarse_grid_is_interpolated_and_kept_within_its_ends(rng):
    # On three nodes: a density that is 0 in the middle and falls to it linearly from both ends.
    nodes = np.array([0.0, 1.0, 2.0])
    mass = np.exp(log_trapezoid_weights(nodes)) * [1, 0, 1]
    draws = grid_jitter(rng, nodes, rng.choice(3, size=40_000, p=mass / mass.sum()))
    assert draws.min() >= 0 and draws.max() <= 2

    def cdf(x):
        return np.where(x < 1, x - x**2 / 2, (1 + (x - 1) ** 2) / 2)

    assert stats.kstest(draws, cdf).pvalue > 1e-6
