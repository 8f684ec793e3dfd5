"""Draws and proposed points together: right means, honest errors, and the group that holds them."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from helpers import group, make_step, rms, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from synthetic import Cells, chains_with_bridge_terms

import pymc_spectral as ps
from pymc_spectral import _row_blocks
from pymc_spectral._inference_data import close_groups, open_groups
from pymc_spectral._progress import ScanProgress
from pymc_spectral.bridge.weights import weigh
from pymc_spectral.result.means import pooled_means, stratified_mean, weighted_mean


def chains(rng, shape="normal", d=1, **kwargs):
    """Return draws, proposed points (chains, draws, d) and sampler stats of four known cells."""
    made = Cells(shape=shape, d=d).chains(rng, **kwargs)
    return made.x, made.y, made.stats()


def true_mean(d=1, shape="normal", **_):
    """Return the exact mean of every coordinate."""
    return Cells(shape=shape, d=d).mean()


def repeat(n, first_seed, bridge="optimal", moved=0.0, **case):
    """Errors and reported errors over many runs: pooled, and of the draws alone."""
    found = {"error": [], "mcse": [], "error_draws": []}
    for seed in range(first_seed, first_seed + n):
        x, y, stats = chains(np.random.default_rng([seed, 77]), **case)
        weighing = weigh(stats, bridge)
        pooled = pooled_means(x, y + moved, weighing)
        truth = true_mean(**case)
        found["error"].append(pooled.mean - truth)
        found["mcse"].append(pooled.mcse)
        found["error_draws"].append(weighted_mean(x, weighing) - truth)
    return {name: np.array(values) for name, values in found.items()}


CASES = {
    "independent": {},
    "antithetic": {"phi": -0.5},
    "very slow": {"phi": 0.98, "draws": 2000, "tune": 1000, "d": 3},
    "slow": {"phi": 0.9, "draws": 2000, "proposal": "student", "bridge": "geometric", "d": 2},
    "walls": {"phi": 0.5, "shape": "half", "d": 2},
    "skewed": {"phi": 0.5, "shape": "skewed"},
    "ten dimensions": {"phi": 0.3, "d": 10},
}


@pytest.mark.parametrize("name", CASES)
def test_errors_are_as_reported(name, seed):
    n = 100
    found = repeat(n, 1000 * seed, **CASES[name])
    # The root mean square of n errors is known to one part in sqrt(2 n).
    assert rms(found["error"]) / rms(found["mcse"]) == pytest.approx(1, abs=4 / np.sqrt(2 * n))
    # Never worse than the draws alone, but for the scatter of the comparison.
    assert rms(found["error"]) < 1.1 * rms(found["error_draws"])
    if name in ("slow", "very slow"):
        assert rms(found["error"]) < 0.7 * rms(found["error_draws"])


def test_wrong_fresh_values_would_be_noticed(seed):
    found = repeat(40, 1000 * seed, moved=0.3)
    assert rms(found["error"]) > 2 * rms(found["mcse"])


def stuck_chains(rng, draws=500, tune=200):
    """A cell with two modes of mass .7 and .3, three chains in the first and one in the second."""
    center = np.array([0.0, 0.0, 0.0, 20.0])[:, None, None]
    paths = center + rng.standard_normal((4, tune + draws, 1))

    def log_target(points, _):
        v = points[:, 0]
        return np.logaddexp(np.log(0.7) + norm.logpdf(v), np.log(0.3) + norm.logpdf(v - 20))

    made = chains_with_bridge_terms(rng, paths, log_target, tune=tune)
    return made.x, made.y, made.stats()


def test_chains_of_a_cell_that_disagree_are_not_hidden_by_their_fresh_points(rng):
    """Each chain's points know its own mode only: one in four counts for .3, with mass .3."""
    x, y, stats = stuck_chains(rng)
    weighing = weigh(stats, "optimal")
    (estimate,) = weighing.estimates
    assert estimate.excess > 1
    found = pooled_means(x, y, weighing)
    mean, mcse = stratified_mean(x, weighing)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.mcse, mcse, rtol=0.2)
    assert abs(found.mean[0] - 0.3 * 20) < 4 * found.mcse[0]
    # The mass as well: no chain saw more than .7 of it.
    assert abs(estimate.log_c) < 4 * estimate.mcse


