"""Models as users write them, and what users do with the result."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from helpers import group, make_step, sample

import pymc_spectral as ps
from pymc_spectral._inference_data import LEGACY
from pymc_spectral.density.coordinate_names import coordinate_names


def two_mode_data():
    return np.random.default_rng(0).normal(1.5, 0.5, 40)


def build_varied():
    """Bounded, simplex, ordered and Cholesky variables, coords, Deterministics, a Potential.

    Only |theta| is seen by the data, so theta has two modes of equal weight by symmetry.
    """
    coords = {"side": ["left", "right"], "part": ["a", "b", "c"]}
    with pm.Model(coords=coords) as model:
        theta = pm.Normal("theta", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        share = pm.Dirichlet("share", np.ones(3), dims="part")
        cut = pm.Normal(
            "cut",
            [-0.5, 0.5],
            1,
            dims="side",
            transform=pm.distributions.transforms.ordered,
        )
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        bounded = pm.Uniform("bounded", -1, 1)
        pm.Deterministic("spread", cut[1] - cut[0])
        pm.Deterministic("sign", pt.sign(theta), dims=None)
        pm.Potential("soft", -0.5 * (bounded**2 + share[0] ** 2 + chol[0, 0] ** 2))
        pm.Normal("y", pt.abs(theta), scale, observed=two_mode_data())
    return model


@pytest.fixture(scope="module")
def varied():
    return build_varied()


def test_coordinates_are_named_as_in_the_summary(varied):
    names = coordinate_names(varied)
    # Three shares have two free coordinates, which are not those of the parts a, b and c.
    assert names[:6] == [
        "theta",
        "scale_log__",
        "share_simplex__[0]",
        "share_simplex__[1]",
        "cut_ordered__[left]",
        "cut_ordered__[right]",
    ]
    assert len(names) == len(set(names)) == sum(v.size for v in varied.initial_point().values())


@pytest.fixture(scope="module")
def varied_points(varied):
    """A stuck pm.sample from each side, as a user would have it."""
    parts = []
    for sign in (-1.0, 1.0):
        with varied:
            parts.append(
                pm.sample(
                    draws=300,
                    tune=300,
                    chains=2,
                    cores=1,
                    initvals={"theta": sign * 1.5},
                    init="adapt_diag",
                    random_seed=int(2 + sign),
                    progressbar=False,
                    compute_convergence_checks=False,
                )
            )
    return parts


@pytest.fixture(scope="module")
def joined(varied_points):
    import xarray as xr

    datasets = [group(part, "posterior") for part in varied_points]
    datasets[1] = datasets[1].assign_coords(chain=[2, 3])
    both = xr.concat(datasets, dim="chain")
    if LEGACY:
        return az.InferenceData(posterior=both)
    return xr.DataTree.from_dict({"posterior": both})


@pytest.fixture(scope="module")
def varied_run(varied, joined):
    step = make_step(varied, joined)
    return step, sample(varied, step, draws=500, tune=500, chains=2 * step.n_cells)


def test_stuck_chains_are_repaired(varied_run):
    step, idata = varied_run
    assert step.n_cells == 2
    assert step.exploration.source == "idata"
    cells = group(idata, "cells")
    z = (cells["weight"].values - 0.5) / cells["weight_mcse"].values
    assert np.all(np.abs(z) < 4)
    assert np.all(cells["weight_mcse"].values < 0.05)


def test_coords_dims_and_deterministics_are_kept(varied_run):
    _, idata = varied_run
    posterior = group(idata, "posterior")
    assert posterior["share"].dims == ("chain", "draw", "part")
    assert list(posterior["cut"]["side"].values) == ["left", "right"]
    np.testing.assert_allclose(
        posterior["spread"].values, (posterior["cut"][..., 1] - posterior["cut"][..., 0]).values
    )
    np.testing.assert_array_equal(posterior["sign"].values, np.sign(posterior["theta"].values))
    np.testing.assert_allclose(posterior["share"].sum("part").values, 1.0)
    assert "y" in group(idata, "observed_data")


def test_arviz_on_the_result(varied_run):
    _, idata = varied_run
    table = az.summary(idata, var_names=["theta", "scale", "spread"])
    assert list(table.index) == ["theta", "scale", "spread"]
    ours = ps.summary(idata, var_names=["theta", "scale", "spread"])
    assert list(ours.index) == ["theta", "scale", "spread"]
    assert abs(float(ours.loc["theta", "mean"])) < 0.3
    per_cell = ps.cell_summary(idata, var_names=["theta"])
    assert sorted(np.sign(per_cell["theta"])) == [-1, 1]


def test_plots(varied_run):
    import matplotlib

    matplotlib.use("Agg")
    _, idata = varied_run
    new = not LEGACY
    names = ["theta", "scale"]
    if new:
        assert az.plot_trace(idata, var_names=names, backend="matplotlib") is not None
        assert az.plot_dist(idata, var_names=names, backend="matplotlib") is not None
        assert az.plot_pair(idata, var_names=names, backend="matplotlib") is not None
    else:
        assert az.plot_trace(idata, var_names=names) is not None
        assert az.plot_posterior(idata, var_names=names) is not None
        assert az.plot_pair(idata, var_names=names, divergences=True) is not None


def test_predictive_and_loo(varied_run):
    _, idata = varied_run
    # A model of its own: in PyMC 5.28 no model can be sampled after its posterior predictive.
    with build_varied(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The effect of Potentials")  # PyMC's, true of all chains
        pm.compute_log_likelihood(idata, progressbar=False)
        predictive = pm.sample_posterior_predictive(idata, progressbar=False, random_seed=1)
    y = group(predictive, "posterior_predictive")["y"].values
    posterior = group(idata, "posterior")
    assert y.shape[:2] == posterior["theta"].shape
    # Both modes predict the same data: around its mean, whatever the sign.
    expected = np.abs(posterior["theta"].values).mean()
    assert abs(y.mean() - expected) < 0.1
    loo = az.loo(idata)
    assert np.isfinite(float(getattr(loo, "elpd_loo", getattr(loo, "elpd", np.nan))))
    assert len(az.compare({"a": idata, "b": idata})) == 2
    # The log likelihood belongs to the reweighted rows, not to the chains as they ran.
    log_likelihood = group(idata, "log_likelihood")["y"].values
    theta, scale = posterior["theta"].values, posterior["scale"].values
    data = two_mode_data()
    exact = -0.5 * ((data[0] - np.abs(theta)) / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(log_likelihood[..., 0], exact, rtol=1e-6)


def test_netcdf_round_trip_gives_the_same_weights(varied_run, tmp_path):
    _, idata = varied_run
    path = tmp_path / "result.nc"
    idata.to_netcdf(str(path))
    loaded = az.from_netcdf(str(path))
    again = ps.reweight(loaded)
    for name in ("weight", "weight_mcse", "log_evidence"):
        np.testing.assert_allclose(
            group(again, "cells")[name].values, group(idata, "cells")[name].values, rtol=1e-12
        )
    np.testing.assert_array_equal(
        group(again, "posterior")["theta"].values, group(idata, "posterior")["theta"].values
    )
    other = ps.reweight(loaded, bridge="geometric")
    assert np.all(
        np.abs(group(other, "cells")["weight"].values - 0.5)
        < 4 * group(other, "cells")["weight_mcse"].values
    )


def test_log_likelihood_through_idata_kwargs(varied, varied_run):
    step, _ = varied_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyMC 6 deprecates it, and still does it
        idata = sample(varied, step, draws=50, tune=100, idata_kwargs={"log_likelihood": True})
    posterior = group(idata, "posterior")
    theta, scale = posterior["theta"].values, posterior["scale"].values
    exact = -0.5 * ((two_mode_data()[0] - np.abs(theta)) / scale) ** 2
    exact -= np.log(scale * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(group(idata, "log_likelihood")["y"].values[..., 0], exact, rtol=1e-6)


def test_warmup_is_kept_when_asked(varied, varied_run):
    step, _ = varied_run
    idata = sample(varied, step, draws=50, tune=80, discard_tuned_samples=False)
    assert group(idata, "posterior").sizes["draw"] == 50
    assert group(idata, "warmup_posterior").sizes["draw"] == 80
    assert np.isfinite(group(idata, "cells")["weight"].values).all()


def test_var_names(varied, varied_run):
    step, _ = varied_run
    idata = sample(varied, step, draws=50, tune=80, var_names=["theta"])
    assert set(group(idata, "posterior").data_vars) == {"theta"}
    assert group(idata, "cells")["weight"].values.sum() == pytest.approx(1.0)


def test_one_scalar_parameter():
    """0.3 N(-2, 0.3) + 0.7 N(2, 0.3): masses of the half-lines are .3 and .7."""
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential(
            "p",
            pt.logaddexp(
                np.log(0.3) - 0.5 * ((x + 2) / 0.3) ** 2, np.log(0.7) - 0.5 * ((x - 2) / 0.3) ** 2
            ),
        )
    rng = np.random.default_rng(0)
    points = np.where(rng.random(1000) < 0.5, -2, 2)[:, None] + 0.3 * rng.standard_normal((1000, 1))
    step = make_step(model, points)
    idata = sample(model, step, draws=1000, tune=500)
    cells = group(idata, "cells")
    mean = ps.cell_summary(idata)["x"].values
    truth = np.where(mean < 0, 0.3, 0.7)
    assert np.all(np.abs(cells["weight"].values - truth) < 4 * cells["weight_mcse"].values)
    log_z = np.log(0.3 * np.sqrt(2 * np.pi))
    error = 4 * float(cells["log_marginal_likelihood_mcse"])
    assert abs(float(cells["log_marginal_likelihood"]) - log_z) < error


def test_two_hundred_parameters():
    """Two modes in 200 dimensions, .2 and .8."""
    d = 200
    with pm.Model() as model:
        x = pm.Flat("x", shape=d)
        pm.Potential(
            "p",
            pt.logaddexp(
                np.log(0.2) - 0.5 * pt.sum((x + 1) ** 2), np.log(0.8) - 0.5 * pt.sum((x - 1) ** 2)
            )
            - 0.5 * d * np.log(2 * np.pi),
        )
    rng = np.random.default_rng(0)
    sign = np.where(rng.random(2000) < 0.5, -1.0, 1.0)
    points = sign[:, None] + rng.standard_normal((2000, d))
    step = make_step(model, points)
    assert step.n_cells == 2
    idata = sample(model, step, draws=500, tune=500, chains=2)
    cells = group(idata, "cells")
    mean = group(idata, "cell_posterior")["x"].values.mean(axis=(1, 2))
    truth = np.where(mean < 0, 0.2, 0.8)
    assert np.all(np.abs(cells["weight"].values - truth) < 4 * cells["weight_mcse"].values)
    assert np.all(cells["weight_mcse"].values < 0.03)
    error = 4 * float(cells["log_marginal_likelihood_mcse"])
    assert abs(float(cells["log_marginal_likelihood"])) < error
