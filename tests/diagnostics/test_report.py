"""What is kept and said: one table, one line per kind, the same from a file."""

import json
import logging

import arviz as az
import numpy as np
import pandas as pd
import pytest
from helpers import sample
from rigging import RIGGED, at, codes, rigged

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.findings import Finding
from pymc_spectral.diagnostics.learned_groups import rule_from
from pymc_spectral.diagnostics.report import find, log_lines

TARGET = targets.paper2d()


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
    # A line for each severity: of cells that tempering stands in for, it is information.
    levels = [r.levelname for r in lines if "[ess]" in r.getMessage()]
    assert "WARNING" in levels and len(levels) == len(set(levels))
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

    monkeypatch.setattr("pymc_spectral.step.partition_group", broken)
    with caplog.at_level(logging.INFO, logger="pymc"):
        idata = sample(step.model, step, draws=50, tune=50)
    assert "could not be checked" in caplog.text
    assert open_groups(idata)["cells"]["weight"].sum() == pytest.approx(1)


def test_reweighting_again_keeps_what_was_recorded(healthy):
    again = ps.reweight(healthy, bridge="geometric")
    assert {"partition", "exploration"} <= set(open_groups(again))
    assert not codes(again, "warning")
