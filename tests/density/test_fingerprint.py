"""A model that changed under a step is noticed, and what does not matter is not."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from helpers import make_step, sample
from pymc.exceptions import SamplingError

from pymc_spectral.density.fingerprint import fingerprint


def build():
    with pm.Model() as model:
        y = pm.Data("y", np.array([4.0, 3.0]))
        where = pm.Data("where", np.array([1.0]))
        x = pm.Normal("x", 0.3, 2, shape=2)
        pm.Normal("obs", x**2, 0.5, observed=y)
        pm.Deterministic("there", x[0] * where)
    return model


def test_nothing_changed():
    model = build()
    assert fingerprint(model).difference(fingerprint(model)) is None
    assert fingerprint(model).difference(fingerprint(build())) is None


def test_new_data_are_seen():
    model = build()
    before = fingerprint(model)
    with model:
        pm.set_data({"y": np.array([4.0, 3.5])})
    assert before.difference(fingerprint(model)) == "new values of y"


def test_data_that_the_density_does_not_depend_on_may_change():
    model = build()
    before = fingerprint(model)
    with model:
        pm.set_data({"where": np.array([2.0])})
    assert before.difference(fingerprint(model)) is None


@pytest.mark.parametrize("changed", [0, 1])
@pytest.mark.parametrize("name", [None, "same"])
def test_new_values_are_seen_of_each_of_several_variables_of_one_name(name, changed):
    """Shared variables need no name, and two may have the same."""
    shared = [pytensor.shared(np.array(value), name=name) for value in (1.0, 2.0)]
    with pm.Model() as model:
        pm.Normal("x", shared[0], shared[1])
    before = fingerprint(model)
    assert len(before.data) == 2
    assert before.difference(fingerprint(model)) is None
    shared[changed].set_value(np.array(3.0))
    said = before.difference(fingerprint(model))
    assert said is not None and said.startswith("new values of ")


def test_new_terms_are_seen():
    model = build()
    before = fingerprint(model)
    with model:
        pm.Potential("more", -(model["x"] ** 2).sum())
    assert before.difference(fingerprint(model)) == "potential more added"


@pytest.fixture(scope="module")
def prepared():
    model = build()
    points = np.array([[a, b] for a in (-2.0, 2.0) for b in (-1.7, 1.7)])
    points = np.repeat(points, 50, axis=0)
    points = points + 0.1 * np.random.default_rng(0).standard_normal(points.shape)
    return model, make_step(model, points)


def test_a_step_refuses_a_model_with_new_data(prepared):
    model, step = prepared
    with model:
        pm.set_data({"y": np.array([1.0, 1.0])})
    with pytest.raises(SamplingError, match=r"new values of y.*Construct the step again"):
        sample(model, step, draws=20, tune=20)
    with model:
        pm.set_data({"y": np.array([4.0, 3.0]), "where": np.array([3.0])})
    idata = sample(model, step, draws=20, tune=20)  # as explored: only a prediction has changed
    there = idata["posterior"]["there"].values[..., 0]
    np.testing.assert_allclose(there, 3 * idata["posterior"]["x"].values[..., 0])
