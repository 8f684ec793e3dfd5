"""The step method: chains, cells, processes, kernels, refusals; see also test_step_contract.py."""

import logging
import os
import signal
import threading
import time
import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pymc.sampling.mcmc as pymc_mcmc
import pytensor.tensor as pt
import pytest
from helpers import group, make_step, sample, true_mass
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import Competence
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import pymc_spectral as ps
from pymc_spectral import _pymc, targets
from pymc_spectral.bridge.estimate import BridgeError
from pymc_spectral.bridge.weights import MARK, STATS

TARGET = targets.paper2d()


@pytest.fixture(scope="module")
def model():
    return TARGET.build()


@pytest.fixture(scope="module")
def points():
    return TARGET.sample(np.random.default_rng(0), 2000)


@pytest.fixture(scope="module")
def step(model, points):
    return make_step(model, points)


@pytest.fixture(scope="module")
def idata(model, step):
    return sample(model, step, chains=8, draws=300)


def test_what_can_be_looked_at_before_sampling(step, points):
    assert step.n_cells == 4
    assert step.partition.n_cells_ == 4
    assert step.exploration.points.shape == points.shape
    assert step.exploration.source == "array"
    assert step.vars == step.model.value_vars


def test_chain_k_runs_in_cell_k_mod_n(idata, step):
    stats = group(idata, "cell_sample_stats")
    expected = np.broadcast_to(np.arange(8)[:, None] % 4, (8, 300))
    np.testing.assert_array_equal(stats["cell"].values, expected)
    draws = group(idata, "cell_posterior")["x"].values
    for chain in range(8):
        assert np.all(step.partition.predict(draws[chain]) == chain % 4)


def test_draws_carry_their_bridge_terms(idata, step):
    stats = group(idata, "cell_sample_stats")
    draws = group(idata, "cell_posterior")["x"].values
    assert set(STATS) <= set(stats.data_vars)
    exact = TARGET.logp(draws.reshape(-1, 2)).reshape(8, 300)
    np.testing.assert_allclose(stats["log_target_draw"].values, exact, rtol=1e-9)
    assert np.all(np.isfinite(stats["log_proposal_draw"].values))
    assert np.all(np.isfinite(stats["log_proposal_fresh"].values))
    fresh = stats["log_target_fresh"].values
    assert not np.isnan(fresh).any()
    assert np.isfinite(fresh).mean() > 0.8
    # Refits happen as draws come in, never at the first draw of the chain's own account.
    assert stats["proposal_fit"].values.min() >= 0


def test_result_has_the_shape_asked_for(idata):
    assert group(idata, "posterior")["x"].shape == (8, 300, 2)
    assert group(idata, "sample_stats")["cell"].shape == (8, 300)
    share = np.bincount(group(idata, "sample_stats")["cell"].values.ravel()) / 2400
    np.testing.assert_allclose(share, group(idata, "cells")["weight"].values, atol=1 / 2400)


def same(a, b):
    for name in ("posterior", "cell_posterior"):
        np.testing.assert_array_equal(group(a, name)["x"].values, group(b, name)["x"].values)
    for name in ("weight", "weight_mcse"):
        first, second = (group(idata, "cells")[name].values for idata in (a, b))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_same_draws_on_two_cores(model, step, start):
    one = sample(model, step, draws=60, tune=60)
    two = sample(model, step, draws=60, tune=60, cores=2, mp_ctx=start)
    same(one, two)


def test_second_call_with_the_same_step_repeats_the_first(model, step):
    """No state leaks from chain to chain or from call to call."""
    first = sample(model, step, draws=60, tune=60)
    sample(model, step, draws=30, tune=100, random_seed=7)
    same(first, sample(model, step, draws=60, tune=60))


