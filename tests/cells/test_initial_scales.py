"""Scales of a kernel from the landmarks of a cell."""

import numpy as np
import pytest

from pymc_spectral.cells.initial_scales import covariance, mass_matrix, variances, walk_covariance

COVARIANCE = np.array([[4.0, 1.2], [1.2, 1.0]])


def landmarks(n, seed=0):
    return np.random.default_rng(seed).multivariate_normal([5.0, -3.0], COVARIANCE, n)


def test_covariance_is_that_of_the_landmarks():
    x = landmarks(50)
    np.testing.assert_allclose(covariance(x), np.cov(x.T), rtol=1e-8)


def test_few_landmarks_give_a_diagonal():
    """Two a dimension: no more than that, and their correlation is noise."""
    few, enough = landmarks(4), landmarks(5)
    np.testing.assert_array_equal(covariance(few), np.diag(few.var(axis=0)))
    assert covariance(enough)[0, 1] != 0


def test_landmarks_that_do_not_vary_have_variance_one():
    x = np.column_stack([np.arange(3.0), np.full(3, 7.0)])
    np.testing.assert_allclose(variances(x), [2 / 3, 1.0])
    np.testing.assert_array_equal(variances(x[:1]), [1.0, 1.0])


def test_landmarks_in_a_line_leave_the_covariance_invertible():
    line = np.outer(np.arange(20.0), [1.0, 2.0])
    assert np.linalg.matrix_rank(np.cov(line.T)) == 1
    np.linalg.cholesky(covariance(line))


def test_random_walk_has_the_scale_of_roberts_gelman_gilks():
    x = landmarks(50)
    np.testing.assert_allclose(walk_covariance(x), 2.38**2 / 2 * np.cov(x.T), rtol=1e-8)


@pytest.mark.parametrize("d", [2, 30, 31])
def test_mass_matrix_starts_at_the_landmarks(d):
    """Velocity is the covariance times momentum: dense up to 30 dimensions, a diagonal beyond."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((500, d)) @ rng.standard_normal((d, d))
    momentum = rng.standard_normal(d)
    potential = mass_matrix(x, np.random.default_rng(0))
    shape = np.cov(x.T) if d <= 30 else np.diag(x.var(axis=0))
    np.testing.assert_allclose(potential.velocity(momentum), shape @ momentum, rtol=1e-6)
