"""Tempering leaves its target unchanged, finds every mode, and knows its own errors."""

import logging
import tracemalloc
from itertools import pairwise

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy.integrate import cumulative_trapezoid
from scipy.special import logsumexp
from scipy.stats import kstest

from pymc_spectral import targets
from pymc_spectral._progress import ScanProgress
from pymc_spectral.density.batched import batched_density
from pymc_spectral.exploration import tempering
from pymc_spectral.exploration.ladder import next_betas, stepping_stone, swap_probability
from pymc_spectral.exploration.local_moves import Hamiltonian, RandomWalk, Replicas
from pymc_spectral.exploration.tempering import _run_round, scan, temper

# Python's linker spares minutes of compilation, and these targets are small.
PYTHON = {"mode": Mode(linker="py", optimizer="fast_compile")}
GRID = np.linspace(-30, 30, 20001)
BETAS = np.array([0.0, 0.1, 0.4, 1.0])


class ToyPath:
    """One dimension, from N(0, 3^2) to .3 N(-2, .5^2) + .7 N(2, .5^2), all by hand."""

    name = "toy"
    log_z = 0.0
    scale = np.array([3.0])

    def log_reference(self, x):
        return -0.5 * (x / 3) ** 2 - np.log(3) - 0.5 * np.log(2 * np.pi)

    def log_target(self, x):
        weights = np.log([0.3, 0.7]) - np.log(0.5) - 0.5 * np.log(2 * np.pi)
        exponents = -0.5 * ((x[..., None] - np.array([-2.0, 2.0])) / 0.5) ** 2
        return logsumexp(weights + exponents, axis=-1)

    def sample(self, rng, n):
        return 3 * rng.standard_normal((n, 1))

    def evaluate(self, x):
        reference = self.log_reference(x[:, 0])
        return reference, self.log_target(x[:, 0]) - reference

    def evaluate_grad(self, x, beta):
        step = 1e-5
        reference, value = self.evaluate(x)
        (r1, v1), (r0, v0) = self.evaluate(x + step), self.evaluate(x - step)
        return reference, value, ((r1 - r0 + beta * (v1 - v0)) / (2 * step))[:, None]

    def cdf(self, beta):
        """Points of the cumulative distribution at one temperature, by quadrature."""
        logp = self.log_reference(GRID) * (1 - beta) + beta * self.log_target(GRID)
        density = np.exp(logp - logp.max())
        total = cumulative_trapezoid(density, GRID, initial=0)
        return total / total[-1]

    def exact(self, rng, betas, copies):
        """Independent exact draws at every temperature."""
        rows = [np.interp(rng.random(copies), self.cdf(beta), GRID) for beta in betas]
        x = np.array(rows)[:, :, None]
        reference, value = self.evaluate(x.reshape(-1, 1))
        shape = (len(betas), copies)
        return Replicas(x, reference.reshape(shape), value.reshape(shape))


def p_values_after_scans(kernel, seed, copies=4000, scans=6):
    """Start all temperatures at exact draws, run frozen scans, test every temperature by KS."""
    path, rng = ToyPath(), np.random.default_rng(seed)
    state = path.exact(rng, BETAS, copies)
    moves = kernel(len(BETAS) - 1, 1, path.scale)
    for t in range(scans):
        *_, index = scan(path, moves, state, BETAS, t % 2, rng)
        state.take(index)
    return np.array(
        [
            kstest(state.x[k, :, 0], lambda x, k=k: np.interp(x, GRID, path.cdf(BETAS[k]))).pvalue
            for k in range(len(BETAS))
        ]
    )


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_a_scan_leaves_the_product_target_unchanged(kernel, monkeypatch):
    assert p_values_after_scans(kernel, seed=1).min() > 1e-4

    def wrong(values, betas):  # The ratio upside down.
        return swap_probability(-values, betas)

    monkeypatch.setattr("pymc_spectral.exploration.tempering.swap_probability", wrong)
    assert p_values_after_scans(kernel, seed=1).min() < 1e-12


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_frozen_moves_learn_nothing(kernel):
    path, rng = ToyPath(), np.random.default_rng(0)
    state = path.exact(rng, BETAS, 8)
    moves = kernel(len(BETAS) - 1, 1, path.scale)
    step, factor = moves.log_step.copy(), moves.factor.copy()
    moves.move(path, state, BETAS, rng, adapt=False)
    np.testing.assert_array_equal(moves.log_step, step)
    np.testing.assert_array_equal(moves.factor, factor)
    moves.move(path, state, BETAS, rng, adapt=True)
    assert (moves.log_step != step).any()