def test_chain_does_not_depend_on_the_chains_before_it(model, step):
    """Chain 5 run after five others is chain 5 run alone."""
    long = group(sample(model, step, draws=40, tune=60, chains=8), "cell_posterior")["x"].values
    rng = np.random.default_rng(1).spawn(8)[5]
    alone = cloudpickle.loads(cloudpickle.dumps(step))
    if hasattr(pm.NUTS, "setup_chain"):
        alone.setup_chain(rng, 60, 40)
    else:
        alone.set_rng(rng)
    point, draws = model.initial_point(), []
    for i in range(100):
        if i == 60:
            alone.stop_tuning()
        point, _ = alone.step(point)
        draws.append(point["x"].copy())
    np.testing.assert_array_equal(np.array(draws[60:]), long[5])


def test_other_seeds_give_other_draws(model, step):
    a, b = (sample(model, step, draws=20, tune=50, random_seed=s) for s in (1, 2))
    assert not np.array_equal(group(a, "posterior")["x"].values, group(b, "posterior")["x"].values)


def test_same_seed_same_partition(model, points):
    a, b = (make_step(model, points, random_seed=3) for _ in range(2))
    np.testing.assert_array_equal(a.partition.labels_, b.partition.labels_)


def test_importing_offers_the_step_to_nobody(model):
    assert ps.SpectralPartitionStep.competence(model.value_vars[0], True) == Competence.INCOMPATIBLE
    with pm.Model() as other:
        pm.Normal("x")
        chosen = pm.sampling.mcmc.assign_step_methods(other)[1]
    assert ps.SpectralPartitionStep not in chosen


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    "kernel", ["nuts", "metropolis", "slice", pm.HamiltonianMC, pm.DEMetropolisZ]
)
def test_every_kernel_weighs_right(model, points, kernel):
    step = make_step(model, points, kernel=kernel)
    idata = sample(model, step, draws=1500, tune=700, chains=4)
    mass, _ = true_mass(TARGET, step.partition)
    cells = group(idata, "cells")
    assert np.all(np.abs(cells["weight"].values - mass) < 4 * cells["weight_mcse"].values + 2e-3)
    assert np.all(np.abs(cells["weight"].values - mass) < 0.03)
    log_z = float(cells["log_marginal_likelihood"])
    assert abs(log_z) < 4 * float(cells["log_marginal_likelihood_mcse"]) + 4e-3


@pytest.mark.parametrize("bridge", ["optimal", "geometric"])
@pytest.mark.parametrize("proposal", ["normal", "student"])
def test_every_bridge_weighs_right(model, points, bridge, proposal):
    step = make_step(model, points, bridge=bridge, proposal=proposal)
    idata = sample(model, step, draws=1000, tune=500)
    mass, _ = true_mass(TARGET, step.partition)
    cells = group(idata, "cells")
    assert cells.attrs["bridge"] == bridge
    assert np.all(np.abs(cells["weight"].values - mass) < 4 * cells["weight_mcse"].values + 2e-3)


def test_papers_settings(model, points):
    """Metropolis by the paper's fixed Q on its own partition."""
    partition = ps.SpectralPartition(
        4, affinity="gaussian", Q=0.8, join=False, extension="nystrom", n_landmarks=300
    )
    step = make_step(
        model,
        points,
        partition=partition,
        kernel="metropolis",
        bridge="geometric",
        proposal="student",
    )
    idata = sample(model, step, draws=4000, tune=500)
    np.testing.assert_array_equal(group(idata, "cell_sample_stats")["scaling"].values, 1.0)
    mass, _ = true_mass(TARGET, step.partition)
    cells = group(idata, "cells")
    assert np.all(np.abs(cells["weight"].values - mass) < 4 * cells["weight_mcse"].values + 2e-3)


def test_kmeans_partition_weighs_right(model, points):
    """Cuts through modes cost efficiency, not exactness."""
    step = make_step(model, points, partition="kmeans", n_cells=5)
    idata = sample(model, step, draws=1500, tune=500)
    mass, _ = true_mass(TARGET, step.partition)
    cells = group(idata, "cells")
    assert np.all(np.abs(cells["weight"].values - mass) < 4 * cells["weight_mcse"].values + 2e-3)


