"""Findings: each fires on a rigged case, none of warning severity in health, also from a file."""

import json
import logging
import re
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from helpers import make_step, sample

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._groups import close_groups, open_groups
from pymc_spectral.diagnostics import cell_checks
from pymc_spectral.diagnostics.findings import CODES, Finding
from pymc_spectral.diagnostics.report import find, log_lines
from pymc_spectral.diagnostics.snapshot import occupancies, rule_from

ROOT = Path(__file__).resolve().parents[2]
TARGET = targets.paper2d()


def codes(idata, severity=None) -> set[str]:
    return {f.code for f in find(idata) if severity in (None, f.severity)}


@pytest.fixture(scope="module")
def step():
    with TARGET.build():
        return ps.SpectralPartitionStep(
            random_seed=1, progressbar=False, explore_kwargs={"n_points": 2000}
        )


@pytest.fixture(scope="module")
def healthy(step):
    """Two chains per cell, explored by tempering, so that every check has something to look at."""
    return sample(step.model, step, chains=2 * step.n_cells, draws=500, tune=500)


def rigged(idata, edits):
    """The result with some arrays of some groups changed."""
    groups = dict(open_groups(idata))
    for group, name, change in edits:
        dataset = groups[group].copy(deep=True)
        if name.startswith("@"):
            dataset.attrs[name[1:]] = change
        else:
            values = np.array(dataset[name].values, dtype=float)
            dataset[name] = (dataset[name].dims, np.asarray(change(values)))
        groups[group] = dataset
    return close_groups(groups, like=idata)


def at(index, value):
    """A change that sets some elements."""

    def change(values):
        values[index] = value
        return values

    return change


def always(value):
    """A change that sets a scalar, or everything."""
    return lambda values: np.full_like(values, value)


# Severity, cell and edits that make each finding fire.
RIGGED = {
    "r_hat": ("warning", 1, [("cells", "r_hat", at(1, 1.1))]),
    "ess": ("warning", 2, [("cells", "ess_bulk", at(2, 150.0))]),
    "divergences": ("warning", 0, [("cells", "n_diverging", at(0, 30))]),
    "nan_logp": ("info", 3, [("cells", "n_nan_logp", at(3, 2))]),
    "several_modes": (
        "warning",
        1,
        [("partition", "unvisited", at(1, 0.3)), ("partition", "valley_unvisited", at(1, 7.0))],
    ),
    "unvisited": ("warning", 1, [("partition", "unvisited", at(1, 0.4))]),
    "boundary": ("warning", 0, [("cells", "boundary_hit_rate", at(0, 0.7))]),
    "share_inside": ("warning", 3, [("cells", "share_inside", at(3, 0.03))]),
    "pareto_k": ("warning", 1, [("cells", "pareto_k", at(1, 0.9))]),
    "bridge_disagreement": (
        "warning",
        0,
        # One of the two chains of cell 0 says that the cell is e times heavier.
        [("cell_sample_stats", "log_target_fresh", lambda v: at(4, v[4] + 1.0)(v))],
    ),
    "bridge_not_converged": ("warning", 2, [("cells", "bridge_converged", at(2, 0))]),
    "weight_error": ("warning", 1, [("cells", "weight_mcse", at(1, 0.06))]),
    "occupancy": ("warning", 0, [("exploration", "occupancy", at(0, 0.2))]),
    "evidence": ("warning", None, [("exploration", "log_evidence", always(1.5))]),
    "round_trips": ("warning", None, [("exploration", "round_trips", always(0))]),
    "not_settled": ("info", None, [("exploration", "@settled", 0)]),
    "local_moves": ("warning", None, [("exploration", "acceptance", at(2, 0.02))]),
    "one_temperature": (
        "warning",
        1,
        [("exploration", "temperature_occupancy", at((slice(0, -1), 1), 0.0))],
    ),
    "rarely_seen": ("warning", 0, [("exploration", "stretches_seen", at(0, 1))]),
    "wandering": ("warning", 2, [("partition", "wandering", at(2, 0.4))]),
    "few_landmarks": ("warning", 3, [("partition", "n_landmarks", at(3, 3))]),
    "few_points": ("info", None, "few points"),
    "too_few_cells": ("warning", None, [("partition", "prominences", at(3, 5.0))]),
    "too_many_cells": ("info", None, [("partition", "prominences", at(2, 0.0))]),
    "one_cell": ("info", None, "one cell"),
}