def test_metric_is_the_shape_of_a_mode():
    """On a normal the mean outer product of gradients is the inverse covariance."""
    rng = np.random.default_rng(0)
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    moves = Hamiltonian(1, 2, np.ones(2))
    x = rng.multivariate_normal(np.zeros(2), covariance, size=(1, 20000))
    moves._observe(x, -x @ np.linalg.inv(covariance))
    moves.learn(np.array([0]))
    np.testing.assert_allclose(moves.factor[0] @ moves.factor[0].T, covariance, rtol=0.05)


def test_replicas_at_zero_density_are_never_swapped_down():
    values = np.array([[-np.inf, -np.inf, 3.0], [1.0, -np.inf, -np.inf]])
    np.testing.assert_array_equal(swap_probability(values, np.array([0.0, 1.0])), [[0, 0, 1]])


def test_schedule_spreads_rejection_evenly():
    betas = np.array([0.0, 0.01, 0.1, 1.0])
    np.testing.assert_allclose(next_betas(betas, np.full(3, 0.4), 4), betas, atol=1e-12)
    finer = next_betas(betas, np.full(3, 0.4), 7)
    assert (np.diff(finer) > 0).all()
    np.testing.assert_allclose(finer[::2], betas, atol=1e-12)
    uneven = next_betas(betas, np.array([0.05, 0.05, 0.9]), 4)
    assert uneven[1] > 0.1, "most temperatures belong where swaps are rejected"


def test_evidence_from_exact_draws_and_its_error():
    """Forward, backward and both together agree with log Z = 0, and the error is honest."""
    path, z = ToyPath(), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = path.exact(rng, BETAS, 200 * 8).value.reshape(len(BETAS), 200, 8)
        evidence = stepping_stone(values.transpose(1, 0, 2), BETAS)
        assert abs(evidence.forward) < 0.5
        assert abs(evidence.backward) < 0.5
        z.append(evidence.combined / evidence.error)
    # 60 squared standard normals have mean 1 +- .18; the error is the largest of several.
    assert 0.4 < np.mean(np.square(z)) < 1.6


def test_error_of_the_evidence_sees_autocorrelation():
    """Repeat every scan 20 times: the same information, so the same error."""
    path, rng = ToyPath(), np.random.default_rng(0)
    values = path.exact(rng, BETAS, 400 * 8).value.reshape(len(BETAS), 400, 8).transpose(1, 0, 2)
    once = stepping_stone(values, BETAS).error
    repeated = stepping_stone(np.repeat(values, 20, axis=0), BETAS).error
    assert 0.8 < repeated / once < 1.6


def test_memory_does_not_grow_with_the_length_of_a_round(monkeypatch):
    monkeypatch.setattr(tempering, "MAX_KEPT_SCANS", 64)
    path, peaks = ToyPath(), []
    for scans in (100, 100, 1000):  # the first one only warms up
        rng = np.random.default_rng(0)
        state = path.exact(rng, BETAS, 200)
        moves = RandomWalk(len(BETAS) - 1, 1, path.scale)
        tracemalloc.start()
        with ScanProgress(False) as progress:
            result = _run_round(path, moves, state, BETAS, scans, rng, True, 20, progress)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert 20 * 200 <= len(result.points) <= 40 * 200
    assert peaks[2] < 1.3 * peaks[1]


@pytest.fixture(scope="module")
def paper():
    target = targets.paper2d()
    model = target.build()
    return target, model, batched_density(model)