def test_fitted_partition_needs_no_exploration(model, points):
    fitted = ps.SpectralPartition(random_state=0).fit(points, logp=TARGET.logp)
    with model:
        step = ps.SpectralPartitionStep(partition=fitted, progressbar=False)
    assert step.exploration is None
    assert step.partition is fitted
    assert step.n_cells == 4


def test_rounds_add_points_and_stay_right(model, points):
    step = make_step(model, points[:400], rounds=3, n_landmarks=[100, 200, 300], round_draws=60)
    assert len(step.partition.landmarks_) == 300
    idata = sample(model, step, draws=800, tune=400)
    mass, _ = true_mass(TARGET, step.partition)
    cells = group(idata, "cells")
    assert np.all(np.abs(cells["weight"].values - mass) < 4 * cells["weight_mcse"].values + 2e-3)


# ---------------------------------------------------------------- boundaries, divergences, NaN


def test_boundary_hits_are_not_divergences(model, points):
    """A cut through the largest mode: hits at the wall, no divergences, no advice about them."""
    step = make_step(model, points, partition="kmeans", n_cells=6)
    idata = sample(model, step, draws=300, tune=300)
    stats = group(idata, "cell_sample_stats")
    assert stats["boundary_hit"].values.mean() > 0.02
    assert stats["diverging"].values.sum() == 0
    assert stats["divergences"].values.max() == 0


def test_true_divergences_stay_divergences():
    """A wall of the model itself, hit on almost every trajectory: -inf, as divergences are."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Potential("box", pt.switch(pt.all(pt.abs(x) < 1), 0.0, -np.inf))
    points = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    step = make_step(model, points, n_cells=1, kernel="nuts")
    idata = sample(model, step, chains=1, draws=200)
    stats = group(idata, "cell_sample_stats")
    assert stats["diverging"].values.mean() > 0.1
    assert stats["boundary_hit"].values.sum() == 0


def test_the_default_kernel_copes_with_walls(caplog):
    """Flat within a box: trajectories fly into the walls, slices do not; the log says so."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Potential("box", pt.switch(pt.all(pt.abs(x) < 1), 0.0, -np.inf))
    points = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    with caplog.at_level("INFO", logger="pymc"):
        step = make_step(model, points, n_cells=1)
    assert step.kernel_name == "slice"
    assert 'Kernel "slice" instead of NUTS: the density has no slope' in caplog.text
    assert make_step(
        model, points, n_cells=1, kernel_kwargs={"target_accept": 0.9}
    ).kernel_name == ("nuts")


@pytest.mark.parametrize("kernel", ["nuts", "metropolis", "slice"])
def test_nan_logp_is_rejected_and_counted(kernel):
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("trap", pt.switch(x[0] > 0.5, np.nan, 0.0))
    rng = np.random.default_rng(0)
    points = rng.standard_normal((3000, 2))
    points = points[points[:, 0] < 0.5]
    step = make_step(model, points, n_cells=1, kernel=kernel)
    idata = sample(model, step, chains=2, draws=1000, tune=300)
    draws = group(idata, "posterior")["x"].values
    assert np.all(draws[..., 0] <= 0.5)
    stats = group(idata, "cell_sample_stats")
    assert stats["nan_logp"].values.sum() > 0
    if "diverging" in stats:
        assert stats["diverging"].values.sum() == 0
    # What is left is a normal cut at 0.5: log Z is the log of its mass.
    cells = group(idata, "cells")
    expected = np.log(0.6914624612740131)
    error = 4 * float(cells["log_marginal_likelihood_mcse"]) + 4e-3
    assert abs(float(cells["log_marginal_likelihood"]) - expected) < error


# ---------------------------------------------------------------- refusals


def test_too_few_chains_are_refused_with_the_line_to_type(model, step):
    with pytest.raises(SamplingError, match=r"3 chains cannot cover 4 cells.*chains=4"):
        sample(model, step, chains=3)
    with pytest.raises(SamplingError, match=r"3 chains cannot cover 4 cells"):
        sample(model, step, chains=3, cores=2)