def test_draws_without_a_density_leave_no_bias(seed):
    """A third of the rows has no log density at the draw; its proposed point still counts."""
    case = {"phi": 0.9, "shape": "skewed", "d": 2}
    errors, mcse = [], []
    for k in range(60):
        rng = np.random.default_rng([seed, k, 78])
        x, y, stats = chains(rng, **case)
        at_draw = stats["log_target_draw"].values
        at_draw[rng.random(at_draw.shape) < 0.3] = np.nan
        found = pooled_means(x, y, weigh(stats, "optimal"))
        errors.append(found.mean - true_mean(**case))
        mcse.append(found.mcse)
    errors = np.array(errors)
    bias = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))
    assert np.all(np.abs(bias) < 4)
    assert rms(errors) / rms(mcse) == pytest.approx(1, abs=4 / np.sqrt(2 * 60))


@pytest.fixture(scope="module")
def run():
    x, y, stats = chains(np.random.default_rng(5), phi=0.5, shape="half", d=3)
    return x, y, weigh(stats, "optimal")


@settings(max_examples=30, deadline=None)
@given(
    shift=st.floats(-1e6, 1e6),
    scale=st.floats(1e-6, 1e6),
    sign=st.sampled_from([-1, 1]),
)
def test_means_follow_any_change_of_units(run, shift, scale, sign):
    x, y, weighing = run
    scale *= sign
    base = pooled_means(x, y, weighing)
    moved = pooled_means(shift + scale * x, shift + scale * y, weighing)
    tolerance = 1e-9 * (abs(shift) + abs(scale) * 10)
    np.testing.assert_allclose(moved.mean, shift + scale * base.mean, rtol=0, atol=tolerance)
    np.testing.assert_allclose(
        moved.mcse, abs(scale) * base.mcse, rtol=1e-3, atol=tolerance, equal_nan=False
    )


def test_a_constant_is_known_exactly(run):
    x, y, weighing = run
    found = pooled_means(np.full_like(x, 3.5), np.full_like(y, 3.5), weighing)
    np.testing.assert_allclose(found.mean, 3.5, rtol=1e-12)
    np.testing.assert_allclose(found.cell_mean, 3.5, rtol=1e-12)
    assert np.all(found.mcse < 1e-12)


def test_values_outside_the_cell_do_not_matter(run):
    x, y, weighing = run
    inside = np.concatenate([e.ratio_fresh for e in weighing.estimates]) > -np.inf
    assert not inside.all()
    blank = np.where(inside[:, :, None], y, np.nan)
    a, b = pooled_means(x, y, weighing), pooled_means(x, blank, weighing)
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.mcse, b.mcse)