def test_health_is_silent(healthy):
    table = ps.diagnose(healthy)
    assert not (table["severity"] == "warning").any(), table.to_string()


def test_every_code_is_rigged():
    assert set(RIGGED) == set(CODES)


@pytest.mark.parametrize("code", [c for c, (_, _, e) in RIGGED.items() if not isinstance(e, str)])
def test_rigged_case_is_found_and_nothing_else(healthy, code):
    severity, cell, edits = RIGGED[code]
    before = {(f.code, f.cell) for f in find(healthy)}
    result = [f for f in find(rigged(healthy, edits)) if (f.code, f.cell) not in before]
    assert [f.code for f in result] == [code]
    finding = result[0]
    assert finding.severity == severity
    assert finding.cell == cell
    assert np.isfinite(finding.value)
    assert finding.message.endswith(".") and finding.advice.endswith(".")
    if cell is not None:
        assert f"ell {cell}" in finding.message


@pytest.mark.parametrize("code", ["r_hat", "ess"])
def test_cells_that_mix_badly_get_a_hint_about_landmarks(healthy, code, monkeypatch):
    """The paper's heuristic is a hint where it asks for far more landmarks than there were."""
    wanted = ps.recommended_landmarks(healthy)
    used = open_groups(healthy)["partition"].sizes["landmark"]
    assert wanted >= 4 * used, "a mode of weight 0.02 asks for many"
    (finding,) = (f for f in find(rigged(healthy, RIGGED[code][2])) if f.code == code)
    assert f"n_landmarks={wanted}" in finding.advice
    monkeypatch.setattr(cell_checks, "landmarks_of_groups", lambda groups: 3 * used)
    (finding,) = (f for f in find(rigged(healthy, RIGGED[code][2])) if f.code == code)
    assert "n_landmarks" not in finding.advice


def test_milder_cases_are_information(healthy):
    mild = rigged(
        healthy,
        [
            ("cells", "boundary_hit_rate", at(0, 0.3)),
            ("cells", "share_inside", at(1, 0.3)),
            ("cells", "n_diverging", at(2, 1)),
            ("partition", "n_landmarks", at(2, 10)),
            ("partition", "prominences", at(3, 1.0)),
            ("exploration", "stretches_seen", at(3, 1)),
        ],
    )
    wanted = {"boundary", "share_inside", "divergences"}
    wanted |= {"few_landmarks", "too_few_cells", "rarely_seen"}
    assert wanted <= codes(mild, "info")
    assert not codes(mild, "warning")


def test_many_nans_are_a_warning(healthy):
    assert "nan_logp" in codes(rigged(healthy, [("cells", "n_nan_logp", at(3, 50))]), "warning")


def test_poor_evidence_is_a_warning(healthy):
    poor = rigged(healthy, [("cells", "log_marginal_likelihood_mcse", always(0.8))])
    assert [(f.code, f.cell) for f in find(poor)] == [("weight_error", None)]


def test_evidence_says_on_which_side_it_is(healthy):
    total = float(open_groups(healthy)["cells"]["log_marginal_likelihood"])
    for shift, word in ((1.0, "missing from the cells"), (-1.0, "Tempering has not converged")):
        moved = rigged(healthy, [("exploration", "log_evidence", always(total + shift))])
        (finding,) = (f for f in find(moved) if f.code == "evidence")
        assert word in finding.advice
        assert finding.value == pytest.approx(-shift)


def test_chains_in_different_places_need_no_record(healthy):
    """Without the groups of the step, draws alone show chains that do not meet."""
    groups = dict(open_groups(healthy))
    del groups["partition"], groups["exploration"]
    bare = close_groups(groups, like=healthy)
    assert not codes(bare, "warning")
    apart = rigged(bare, [("cell_posterior", "x", lambda v: at(4, v[4] + 10.0)(v))])
    found = find(ps.reweight(apart))
    assert ("several_modes", 0) in {(f.code, f.cell) for f in found}
    assert ("r_hat", 0) in {(f.code, f.cell) for f in found}


# ---------------------------------------------------------------- real cases


def test_boundary_through_a_mode(caplog):
    """Hits of the boundary are not divergences, and PyMC does not ask for target_accept."""
    target = targets.normal(2)
    model = target.build()
    step = make_step(model, target.sample(np.random.default_rng(0), 1000), n_cells=3)
    with caplog.at_level(logging.INFO, logger="pymc"):
        idata = sample(model, step, compute_convergence_checks=True)
    assert {"boundary", "too_many_cells"} <= codes(idata)
    assert "divergences" not in codes(idata)
    assert "met its boundary" in caplog.text
    assert "Increase `target_accept`" not in caplog.text


