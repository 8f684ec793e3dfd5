"""Proposals of one ellipsoid: densities, and fits with shrinkage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_spectral.bridge.proposal import Proposal, fit_proposal

KINDS = ("normal", "student")


def covariance(rng, d, decades=2.0):
    """Draw a covariance whose eigenvalues span some decades in random directions."""
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (q * np.logspace(-decades / 2, decades / 2, d)) @ q.T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 3, 20])
def test_logpdf_is_that_of_scipy(kind, d):
    rng = np.random.default_rng(1)
    mean, cov = rng.standard_normal(d), covariance(rng, d)
    p = Proposal(kind, mean, cov)
    x = rng.standard_normal((50, d)) * 3
    if kind == "normal":
        expected = stats.multivariate_normal(mean, cov).logpdf(x)
    else:
        # Scale matrix that gives ten degrees of freedom the covariance asked for.
        expected = stats.multivariate_t(mean, cov * 0.8, df=10).logpdf(x)
    np.testing.assert_allclose(p.logpdf(x), expected, rtol=1e-8, atol=1e-8)
    single = p.logpdf(x[0])
    assert isinstance(single, float)
    assert single == pytest.approx(expected[0], rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_both_kinds_have_the_moments_asked_for(kind):
    rng = np.random.default_rng(2)
    mean, cov = np.array([3.0, -1.0, 0.0]), covariance(rng, 3)
    p = Proposal(kind, mean, cov)
    n = 100_000
    x = p.sample(rng, n)
    assert x.shape == (n, 3)
    z = (x - mean) @ np.linalg.inv(np.linalg.cholesky(cov)).T
    assert np.abs(z.mean(axis=0)).max() < 4.5 / math.sqrt(n)
    # Fourth moment 3 for the normal, 3 * 8 / 6 = 4 for the Student with ten degrees.
    fourth = 3.0 if kind == "normal" else 4.0
    assert np.abs((z**2).mean(axis=0) - 1).max() < 4.5 * math.sqrt((fourth - 1) / n)
    kurtosis = (z**4).mean()
    assert abs(kurtosis - fourth) < 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_draw_returns_the_log_density_of_its_point(kind):
    rng = np.random.default_rng(3)
    p = Proposal(kind, np.array([1e6, -5.0]), np.diag([1e-2, 1e4]))
    for _ in range(20):
        x, log_density = p.draw(rng)
        assert log_density == pytest.approx(p.logpdf(x), abs=1e-6)


def test_draw_and_sample_follow_one_law():
    p = Proposal("student", np.zeros(1), np.eye(1))
    rng = np.random.default_rng(4)
    one_by_one = np.array([p.sample(rng)[0] for _ in range(4000)])
    together = p.sample(rng, 4000)[:, 0]
    assert stats.ks_2samp(one_by_one, together).pvalue > 1e-3
    exact = stats.t(df=10, scale=math.sqrt(0.8))
    assert stats.kstest(one_by_one, exact.cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 5, 40, 400])
def test_a_fit_follows_the_units(kind, n):
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((n, 4)) @ np.linalg.cholesky(covariance(rng, 4)).T
    unit, shift = np.array([1e-6, 1.0, 1e3, 1e9]), np.array([0.0, 7.0, -2.0, 1e3])
    p, q = fit_proposal(draws, kind), fit_proposal(draws * unit + shift * unit, kind)
    np.testing.assert_allclose(q.mean, (p.mean + shift) * unit, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(q.covariance, p.covariance * np.outer(unit, unit), rtol=1e-6)
    x = p.sample(rng, 10)
    np.testing.assert_allclose(
        q.logpdf((x + shift) * unit), p.logpdf(x) - np.log(unit).sum(), atol=1e-6
    )


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 6), kind=st.sampled_from(KINDS))
def test_an_affine_map_changes_the_log_density_by_the_log_determinant(seed, d, kind):
    rng = np.random.default_rng(seed)
    # A shear, well enough conditioned that its square does not cost the digits compared below.
    matrix = covariance(rng, d, 1.0) @ covariance(rng, d, 1.0)
    shift = 10 * rng.standard_normal(d)
    p = Proposal(kind, rng.standard_normal(d), covariance(rng, d))
    q = Proposal(kind, matrix @ p.mean + shift, matrix @ p.covariance @ matrix.T)
    x = p.sample(rng, 20)
    log_det = np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(q.logpdf(x @ matrix.T + shift), p.logpdf(x) - log_det, atol=1e-8)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6), n=st.integers(2, 300))
def test_a_fit_follows_any_units_and_any_order_of_the_coordinates(data, seed, n):
    d, rng = 3, np.random.default_rng(seed)
    draws = rng.standard_normal((n, d)) @ np.linalg.cholesky(covariance(rng, d)).T
    # Powers of two and signs: the standardized draws are then the same to the last bit.
    exponent = data.draw(st.lists(st.integers(-60, 60), min_size=d, max_size=d))
    sign = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=d, max_size=d))
    unit = np.array(sign) * 2.0 ** np.array(exponent)
    order = np.array(data.draw(st.permutations(range(d))))
    p, q = fit_proposal(draws), fit_proposal((draws * unit)[:, order])
    np.testing.assert_allclose(q.mean, (p.mean * unit)[order], rtol=1e-9)
    expected = (p.covariance * np.outer(unit, unit))[np.ix_(order, order)]
    np.testing.assert_allclose(
        q.covariance, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).min()
    )
    x = draws[:5]
    log_det = np.log(np.abs(unit)).sum()
    np.testing.assert_allclose(
        q.logpdf((x * unit)[:, order]), p.logpdf(x) - log_det, rtol=1e-7, atol=1e-6
    )


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), d=st.integers(1, 30))
def test_any_few_draws_give_a_regular_covariance_about_their_mean(seed, n, d):
    draws = np.random.default_rng(seed).standard_normal((n, d))
    p = fit_proposal(draws)
    np.testing.assert_array_equal(p.mean, draws.mean(axis=0))
    assert np.linalg.eigvalsh(p.covariance)[0] > 0
    # Shrinkage widens and never narrows a coordinate: by no more than five in variance.
    if n > 1:
        ratio = np.diag(p.covariance) / draws.var(axis=0, ddof=1)
        assert (ratio > 1 - 1e-9).all()
        assert (ratio < 5 + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 5), (2, 1), (2, 50), (10, 3), (20, 200), (16, 1)])
def test_few_draws_still_give_a_density(kind, n, d):
    rng = np.random.default_rng(6)
    p = fit_proposal(rng.standard_normal((n, d)), kind)
    assert np.linalg.eigvalsh(p.covariance)[0] > 0
    assert np.isfinite(p.logpdf(p.sample(rng, 5))).all()


def test_a_constant_coordinate_takes_the_fallback_scale_and_spares_the_others():
    rng = np.random.default_rng(7)
    draws = rng.standard_normal((500, 3)) @ np.linalg.cholesky(covariance(rng, 3)).T
    constant = draws.copy()
    constant[:, 1] = 4.0
    p = fit_proposal(constant, fallback_scale=np.array([9.0, 0.25, 9.0]))
    assert math.sqrt(p.covariance[1, 1]) == pytest.approx(0.25)
    whole = fit_proposal(draws[:, [0, 2]])
    np.testing.assert_allclose(p.covariance[np.ix_([0, 2], [0, 2])], whole.covariance, rtol=1e-6)


def test_a_copied_coordinate_leaves_a_regular_covariance():
    x = np.random.default_rng(8).standard_normal((300, 1))
    p = fit_proposal(np.hstack([x, -2 * x, x]))
    assert np.isfinite(p.logpdf(np.array([0.1, -0.2, 0.1])))


def test_many_draws_give_the_moments_of_the_paper():
    rng = np.random.default_rng(9)
    draws = rng.standard_normal((5000, 3)) @ np.linalg.cholesky(covariance(rng, 3)).T
    p = fit_proposal(draws)
    np.testing.assert_allclose(p.mean, draws.mean(axis=0))
    np.testing.assert_allclose(p.covariance, np.cov(draws.T), rtol=0.02, atol=0.002)


@pytest.mark.parametrize(("n", "correlated"), [(60, False), (60, True), (500, True)])
def test_shrinkage_predicts_at_least_as_well_as_the_plain_covariance(n, correlated):
    # Mean log density at new draws: what is lost against the truth is the bridge's handicap.
    d, rng = 30, np.random.default_rng(10)
    cov = covariance(rng, d, 4.0) if correlated else np.eye(d)
    factor = np.linalg.cholesky(cov)
    draws, new = (rng.standard_normal((m, d)) @ factor.T for m in (n, 4000))
    truth = Proposal("normal", np.zeros(d), cov).logpdf(new).mean()
    plain = Proposal("normal", draws.mean(axis=0), np.cov(draws.T)).logpdf(new).mean()
    ours = fit_proposal(draws).logpdf(new).mean()
    assert truth - ours < 1.1 * (truth - plain)
    if n == 60:
        assert truth - ours < 0.75 * (truth - plain)


def test_slow_chains_get_wider_proposals():
    # 400 draws with autocorrelation time 100 are worth four: the spread they show is too small.
    d, rng, loss = 3, np.random.default_rng(11), []
    for _ in range(20):
        x = np.empty((400, d))
        x[0] = rng.standard_normal(d)
        for t in range(1, 400):
            x[t] = 0.98 * x[t - 1] + math.sqrt(1 - 0.98**2) * rng.standard_normal(d)
        new = rng.standard_normal((500, d))
        plain = Proposal("normal", x.mean(axis=0), np.cov(x.T)).logpdf(new).mean()
        loss.append(fit_proposal(x).logpdf(new).mean() - plain)
    assert np.mean(loss) > 0


def test_a_proposal_cannot_be_changed():
    p = fit_proposal(np.random.default_rng(16).standard_normal((20, 2)))
    with pytest.raises(AttributeError):
        p.kind = "student"
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0] = 1.0


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="'cauchy' is unknown: use one of normal, student"):
        fit_proposal(np.zeros((3, 1)), "cauchy")
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        fit_proposal(np.zeros(3))
    with pytest.raises(ValueError, match="not finite"):
        fit_proposal(np.array([[1.0], [np.nan]]))
    with pytest.raises(ValueError, match=r"\(2,\) and covariance \(1, 1\)"):
        Proposal("normal", np.zeros(2), np.eye(1))