@pytest.fixture(scope="module")
def from_one_mode(paper):
    """Every start at the biggest mode of a model with Flat variables and a Potential."""
    _, model, density = paper
    start = np.tile([-5.0, 0.0], (4, 1))
    return temper(model, density=density, start=start, rng=np.random.default_rng(0))


def occupancy(target, points):
    return np.bincount(target.classify(points), minlength=target.n_modes)


def test_paper2d_all_modes_from_one(paper, from_one_mode):
    target = paper[0]
    points, logp, report = from_one_mode
    count = occupancy(target, points)
    assert points.shape == (4000, 2)
    np.testing.assert_allclose(logp, target.logp(points), atol=1e-8)
    # Over 20 seeds the .02 mode holds 53 to 103 points; shares vary by .003 to .02.
    assert count[0] >= 20
    np.testing.assert_allclose(count / 4000, target.weights, atol=0.08)
    assert abs(report.log_evidence) < 4 * report.log_evidence_error
    assert report.log_evidence_error < 0.1
    assert report.reference == "normal"
    assert report.settled
    assert report.round_trips > 200


def test_report_is_consistent(from_one_mode):
    report = from_one_mode[2]
    n = len(report.betas)
    assert report.betas[0] == 0
    assert report.betas[-1] == 1
    assert (np.diff(report.betas) > 0).all()
    assert report.rejection.shape == (n - 1,)
    assert report.acceptance.shape == (n,)
    np.testing.assert_allclose(report.rejection.sum(), report.barrier)
    assert np.ptp(report.rejection) < 0.3, "a good ladder is rejected evenly"
    assert report.rounds[-1]["temperatures"] == n
    scans = [row["scans"] for row in report.rounds]
    assert all(b == 2 * a for a, b in pairwise(scans[:-1]))
    assert "round trips" in report.short()


def test_same_seed_same_exploration(paper, from_one_mode):
    _, model, density = paper
    start = np.tile([-5.0, 0.0], (4, 1))
    again = temper(model, density=density, start=start, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again[0], from_one_mode[0])
    assert again[2].log_evidence == from_one_mode[2].log_evidence
    other = temper(
        model, density=density, start=start, rng=np.random.default_rng(1), n_rounds=2, n_points=50
    )
    assert other[0].shape == (50, 2)


def test_without_gradients(paper):
    target, model, density = paper
    points, _, report = temper(model, density=density, gradient=False, rng=np.random.default_rng(0))
    assert occupancy(target, points).min() >= 20
    assert abs(report.log_evidence) < 4 * report.log_evidence_error


def test_one_log_line_per_round_and_a_bar(paper, caplog):
    _, model, density = paper
    with caplog.at_level(logging.INFO, logger="pymc_spectral"):
        report = temper(
            model,
            density=density,
            n_rounds=3,
            n_points=40,
            progressbar=True,
            rng=np.random.default_rng(0),
        )[2]
    lines = [r.message for r in caplog.records if r.message.startswith("round ")]
    assert len(lines) == len(report.rounds) == 3
    assert "barrier" in lines[0]


def test_prior_path():
    """Two modes of .1 and .9 inside a uniform prior on [-2, 2]^2: log Z = -2 log 4."""
    with pm.Model() as model:
        x = pm.Uniform("x", -2, 2, shape=2)
        modes = [-0.5 * (((x - mean) / 0.1) ** 2).sum() for mean in (0.5, -0.5)]
        constant = -2 * np.log(0.1) - np.log(2 * np.pi)
        pm.Potential("p", pt.logsumexp(pt.stack(modes) + np.log([0.1, 0.9]) + constant))
    density = batched_density(model, compile_kwargs=PYTHON)
    points, _, report = temper(model, density=density, rng=np.random.default_rng(0))
    assert report.reference == "prior"
    share = (points.sum(axis=1) > 0).mean()
    assert abs(share - 0.1) < 0.06
    assert abs(report.log_evidence + 2 * np.log(4)) < 4 * report.log_evidence_error
    assert report.log_evidence_error < 0.15