def test_few_points_and_one_cell():
    target = targets.normal(3)
    model = target.build()
    step = make_step(model, target.sample(np.random.default_rng(0), 60))
    idata = sample(model, step)
    severities = {f.code: f.severity for f in find(idata)}
    assert severities["few_points"] == "info"
    assert severities["one_cell"] == "info"
    fewer = rigged(idata, [])
    groups = dict(open_groups(fewer))
    groups["partition"] = groups["partition"].isel(landmark=slice(0, 20))
    assert "few_points" in codes(close_groups(groups, like=fewer), "warning")


def two_in_one(seed, **options):
    """Ten dimensions, four modes, three cells: one of them holds two modes."""
    target = targets.ten_d()
    model = target.build()
    points = target.sample(np.random.default_rng(10_000 + seed), 2000)
    step = make_step(model, points, n_cells=3, random_seed=seed)
    return step, sample(model, step, chains=6, random_seed=seed, **options)


def test_cell_with_two_modes():
    step, idata = two_in_one(0, draws=100, tune=200)
    assert {"several_modes", "too_few_cells"} <= codes(idata, "warning")
    assert {f.cell for f in find(idata) if f.code == "several_modes"} == {0}
    # One chain per cell, stuck in one of the two modes: r_hat is fine, the explored points tell.
    single = sample(step.model, step, draws=100, tune=200)
    assert open_groups(single)["cells"]["r_hat"].values[0] < 1.1
    assert {f.cell for f in find(single) if f.code == "several_modes"} == {0}


@pytest.mark.slow
def test_cell_with_two_modes_on_many_seeds():
    flagged = [
        "several_modes" in codes(two_in_one(seed, draws=300, tune=300)[1], "warning")
        for seed in range(20)
    ]
    assert sum(flagged) >= 19


def test_missed_half_of_a_pair_is_not_seen_from_inside():
    """What limits.md says: a chain does not know of a mode far away."""
    target = targets.docs_pair(10)
    points = target.sample(np.random.default_rng(0), 2000)
    points = points[target.classify(points) == 1]
    model = target.build()
    idata = sample(model, make_step(model, points))
    assert not codes(idata, "warning")
    # The evidence lacks the mode, and nothing of this result could say so.
    gap = float(open_groups(idata)["cells"]["log_marginal_likelihood"]) - target.log_z
    assert gap == pytest.approx(np.log(0.9), abs=0.05)


MISSED_SEEDS = 5


@pytest.mark.slow
def test_missed_mode_of_paper2d_is_sometimes_seen():
    """What limits.md says: where mass is missing, chains that go beyond the points may show it."""
    wrong, flagged = 0, 0
    for seed in range(MISSED_SEEDS):
        for omitted in range(4):
            points = TARGET.sample(np.random.default_rng(seed), 4000)
            points = points[TARGET.classify(points) != omitted]
            model = TARGET.build()
            step = make_step(model, points, random_seed=seed)
            idata = sample(model, step, draws=500, tune=500, random_seed=seed)
            total = float(open_groups(idata)["cells"]["log_marginal_likelihood"])
            if abs(total - TARGET.log_z) > 0.1:
                wrong += 1
                flagged += bool(codes(idata, "warning"))
    assert 1 <= flagged <= wrong


def test_chains_beyond_the_explored_points():
    """A mode explored in its one half only: the chain goes on into the other."""
    target = targets.normal(2)
    points = target.sample(np.random.default_rng(0), 4000)
    points = points[(points[:, 1] < np.quantile(points[:, 1], 0.2))]
    model = target.build()
    idata = sample(model, make_step(model, points))
    assert "wandering" in codes(idata, "warning")


HEALTHY = {
    "paper2d": (targets.paper2d, {"n_cells": 4}),
    "labels": (targets.labels, {}),
    "normal": (lambda: targets.normal(10), {}),
}


def healthy_run(name, seed, exact_points):
    make, options = HEALTHY[name]
    target = make()
    model = target.build()
    points = None
    if exact_points:
        points = target.sample(np.random.default_rng(10_000 + seed), 4000)
    else:
        options = {}
    step = make_step(model, points, random_seed=seed, **options)
    return model, sample(model, step, draws=1000, tune=1000, random_seed=seed)


