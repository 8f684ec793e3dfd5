"""The evidence of the galaxy mixtures, of which nobody can draw exactly, by importance sampling.

Gibbs samplers that start all over the prior visit the posterior. Their means are sorted, so that
one labeling is left, whose evidence is 1/K! of the whole. Within it there are modes between which a
chain hardly ever passes, so that how often each is visited says little about its mass; but a
mixture of Students fitted to the draws covers them all, and as a proposal it weighs them.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from pymc_spectral import targets

MU, MU_SD, LOG_SIGMA, LOG_SIGMA_SD, CONCENTRATION = 21.0, 7.0, 0.3, 0.6, 2.0
N_CHAINS, N_BURN, N_SWEEPS, THIN = 100, 200, 300, 5
DOF = 8  # of the proposal's Students: their tails are heavier than the posterior's
N_PROPOSED = 40_000


def gibbs_sweep(rng, w, mu, log_sigma):
    """Update assignments, weights, means and, by Metropolis, log sigmas of many chains (n, K)."""
    y, K = targets.GALAXIES_DATA, mu.shape[1]
    standard = (y[:, None] - mu[:, None, :]) * np.exp(-log_sigma)[:, None, :]
    logp = np.log(w)[:, None, :] - log_sigma[:, None, :] - 0.5 * standard**2
    # The largest of log probabilities with Gumbel noise is a draw.
    chosen = (logp + rng.gumbel(size=logp.shape)).argmax(axis=2)
    mine = chosen[:, :, None] == np.arange(K)
    count, total, squares = (
        (mine * value[:, None]).sum(axis=1) for value in (np.ones(len(y)), y, y**2)
    )
    w = rng.gamma(CONCENTRATION + count)
    w /= w.sum(axis=1, keepdims=True)

    precision = count * np.exp(-2 * log_sigma) + MU_SD**-2
    location = (total * np.exp(-2 * log_sigma) + MU * MU_SD**-2) / precision
    mu = location + rng.standard_normal(mu.shape) / np.sqrt(precision)

    residual = squares - 2 * mu * total + count * mu**2

    def conditional(value):
        prior = -0.5 * ((value - LOG_SIGMA) / LOG_SIGMA_SD) ** 2
        return prior - count * value - 0.5 * residual * np.exp(-2 * value)

    width = 2.4 / np.sqrt(LOG_SIGMA_SD**-2 + 2 * count)
    moved = log_sigma + width * rng.standard_normal(mu.shape)
    accepted = np.log(rng.uniform(size=mu.shape)) < conditional(moved) - conditional(log_sigma)
    return w, mu, np.where(accepted, moved, log_sigma)


def gibbs(K: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of one labeling, (n, 3 K - 1), as the model's unconstrained variables."""
    w = rng.dirichlet(np.full(K, CONCENTRATION), size=N_CHAINS)
    mu = rng.normal(MU, MU_SD, size=(N_CHAINS, K))
    log_sigma = rng.normal(LOG_SIGMA, LOG_SIGMA_SD, size=(N_CHAINS, K))
    kept = []
    for sweep in range(N_BURN + N_SWEEPS):
        w, mu, log_sigma = gibbs_sweep(rng, w, mu, log_sigma)
        if sweep >= N_BURN and sweep % THIN == 0:
            order = mu.argsort(axis=1)
            log_w, sorted_mu, sorted_log_sigma = (
                np.take_along_axis(values, order, axis=1) for values in (np.log(w), mu, log_sigma)
            )
            share = log_w - log_w.mean(axis=1, keepdims=True)
            kept.append(np.hstack([share[:, :-1], sorted_mu, sorted_log_sigma]))
    return np.concatenate(kept)


def importance(target, draws, rng: np.random.Generator) -> tuple[float, float]:
    """Log evidence and its standard error, by a proposal of Students fitted to the draws."""
    K = len(target.mean)
    fit = GaussianMixture(12, random_state=0, reg_covar=1e-4).fit(draws)
    students = [
        stats.multivariate_t(mean, covariance, df=DOF)
        for mean, covariance in zip(fit.means_, fit.covariances_, strict=True)
    ]
    counts = rng.multinomial(N_PROPOSED, fit.weights_)
    points = np.concatenate(
        [s.rvs(count, random_state=rng) for s, count in zip(students, counts, strict=True) if count]
    )
    log_q = logsumexp(
        [np.log(w) + s.logpdf(points) for w, s in zip(fit.weights_, students, strict=True)], axis=0
    )
    in_order = (np.diff(target.constrain(points), axis=1) > 0).all(axis=1)
    log_ratio = np.where(in_order, target.logp(points) - log_q, -np.inf)
    ratio = np.exp(log_ratio - log_ratio.max())
    log_z = np.log(ratio.mean()) + log_ratio.max() + math.lgamma(K + 1)
    return log_z, ratio.std() / ratio.mean() / math.sqrt(N_PROPOSED)


@pytest.fixture(scope="module", params=[2, 3, 4])
def K(request):
    return request.param


@pytest.fixture(scope="module")
def draws(K, seed):
    return gibbs(K, np.random.default_rng(seed))


def agrees(log_z: float, error: float, target: targets.Target) -> bool:
    """Whether an estimate is precise (three times the usual error at most) and near the truth."""
    # The stored error is four standard errors.
    return error < 0.03 and abs(log_z - target.log_z) < 5 * math.hypot(
        error, target.log_z_error / 4
    )


def test_stored_evidence_is_that_of_importance_sampling(K, draws, rng):
    target = targets.galaxies(K)
    log_z, error = importance(target, draws, rng)
    assert agrees(log_z, error, target), (log_z, error)


def test_sorted_draws_are_one_labeling_and_their_permutations_the_others(K, draws):
    target = targets.galaxies(K)
    assert set(target.classify(draws)) == {0}
    np.testing.assert_array_less(target.logp(draws), target.logp(target.centers).max() + 1e-9)
    # Every labeling has the same density, that of its center.
    np.testing.assert_allclose(target.logp(target.centers), target.logp(target.centers)[0])


def test_a_proposal_that_misses_a_mode_is_noticed(rng, seed):
    # Negative control: of three components the widest may have the lowest mean, the middle or the
    # highest. Without the second kind of draws the evidence is short of what these hold, or the few
    # proposed points that come there by chance make the error large.
    target = targets.galaxies(3)
    draws = gibbs(3, np.random.default_rng(seed))
    log_z, error = importance(target, draws[draws[:, 5:].argmax(axis=1) != 1], rng)
    assert not agrees(log_z, error, target), (log_z, error)
