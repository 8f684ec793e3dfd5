"""Our vectorized ESS and R-hat against ArviZ's, and the variance of a mean against AR(1) theory."""

import arviz as az
import numpy as np
import pytest
from synthetic import ar1

from pymc_spectral import _row_blocks
from pymc_spectral._autocorrelation import (
    bulk_ess,
    mean_variance,
    rank_rhat,
    variance_left,
)

SHAPE = (3, 1001)


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(1)
    plain = [ar1(rng, phi, SHAPE) for phi in (0.0, 0.5, 0.95, -0.6)]
    apart = ar1(rng, 0.3, SHAPE) + np.array([[0.0], [0.0], [0.5]])
    wider = ar1(rng, 0.3, SHAPE) * np.array([[1.0], [1.0], [2.0]])
    heavy = np.tan(ar1(rng, 0.5, SHAPE))
    return np.stack([*plain, apart, wider, heavy], axis=-1)


def test_ess_and_rhat_are_those_of_arviz(columns):
    for k in range(columns.shape[2]):
        ess = np.asarray(az.ess(columns[:, :, k], method="bulk")).item()
        rhat = np.asarray(az.rhat(columns[:, :, k], method="rank")).item()
        # Both cut Geyer's sum at the first negative pair; how the last term counts differs.
        assert bulk_ess(columns)[k] == pytest.approx(ess, rel=0.05)
        assert rank_rhat(columns)[k] == pytest.approx(rhat, abs=2e-3)


def test_pieces_give_what_the_whole_gives(columns, monkeypatch):
    whole = bulk_ess(columns), rank_rhat(columns), mean_variance(columns)
    monkeypatch.setattr(_row_blocks, "NUMBERS_AT_ONCE", 1)
    parts = bulk_ess(columns), rank_rhat(columns), mean_variance(columns)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9, -0.5])
def test_variance_of_the_mean_is_that_of_theory(phi):
    rng = np.random.default_rng(2)
    exact = (1 + phi) / (1 - phi) / 4000
    found = [mean_variance(ar1(rng, phi, (2, 2000))[..., None])[0] for _ in range(60)]
    assert np.mean(found) == pytest.approx(exact, rel=0.12)


def test_constant_and_broken_columns_are_nan():
    x = np.random.default_rng(3).standard_normal((2, 100, 3))
    x[:, :, 1] = 7.0
    x[0, 3, 2] = np.inf
    for values in (bulk_ess(x), rank_rhat(x)):
        assert np.isnan(values).tolist() == [False, True, True]
    assert mean_variance(x[:, :, :2])[1] == 0.0
    assert np.isnan(bulk_ess(x[:, :3])).all()
    assert np.isnan(mean_variance(x[:, :3])).all()


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_subtracted_means_lower_the_variance_by_the_share_that_is_told(phi):
    # The mean square about m means of n / m draws each, for a series of variance 1: what it lacks
    # is the variance of those means, tau m / n.
    rng, n, m = np.random.default_rng(5), 4000, 20
    x = ar1(rng, phi, (200, n)).reshape(200, m, n // m)
    left = np.mean((x - x.mean(axis=2, keepdims=True)) ** 2, axis=(1, 2))
    tau = (1 + phi) / (1 - phi)
    expected = variance_left(tau, n, m)
    assert left.mean() == pytest.approx(expected, abs=4 * left.std() / np.sqrt(200))
    # Negative control: one mean instead of twenty would be noticed.
    assert abs(left.mean() - variance_left(tau, n)) > 4 * left.std() / np.sqrt(200) or phi == 0.0


def test_some_variance_is_always_left():
    assert variance_left(1000.0, 100) == 0.25
    np.testing.assert_array_equal(variance_left(np.array([0.0, 50.0, 90.0]), 100), [1, 0.5, 0.25])
