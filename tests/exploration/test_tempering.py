"""Tempering finds every mode, from wherever it starts, and knows its own errors."""

import inspect
import logging
from dataclasses import FrozenInstanceError, fields
from functools import partial
from itertools import pairwise

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_spectral import targets
from pymc_spectral.density.batched import batched_density
from pymc_spectral.exploration.ladder import Evidence
from pymc_spectral.exploration.tempered_path import prior_sampler
from pymc_spectral.exploration.tempering import (
    TEMPERING_OPTIONS,
    TemperingConfig,
    _has_settled,
    _last_scans,
    temper,
)
from pymc_spectral.exploration.tempering_round import RoundReport

# Python's linker spares minutes of compilation, and these targets are small.
PYTHON = {"mode": Mode(linker="py", optimizer="fast_compile")}


def tempered(model, density, seed=0, n_points=4000, progressbar=False, **knobs):
    """Temper a model with some knobs turned."""
    return temper(
        density,
        TemperingConfig(**knobs),
        prior=partial(prior_sampler, model),
        n_points=n_points,
        rng=np.random.default_rng(seed),
        progressbar=progressbar,
    )


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
    return tempered(model, density, start=start)


def occupancy(target, points):
    return np.bincount(target.classify(points), minlength=target.n_modes)


def test_paper2d_all_modes_from_one(paper, from_one_mode):
    target = paper[0]
    points, logp, report = from_one_mode.points, from_one_mode.logp, from_one_mode.report
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
    report = from_one_mode.report
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
    again = tempered(model, density, start=start)
    np.testing.assert_array_equal(again.points, from_one_mode.points)
    assert again.report.log_evidence == from_one_mode.report.log_evidence
    other = tempered(model, density, start=start, seed=1, n_rounds=2, n_points=50)
    assert other.points.shape == (50, 2)


def test_without_gradients(paper):
    target, model, density = paper
    found = tempered(model, density, gradient=False)
    points, report = found.points, found.report
    assert occupancy(target, points).min() >= 20
    assert abs(report.log_evidence) < 4 * report.log_evidence_error


def test_one_log_line_per_round_and_a_bar(paper, caplog):
    _, model, density = paper
    with caplog.at_level(logging.INFO, logger="pymc_spectral"):
        report = tempered(model, density, n_rounds=3, n_points=40, progressbar=True).report
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
    found = tempered(model, density, seed=0)
    points, report = found.points, found.report
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
    found = tempered(model, density, seed=0)
    points, report = found.points, found.report
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
    found = tempered(model, density, start=np.array([[-4.0, 0.0], [4.0, 0.0]]))
    points, logp, report = found.points, found.logp, found.report
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
        ({"first_scans": 0}, "first_scans must be at least 1"),
        ({"n_rounds": 2.5}, "n_rounds must be at least 1, got 2.5"),
        ({"max_temperatures": 1}, "two ends"),
        ({"start": np.zeros((0, 2))}, r"shape \(d,\) or \(m, d\)"),
        ({"reference": "posterior"}, "reference='posterior' is unknown: use one of auto, prior"),
        ({"start": np.zeros(3)}, r"shape \(d,\) or \(m, d\)"),
    ],
)
def test_bad_options(paper, options, message):
    _, model, density = paper
    with pytest.raises(ValueError, match=message):
        tempered(model, density, **options)


def test_knobs_are_documented_and_cannot_be_turned_later():
    config = TemperingConfig(n_rounds=3)
    with pytest.raises(FrozenInstanceError):
        config.n_rounds = 4
    for knob in fields(TemperingConfig):
        assert f"\n{knob.name} : " in inspect.getdoc(TemperingConfig)
    assert set(TEMPERING_OPTIONS) == {"n_points", *(knob.name for knob in fields(TemperingConfig))}


def round_report(barrier=1.0, evidence=0.0, trips=100, acceptance=0.5, scans=64):
    """Figures of a round on a ladder of three temperatures."""
    return RoundReport(
        betas=np.array([0.0, 0.5, 1.0]),
        scans=scans,
        rejection=np.full(2, barrier / 2),
        acceptance=np.array([1.0, acceptance, acceptance]),
        round_trips=trips,
        evidence=Evidence(evidence, evidence, evidence, 0.01),
        seconds=0.0,
    )


@pytest.mark.parametrize(
    ("change", "settled"),
    [
        ({}, True),
        ({"barrier": 1.3}, True),
        ({"barrier": 1.6}, False),
        ({"evidence": 0.1}, True),
        ({"evidence": 0.3}, False),
        ({"trips": 15}, False),
        ({"acceptance": 0.05}, False),
    ],
)
def test_a_ladder_has_settled_when_two_rounds_agree(change, settled):
    history = [*[round_report()] * 3, round_report(**change)]
    assert _has_settled(history, n_copies=8) is settled
    assert not _has_settled(history[1:], n_copies=8), "three rounds are too few to tell"


def test_the_last_round_is_long_enough_for_arrivals_but_not_without_end():
    # 64 scans for 100 arrivals: 800 take 512.
    assert _last_scans(round_report(trips=100), least=500) == 512
    assert _last_scans(round_report(trips=100), least=600) == 600
    assert _last_scans(round_report(trips=1), least=500) == 1000
    assert _last_scans(round_report(trips=10**6), least=10) == 64


def test_no_start_with_positive_density():
    for term in (lambda x: pt.switch(x > 1e9, 0.0, -np.inf), lambda x: pt.log(-1.0 - x**2)):
        with pm.Model() as flat:
            x = pm.Flat("x")
            pm.Potential("p", term(x))
        with pytest.raises(ValueError, match=r"-inf or NaN at all"):
            tempered(flat, batched_density(flat, compile_kwargs=PYTHON))
        with pm.Model() as proper:
            x = pm.Normal("x")
            pm.Potential("p", term(x))
        with pytest.raises(ValueError, match=r"-inf or NaN at all"):
            tempered(proper, batched_density(proper, compile_kwargs=PYTHON))


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
        found = tempered(model, density, seed=seed)
        points, report = found.points, found.report
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
        found = tempered(model, density, seed=seed)
        points, report = found.points, found.report
        assert occupancy(target, points).min() >= 20
        assert abs(report.log_evidence - target.log_z) < 4 * report.log_evidence_error