def test_nothing_to_temper_is_quick():
    """A prior without data: the path is trivial, and the cold points are draws of the prior."""
    with pm.Model() as model:
        pm.Normal("x", [1.0, -2.0], [1.0, 3.0])
    density = batched_density(model, compile_kwargs=PYTHON)
    points, _, report = temper(model, density=density, rng=np.random.default_rng(0))
    assert report.barrier == 0
    assert report.log_evidence == 0
    assert len(report.betas) <= 3
    np.testing.assert_allclose(points.mean(axis=0), [1, -2], atol=4 * 3 / np.sqrt(1000))
    np.testing.assert_allclose(points.std(axis=0), [1, 3], rtol=0.1)


def test_hard_constraints_without_gradients():
    """A uniform density on two far rectangles: -inf everywhere else, and no slope to follow."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=2, initval=[-4.0, 0.0])
        left = (pt.abs(x[0] + 4) < 1) & (pt.abs(x[1]) < 1)
        right = (pt.abs(x[0] - 4) < 2) & (pt.abs(x[1]) < 1)
        pm.Potential("p", pt.switch(left | right, 0.0, -np.inf))
    density = batched_density(model, compile_kwargs=PYTHON)
    points, logp, report = temper(
        model,
        density=density,
        start=np.array([[-4.0, 0.0], [4.0, 0.0]]),
        rng=np.random.default_rng(0),
    )
    assert np.isfinite(logp).all()
    share = (points[:, 0] > 0).mean()
    assert abs(share - 2 / 3) < 0.15
    assert abs(report.log_evidence - np.log(12)) < 4 * report.log_evidence_error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rounds": 0}, "n_rounds must be at least 1, got 0"),
        ({"n_copies": 1}, "n_copies"),
        ({"n_points": 0}, "n_points"),
        ({"betas": [0, 0.5, 0.3, 1]}, r"increase from 0 .*0\.3"),
        ({"betas": [0.1, 1]}, "increase from 0"),
        ({"betas": [1]}, "at least two"),
        ({"reference": "prior"}, "cannot be sampled"),
        ({"reference": "posterior"}, "Use one of"),
        ({"start": np.zeros(3)}, r"shape \(d,\) or \(m, d\)"),
    ],
)
def test_bad_options(paper, options, message):
    _, model, density = paper
    with pytest.raises(ValueError, match=message):
        temper(model, density=density, rng=np.random.default_rng(0), **options)


def test_no_start_with_positive_density():
    for term in (lambda x: pt.switch(x > 1e9, 0.0, -np.inf), lambda x: pt.log(-1.0 - x**2)):
        with pm.Model() as flat:
            x = pm.Flat("x")
            pm.Potential("p", term(x))
        with pytest.raises(ValueError, match=r"-inf or NaN at all"):
            temper(flat, density=batched_density(flat, compile_kwargs=PYTHON))
        with pm.Model() as proper:
            x = pm.Normal("x")
            pm.Potential("p", term(x))
        with pytest.raises(ValueError, match=r"-inf or NaN at all"):
            temper(proper, density=batched_density(proper, compile_kwargs=PYTHON))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (targets.paper2d, 20),
        (targets.twenty, 19),
        (targets.ten_d, 20),
        (targets.labels, 20),
        (lambda: targets.docs_pair(4), 20),
    ],
)
def test_all_modes_over_twenty_seeds(make, needed):
    target = make()
    model = target.build()
    density = batched_density(model)
    found, z = 0, []
    for seed in range(20):
        points, _, report = temper(model, density=density, rng=np.random.default_rng(seed))
        found += occupancy(target, points).min() >= 20
        z.append((report.log_evidence - target.log_z) / report.log_evidence_error)
    assert found >= needed
    assert np.abs(z).max() < 4
    assert np.sqrt(np.mean(np.square(z))) < 1.5


@pytest.mark.slow
def test_docs_pair_in_eighty_dimensions():
    target = targets.docs_pair(80)
    model = target.build()
    density = batched_density(model)
    for seed in range(3):
        points, _, report = temper(model, density=density, rng=np.random.default_rng(seed))
        assert occupancy(target, points).min() >= 20
        assert abs(report.log_evidence - target.log_z) < 4 * report.log_evidence_error
