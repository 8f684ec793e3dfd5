"""Every source of points ends as finite points of the unconstrained space, or as a clear error."""

import logging

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode

from pymc_spectral import targets
from pymc_spectral.density.batched import batched_density
from pymc_spectral.exploration.explorers import (
    Exploration,
    check_explore,
    constrained_to_unconstrained,
    explore,
)

# Python's linker spares minutes of compilation, and these targets are small.
PYTHON = Mode(linker="py", optimizer="fast_compile")


@pytest.fixture(scope="module")
def model():
    """A bound that depends on another variable, a simplex, and plain normals."""
    with pm.Model(coords={"kind": ["a", "b", "c"]}) as model:
        top = pm.HalfNormal("top", 1.0)
        pm.Uniform("below", 0.0, top, shape=2)
        pm.Dirichlet("weights", np.ones(3), dims="kind")
        pm.Normal("y", top, 1, observed=[0.5, 1.0])
    return model


@pytest.fixture(scope="module")
def density(model):
    return batched_density(model, compile_kwargs={"mode": PYTHON})


@pytest.fixture(scope="module")
def idata(model):
    with model:
        return pm.sample_prior_predictive(30, random_seed=1)


def dataset(idata):
    return idata["prior"].to_dataset() if isinstance(idata, xr.DataTree) else idata.prior


def with_posterior(idata, drop=()):
    """Take prior draws for a posterior, in whichever container this series has."""
    data = dataset(idata).drop_vars(list(drop))
    if isinstance(idata, xr.DataTree):
        return xr.DataTree.from_dict({"posterior": data})
    return type(idata)(posterior=data)


def test_constrained_draws_map_back(model, density, idata):
    x = constrained_to_unconstrained(model, with_posterior(idata))
    assert x.shape == (30, density.d)
    point = density.unravel(x)
    draws = {name: np.asarray(value)[0] for name, value in dataset(idata).items()}
    np.testing.assert_allclose(np.exp(point["top_log__"]), draws["top"])
    share = 1 / (1 + np.exp(-point["below_interval__"]))
    np.testing.assert_allclose(share * draws["top"][:, None], draws["below"], rtol=1e-6)
    # The simplex: PyMC's own inverse is the judge.
    transform = model.rvs_to_transforms[model["weights"]]
    back = transform.backward(point["weights_simplex__"]).eval()
    np.testing.assert_allclose(back, draws["weights"], rtol=1e-6)
    np.testing.assert_array_equal(constrained_to_unconstrained(model, dataset(idata)), x)


def test_unconstrained_group_is_taken_as_it_is(model, density):
    x = np.random.default_rng(0).normal(size=(2, 5, density.d))
    data = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{i}" for i in range(value.ndim - 2))), value)
            for name, value in density.unravel(x).items()
        }
    )
    tree = xr.DataTree.from_dict({"unconstrained_posterior": data})
    np.testing.assert_array_equal(constrained_to_unconstrained(model, tree), x.reshape(10, -1))


def test_idata_and_array_and_callable(model, density, idata):
    by_idata = explore(model, with_posterior(idata), density=density)
    assert by_idata.source == "idata"
    assert by_idata.tempering is None
    np.testing.assert_allclose(by_idata.logp, density.logp(by_idata.points))
    by_array = explore(model, by_idata.points, density=density, n_points=10)
    assert by_array.points.shape == (10, density.d)
    assert by_array.source == "array"

    def mine(model, rng):
        return rng.normal(size=(7, density.d))

    by_function = explore(model, mine, density=density, random_seed=3)
    assert by_function.source == "mine"
    again = explore(model, mine, density=density, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(by_function.points, again.points)
    assert repr(by_function) == f"Exploration(7 points in {density.d} dimensions by mine)"


def test_missing_variable_and_missing_group(model, idata):
    with pytest.raises(ValueError, match=r"lacks \['below'\]"):
        constrained_to_unconstrained(model, with_posterior(idata, drop=["below"]))
    with pytest.raises(ValueError, match="no posterior"):
        constrained_to_unconstrained(model, idata)


def test_points_outside_the_support_are_dropped(caplog):
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("wall", pm.math.switch(x > 0, -x, -np.inf))
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    with caplog.at_level(logging.INFO, logger="pymc_spectral"):
        result = explore(model, np.array([-1.0, 1.0, 2.0]), density=density)
    np.testing.assert_array_equal(result.points[:, 0], [1.0, 2.0])
    assert "Dropped 1 of 3" in caplog.text
    with pytest.raises(ValueError, match="-inf or NaN at all 2 points"):
        explore(model, np.array([-1.0, -2.0]), density=density)


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        (np.zeros((3, 4)), ValueError, r"shape \(N, 5\).*got shape \(3, 4\)"),
        (np.zeros((0, 5)), ValueError, "no points"),
        (np.full((3, 5), np.nan), ValueError, "3 of 3 points are not finite"),
        (np.zeros((3, 5)), ValueError, "All 3 points are the same"),
        ("temperature", ValueError, "explore='temperature' is unknown: use one of tempering, smc"),
        (object(), TypeError, "array of shape"),
    ],
)
def test_bad_points(model, density, points, error, message):
    with pytest.raises(error, match=message):
        explore(model, points, density=density)


