"""The restricted target: the PyTensor cell is the NumPy cell, and nothing else changes."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_spectral import KMeansPartition, SpectralPartition, targets
from pymc_spectral.cells import target as restrict
from pymc_spectral.cells.kernels import make_kernel
from pymc_spectral.cells.target import CODES_BELOW, NAN_LOGP, OUTSIDE, RestrictedTarget, cell_graph
from pymc_spectral.partition.rules import DiscriminantRule, NystromRule, VoronoiRule

RULES = {
    "discriminant": lambda: SpectralPartition(n_landmarks=300, random_state=0),
    "nystrom": lambda: SpectralPartition(
        4, join=False, extension="nystrom", n_landmarks=150, random_state=0
    ),
    "gaussian": lambda: SpectralPartition(
        4,
        affinity="gaussian",
        Q=0.8,
        join=False,
        extension="nystrom",
        n_landmarks=150,
        random_state=0,
    ),
    "kmeans": lambda: KMeansPartition(5, random_state=0),
}
TYPES = {
    "discriminant": DiscriminantRule,
    "nystrom": NystromRule,
    "gaussian": NystromRule,
    "kmeans": VoronoiRule,
}
TARGETS = {
    "paper2d": targets.paper2d,
    "ten_d": targets.ten_d,
    "docs_pair80": lambda: targets.docs_pair(80),
    "twenty": targets.twenty,
}


def ten_thousand_points(x):
    """The draws' region, its surroundings, far tails, and points of size 1e6."""
    rng = np.random.default_rng(5)
    d, spread = x.shape[1], x.std(axis=0)
    return np.vstack(
        [
            x[:2000],
            x.mean(axis=0) + 3 * spread * rng.standard_normal((4000, d)),
            x.mean(axis=0) + 50 * spread * rng.standard_cauchy((2000, d)),
            1e6 * rng.standard_normal((2000, d)),
        ]
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TARGETS)
def test_graph_and_numpy_agree_on_ten_thousand_points(name, rule):
    target = TARGETS[name]()
    x = target.sample(np.random.default_rng(0), 2000)
    fitted = RULES[rule]().fit(x)
    assert isinstance(fitted.rule_, TYPES[rule])
    points = ten_thousand_points(x)
    assert len(points) == 10_000
    vector = pt.dvector("x")
    cell = pytensor.function([vector], cell_graph(fitted.rule_, vector), trust_input=True)
    np.testing.assert_array_equal([int(cell(p)) for p in points], fitted.predict(points))


def test_unknown_rule_is_refused():
    with pytest.raises(TypeError, match="No graph is known"):
        cell_graph(object(), pt.dvector("x"))


@pytest.fixture(scope="module")
def paper():
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(0), 2000)
    fitted = SpectralPartition(random_state=0).fit(x, logp=target.logp)
    model = target.build()
    restricted = RestrictedTarget(model, fitted.rule_)
    return target, fitted, model, restricted, restricted.compile_logp()


def test_logp_is_the_models_inside_and_a_code_outside(paper):
    target, fitted, _, restricted, logp = paper
    points = ten_thousand_points(target.sample(np.random.default_rng(1), 2000))[::20]
    cells = fitted.predict(points)
    exact = target.logp(points)
    for cell in range(fitted.n_cells_):
        restricted.select(cell)  # one compilation serves every cell
        values = np.array([float(logp(p)) for p in points])
        np.testing.assert_allclose(values[cells == cell], exact[cells == cell], rtol=1e-9)
        assert np.all(values[cells != cell] == OUTSIDE)


def test_gradient_is_the_models_inside(paper):
    target, fitted, model, restricted, _ = paper
    kernel = make_kernel(restricted, pm.NUTS, Q=None, kernel_kwargs={}, compile_kwargs={})
    plain = model.logp_dlogp_function(ravel_inputs=True)
    plain.set_extra_values({})
    x = target.sample(np.random.default_rng(2), 20)
    for point in x:
        restricted.select(int(fitted.predict(point[None])[0]))
        value, gradient = kernel.step._logp_dlogp_func._pytensor_function(point)
        expected, expected_gradient = plain([point])
        assert value == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8)


def test_model_is_put_back(paper):
    _, _, model, restricted, _ = paper
    with restricted.confining_model() as confined:
        assert "logp" in vars(confined)
        assert len(pm.Model.logp(confined, sum=False)) == len(confined.logp(sum=False))
    assert "logp" not in vars(model)
    with pytest.raises(RuntimeError, match="inside"), restricted.confining_model():
        raise RuntimeError("inside")
    assert "logp" not in vars(model)


def test_nan_gets_a_code_of_its_own():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("trap", pt.switch(x > 1, np.nan, 0.0))
    fitted = KMeansPartition(1, random_state=0).fit([[-1.0], [0.0], [1.0]])
    logp = RestrictedTarget(model, fitted.rule_).compile_logp()
    assert float(logp(np.array([2.0]))) == NAN_LOGP
    assert float(logp(np.array([0.5]))) > CODES_BELOW


def test_compiled_without_fast_maths(monkeypatch):
    """Its last digit would depend on what Numba's cache holds, and a chain on its process."""
    seen = []
    compile_pymc = restrict.compile_pymc

    def watch(*args, **kwargs):
        seen.append(pytensor.config.numba__fastmath)
        return compile_pymc(*args, **kwargs)

    monkeypatch.setattr(restrict, "compile_pymc", watch)
    before = pytensor.config.numba__fastmath
    target = targets.pair1d()
    partition = KMeansPartition(2).fit(target.sample(np.random.default_rng(0), 50))
    RestrictedTarget(target.build(), partition.rule_).compile_logp()
    assert seen == [False]
    assert pytensor.config.numba__fastmath == before
