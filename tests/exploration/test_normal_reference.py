"""The broad normal covers what it was fitted to, in any units, with and without gradients."""

import numpy as np
import pytest
from hand_density import HandDensity

from pymc_spectral.exploration.normal_reference import INFLATE, fit_normal


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("has_gradient", [True, False])
def test_one_normal_is_found_at_its_place_and_made_broader(has_gradient):
    density = HandDensity([[3.0, -200.0]], scale=[1.0, 50.0], has_gradient=has_gradient)
    mean, covariance = fit_normal(density, rng())
    broad = np.sqrt(np.diag(covariance)) / density.scale
    # Walks are short: their spread is that of the normal up to a third.
    assert (np.abs(mean - density.means[0]) < 0.5 * density.scale).all()
    assert (broad > INFLATE * 2 / 3).all()
    assert (broad < INFLATE * 4 / 3).all()
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_units_do_not_matter():
    """Powers of two, since lengths are tried in powers of two."""
    factor = np.array([2.0**6, 2.0**-5])
    plain = HandDensity([[-4.0, 0.0], [4.0, 1.0]])
    scaled = HandDensity(plain.means * factor, scale=factor)
    mean, covariance = fit_normal(plain, rng())
    scaled_mean, scaled_covariance = fit_normal(scaled, rng())
    np.testing.assert_allclose(scaled_mean / factor, mean, atol=0.1)
    np.testing.assert_allclose(scaled_covariance / np.outer(factor, factor), covariance, rtol=0.1)


def test_far_modes_are_covered_from_one_of_them():
    """Climbs from far outside find the outermost modes; two are 40 standard deviations apart."""
    density = HandDensity([[-20.0, 0.0], [20.0, 0.0], [0.0, 1.0]])
    mean, covariance = fit_normal(density, rng())
    away = (density.means - mean) / np.sqrt(np.diag(covariance))
    assert (np.abs(away) < 2).all(), "every mode lies well inside the normal"
    # Negative control: the spread about the start alone would not do.
    alone, narrow = fit_normal(HandDensity([[-20.0, 0.0]]), rng())
    assert np.abs((20.0 - alone[0]) / np.sqrt(narrow[0, 0])) > 10


def test_starts_outside_the_support_are_left_out():
    density = HandDensity([[5.0]], inside=lambda x: x[:, 0] > 0)
    mean, covariance = fit_normal(density, rng(), start=np.array([[-3.0], [5.0]]))
    assert abs(mean[0] - 5) < 1
    assert np.isfinite(covariance).all()
    with pytest.raises(ValueError, match="-inf or NaN at all 1 starting points"):
        fit_normal(density, rng(), start=np.array([-3.0]))


@pytest.mark.parametrize("start", [np.zeros(3), np.zeros((2, 1)), np.zeros((1, 1, 2))])
def test_starts_of_another_dimension_are_refused(start):
    with pytest.raises(ValueError, match=r"start must have shape \(d,\) or \(m, d\) with d = 2"):
        fit_normal(HandDensity([[0.0, 0.0]]), rng(), start=start)


def test_hard_walls_on_all_sides_do_not_stop_the_search():
    def inside(x):
        return (np.abs(x) < 1).all(axis=1)

    density = HandDensity([[0.0, 0.0]], scale=100.0, inside=inside)
    mean, covariance = fit_normal(density, rng())
    # Uniform on [-1, 1], up to 1 %: its standard deviation is 1 / sqrt(3).
    assert (np.abs(mean) < 0.3).all()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), INFLATE / np.sqrt(3), rtol=0.3)
