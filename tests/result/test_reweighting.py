"""From chains in single cells to equal-weight draws: rows, groups, files, and honest errors."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from helpers import container, rms
from synthetic import Cells, dataset

from pymc_spectral._inference_data import LEGACY, columns_of, hdi_names, open_groups
from pymc_spectral.bridge.estimate import BridgeError
from pymc_spectral.bridge.weights import BRIDGE_STATS, weigh
from pymc_spectral.result.means import stratified_mean
from pymc_spectral.result.reweighting import reweight
from pymc_spectral.result.tables import cell_summary, summary

FOUR = Cells(log_z=-1234.5)
WEIGHT, CENTER, LOG_Z = FOUR.weight, FOUR.center, FOUR.log_z


def load(path):
    """Read a file into memory as the installed ArviZ does."""
    idata = az.from_netcdf(path)
    return idata.load()


def synthetic(rng, cells=FOUR, **kwargs):
    """Return raw chains of cells with known weights, as pm.sample would hand them over."""
    made = cells.chains(rng, **kwargs)
    shape = made.fits.shape
    stats = made.stats(
        boundary_hit=rng.random(shape) < 0.25,
        nan_logp=np.zeros(shape, dtype=int),
        diverging=np.zeros(shape, dtype=bool),
        lp=made.terms[0].copy(),
    )
    posterior = dataset({"x": made.x[..., 0]}).assign_attrs(sampling_time=1.5)
    return container({"posterior": posterior, "sample_stats": stats.assign_attrs(a=1)})


def truth(cells=FOUR, **_):
    """Return the exact mean and standard deviation of x in :func:`synthetic`."""
    return cells.mean()[0], cells.sd()[0]


def rich(rng, **kwargs):
    """Return raw chains with every kind of group and variable that PyMC may hand over."""
    groups = dict(open_groups(synthetic(rng, **kwargs)))
    posterior, stats = groups["posterior"], groups["sample_stats"]
    x = posterior["x"].values
    dims = ("chain", "draw")
    groups["posterior"] = posterior.assign(
        theta=((*dims, "city"), np.stack([x, 2 * x], axis=-1).astype("float32")),
        label=(dims, np.round(x).astype("int64")),
        fixed=(dims, np.ones_like(x)),
    ).assign_coords(city=["Rome", "Oslo"])
    groups["sample_stats"] = stats.assign(warning=(dims, np.full(x.shape, None, dtype=object)))
    coords = {"chain": posterior["chain"], "draw": posterior["draw"]}
    groups["log_likelihood"] = xr.Dataset({"y": ((*dims, "obs"), x[..., None] * [1, 10])}, coords)
    groups["warmup_posterior"] = posterior.isel(draw=slice(0, 7))
    groups["prior"] = posterior.copy(deep=True)
    groups["observed_data"] = xr.Dataset({"y": ("obs", [1.0, 2.0])})
    return container(groups)


@pytest.fixture(scope="module")
def raw():
    return rich(np.random.default_rng(1), chains_per_cell=2, phi=0.3)


@pytest.fixture(scope="module")
def result(raw):
    return reweight(raw)


def test_weights_and_evidence_are_right(result):
    cells = open_groups(result)["cells"]
    z = (cells["weight"].values - WEIGHT) / cells["weight_mcse"].values
    assert np.abs(z).max() < 4
    assert abs(cells["log_marginal_likelihood"] - LOG_Z) < 4 * cells["log_marginal_likelihood_mcse"]
    log_c = cells["log_evidence"].values
    assert np.abs((log_c - LOG_Z - np.log(WEIGHT)) / cells["log_evidence_mcse"].values).max() < 4
    assert cells["weight"].sum() == pytest.approx(1.0)


def test_cells_hold_every_diagnostic(result):
    cells = open_groups(result)["cells"]
    assert cells["cell"].values.tolist() == [0, 1, 2, 3]
    assert cells["n_chains"].values.tolist() == [2] * 4
    assert cells["n_draws"].values.tolist() == [1000] * 4
    assert (cells["r_hat"] < 1.02).all()
    assert (cells["ess_bulk"] > 200).all()
    np.testing.assert_allclose(cells["boundary_hit_rate"], 0.25, atol=4 * np.sqrt(0.19 / 1000))
    np.testing.assert_array_equal(cells["n_diverging"], 0)
    np.testing.assert_array_equal(cells["share_inside"], 1.0)
    assert cells["bridge_converged"].all()
    assert cells.attrs["bridge"] == "optimal"
    assert cells.attrs["random_seed"] == 0
    names = {"pareto_k", "bridge_ess", "discrepancy", "n_nan_logp", "weight_cov"}
    assert names <= set(cells.data_vars)


def test_the_posterior_looks_as_before(raw, result):
    before, after = (open_groups(i)["posterior"] for i in (raw, result))
    assert list(before.data_vars) == list(after.data_vars)
    for name in before.data_vars:
        assert before[name].dims == after[name].dims
        assert before[name].dtype == after[name].dtype
    assert all(before[c].equals(after[c]) for c in before.coords)
    assert after.attrs == before.attrs


def test_rows_are_whole_draws_with_their_stats_and_likelihoods(result):
    groups = open_groups(result)
    stats = groups["sample_stats"]
    source = stats["source_chain"].values, stats["source_draw"].values
    for name in ("x", "theta", "label"):
        expected = groups["cell_posterior"][name].values[source]
        np.testing.assert_array_equal(groups["posterior"][name].values, expected)
    for name in ("cell", "lp", "diverging", "boundary_hit"):
        expected = groups["cell_sample_stats"][name].values[source]
        np.testing.assert_array_equal(stats[name].values, expected)
    x = groups["posterior"]["x"].values
    np.testing.assert_array_equal(groups["log_likelihood"]["y"].values[..., 1], 10 * x)
    assert not set(BRIDGE_STATS) & set(stats.data_vars)
    assert set(BRIDGE_STATS) <= set(groups["cell_sample_stats"].data_vars)


def test_other_groups_are_kept(raw, result):
    before, after = open_groups(raw), open_groups(result)
    for name in ("warmup_posterior", "prior", "observed_data"):
        assert before[name].identical(after[name])
    assert after["cell_posterior"].identical(before["posterior"])


def test_the_input_is_not_changed():
    raw = rich(np.random.default_rng(2))
    before = {name: group.copy(deep=True) for name, group in open_groups(raw).items()}
    reweight(raw)
    after = open_groups(raw)
    assert list(before) == list(after)
    assert all(before[name].identical(after[name]) for name in before)


def assert_same_result(a, b):
    """Check that two results agree to the last bit in every number."""
    a, b = open_groups(a), open_groups(b)
    assert set(a) == set(b)
    for name in a:
        assert set(a[name].variables) == set(b[name].variables)
        for variable in a[name].variables:
            np.testing.assert_array_equal(a[name][variable].values, b[name][variable].values)


def test_reweighting_again_gives_the_same(raw, result):
    assert_same_result(reweight(raw), result)
    assert_same_result(reweight(result), result)


@pytest.mark.parametrize("bridge", ["optimal", "geometric"])
def test_a_file_gives_the_same_weights_and_rows(raw, bridge, tmp_path):
    result = reweight(raw, bridge=bridge, random_seed=5)
    path = tmp_path / "result.nc"
    result.to_netcdf(path)
    again = reweight(load(path))
    assert open_groups(again)["cells"].attrs["bridge"] == bridge
    assert_same_result(again, result)


def test_a_raw_file_can_be_weighed(raw, result, tmp_path):
    groups = open_groups(raw)
    groups["sample_stats"] = groups["sample_stats"].drop_vars("warning")
    path = tmp_path / "raw.nc"
    container(groups).to_netcdf(path)
    assert_same_result(reweight(load(path)), result)


def test_the_seed_changes_the_order_only(raw, result):
    other = open_groups(reweight(raw, random_seed=1))
    same = open_groups(result)
    assert not np.array_equal(other["posterior"]["x"], same["posterior"]["x"])
    np.testing.assert_array_equal(
        np.sort(other["posterior"]["x"].values.ravel()),
        np.sort(same["posterior"]["x"].values.ravel()),
    )
    assert other["cells"].drop_attrs().identical(same["cells"].drop_attrs())


def test_groups_of_old_rows_follow_or_go(result, caplog):
    groups = dict(open_groups(result))
    x = groups["posterior"]["x"]
    groups["posterior_predictive"] = xr.Dataset({"y": 10 * x})
    kept = open_groups(reweight(container(groups)))
    assert kept["posterior_predictive"].identical(groups["posterior_predictive"])
    # Another order of the same draws: the group is carried along.
    moved = open_groups(reweight(container(groups), random_seed=9))
    np.testing.assert_array_equal(moved["posterior_predictive"]["y"], 10 * moved["posterior"]["x"])
    # Weights that call for other draws: values for them do not exist.
    stats = groups["cell_sample_stats"].copy(deep=True)
    stats["log_target_fresh"][1] += 3.0
    stats["log_target_draw"][1] += 3.0
    stats["log_target_fresh"][5] += 3.0
    stats["log_target_draw"][5] += 3.0
    dropped = open_groups(reweight(container(groups | {"cell_sample_stats": stats})))
    assert "posterior_predictive" not in dropped
    assert "posterior_predictive belongs to rows" in caplog.text


def drop(idata, *names):
    """Return chains without some stats."""
    groups = dict(open_groups(idata))
    groups["sample_stats"] = groups["sample_stats"].drop_vars(list(names))
    return container(groups)


def with_stat(idata, name, change):
    """Return chains with one stat altered in place by `change`."""
    groups = dict(open_groups(idata))
    stats = groups["sample_stats"].copy(deep=True)
    change(stats[name].values)
    groups["sample_stats"] = stats
    return container(groups)


def test_optional_stats_may_be_missing(raw, result):
    less = reweight(drop(raw, "boundary_hit", "nan_logp", "diverging", "lp", "warning"))
    assert_array = np.testing.assert_array_equal
    assert_array(open_groups(less)["cells"]["weight"], open_groups(result)["cells"]["weight"])


def test_draws_that_cannot_be_weighed_are_refused(raw):
    with pytest.raises(ValueError, match=r"lacks cell, log_proposal_fresh.*SpectralPartitionStep"):
        reweight(drop(raw, "cell", "log_proposal_fresh"))
    with pytest.raises(ValueError, match="no group sample_stats"):
        reweight(container({"posterior": open_groups(raw)["posterior"]}))
    with pytest.raises(TypeError, match="got dict"):
        reweight({})
    with pytest.raises(ValueError, match=r"of 6; \[4, 5\] have no draws.*chains=6"):
        reweight(raw, n_cells=6)
    with pytest.raises(ValueError, match="bridge='nice'"):
        reweight(raw, bridge="nice")


def test_an_unknown_mass_is_an_error_that_keeps_the_draws(raw):
    def outside(term):
        term[[2, 6]] = -np.inf

    broken = with_stat(raw, "log_target_fresh", outside)
    with pytest.raises(BridgeError, match="cell 2: 0 of 1000") as caught:
        reweight(broken)
    assert caught.value.idata is broken


def test_few_draws_are_no_crash():
    for draws in (1, 2, 3, 5, 9):
        result = reweight(synthetic(np.random.default_rng(3), draws=draws, tune=100))
        assert open_groups(result)["posterior"].sizes["draw"] == draws
        assert len(summary(result)) == 1


def test_summary_reads_like_that_of_arviz(result):
    table = summary(result)
    # ArviZ divides by the variance of a constant, so that one is left out.
    names = ["x", "theta", "label"]
    reference = az.summary(result, var_names=names)
    assert list(table.index) == [*reference.index, "fixed"]
    assert {"mean", "sd", "mcse_mean", "mcse_sd", "r_hat"} <= set(table) & set(reference)
    low, high = hdi_names(0.94)
    rows = open_groups(result)["posterior"]["x"].values.ravel()
    hdi = np.asarray(az.hdi(rows, 0.94)).ravel()
    exact = summary(result, "x", round_to=None).loc["x"]
    assert exact[[low, high]].to_numpy(dtype=float) == pytest.approx(hdi, abs=0.25)
    assert exact["mean"] == pytest.approx(rows.mean(), abs=3 * exact["mcse_mean"])
    assert exact["sd"] == pytest.approx(rows.std(), rel=0.02)
    assert exact["ess_mean"] == pytest.approx((exact["sd"] / exact["mcse_mean"]) ** 2)


def test_interval_names_are_those_of_the_installed_arviz():
    data = {"x": np.random.default_rng(4).standard_normal((4, 50))}
    if LEGACY:
        columns = az.summary(az.from_dict(posterior=data), hdi_prob=0.9).columns
    else:
        idata = az.from_dict({"posterior": data})
        columns = az.summary(idata, ci_prob=0.9, ci_kind="hdi").columns
    assert set(hdi_names(0.9)) <= set(columns)


def test_summary_selects_variables(result):
    assert list(summary(result, "theta").index) == ["theta[Rome]", "theta[Oslo]"]
    assert list(summary(result, ["~theta", "~fixed"]).index) == ["x", "label"]
    with pytest.raises(KeyError, match="nope"):
        summary(result, ["nope"])
    with pytest.raises(ValueError, match="mixes"):
        summary(result, ["x", "~theta"])
    with pytest.raises(ValueError, match="hdi_prob=94"):
        summary(result, hdi_prob=94)


def test_summary_of_a_constant_is_quiet(result):
    row = summary(result, "fixed").loc["fixed"]
    assert row["mean"] == 1.0
    assert row["mcse_mean"] == 0.0
    assert np.isnan(row["r_hat"])


def test_summary_accepts_raw_chains(raw, result):
    pd.testing.assert_frame_equal(summary(raw), summary(result))
    pd.testing.assert_frame_equal(cell_summary(raw), cell_summary(result))


def test_one_cell_is_summarized_as_arviz_would():
    one = Cells(np.ones(1), np.zeros(1), np.ones(1))
    raw = synthetic(np.random.default_rng(5), one, phi=0.5, chains_per_cell=4, draws=1000)
    result = reweight(raw)
    x = open_groups(raw)["posterior"]["x"].values
    np.testing.assert_array_equal(open_groups(result)["posterior"]["x"].values, x)
    row = summary(result, round_to=None).loc["x"]
    assert row["mean"] == pytest.approx(x.mean())
    assert row["mcse_mean"] == pytest.approx(np.asarray(az.mcse(x)).item(), rel=0.1)
    assert row["r_hat"] == pytest.approx(np.asarray(az.rhat(x)).item(), abs=1e-3)


def test_cell_summary_has_a_row_per_cell(result):
    table = cell_summary(result)
    assert list(table.index) == [0, 1, 2, 3]
    assert list(table)[:8] == [
        "weight",
        "weight_mcse",
        "log_evidence",
        "log_evidence_mcse",
        "ess",
        "r_hat",
        "boundary_hit_rate",
        "chains",
    ]
    assert list(table)[8:] == ["x", "theta[Rome]", "theta[Oslo]", "label", "fixed"]
    np.testing.assert_allclose(table["x"], CENTER, atol=0.3)
    assert list(cell_summary(result, "x", round_to=2))[8:] == ["x"]
    assert cell_summary(result, "x", round_to=2)["weight"].tolist()[0] == 0.02


def repeat(n, seed, with_arviz=True, **case):
    """Run a case n times; return what was estimated and reported, a column each."""
    rng, found = np.random.default_rng(seed), []
    mean, sd = truth(**case)
    for _ in range(n):
        result = reweight(synthetic(rng, **case))
        row = summary(result, round_to=None).loc["x"]
        rows = open_groups(result)["posterior"]["x"].values
        found.append(
            {
                "error": row["mean"] - mean,
                "mcse": row["mcse_mean"],
                "error_sd": row["sd"] - sd,
                "mcse_sd": row["mcse_sd"],
                "error_rows": rows.mean() - mean,
                "mcse_arviz": np.asarray(az.mcse(rows)).item(),
                "r_hat": np.asarray(az.rhat(rows)).item(),
            }
        )
    return pd.DataFrame(found)


CASES = {
    "precise": {"phi": 0.3},
    "slow": {"phi": 0.9, "draws": 1000},
    "imprecise": {
        "cells": Cells(
            np.array([0.3, 0.7]),
            np.array([-3.0, 3.0]),
            np.array([0.5, 0.5]),
            shape="half",
            d=8,
        ),
        "phi": 0.3,
        "fixed_fit": 25,
        "proposal": "student",
        "chains_per_cell": 2,
    },
}
"""Weights much better, and worse, known than counting the rows would tell; and slow chains."""


@pytest.mark.parametrize("name", ["precise", "imprecise"])
def test_errors_are_as_reported(name):
    found = repeat(100, 1, **CASES[name])
    # The rms of 100 errors has a standard error of 7 %.
    assert rms(found["error"]) / found["mcse"].mean() == pytest.approx(1.0, abs=0.28)
    assert rms(found["error_sd"]) / found["mcse_sd"].mean() == pytest.approx(1.0, abs=0.28)
    assert found["mcse_arviz"].mean() > 0.9 * rms(found["error_rows"])
    assert found["r_hat"].max() < 1.01


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *CASES.values(),
        {"phi": 0.0},
        {"phi": -0.5},
        {"phi": 0.5, "cells": Cells(shape="half"), "draws": 1000},
        {"phi": 0.5, "cells": Cells(np.full(2, 0.5), np.zeros(2), np.ones(2))},
    ],
    ids=[*CASES, "iid", "antithetic", "half", "same-mean"],
)
def test_errors_are_as_reported_everywhere(case):
    found = repeat(400, 2, **case)
    # The rms of 400 errors has a standard error of 3.5 %.
    assert rms(found["error"]) / found["mcse"].mean() == pytest.approx(1.0, abs=0.15)
    assert rms(found["error_sd"]) / found["mcse_sd"].mean() == pytest.approx(1.0, abs=0.15)
    assert found["mcse_arviz"].mean() > 0.9 * rms(found["error_rows"])


def test_leaving_out_the_weights_errors_would_be_noticed():
    # Negative control: in the imprecise case the weights are most of the error.
    idata = synthetic(np.random.default_rng(6), **CASES["imprecise"])
    groups = open_groups(idata)
    weighing = weigh(groups["sample_stats"], "optimal")
    _, x = columns_of(groups["posterior"])
    _, mcse = stratified_mean(x, weighing)
    within = [
        w**2 * np.asarray(az.mcse(x[weighing.cell_of_chain == i, :, 0])).item() ** 2
        for i, w in enumerate(weighing.weights.weight)
    ]
    assert mcse[0] > 3 * np.sqrt(np.sum(within))
