"""The unconstrained vector: which models have one, what lies where, and how draws get there."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor.compile.mode import Mode

from pymc_spectral.density import model_graph as graph
from pymc_spectral.density.batched import batched_density
from pymc_spectral.density.model_graph import Layout, check_model, forward_transforms

PYTHON = Mode(linker="py", optimizer="fast_compile")

shapes = st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=5).map(
    tuple
)


@given(shapes, st.lists(st.integers(1, 3), max_size=2).map(tuple), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_ravel_and_unravel_are_inverse(shapes, lead, seed):
    layout = Layout(tuple(f"v{i}" for i in range(len(shapes))), shapes)
    x = np.random.default_rng(seed).normal(size=(*lead, layout.d))
    point = layout.unravel(x)
    assert {name: value.shape for name, value in point.items()} == {
        name: (*lead, *shape) for name, shape in zip(layout.names, shapes, strict=True)
    }
    np.testing.assert_array_equal(layout.ravel(point), x)
    # Variables follow each other without gaps, each in C order.
    flat = [np.reshape(value, (*lead, -1)) for value in point.values()]
    np.testing.assert_array_equal(np.concatenate(flat, axis=-1), x)


def test_the_order_is_that_of_the_model_not_of_the_point():
    with pm.Model() as model:
        pm.Normal("b", shape=2)
        pm.HalfNormal("a")
    density = batched_density(model)  # nothing is compiled here
    assert density.names == ("b", "a_log__")
    row = density.ravel({"a_log__": np.array(3.0), "b": np.array([1.0, 2.0])})
    np.testing.assert_array_equal(row, [1, 2, 3])
    with pytest.raises(ValueError, match=r"no \['b'\]; it holds \['a_log__'\]"):
        density.ravel({"a_log__": np.array(3.0)})


def test_discrete_variables_are_refused_with_the_line_to_type():
    with pm.Model() as model:
        pm.Normal("x")
        z = pm.Bernoulli("z", 0.5)
        pm.Poisson("k", 2.0)
        pm.Normal("y", z, 1, observed=[1.0])
    with pytest.raises(ValueError, match="discrete: z, k") as refusal:
        check_model(model)
    assert 'pymc_extras.marginalize(model, ["z", "k"])' in str(refusal.value)


def test_models_without_free_variables_are_refused_and_observed_counts_are_fine():
    with pm.Model() as model:
        pm.Normal("y", observed=[1.0])
    with pytest.raises(ValueError, match="no free variables"):
        check_model(model)
    with pm.Model() as model:
        pm.Poisson("count", pm.math.exp(pm.Normal("x")), observed=[3])
    check_model(model)


@pytest.fixture(scope="module")
def bounded():
    """A bound that is itself a variable, a simplex, and no transform."""
    with pm.Model() as model:
        plain = pm.Normal("plain", shape=2)
        top = pm.HalfNormal("top", 1.0)
        pm.Uniform("below", plain[0], plain[0] + top)
        pm.Dirichlet("weights", np.ones(3))
    draws = pm.draw(model.free_RVs, draws=20, random_seed=1)
    return model, dict(zip([v.name for v in model.free_RVs], draws, strict=True))


def back(model, rows):
    """Constrained values by PyMC's own inverse, point after point."""
    layout = batched_density(model).layout
    outputs = model.unobserved_value_vars
    function = model.compile_fn(outputs, inputs=model.value_vars, mode=PYTHON)
    names = [v.name for v in outputs]
    return [dict(zip(names, function(layout.unravel(row)), strict=True)) for row in rows]


def test_forward_transforms_are_the_inverse_of_pymc_s(bounded):
    model, draws = bounded
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        rows = forward_transforms(model)(draws)
    assert rows.shape == (20, 6)
    for i, point in enumerate(back(model, rows)):
        for name, values in draws.items():
            np.testing.assert_allclose(point[name], values[i], rtol=1e-6, atol=1e-9)


def test_transforms_without_a_vectorized_form_are_applied_draw_by_draw(bounded, monkeypatch):
    model, draws = bounded

    def refuse(*args, **kwargs):
        raise NotImplementedError("this Op cannot be vectorized")

    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        at_once = forward_transforms(model)(draws)
        monkeypatch.setattr(graph, "vectorize_graph", refuse)
        np.testing.assert_allclose(forward_transforms(model)(draws), at_once)