def test_where_a_function_is_not_finite_at_a_fresh_point_the_draws_are_used(run):
    x, y, weighing = run
    inside = np.concatenate([e.ratio_fresh for e in weighing.estimates]) > -np.inf
    spoilt = y.copy()
    spoilt[(*np.argwhere(inside)[7], 1)] = np.inf
    found, plain = pooled_means(x, spoilt, weighing), pooled_means(x, y, weighing)
    # In that one cell, and for that one function only.
    assert found.cell_mean[0, 1] == pytest.approx(x[0, :, 1].mean(), rel=1e-12)
    assert abs(found.cell_mean[0, 1] - plain.cell_mean[0, 1]) > 1e-6
    np.testing.assert_array_equal(found.cell_mean[1:], plain.cell_mean[1:])
    np.testing.assert_array_equal(found.mean[[0, 2]], plain.mean[[0, 2]])
    # Everywhere: then it is the estimate of the draws, with its error.
    alone = pooled_means(x, np.full_like(y, np.inf), weighing)
    mean, mcse = stratified_mean(x, weighing)
    np.testing.assert_allclose(alone.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(alone.mcse, mcse, rtol=0.2)


# ---------------------------------------------------------------- through pm.sample


def signs():
    """Two modes, bounded and named variables, a Deterministic of integers among them."""
    with pm.Model(coords={"city": ["Rome", "Oslo"]}) as model:
        scale = pm.HalfNormal("scale", 2, dims="city")
        z = pm.Normal("z", 0, 2)
        pm.Deterministic("total", scale.sum() + z)
        pm.Deterministic("side", pm.math.sgn(z).astype("int64"))
        pm.Normal("y", z**2, 0.5, observed=4.0)
    return model


@pytest.fixture(scope="module")
def sampled():
    model = signs()
    rng = np.random.default_rng(3)
    points = np.column_stack(
        [2 * rng.choice([-1, 1], 600) + 0.2 * rng.standard_normal(600), rng.normal(0, 1, (600, 2))]
    )
    order = [v.name for v in model.value_vars]
    points = points if order[0] == "z" else points[:, [1, 2, 0]]
    step = make_step(model, points)
    idata = sample(model, step, draws=400, discard_tuned_samples=False)
    return model, step, idata


def test_the_group_has_every_variable_at_the_fresh_points(sampled):
    model, _, idata = sampled
    fresh, chains_ = group(idata, "cell_fresh"), group(idata, "cell_posterior")
    stats = group(idata, "cell_sample_stats")
    assert set(fresh.data_vars) == set(chains_.data_vars)
    for name in fresh.data_vars:
        assert fresh[name].dims == chains_[name].dims
    assert list(fresh["city"].values) == ["Rome", "Oslo"]
    inside = np.isfinite(stats["log_target_fresh"].values)
    np.testing.assert_array_equal(np.isfinite(fresh["z"].values), inside)
    total = fresh["scale"].sum("city", skipna=False) + fresh["z"]
    np.testing.assert_allclose(fresh["total"], total, rtol=1e-12)
    np.testing.assert_array_equal(fresh["side"].values[inside], np.sign(fresh["z"].values[inside]))
    # They are the very points whose log density the stats hold.
    logp = model.compile_logp()
    for chain, draw in [(0, 0), (1, 17), (0, 399)]:
        if not inside[chain, draw]:
            continue
        here = fresh.isel(chain=chain, draw=draw)
        point = {"z": here["z"].values, "scale_log__": np.log(here["scale"].values)}
        assert logp(point) == pytest.approx(float(stats["log_target_fresh"][chain, draw]))
    assert not any("fresh_point" in group(idata, n) for n in ("cell_sample_stats", "sample_stats"))
    assert "fresh_point" not in group(idata, "warmup_sample_stats")


def test_summary_uses_them(sampled):
    _, _, idata = sampled
    pooled, draws = (ps.summary(idata, round_to=None, pooled=p) for p in (True, False))
    truth = 2 * np.sqrt(2 / np.pi)
    for table in (pooled, draws):
        for name in ("scale[Rome]", "scale[Oslo]"):
            assert abs(table.loc[name, "mean"] - truth) < 4 * table.loc[name, "mcse_mean"]
    assert not np.allclose(pooled["mean"], draws["mean"], rtol=1e-6)
    assert pooled["mcse_mean"]["scale[Rome]"] < draws["mcse_mean"]["scale[Rome]"]
    same = [c for c in pooled.columns if "hdi" in c or c == "r_hat"]
    np.testing.assert_array_equal(pooled[same], draws[same])
    cells = ps.cell_summary(idata)
    weighted = cells["weight"] @ cells[list(pooled.index)]
    np.testing.assert_allclose(weighted, pooled["mean"], rtol=1e-9)
    chosen = ps.summary(idata, var_names=["~scale"], round_to=None)
    np.testing.assert_allclose(chosen["mean"], pooled.loc[chosen.index, "mean"], rtol=1e-12)


def test_pieces_of_bounded_size_give_the_same(sampled, monkeypatch):
    _, _, idata = sampled
    whole, cells = ps.summary(idata), ps.cell_summary(idata)
    monkeypatch.setattr(_row_blocks, "NUMBERS_AT_ONCE", 2000)  # two columns at a time
    np.testing.assert_array_equal(ps.summary(idata), whole)
    np.testing.assert_array_equal(ps.cell_summary(idata), cells)


def test_a_file_gives_the_same_summary(sampled, tmp_path):
    _, _, idata = sampled
    idata.to_netcdf(tmp_path / "run.nc")
    loaded = az.from_netcdf(tmp_path / "run.nc")
    again = ps.reweight(loaded)
    for result in (loaded, again):
        np.testing.assert_allclose(
            ps.summary(result, round_to=None), ps.summary(idata, round_to=None), rtol=1e-9
        )


def test_draws_do_not_depend_on_keeping_the_points(sampled):
    model, step, idata = sampled
    bare = make_step(model, step.exploration.points, pool_fresh=False)
    other = sample(model, bare, draws=400)
    names = list(other.children) if hasattr(other, "children") else other.groups()
    assert "cell_fresh" not in names
    np.testing.assert_array_equal(
        group(other, "cell_posterior")["z"], group(idata, "cell_posterior")["z"]
    )
    np.testing.assert_array_equal(
        ps.summary(other, round_to=None), ps.summary(idata, round_to=None, pooled=False)
    )


def test_variables_left_out_of_the_trace_are_left_out(sampled):
    model, step, _ = sampled
    idata = sample(model, step, draws=100, var_names=["z", "total"])
    assert set(group(idata, "cell_fresh").data_vars) == {"z", "total"}
    assert list(ps.summary(idata).index) == list(group(idata, "posterior").data_vars)


def test_a_variable_added_afterwards_uses_its_draws_and_the_others_stay_pooled(sampled):
    _, _, idata = sampled
    groups = dict(open_groups(idata))
    groups["cell_posterior"] = groups["cell_posterior"].assign(
        double=2 * groups["cell_posterior"]["z"]
    )
    more = close_groups(groups, like=idata)
    pooled, draws = (ps.summary(more, round_to=None, pooled=p) for p in (True, False))
    before = ps.summary(idata, round_to=None)
    np.testing.assert_array_equal(pooled.loc[before.index], before)
    assert pooled.loc["double", "mean"] == pytest.approx(draws.loc["double", "mean"], rel=1e-12)
    assert pooled.loc["z", "mean"] != draws.loc["z", "mean"]
    alone = ps.summary(more, "double", round_to=None)
    np.testing.assert_allclose(alone.loc["double"], pooled.loc["double"], rtol=1e-12)
    own = groups["cell_posterior"]["double"].mean("draw").values
    np.testing.assert_allclose(ps.cell_summary(more)["double"], own, rtol=1e-12)


@pytest.mark.parametrize("asked", [True, False])
def test_progress_of_the_fresh_points_is_shown_if_progress_is(sampled, monkeypatch, asked):
    model, step, _ = sampled
    seen = []

    class Bar(ScanProgress):
        def __exit__(self, *error):
            seen.append((self.visible, self._total, self._done))
            super().__exit__(*error)

    monkeypatch.setattr("pymc_spectral.result.proposed_values.ScanProgress", Bar)
    idata = sample(model, step, draws=50, progressbar=asked)
    inside = np.isfinite(group(idata, "cell_sample_stats")["log_target_fresh"].values)
    assert seen == [(asked, inside.sum(), inside.sum())]


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
def test_a_failure_at_a_fresh_point_costs_no_draws(sampled, monkeypatch, caplog, error):
    model, step, _ = sampled

    def fail(*_, **__):
        raise error("no such point")

    monkeypatch.setattr("pymc_spectral.result.proposed_values._values", fail)
    with caplog.at_level("WARNING", logger="pymc.pymc_spectral"):
        idata = sample(model, step, draws=100)
    assert "summary will use the draws alone" in caplog.text
    assert group(idata, "cells")["weight"].sum() == pytest.approx(1)
    np.testing.assert_array_equal(ps.summary(idata), ps.summary(idata, pooled=False))
