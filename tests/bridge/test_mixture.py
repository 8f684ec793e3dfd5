"""Mixtures of Students: densities, draws, and the fit of Peel and McLachlan."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pymc_spectral.bridge.mixture import MixtureProposal, concatenate, expectation_maximization
from pymc_spectral.bridge.proposal import Proposal


def mixture(rng, k=3, d=2, dofs=(3.0, 10.0, np.inf)):
    """A mixture whose components differ in everything."""
    factors = np.tril(rng.standard_normal((k, d, d)))
    factors[:, range(d), range(d)] = rng.uniform(0.5, 2.0, (k, d))
    return MixtureProposal(
        rng.uniform(0.5, 1.5, k), 3 * rng.standard_normal((k, d)), factors, np.array(dofs[:k])
    )


def by_scipy(p, x):
    """Log density of a mixture, component by component."""
    terms = []
    for weight, mean, factor, dof in zip(p.weights, p.means, p.factors, p.dofs, strict=True):
        scale = factor @ factor.T
        one = (
            stats.multivariate_t(mean, scale, df=dof)
            if np.isfinite(dof)
            else stats.multivariate_normal(mean, scale)
        )
        terms.append(np.log(weight) + one.logpdf(x))
    return logsumexp(terms, axis=0)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_logpdf_is_that_of_scipy(rng, d):
    p = mixture(rng, d=d)
    x = 5 * rng.standard_normal((40, d))
    np.testing.assert_allclose(p.logpdf(x), by_scipy(p, x), rtol=1e-9, atol=1e-9)
    for row, expected in zip(x, p.logpdf(x), strict=True):
        single = p.logpdf(row)
        assert isinstance(single, float)
        assert single == pytest.approx(expected, rel=1e-10)


def test_draws_follow_the_density(rng):
    """E[q / p] over draws from p is 1 for any density q that p covers, in either way to draw."""
    p = mixture(rng)
    q = stats.multivariate_normal(p.means[0], 0.5 * np.eye(2))
    one_by_one = np.array([p.draw(rng)[0] for _ in range(4000)])
    for x in (one_by_one, p.sample(rng, 20_000)):
        ratio = np.exp(q.logpdf(x) - p.logpdf(x))
        assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(x))


def test_a_draw_comes_with_its_log_density(rng):
    p = mixture(rng)
    for _ in range(20):
        x, log_density = p.draw(rng)
        assert log_density == pytest.approx(p.logpdf(x), abs=1e-10)


@pytest.mark.parametrize("kind", ["normal", "student"])
def test_one_ellipsoid_is_a_mixture_of_one(rng, kind):
    one = Proposal(kind, np.array([1e3, -2.0]), np.array([[4.0, 1.0], [1.0, 0.5]]))
    x = one.sample(rng, 50)
    np.testing.assert_allclose(MixtureProposal.of(one).logpdf(x), one.logpdf(x), atol=1e-8)


def test_units_can_be_changed(rng):
    p = mixture(rng)
    shift, scale = np.array([100.0, -5.0]), np.array([1e-3, 1e3])
    x = p.sample(rng, 20)
    moved = p.moved(shift, scale).logpdf(shift + scale * x)
    np.testing.assert_allclose(moved, p.logpdf(x) - np.log(scale).sum(), atol=1e-7)


def test_mixtures_of_mixtures(rng):
    a, b = mixture(rng), mixture(rng, k=2)
    x = 5 * rng.standard_normal((30, 2))
    expected = np.logaddexp(np.log(0.3) + a.logpdf(x), np.log(0.7) + b.logpdf(x))
    both = concatenate([(0.3, a), (0.7, b)])
    np.testing.assert_allclose(both.logpdf(x), expected, atol=1e-10)


def test_a_fit_finds_separate_components(rng):
    truth = MixtureProposal(
        np.array([0.3, 0.7]),
        np.array([[-6.0, 0.0], [6.0, 1.0]]),
        np.array([[[1.0, 0.0], [0.8, 0.6]], [[0.5, 0.0], [0.0, 2.0]]]),
        np.array([10.0, 10.0]),
    )
    n = 4000
    fitted = expectation_maximization(truth.sample(rng, n), 2, 10.0, rng)
    order = np.argsort(fitted.means[:, 0])
    assert abs(fitted.weights[order][0] - 0.3) < 4 * np.sqrt(0.3 * 0.7 / n)
    np.testing.assert_allclose(fitted.means[order], truth.means, atol=4 * 2.3 / np.sqrt(0.3 * n))
    fresh = truth.sample(rng, 4000)
    loss = truth.logpdf(fresh) - fitted.logpdf(fresh)
    # Eleven parameters cost half a unit of log likelihood each, over n points.
    assert loss.mean() < 11 / (2 * n) + 4 * loss.std() / np.sqrt(len(fresh))


def test_far_points_do_not_spoil_the_scale_of_a_student(rng):
    """Of 2000 points of three degrees of freedom the moments say little, the fit much."""
    x = rng.standard_t(3, (2000, 1))
    fitted = expectation_maximization(x, 1, 3.0, rng)
    assert abs(fitted.factors[0, 0, 0] - 1) < 0.12
    assert abs(fitted.means[0, 0]) < 4 * np.sqrt(3 / 2000)


def test_points_in_a_plane_leave_a_regular_fit(rng):
    x = rng.standard_normal((200, 1)) * np.ones((1, 3))
    fitted = expectation_maximization(x, 2, 10.0, rng)
    assert np.isfinite(fitted.logpdf(x)).all()


def test_too_few_points_make_no_fit(rng):
    assert expectation_maximization(rng.standard_normal((3, 5)), 1, 10.0, rng) is None


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="do not describe one mixture"):
        MixtureProposal(np.ones(2), np.zeros((1, 2)), np.eye(2)[None], np.ones(1))
