"""The restricted target: the PyTensor cell is the NumPy cell, and nothing else changes."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.model.transform import optimization

from pymc_spectral import KMeansPartition, SpectralPartition, targets
from pymc_spectral.cells import restricted_target as restrict
from pymc_spectral.cells.kernel_choice import make_kernel
from pymc_spectral.cells.restricted_target import (
    NAN_CODE,
    OUTSIDE,
    RestrictedTarget,
    Verdict,
    cell_graph,
    verdict,
)
from pymc_spectral.partition.cell_rules import DiscriminantRule, NystromRule, VoronoiRule

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


def far_points(x, n):
    """A part in the draws' surroundings, a part in far tails, a part of points of size 1e6."""
    rng = np.random.default_rng(5)
    d, spread = x.shape[1], x.std(axis=0)
    third = n // 3
    return np.vstack(
        [
            x.mean(axis=0) + 3 * spread * rng.standard_normal((n - 2 * third, d)),
            x.mean(axis=0) + 50 * spread * rng.standard_cauchy((third, d)),
            1e6 * rng.standard_normal((third, d)),
        ]
    )


def points_beside_boundaries(x, predict, n):
    """Pairs of points on either side of a boundary: bisected from draws of different cells.

    Halved 20 times, so that a side is a millionth of the distance between two draws away from the
    boundary: near enough for a slightly different formula to fail, far beyond rounding.
    """
    rng = np.random.default_rng(6)
    a, b = x[rng.integers(len(x), size=(2, 20 * n))]
    left, right = predict(a), predict(b)
    apart = np.flatnonzero(left != right)[: n // 2]
    a, b, left = a[apart], b[apart], left[apart]
    for _ in range(20):
        middle = (a + b) / 2
        stays = (predict(middle) == left)[:, None]
        a, b = np.where(stays, middle, a), np.where(stays, b, middle)
    return np.vstack([a, b])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TARGETS)
def test_graph_and_numpy_agree_beside_boundaries_and_far_away(name, rule):
    target = TARGETS[name]()
    x = target.sample(np.random.default_rng(0), 2000)
    fitted = RULES[rule]().fit(x)
    assert isinstance(fitted.rule_, TYPES[rule])
    beside = points_beside_boundaries(x, fitted.predict, 500)
    assert len(beside) == 500
    assert np.all(fitted.predict(beside[:250]) != fitted.predict(beside[250:]))
    points = np.vstack([beside, far_points(x, 500)])
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
    x = target.sample(np.random.default_rng(1), 250)
    points = np.vstack([x, far_points(x, 250)])
    cells = fitted.predict(points)
    exact = target.logp(points)
    for cell in range(fitted.n_cells_):
        restricted.select(cell)  # one compilation serves every cell
        values = np.array([logp(p) for p in points])
        np.testing.assert_allclose(values[cells == cell], exact[cells == cell], rtol=1e-9)
        assert np.all(values[cells != cell] == OUTSIDE)


def test_points_are_evaluated_in_any_cell_and_the_selected_one_stays(paper):
    target, fitted, _, restricted, logp = paper
    points = target.sample(np.random.default_rng(3), 100)
    cells, exact = fitted.predict(points), target.logp(points)
    restricted.select(2)
    for cell in range(fitted.n_cells_):
        values, inside = logp.in_cell(cell, points)
        np.testing.assert_array_equal(inside, cells == cell)
        np.testing.assert_allclose(values[inside], exact[inside], rtol=1e-9)
        assert np.all(values[~inside] == -np.inf)
    assert restricted.selected == 2
    with pytest.raises(ValueError, match="could not convert"):
        logp.in_cell(1, ["no point"])
    assert restricted.selected == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, Verdict.INSIDE),
        (-1e200, Verdict.INSIDE),
        (np.inf, Verdict.INSIDE),
        (-np.inf, Verdict.INSIDE),  # the model's own wall
        (NAN_CODE, Verdict.NAN),
        (OUTSIDE, Verdict.OUTSIDE),
    ],
)
def test_verdict_reads_values_and_their_changes_alike(value, expected):
    assert verdict(value) is expected
    for start in (-1e6, 0.0, 1e6, -1e200):
        assert verdict(value - start) is expected


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


def test_frozen_model_does_not_mix_its_density_with_that_of_a_cell(paper):
    """It caches its gradients: the kernel must not get one of before, nor leave its own behind.

    PyMC before 6.4 does not freeze models; of a plain one the same must hold.
    """
    freeze = getattr(optimization, "freeze_model", lambda model: model)
    target, fitted, model, _, _ = paper
    frozen = freeze(model)

    def outside(step):
        """Log density that a step method sees at a point of cell 1."""
        return float(step._logp_dlogp_func._pytensor_function(fitted.members(1)[0])[0])

    expected = pytest.approx(float(target.logp(fitted.members(1)[:1])[0]), rel=1e-9)
    for _ in range(2):
        assert outside(pm.HamiltonianMC(model=frozen)) == expected
        restricted = RestrictedTarget(frozen, fitted.rule_)
        kernel = make_kernel(
            restricted, pm.HamiltonianMC, Q=None, kernel_kwargs={}, compile_kwargs={}
        )
        restricted.select(0)
        assert outside(kernel.step) == OUTSIDE


def test_nan_gets_a_code_of_its_own():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("trap", pt.switch(x > 1, np.nan, 0.0))
    fitted = KMeansPartition(1, random_state=0).fit([[-1.0], [0.0], [1.0]])
    logp = RestrictedTarget(model, fitted.rule_).compile_logp()
    assert logp(np.array([2.0])) == NAN_CODE
    assert logp.evaluate(np.array([2.0])) == (-np.inf, Verdict.NAN)
    value, found = logp.evaluate(np.array([0.5]))
    assert found is Verdict.INSIDE
    assert value == pytest.approx(-0.5 * np.log(2 * np.pi) - 0.125)


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
