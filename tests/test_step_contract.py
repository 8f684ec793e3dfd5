"""What PyMC may expect of a step method, for every kernel: stats, states, processes, arguments."""

from typing import get_args

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from helpers import group, make_step, sample
from pymc.step_methods.compound import BlockedStep

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral.bridge.weights import STATS
from pymc_spectral.cells.kernel_choice import KINDS, NAMED, KernelName, resolve_kernel

TARGET = targets.paper2d()
KERNELS = {
    **{name: name for name in NAMED},
    "hmc": pm.HamiltonianMC,
    "differential_evolution": pm.DEMetropolisZ,
}
TUNE, DRAWS = 30, 20
MARK = "compiled_with_these_options"


def test_every_name_has_a_class_and_every_kind_is_tried():
    assert list(NAMED) == list(get_args(KernelName))
    classes = [NAMED.get(kernel, kernel) for kernel in KERNELS.values()]
    assert {next(c for c in cls.__mro__ if c in KINDS) for cls in classes} == set(KINDS)


@pytest.fixture(scope="module")
def model():
    return TARGET.build()


@pytest.fixture(scope="module")
def partition():
    """Four cells, fitted once for all kernels."""
    points = TARGET.sample(np.random.default_rng(0), 2000)
    return ps.SpectralPartition(random_state=0).fit(points, logp=TARGET.logp)


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture(scope="module")
def step(model, partition, kernel):
    """Step as most users make it."""
    return make_step(model, None, partition=partition, kernel=kernel, vars=model.value_vars)


@pytest.fixture(scope="module")
def other(model, partition, kernel):
    """A second step on the same model, made with all the arguments that must not matter."""
    return make_step(
        model,
        None,
        partition=partition,
        kernel=kernel,
        vars=model["x"],
        pool_fresh=False,
        compile_kwargs={"name": MARK},
    )


def begin(step, chain):
    """Begin a chain as PyMC does: its generator says which one it is."""
    step.setup_chain(np.random.default_rng(1).spawn(4)[chain], TUNE, DRAWS)


def moves(step, chain):
    """All draws of a chain one by one: points and stats."""
    begin(step, chain)
    point = step.model.initial_point()
    for i in range(TUNE + DRAWS):
        if i == TUNE:
            step.stop_tuning()
        point, [stats] = step.step(point)
        yield point["x"].copy(), stats


def points_of(step, chain):
    return np.array([x for x, _ in moves(step, chain)])


@pytest.fixture(scope="module")
def chains(step):
    """Draws of chains 0 and 1, the first after the second."""
    second = points_of(step, 1)
    return points_of(step, 0), second


def test_chains_move_in_their_cells(step, chains):
    """What follows compares draws, and says nothing about chains that stand still."""
    for cell, draws in enumerate(chains):
        assert np.all(step.partition.predict(draws) == cell)
        assert len(np.unique(draws[TUNE:], axis=0)) > DRAWS / 4


# ---------------------------------------------------------------- stats


@pytest.mark.parametrize("pooled", [True, False], ids=["pool_fresh", "no_fresh"])
def test_stats_that_arrive_are_those_declared(model, step, other, pooled):
    """Names, types and shapes, and nothing is lost when PyMC records them."""
    tried = step if pooled else other
    declared = tried.stats_dtypes_shapes
    assert tried.stats_dtypes[0].keys() == declared.keys()
    assert set(STATS) < set(declared)
    assert ("fresh_point" in declared) == pooled
    delivered, traces = [], []

    def watch(trace, draw):
        delivered.append(draw.stats[0])
        traces.append(trace)

    sample(model, tried, draws=8, tune=8, callback=watch)
    assert len(delivered) == 16 * tried.n_cells
    for stats in delivered:
        assert stats.keys() == declared.keys()
    # One trace a chain; those of the draws of tuning are in it.
    trace, first = traces[0], delivered[:16]
    for name, (dtype, shape) in declared.items():
        recorded = trace.get_sampler_stats(name, sampler_idx=0)
        if shape is None:  # an object, such as a warning
            assert recorded.dtype == object
            continue
        assert recorded.dtype == np.dtype(dtype), name
        assert recorded.shape == (16, *shape), name
        for i, stats in enumerate(first):
            assert np.can_cast(np.asarray(stats[name]).dtype, dtype, "same_kind"), name
            np.testing.assert_array_equal(recorded[i], np.broadcast_to(stats[name], shape))


# ---------------------------------------------------------------- states


