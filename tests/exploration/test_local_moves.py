"""Local moves leave each temperature's density unchanged, and learn only when they may."""

import numpy as np
import pytest
from scipy.stats import kstest
from toy_path import BETAS, GRID, ToyPath

from pymc_spectral.exploration.local_moves import Hamiltonian, RandomWalk, Replicas

# Tests of uniformity over seeds reject at this p-value: one false alarm in ten thousand.
ALARM = 1e-4


def p_values_after_moves(kernel, n_moves=8, copies=4000):
    """Start all temperatures at exact draws, move without learning, test each by KS."""
    path, rng = ToyPath(), np.random.default_rng(2)
    replicas = path.exact(rng, BETAS, copies)
    moves = kernel(len(BETAS) - 1, 1, path.scale)
    moves.adapting = False
    for _ in range(n_moves):
        moves.move(path, replicas, BETAS, rng)
    return np.array(
        [
            kstest(
                replicas.x[k, :, 0], lambda x, k=k: np.interp(x, GRID, path.cdf(BETAS[k]))
            ).pvalue
            for k in range(1, len(BETAS))
        ]
    )


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_moves_alone_leave_every_temperature_unchanged(kernel, monkeypatch):
    assert p_values_after_moves(kernel).min() > ALARM

    def all_accepted(change, rng):
        return np.isfinite(change), np.ones(change.shape)

    monkeypatch.setattr("pymc_spectral.exploration.local_moves.accept", all_accepted)
    assert p_values_after_moves(kernel).min() < 1e-12


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_a_move_keeps_what_it_knows_of_its_points_up_to_date(kernel):
    path, rng = ToyPath(), np.random.default_rng(0)
    replicas = path.exact(rng, BETAS, 50)
    before = replicas.x.copy()
    acceptance = kernel(len(BETAS) - 1, 1, path.scale).move(path, replicas, BETAS, rng)
    assert acceptance.shape == (len(BETAS) - 1,)
    assert (replicas.x[1:] != before[1:]).any()
    np.testing.assert_array_equal(replicas.x[0], before[0])  # the reference is drawn, not moved
    reference, value = path.evaluate(replicas.x.reshape(-1, 1))
    np.testing.assert_allclose(replicas.reference.ravel(), reference)
    np.testing.assert_allclose(replicas.value.ravel(), value)


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_frozen_moves_learn_nothing(kernel):
    path, rng = ToyPath(), np.random.default_rng(0)
    state = path.exact(rng, BETAS, 8)
    moves = kernel(len(BETAS) - 1, 1, path.scale)
    step, factor = moves.step.log.copy(), moves.factor.copy()
    moves.adapting = False
    moves.move(path, state, BETAS, rng)
    np.testing.assert_array_equal(moves.step.log, step)
    np.testing.assert_array_equal(moves.factor, factor)
    moves.adapting = True
    moves.move(path, state, BETAS, rng)
    assert (moves.step.log != step).any()


def test_metric_is_the_shape_of_a_mode():
    """On a normal the mean outer product of gradients is the inverse covariance."""
    rng = np.random.default_rng(0)
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    moves = Hamiltonian(1, 2, np.ones(2))
    x = rng.multivariate_normal(np.zeros(2), covariance, size=(1, 20000))
    moves._observe(x, -x @ np.linalg.inv(covariance))
    moves.learn(np.array([0]))
    np.testing.assert_allclose(moves.factor[0] @ moves.factor[0].T, covariance, rtol=0.05)


def test_covariance_is_learned_from_the_draws():
    """A random walk on a normal takes its covariance for the shape of its steps."""

    class Still(ToyPath):
        """A path whose replicas are put where they are wanted, and never leave."""

        def evaluate(self, x):
            return np.full(len(x), -np.inf), np.zeros(len(x))

    rng = np.random.default_rng(0)
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    moves = RandomWalk(1, 2, np.ones(2))
    x = rng.multivariate_normal(np.zeros(2), covariance, size=(2, 20000))
    moves.move(Still(), Replicas(x, np.zeros(x.shape[:2]), np.zeros(x.shape[:2])), BETAS[:2], rng)
    moves.learn(np.array([0]))
    # A variance from 20,000 draws has a relative error of sqrt(2 / 20000) = 1 %.
    np.testing.assert_allclose(moves.factor[0] @ moves.factor[0].T, covariance, rtol=0.05)


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_a_new_ladder_takes_over_what_its_neighbors_learned(kernel):
    moves = kernel(3, 2, np.ones(2))
    moves.step.log = np.log([0.1, 0.2, 0.4])
    moves.factor = moves.factor * np.array([1.0, 2.0, 3.0])[:, None, None]
    moves.learn(np.array([0, 2, 2, 1]))
    np.testing.assert_allclose(np.exp(moves.step.log), [0.1, 0.4, 0.4, 0.2])
    np.testing.assert_allclose(moves.factor[:, 0, 0], [1, 3, 3, 2])


def test_trajectories_that_end_at_zero_density_are_counted():
    class Walled(ToyPath):
        """No density below zero, and gradients that know nothing of it."""

        def evaluate(self, x):
            reference, value = super().evaluate(x)
            return reference, np.where(x[:, 0] > 0, value, -np.inf)

        def evaluate_grad(self, x, beta):
            return *self.evaluate(x), ToyPath().evaluate_grad(x, beta)[2]

    path, rng = Walled(), np.random.default_rng(0)
    x = np.full((len(BETAS), 400, 1), 0.05)
    reference, value = path.evaluate(x.reshape(-1, 1))
    replicas = Replicas(x, reference.reshape(x.shape[:2]), value.reshape(x.shape[:2]))
    moves = Hamiltonian(len(BETAS) - 1, 1, path.scale)
    with np.errstate(all="ignore"):
        moves.move(path, replicas, BETAS, rng)
    # The wall is beside the points and the force on them weak, so about half end behind it.
    assert 0.25 < moves.outside < 0.75
    assert (replicas.x > 0).all()
    walks = RandomWalk(len(BETAS) - 1, 1, path.scale)
    with np.errstate(all="ignore"):
        walks.move(path, replicas, BETAS, rng)
    assert walks.outside == 0.0
