"""Limits: one table, all of it used, its sources true."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rigging import RIGGED, at, rigged

from pymc_spectral._inference_data import close_groups, open_groups
from pymc_spectral.diagnostics import thresholds
from pymc_spectral.diagnostics.findings import CODES
from pymc_spectral.diagnostics.report import find
from pymc_spectral.diagnostics.thresholds import THRESHOLDS, Threshold, wanted_landmarks

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("side", "values", "severities"),
    [
        ("above", [1.0, 1.5, 2.0, 2.5], [None, "info", "info", "warning"]),
        ("below", [2.0, 1.5, 1.0, 0.5], [None, "info", "info", "warning"]),
        ("at most", [2.5, 2.0, 1.5, 1.0], [None, "info", "info", "warning"]),
    ],
)
def test_a_limit_is_exceeded_on_its_side(side, values, severities):
    info, warning = (1.0, 2.0) if side == "above" else (2.0, 1.0)
    threshold = Threshold("ess", "", "", info=info, warning=warning, side=side)
    assert [threshold.severity(v) for v in values] == severities
    assert [threshold.severity(10 * v, scale=10) for v in values] == severities
    assert [threshold.exceeded(v) for v in values] == [s is not None for s in severities]


def test_nothing_is_beyond_a_limit_that_is_not_known():
    threshold = Threshold("ess", "", "", info=1.0, warning=2.0)
    assert threshold.severity(np.nan) is None
    assert threshold.severity(5.0, scale=np.nan) is None


def test_more_cells_or_dimensions_want_more_landmarks():
    assert wanted_landmarks(1, 1) == 100
    assert wanted_landmarks(10, 1) == 250
    assert wanted_landmarks(1, 100) == 500
    assert wanted_landmarks(100, 100) == 1000


def test_every_limit_belongs_to_a_code_and_has_a_source():
    for name, threshold in THRESHOLDS.items():
        assert threshold.code in CODES
        assert name.partition(".")[0] == threshold.code
        assert threshold.source
        assert (threshold.info, threshold.warning) != (None, None)


def unreachable(threshold):
    """The same threshold, with limits that nothing is beyond."""
    never = np.inf if threshold.side == "above" else -np.inf
    info, warning = (None if v is None else never for v in (threshold.info, threshold.warning))
    return replace(threshold, info=info, warning=warning)


def chains_apart(healthy):
    """One chain of a cell in another place, and no record of what exploration saw."""
    groups = dict(open_groups(healthy))
    del groups["partition"], groups["exploration"]
    edits = [
        ("cell_posterior", "x", lambda v: at(4, v[4] + 10.0)(v)),
        ("cells", "r_hat", at(0, 3.0)),
    ]
    return rigged(close_groups(groups, like=healthy), edits)


def few_points(healthy):
    groups = dict(open_groups(healthy))
    groups["partition"] = groups["partition"].isel(landmark=slice(0, 20))
    return close_groups(groups, like=healthy)


def poor_evidence(healthy):
    mcse = ("cells", "log_marginal_likelihood_mcse", lambda v: np.full_like(v, 0.8))
    return rigged(healthy, [mcse])


# Where the rigged case of the code does not show a limit.
CASES = {
    "several_modes.apart": chains_apart,
    "few_points": few_points,
    "weight_error.evidence": poor_evidence,
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_every_limit_is_used_by_a_check(healthy, name, monkeypatch):
    """Out of reach, it changes what is found."""
    code = THRESHOLDS[name].code
    case = CASES[name](healthy) if name in CASES else rigged(healthy, RIGGED[code][2])
    before = [f for f in find(case) if f.code == code]
    assert before
    monkeypatch.setitem(thresholds.THRESHOLDS, name, unreachable(THRESHOLDS[name]))
    assert [f for f in find(case) if f.code == code] != before


def test_runs_that_sources_count_are_those_of_the_benchmark():
    """No warning in health, and every cell of two modes seen, on both series of PyMC."""
    files = sorted((ROOT / "benchmarks" / "results").glob("limits_pymc*.json"))
    reports = [json.loads(file.read_text())["report"] for file in files]
    assert len(reports) == 2
    assert not sum(r["healthy"]["with_warnings"] for r in reports)
    runs = sum(r["healthy"]["runs"] for r in reports)
    assert f"{runs} healthy runs" in thresholds.HEALTHY
    seen, runs = (sum(r["two_modes"][k] for r in reports) for k in ("several_modes", "runs"))
    assert f"{seen} of {runs} runs" in thresholds.TWO_MODES
