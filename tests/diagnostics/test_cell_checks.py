"""Checks of cells and of the bridge: what each looks at, on rigged and on real results."""

import logging

import numpy as np
import pytest
from helpers import make_step, sample
from rigging import RIGGED, always, at, codes, rigged

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._inference_data import close_groups, open_groups
from pymc_spectral.diagnostics import cell_checks
from pymc_spectral.diagnostics.report import find


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


@pytest.mark.parametrize(
    ("source", "explored", "words"),
    [
        ("tempering", 6000, "n_landmarks=5000 may"),
        ("tempering", 4000, 'n_landmarks=5000 with explore_kwargs={"n_points": 5000} may'),
        ("smc", 4000, 'n_landmarks=5000 with explore_kwargs={"n_points": 5000} may'),
        ("array", 4000, '{"n_points": 5000} and as many points in explore= may'),
        (None, 0, "a partition fitted with n_landmarks=5000 may"),
    ],
)
def test_the_hint_about_landmarks_can_be_followed(healthy, source, explored, words, monkeypatch):
    """Landmarks are chosen among explored points, so there must be as many of those."""
    monkeypatch.setattr(cell_checks, "landmarks_of_groups", lambda groups: 5000)
    edits = [*RIGGED["r_hat"][2]]
    if source is not None:
        edits += [("exploration", "@source", source), ("exploration", "@n_points", explored)]
    groups = dict(open_groups(rigged(healthy, edits)))
    if source is None:
        del groups["exploration"]
    (finding,) = (f for f in find(close_groups(groups, like=healthy)) if f.code == "r_hat")
    assert words in finding.advice


def test_many_nans_are_a_warning(healthy):
    assert "nan_logp" in codes(rigged(healthy, [("cells", "n_nan_logp", at(3, 50))]), "warning")


def test_poor_evidence_is_a_warning(healthy):
    poor = rigged(healthy, [("cells", "log_marginal_likelihood_mcse", always(0.8))])
    assert [(f.code, f.cell) for f in find(poor)] == [("weight_error", None)]


def test_an_unknown_error_is_too_large(healthy):
    unknown = rigged(healthy, [("cells", "weight_mcse", at(1, np.nan))])
    assert [(f.code, f.cell) for f in find(unknown) if f.severity == "warning"] == [
        ("weight_error", 1)
    ]


def test_a_chain_that_weighs_its_cell_otherwise_is_found(healthy):
    """One of the two chains of cell 0 says that the cell is e times heavier."""
    edit = ("cell_sample_stats", "log_target_fresh", lambda v: at(4, v[4] + 1.0)(v))
    again = ps.reweight(rigged(healthy, [edit]))
    (finding,) = (f for f in find(again) if f.code == "bridge_disagreement")
    cells = open_groups(again)["cells"]
    assert (finding.severity, finding.cell) == ("warning", 0)
    assert finding.value == cells["discrepancy"].values[0]
    # The variance is enlarged by the square of how much too far the chains are apart.
    assert cells["excess"].values[0] == pytest.approx(finding.value**2)
    assert cells["excess"].values[1:].tolist() == [1.0] * 3
    # Without the edit, weighing again finds nothing.
    assert "bridge_disagreement" not in codes(ps.reweight(healthy))


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


@pytest.mark.parametrize(("asked", "advice"), [("auto", "n_landmarks="), ("4", "more cells")])
def test_advice_can_be_followed(healthy, asked, advice):
    """Where the number of cells was left open, nobody is told to leave it open."""
    edits = [*RIGGED["several_modes"][2], ("partition", "@n_cells_asked", asked)]
    (finding,) = (f for f in find(rigged(healthy, edits)) if f.code == "several_modes")
    assert advice in finding.advice


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


def two_in_one(seed, **options):
    """Ten dimensions, four modes, three cells: one of them holds two modes.

    Neither jumps nor a mixture, which would cross the valley between them.
    """
    target = targets.ten_d()
    model = target.build()
    points = target.sample(np.random.default_rng(10_000 + seed), 2000)
    step = make_step(model, points, n_cells=3, random_seed=seed, jumps=0, proposal="normal")
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