def check_silence(name, seed, exact_points=True):
    from pymc.stats.convergence import run_convergence_checks

    model, idata = healthy_run(name, seed, exact_points)
    assert not codes(idata, "warning"), ps.diagnose(idata).to_string()
    said = [w.message for w in run_convergence_checks(idata, model)]
    harmless = ("Only one chain", "We recommend running at least 4 chains")
    assert not [m for m in said if not m.startswith(harmless)]


@pytest.mark.parametrize("name", ["paper2d", "normal"])
def test_no_warning_in_health(name):
    check_silence(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", HEALTHY)
def test_no_warning_in_health_on_many_seeds(name, seed):
    check_silence(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 320))
@pytest.mark.parametrize("name", HEALTHY)
def test_no_warning_in_health_from_exploring_to_weights(name, seed):
    """With the default explorer, whose second opinion on weights and evidence is asked too."""
    check_silence(name, seed, exact_points=False)


# ---------------------------------------------------------------- what is kept and said


def test_table(healthy):
    sick = rigged(healthy, [("cells", "r_hat", at(1, 1.1)), ("exploration", "@settled", 0)])
    table = ps.diagnose(sick)
    assert list(table.columns) == ["code", "severity", "cell", "value", "message", "advice"]
    assert table["severity"].tolist() == ["warning", "info"]
    assert table["cell"].isna().tolist() == [False, True]
    empty = ps.diagnose(rigged(healthy, []))
    assert list(empty.columns) == list(table.columns)


def test_same_from_a_file(healthy, tmp_path):
    sick = rigged(
        healthy,
        [
            *RIGGED["bridge_disagreement"][2],
            *RIGGED["several_modes"][2],
            *RIGGED["occupancy"][2],
            *RIGGED["too_few_cells"][2],
        ],
    )
    path = str(tmp_path / "run.nc")
    sick.to_netcdf(path)
    loaded = az.from_netcdf(path)
    assert len(ps.diagnose(sick)) >= 4
    pd.testing.assert_frame_equal(ps.diagnose(sick), ps.diagnose(loaded))
    one = open_groups(healthy)["partition"]
    again = open_groups(loaded)["partition"]
    points = TARGET.sample(np.random.default_rng(0), 500)
    np.testing.assert_array_equal(rule_from(one).predict(points), rule_from(again).predict(points))
    if hasattr(loaded, "close"):
        loaded.close()


def test_findings_are_kept_in_the_result(healthy):
    kept = json.loads(open_groups(healthy)["cells"].attrs["findings"])
    assert [Finding(**f) for f in kept] == find(healthy)


def test_findings_are_logged_once(step, caplog):
    sick = dict(draws=50, tune=50, compute_convergence_checks=True)
    with caplog.at_level(logging.INFO, logger="pymc"):
        idata = sample(step.model, step, **sick)
    lines = [r for r in caplog.records if r.name == "pymc.pymc_spectral"]
    assert len(lines) == len({(f.code, f.severity, f.advice) for f in find(idata)})
    assert [r.levelname for r in lines if "[ess]" in r.getMessage()] == ["WARNING"]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="pymc"):
        sample(step.model, step, **{**sick, "compute_convergence_checks": False})
    assert not [r for r in caplog.records if r.name == "pymc.pymc_spectral"]


def test_cells_with_the_same_finding_share_a_line():
    same = [Finding("ess", "warning", k, 50.0, f"Cell {k}: few.", "Do more.") for k in range(3)]
    other = Finding("one_cell", "info", None, 1.0, "One mode.", "Fine.")
    assert log_lines([*same, other]) == [
        (logging.WARNING, "Cell 0: few. Likewise cells 1, 2. Do more. [ess]"),
        (logging.INFO, "One mode. Fine. [one_cell]"),
    ]


