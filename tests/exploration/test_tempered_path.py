"""Paths begin at something that can be sampled, and say what it is truly."""

import numpy as np
import pymc as pm
import pytest
from hand_density import HandDensity
from pytensor.compile.mode import Mode
from scipy import stats

from pymc_spectral.density.batched import batched_density
from pymc_spectral.exploration.tempered_path import (
    NormalPath,
    PriorPath,
    choose_path,
    prior_sampler,
)

PYTHON = {"mode": Mode(linker="py", optimizer="fast_compile")}


@pytest.fixture(scope="module")
def proper():
    """Transforms, and a bound that is itself a variable."""
    with pm.Model() as model:
        top = pm.HalfNormal("top", 2.0)
        pm.Uniform("below", 0.0, top, shape=2)
        pm.Normal("y", top, 1, observed=[0.5, 1.0])
    return model, batched_density(model, compile_kwargs=PYTHON)


@pytest.fixture(scope="module")
def flat():
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Normal("y", x, 1, observed=[0.5, 1.0])
    return model, batched_density(model, compile_kwargs=PYTHON)


def test_draws_of_the_prior_have_its_distribution(proper):
    model, density = proper
    draw = prior_sampler(model, 2000, seed=1)
    x = draw()
    assert x.shape == (2000, density.d)
    point = density.unravel(x)
    top = np.exp(point["top_log__"])
    share = 1 / (1 + np.exp(-point["below_interval__"]))
    assert stats.kstest(top, stats.halfnorm(scale=2).cdf).pvalue > 1e-4
    assert stats.kstest(share.ravel(), stats.uniform.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(share.T)[0, 1]) < 4 / np.sqrt(2000)
    # Negative control: another scale would be seen.
    assert stats.kstest(top, stats.halfnorm(scale=2.3).cdf).pvalue < 1e-4


def test_every_call_draws_other_points_and_the_seed_decides_which(proper):
    model, _ = proper
    draw = prior_sampler(model, 5, seed=1)
    first = draw()
    assert (draw() != first).all()
    np.testing.assert_array_equal(prior_sampler(model, 5, seed=1)(), first)
    assert (prior_sampler(model, 5, seed=2)() != first).all()


def test_a_flat_prior_cannot_be_sampled(flat):
    model, _ = flat
    with pytest.raises(NotImplementedError):
        prior_sampler(model, 5, seed=1)


def test_the_pool_of_draws_is_used_once_from_front_to_back():
    """Whatever the sizes asked for, points come in the order in which they were drawn."""
    calls = iter(range(10))

    def draw():
        return next(calls) * 4.0 + np.arange(4.0)[:, None]

    path = PriorPath(HandDensity([[0.0]]), draw)
    rng = np.random.default_rng(0)
    got = np.concatenate([path.sample(rng, n) for n in (3, 2, 7, 4)])
    np.testing.assert_array_equal(got[:, 0], np.arange(16.0))
    path.sample(rng, 4)[:] = np.nan
    np.testing.assert_allclose(path.scale, np.arange(4.0).std())


def test_a_prior_that_excludes_its_own_draws_is_refused():
    density = HandDensity([[0.0]], inside=lambda x: x[:, 0] > 0)
    with pytest.raises(ValueError, match="not finite at 2 of 4"):
        PriorPath(density, lambda: np.array([[-1.0], [-2.0], [1.0], [2.0]]))


def test_auto_takes_the_prior_where_there_is_one_to_draw_from(proper, flat):
    for (model, density), name in ((proper, "prior"), (flat, "normal")):

        def prior(n, seed, model=model):
            return prior_sampler(model, n, seed)

        assert choose_path(density, np.random.default_rng(0), prior=prior).name == name
    model, density = flat
    with pytest.raises(ValueError, match=r'cannot be sampled.*reference="normal"'):
        choose_path(density, np.random.default_rng(0), "prior", prior=prior)


def test_without_a_prior_the_path_starts_at_a_normal():
    density = HandDensity([[1.0, 2.0]])
    path = choose_path(density, np.random.default_rng(0))
    assert isinstance(path, NormalPath)
    asked = choose_path(density, np.random.default_rng(0), "normal", start=np.array([1.0, 2.0]))
    assert asked.name == "normal"
    with pytest.raises(ValueError, match="only the density is known"):
        choose_path(density, np.random.default_rng(0), "prior")
    with pytest.raises(ValueError, match="use one of auto, prior, normal"):
        choose_path(density, np.random.default_rng(0), "likelihood")


def test_the_normal_path_leads_from_the_normal_to_the_density():
    density = HandDensity([[1.0, 2.0], [-3.0, 0.0]])
    mean, covariance = np.array([0.5, -1.0]), np.array([[4.0, 1.0], [1.0, 9.0]])
    path = NormalPath(density, mean, covariance)
    normal = stats.multivariate_normal(mean, covariance)
    x = np.random.default_rng(0).normal(size=(7, 2))
    reference, value = path.evaluate(x)
    np.testing.assert_allclose(reference, normal.logpdf(x))
    np.testing.assert_allclose(reference + value, density.logp(x))
    drawn = path.sample(np.random.default_rng(1), 4000)
    squares = np.einsum("ij,jk,ik->i", drawn - mean, np.linalg.inv(covariance), drawn - mean)
    assert stats.kstest(squares, stats.chi2(2).cdf).pvalue > 1e-4


def test_gradients_along_the_normal_path_are_slopes():
    density = HandDensity([[1.0, 2.0], [-3.0, 0.0]])
    path = NormalPath(density, np.array([0.5, -1.0]), np.array([[4.0, 1.0], [1.0, 9.0]]))
    x = np.random.default_rng(0).normal(size=(7, 2))
    beta = np.linspace(0, 1, 7)
    _, _, gradient = path.evaluate_grad(x, beta)

    def tempered(points):
        reference, value = path.evaluate(points)
        return reference + beta * value

    for i in range(2):
        shift = 1e-5 * np.eye(2)[i]
        slope = (tempered(x + shift) - tempered(x - shift)) / 2e-5
        np.testing.assert_allclose(gradient[:, i], slope, atol=1e-6)