def test_options_make_no_sense_with_points(model, density):
    with pytest.raises(TypeError, match="n_copies"):
        explore(model, np.zeros((3, 5)), density=density, n_copies=3)
    with pytest.raises(ValueError, match="n_points"):
        explore(model, np.zeros((3, 5)), density=density, n_points=0)


@pytest.mark.parametrize(
    ("method", "options", "error", "message"),
    [
        ("temperature", {}, ValueError, "use one of tempering, smc"),
        (None, {"n_round": 3}, TypeError, "n_round: tempering takes n_points, n_rounds"),
        (None, {"n_rounds": 0}, ValueError, "n_rounds must be at least 1, got 0"),
        ("tempering", {"n_copies": 1}, ValueError, "n_copies must be at least 2"),
        ("tempering", {"betas": [0.0, 0.5]}, ValueError, "increase from 0"),
        ("tempering", {"reference": "posterior"}, ValueError, "use one of auto, prior, normal"),
        (None, {"n_points": 0}, ValueError, "n_points must be at least 1, got 0"),
        ("smc", {"n_points": -1}, ValueError, "n_points must be at least 1"),
        (np.zeros((3, 5)), {"n_copies": 3}, TypeError, "n_copies.*nothing to set"),
        (np.zeros((3, 5)), {"n_points": 0}, ValueError, "n_points"),
        (np.zeros((2, 3, 5)), {}, ValueError, r"shape \(N, d\).*\(2, 3, 5\)"),
        (np.array(1.0), {}, ValueError, r"shape \(N, d\)"),
        (np.zeros((0, 5)), {}, ValueError, "zero rows"),
        (np.full((3, 5), np.inf), {}, ValueError, "3 of 3 points are not finite"),
        (object(), {}, TypeError, "array of shape"),
        (lambda model: None, {}, TypeError, r"called as <lambda>\(model, rng\)"),
        (lambda model, rng: None, {"chains": 3}, TypeError, "chains"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(method, options, error, message):
    with pytest.raises(error, match=message):
        check_explore(method, options)
    # A density that cannot be evaluated: it must not be looked at.
    with pytest.raises(error, match=message):
        explore(None, method, **{"density": "untouched", **options})


def test_what_explore_is_told_anyway_is_not_an_option():
    for method in (None, "smc"):
        with pytest.raises(
            TypeError, match=r"\['progressbar', 'rng'\] are not for a method to set"
        ):
            check_explore(method, {"progressbar": False, "rng": None})


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (None, {}),
        ("tempering", {"n_rounds": 1, "start": np.zeros(3), "betas": [0, 0.5, 1], "n_points": 9}),
        ("smc", {"draws": 100, "chains": 4, "correlation_threshold": 0.1}),
        (np.zeros((3, 5)), {"n_points": 2}),
        ([[0.0, 1.0]], {}),
        (np.zeros(3), {}),
        (lambda model, rng: None, {}),
        (xr.Dataset(), {}),
    ],
)
def test_what_may_work_is_let_through(method, options):
    check_explore(method, options)


def test_the_way_to_lay_out_points_that_an_error_gives_is_right(model, density):
    with pytest.raises(ValueError, match="shape") as refusal:
        explore(model, np.zeros((3, 4)), density=density)
    line = str(refusal.value).split("becomes a row by ")[1].rstrip(".")
    point = model.initial_point()
    row = eval(line, {"np": np, "model": model, "point": point})
    np.testing.assert_array_equal(row, density.initial_point)


def test_default_is_tempering():
    target = targets.pair1d(0.15)
    model = target.build()
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    result = explore(model, density=density, random_seed=1)
    assert isinstance(result, Exploration)
    assert result.source == "tempering"
    assert result.tempering is not None
    share = np.bincount(target.classify(result.points), minlength=2) / len(result.points)
    np.testing.assert_allclose(share, target.weights, atol=0.12)
    assert "log evidence" in repr(result)


def test_smc_is_quiet(caplog, capsys):
    target = targets.docs_pair(4)
    model = target.build()
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    result = explore(model, "smc", density=density, random_seed=1, draws=200, chains=2)
    assert result.source == "smc"
    assert result.points.shape == (400, 4)
    assert not caplog.records
    assert capsys.readouterr().out == ""
    np.testing.assert_allclose(result.logp, target.logp(result.points), atol=1e-6)