def test_compound_is_refused(model, step):
    with pytest.raises(SamplingError, match="pass it alone"), model:
        pm.sample(step=[step, pm.Metropolis()], chains=4, cores=1, progressbar=False, random_seed=1)


def test_discrete_variables_are_refused():
    with pm.Model() as model:
        pm.Poisson("count", 3)
        pm.Normal("x")
    with (
        pytest.raises(ValueError, match=r"discrete: count.*marginalize\(model, \[.count.\]"),
        model,
    ):
        ps.SpectralPartitionStep()


def test_observed_only_model_is_refused():
    with pm.Model() as model:
        pm.Normal("x", observed=[1.0])
    with pytest.raises(ValueError, match="nothing to sample"), model:
        ps.SpectralPartitionStep()


def test_vars_must_cover_the_model():
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("b")
    with pytest.raises(ValueError, match="vars leaves out b"), model:
        ps.SpectralPartitionStep([a], explore=np.random.default_rng(0).standard_normal((50, 2)))


BAD_OPTIONS = [
    ({"bridge": "golden"}, ValueError, "optimal, geometric"),
    ({"proposal": "cauchy"}, ValueError, "normal, student"),
    ({"kernel": "gibbs"}, ValueError, "nuts, metropolis, slice"),
    ({"kernel": 3}, TypeError, "Pass the class"),
    ({"partition": "voronoi"}, ValueError, "spectral, kmeans"),
    ({"partition": 3}, TypeError, "SpectralPartition or KMeansPartition"),
    ({"partition": "kmeans"}, ValueError, "n_cells=4"),
    ({"partition_kwargs": {"bandwidth": 1}}, TypeError, "unknown names bandwidth"),
    ({"explore": None, "explore_kwargs": {"n_round": 3}}, TypeError, "n_round: .* n_rounds"),
    ({"explore": lambda model: None}, TypeError, r"\(model, rng\)"),
    ({"kernel_kwargs": {"target_acept": 0.9}}, TypeError, "target_acept: .* target_accept"),
    ({"kernel_kwargs": [1]}, TypeError, r"kernel_kwargs=\[1\] is not a dict"),
    ({"random_seed": 1.5}, TypeError, "random_seed=1.5 is not an integer"),
    ({"rounds": 0}, ValueError, "rounds=0"),
    ({"rounds": 3, "n_landmarks": [10, 20]}, ValueError, "2 numbers for 3"),
    ({"round_draws": 0, "rounds": 2}, ValueError, "positive"),
    ({"n_cells": -1}, ValueError, "positive integer"),
    ({"cells": 4}, TypeError, "cells"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_bad_options_are_refused(model, points, options, error, message):
    with pytest.raises(error, match=message):
        make_step(model, points, **options)


BAD_POINTS = [
    (
        np.array([[0.0, 0], [1, 1], [2, 2]])[[0, 0, 1, 1, 2]],
        {"n_cells": 5},
        "3 distinct points cannot fill 5 cells",
    ),
    (np.full((10, 2), np.nan), {}, "not finite|finite"),
    (np.ones((10, 2)), {}, "the same"),
    (np.zeros((10, 3)), {}, "3"),
]


@pytest.mark.parametrize(("bad", "options", "message"), BAD_POINTS)
def test_bad_points_are_refused(model, bad, options, message):
    with pytest.raises(ValueError, match=message):
        make_step(model, bad, **options)


def test_starting_points_without_density_are_refused():
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Potential("nowhere", pt.switch(x[0] > 100, 0.0, -np.inf))
    with pytest.raises(ValueError, match=r"-inf|finite"):
        make_step(model, np.random.default_rng(0).standard_normal((100, 2)))


class BlackBox(Op):
    """A density without a gradient."""

    def make_node(self, x):
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(-0.5 * np.sum(inputs[0] ** 2))


def test_no_gradient_means_slice_and_nuts_is_refused():
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Potential("p", BlackBox()(x))
    points = np.random.default_rng(0).standard_normal((300, 2))
    with pytest.raises(ValueError, match=r'kernel="slice"'):
        make_step(model, points, kernel="nuts")
    step = make_step(model, points, n_cells=1)
    assert step.kernel_name == "slice"
    idata = sample(model, step, chains=2, draws=400)
    cells = group(idata, "cells")
    error = 4 * float(cells["log_marginal_likelihood_mcse"]) + 4e-3
    assert abs(float(cells["log_marginal_likelihood"]) - np.log(2 * np.pi)) < error


# ---------------------------------------------------------------- never unweighted


def test_return_inferencedata_false_is_refused(model, step):
    with (
        warnings.catch_warnings(),
        pytest.raises(_pymc.UnweightedDrawsError, match="return_inferencedata"),
    ):
        warnings.simplefilter("ignore", FutureWarning)  # PyMC 6 deprecates it, and still does it
        sample(model, step, return_inferencedata=False)


def test_bypassed_reweighting_is_an_error(model, step, monkeypatch):
    """PyMC that returns draws by another way: refused before the first draw."""

    def sample_return(*, traces, **kwargs):
        return traces

    monkeypatch.setattr(pymc_mcmc, "_sample_return", sample_return)
    with pytest.raises(_pymc.UnweightedDrawsError, match="would not be reweighted"):
        sample(model, step)


def test_replaced_converter_is_an_error(model, step, monkeypatch):
    monkeypatch.setattr(pm, "to_inference_data", lambda trace, **kwargs: trace)
    with pytest.raises(_pymc.UnweightedDrawsError, match="Construct the step again"):
        sample(model, step)


def test_plain_sampling_is_left_alone(model, step):
    with model:
        plain = pm.sample(
            draws=20, tune=20, chains=1, cores=1, progressbar=False, random_seed=1, step=pm.NUTS()
        )
    assert "cells" not in (plain.groups() if callable(plain.groups) else plain.children)


def test_wrapper_is_installed_once(step):
    before = pm.to_inference_data
    _pymc.install(MARK)
    assert pm.to_inference_data is before


# ---------------------------------------------------------------- interruptions


def test_interrupt_gives_an_error_or_a_right_part(model, step, caplog):
    """Ctrl-C while sampling: PyMC keeps what is done; weights are right or there are none."""
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with caplog.at_level(logging.ERROR):
            idata = sample(model, step, draws=6000, tune=100)
    except (KeyboardInterrupt, ValueError, SamplingError):
        idata = None
    timer.join()
    assert time.monotonic() - begin < 60
    if idata is not None:
        assert group(idata, "cells").sizes["cell"] == 4
        mass, _ = true_mass(TARGET, step.partition)
        assert np.all(np.abs(group(idata, "cells")["weight"].values - mass) < 0.05)


def test_interrupt_before_every_cell_has_draws_loses_nothing(model, step):
    """No weights without all cells, but what was drawn stays in the user's hands."""

    def press_ctrl_c(trace, draw):
        if draw.chain == 2:
            raise KeyboardInterrupt

    message = r"of 4; \[2.*\] have no draws.*idata of this error"
    with pytest.raises(BridgeError, match=message) as info:
        sample(model, step, draws=150, tune=100, callback=press_ctrl_c)
    assert group(info.value.idata, "posterior").sizes["chain"] >= 2


class KillsItsWorker(pm.NUTS):
    """Kernel whose process dies in the middle, but never the test's own."""

    parent = os.getpid()

    def astep(self, q0):
        if os.getpid() != self.parent and self.iter_count == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().astep(q0)


def test_killed_worker_is_an_error_not_a_hang(model, points):
    KillsItsWorker.parent = os.getpid()
    step = make_step(model, points, kernel=KillsItsWorker)
    begin = time.monotonic()
    with pytest.raises((RuntimeError, SamplingError, EOFError, ConnectionError)):
        sample(model, step, cores=2, mp_ctx="fork")
    assert time.monotonic() - begin < 120
