"""The tail of the bridge's terms: shapes of exact Pareto quantiles, with no chance in them."""

import numpy as np
import pytest

from pymc_spectral.bridge.pareto import pareto_k


def log_pareto(shape, n=4000):
    """Logs of n quantiles of a Pareto distribution, P(terms > t) = t ** (-1 / shape)."""
    return -shape * np.log1p(-(np.arange(n) + 0.5) / n)


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.8, 1.2])
def test_shape_of_a_pareto_tail(shape):
    """Quantiles at the middle of their steps: the largest lacks half a step, some percent of k.

    The pull towards 0.5 is worth ten of 199 observations, and Hill's estimate bounds it from above.
    """
    pulled = (189 * shape + 10 * 0.5) / 199
    assert pareto_k(log_pareto(shape)) == pytest.approx(min(pulled, shape), rel=0.05)


def test_order_shape_and_level_of_the_terms_do_not_matter():
    terms = log_pareto(0.7, 1000)
    shuffled = np.random.default_rng(0).permutation(terms).reshape(4, 250)
    assert pareto_k(shuffled) == pareto_k(terms)
    assert pareto_k(terms + 800.0) == pytest.approx(pareto_k(terms), rel=1e-9)


def test_few_terms_and_equal_terms_have_no_tail():
    """A fifth of 24 is four, one too few; equal terms exceed nothing."""
    assert np.isnan(pareto_k(log_pareto(0.5, 24)))
    assert np.isfinite(pareto_k(log_pareto(0.5, 25)))
    assert pareto_k(np.zeros(1000)) == -np.inf