def test_a_check_that_fails_does_not_lose_the_run(step, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr("pymc_spectral.step.record", broken)
    with caplog.at_level(logging.INFO, logger="pymc"):
        idata = sample(step.model, step, draws=50, tune=50)
    assert "could not be checked" in caplog.text
    assert open_groups(idata)["cells"]["weight"].sum() == pytest.approx(1)


def test_reweighting_again_keeps_what_was_recorded(healthy):
    again = ps.reweight(healthy, bridge="geometric")
    assert {"partition", "exploration"} <= set(open_groups(again))
    assert not codes(again, "warning")


# ---------------------------------------------------------------- what is recorded


def test_record_of_the_partition(healthy, step):
    partition = open_groups(healthy)["partition"]
    np.testing.assert_array_equal(partition["landmarks"], step.partition.landmarks_)
    np.testing.assert_array_equal(partition["label"], step.partition.labels_)
    np.testing.assert_array_equal(partition["eigenvalues"], step.partition.eigenvalues_)
    np.testing.assert_array_equal(
        step.partition.predict(partition["start"].values), np.arange(step.n_cells)
    )
    assert partition["dim"].values.tolist() == ["x[0]", "x[1]"]
    draws, cell = partition["draws"].values, partition["draw_cell"].values
    assert 1000 <= len(draws) <= 2000
    np.testing.assert_array_equal(rule_from(partition).predict(draws), cell)


def test_record_of_the_exploration(healthy, step):
    exploration = open_groups(healthy)["exploration"]
    report = step.exploration.tempering
    assert exploration.attrs["source"] == "tempering"
    np.testing.assert_array_equal(exploration["betas"], report.betas)
    assert exploration["occupancy"].values.sum() == pytest.approx(1)
    assert exploration.sizes["round"] == len(report.rounds)
    assert int(exploration["round_trips"]) == report.round_trips


@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
def test_rules_are_rebuilt(extension):
    points = TARGET.sample(np.random.default_rng(0), 600)
    fitted = ps.SpectralPartition(4, extension=extension, n_landmarks=200, random_state=0)
    fitted.fit(points)
    check_rule(fitted, points)


def test_kmeans_rule_is_rebuilt():
    points = TARGET.sample(np.random.default_rng(0), 600)
    check_rule(ps.KMeansPartition(4, random_state=0).fit(points), points)


def check_rule(fitted, points):
    import xarray as xr

    from pymc_spectral.diagnostics.snapshot import _rule_arrays

    rule = fitted.rule_
    stored = xr.Dataset(_rule_arrays(rule), attrs={"rule": type(rule).__name__})
    np.testing.assert_array_equal(rule_from(stored).predict(points), fitted.predict(points))


def test_transformed_and_missing_variables():
    """Draws go back to the unconstrained scale; where a variable was not kept, nothing fails."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", x**2, 0.2 + scale, observed=[4.0, 3.5, 4.5])
    with model:
        step = ps.SpectralPartitionStep(
            random_seed=1, progressbar=False, explore_kwargs={"n_points": 500, "n_rounds": 5}
        )
    idata = sample(model, step, draws=100)
    partition = open_groups(idata)["partition"]
    assert partition["dim"].values.tolist() == ["x", "scale_log__"]
    draws = open_groups(idata)["cell_posterior"]
    np.testing.assert_allclose(
        np.sort(partition["draws"].values[:, 1]), np.sort(np.log(draws["scale"].values.ravel()))
    )
    part = sample(model, step, draws=50, var_names=["x"])
    assert "draws" not in open_groups(part)["partition"]
    ps.diagnose(part)


def test_occupancy_error_covers_round_trips_that_last_unequally_long():
    """Each trip brings the chain to a cell for a random time: 400 are worth 200 draws."""
    rng = np.random.default_rng(1)
    shares, errors = [], []
    for _ in range(300):
        time = rng.exponential(10, 400).astype(int) + 1
        cell = np.repeat((rng.random(400) < 1 / 6).astype(int), time)
        # As explorers see it: points from all over, so that stretches look alike.
        occupancy, error, _ = occupancies(rng.permutation(cell), 2, 400)
        shares.append(occupancy[1])
        errors.append(error[1])
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.15)


def test_occupancy_error_covers_slow_visits():
    """Twenty independent stretches of one cell each: the error is that of twenty draws."""
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(300):
        cell = np.repeat(rng.random(20) < 0.3, 50).astype(int)
        occupancy, error, _ = occupancies(cell, 2, None)
        shares.append(occupancy[1])
        errors.append(error[1])
    # The sd of 300 shares is known to 4 %.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(shares), rel=0.15)
    # With few round trips, however smooth the points look.
    smooth = np.arange(1000) % 2
    assert occupancies(smooth, 2, 25)[1][0] == pytest.approx(np.sqrt(0.25 / 12.5), rel=0.01)
    assert occupancies(np.zeros(100, dtype=int), 2, 100)[2].tolist() == [20, 0]


# ---------------------------------------------------------------- the page


def test_every_finding_is_explained_on_its_page():
    text = (ROOT / "docs" / "diagnostics.md").read_text()
    explained = re.findall(r"^### `(\w+)`", text, re.M)
    assert sorted(explained) == sorted(CODES)
    assert len(explained) == len(set(explained))
