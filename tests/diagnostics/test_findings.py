"""Findings: each fires on a rigged case, none of warning severity in health."""

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import make_step, sample
from rigging import RIGGED, at, codes, followed_by, rigged

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.findings import CODES, KINDS
from pymc_spectral.diagnostics.report import find
from pymc_spectral.diagnostics.thresholds import THRESHOLDS

ROOT = Path(__file__).resolve().parents[2]


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


def test_milder_cases_are_information(healthy):
    mild = rigged(
        healthy,
        [
            ("cells", "boundary_hit_rate", at(0, 0.3)),
            ("cells", "share_inside", at(1, 0.3)),
            ("cells", "n_diverging", at(2, 1)),
            ("partition", "n_landmarks", at(2, 10)),
            ("partition", "prominences", followed_by(1.0)),
            ("exploration", "stretches_seen", at(3, 1)),
        ],
    )
    wanted = {"boundary", "share_inside", "divergences"}
    wanted |= {"few_landmarks", "too_few_cells", "rarely_seen"}
    assert wanted <= codes(mild, "info")
    assert not codes(mild, "warning")


def test_figures_are_in_the_result_and_have_limits(healthy):
    """A kind that is a figure of each cell names a variable that results have."""
    groups = open_groups(healthy)
    figures = {code: kind for code, kind in KINDS.items() if kind.figure}
    assert len(figures) >= 10
    for code, kind in figures.items():
        group, _, variable = kind.figure.partition(".")
        assert groups[group][variable].dims == ("cell",)
        assert all(name in groups["cells"] for name in (kind.per, kind.reports) if name)
        assert code in THRESHOLDS


def test_variants_belong_to_a_code():
    assert {code.partition(":")[0] for code in KINDS} == set(CODES)


# ---------------------------------------------------------------- real cases, in health


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


# ---------------------------------------------------------------- the page


def test_every_finding_is_explained_on_its_page():
    text = (ROOT / "docs" / "diagnostics.md").read_text()
    explained = re.findall(r"^### `(\w+)`", text, re.M)
    assert sorted(explained) == sorted(CODES)
    assert len(explained) == len(set(explained))