def test_state_saved_and_restored_steps_alike(step):
    """In the chain that saved it; and after a chain in another cell, whose scales are others."""
    chain = moves(step, 1)
    for _ in range(TUNE + 5):
        x, _ = next(chain)
    state = step.sampling_state
    after, stats = next(chain)
    for disturb in (lambda: None, lambda: points_of(step, 0)):
        disturb()
        step.sampling_state = state
        assert step.current_cell == 1
        again, [same] = step.step({"x": x.copy()})
        np.testing.assert_array_equal(again["x"], after)
        for name in ("log_target_fresh", "log_proposal_fresh", "log_proposal_draw"):
            assert same[name] == stats[name]


def test_same_chain_again_gives_the_same_draws(step, chains):
    """No tuning leaks from chain to chain, whatever ran in between."""
    np.testing.assert_array_equal(points_of(step, 0), chains[0])
    np.testing.assert_array_equal(points_of(step, 0), chains[0])
    abandoned = moves(step, 2)
    for _ in range(TUNE // 2):
        next(abandoned)
    np.testing.assert_array_equal(points_of(step, 1), chains[1])


def test_same_draws_through_pm_sample_and_whatever_initvals(model, step, chains):
    """A chain starts in its cell: values that the user gives, or PyMC makes, lead out of it."""
    idata = sample(model, step, draws=DRAWS, tune=TUNE, initvals={"x": np.array([50.0, -50.0])})
    draws = group(idata, "cell_posterior")["x"].values
    for cell in range(2):
        np.testing.assert_array_equal(draws[cell], chains[cell][TUNE:])


# ---------------------------------------------------------------- processes


def test_pickled_and_unpickled_gives_the_same_draws(step, chains):
    """As in a spawned process: what is compiled is left out and compiled again."""
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    np.testing.assert_array_equal(points_of(copy, 1), chains[1])


def test_two_steps_at_once_do_not_disturb_each_other(step, other, chains):
    """Draw by draw in turn, in different cells of one model."""
    mine, theirs = [], []
    for (x, _), (y, _) in zip(moves(step, 1), moves(other, 0), strict=True):
        mine.append(x)
        theirs.append(y)
    np.testing.assert_array_equal(mine, chains[1])
    np.testing.assert_array_equal(theirs, chains[0])


# ---------------------------------------------------------------- arguments


def test_variables_and_value_variables_are_accepted(model, step, other):
    """`step` was given the value variables, `other` one variable of the model, not in a list."""
    assert step.vars == other.vars == model.value_vars


def functions_of(step):
    """What a PyMC step method has compiled, by the attributes that hold it."""
    held = list(vars(step).values())
    held += [vars(value).get("_pytensor_function") for value in held if hasattr(value, "__dict__")]
    return [value for value in held if hasattr(value, "maker")]


def test_compile_kwargs_reach_the_kernel(step, other):
    assert functions_of(step.kernel_step)
    assert all(function.name != MARK for function in functions_of(step.kernel_step))
    assert functions_of(other.kernel_step)
    assert all(function.name == MARK for function in functions_of(other.kernel_step))


class TakesNoOptions(BlockedStep):
    """Step method of a user, who did not think of compile_kwargs."""

    def __init__(self, vars, model=None, blocked=True):
        self.vars = vars

    def step(self, point):
        return point, [{}]


class HandsOn(pm.NUTS):
    """Step method that hands what it does not know to its base."""

    def __init__(self, vars=None, *, extra=None, **kwargs):
        super().__init__(vars, **kwargs)


def test_compile_kwargs_that_would_be_lost_are_refused(model, partition):
    with pytest.raises(TypeError, match=r"TakesNoOptions takes no compile_kwargs.*without mode"):
        make_step(
            model,
            None,
            partition=partition,
            kernel=TakesNoOptions,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
    assert resolve_kernel(TakesNoOptions, True)[0] is TakesNoOptions
    found, _ = resolve_kernel(
        HandsOn,
        True,
        kernel_kwargs={"extra": 1, "target_accept": 0.9},
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    assert found is HandsOn


class TakesAnything(BlockedStep):
    """Step method whose options only it knows."""

    def __init__(self, vars, **options):
        self.vars = vars


def test_options_that_only_the_class_knows_are_left_to_it():
    kernel_kwargs = {"of_its_own": 1}
    assert resolve_kernel(TakesAnything, True, kernel_kwargs=kernel_kwargs)[0] is TakesAnything
