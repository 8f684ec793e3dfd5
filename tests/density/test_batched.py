"""The batched density equals PyMC's own, point by point, for every kind of variable."""

import logging

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.blocking import DictToArrayBijection, RaveledVars
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

from pymc_spectral import targets
from pymc_spectral.density.batched import batched_density

# Right or wrong does not depend on the linker, and this one spares minutes of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")


def bounded_model():
    """Interval, log and no transform, a Potential with a hard constraint, data in a container."""
    with pm.Model() as model:
        data = pm.Data("data", np.linspace(-1, 1, 5))
        lower = pm.Uniform("lower", -1, 2)
        scale = pm.HalfNormal("scale", 2, shape=(2,))
        free = pm.Flat("free")
        positive = pm.HalfFlat("positive")
        pm.Potential("wall", pt.switch(free > 1.0, -np.inf, -0.5 * free**2 - positive))
        pm.Normal("y", lower * data, scale[0] + scale[1], observed=np.ones(5))
    return model


def shapes_model():
    """Simplex, ordered and Cholesky variables."""
    with pm.Model() as model:
        pm.Dirichlet("weights", np.ones(3))
        order = pm.Normal(
            "order",
            0,
            1,
            shape=3,
            initval=[-1.0, 0.0, 1.0],
            transform=pm.distributions.transforms.ordered,
        )
        chol, _, _ = pm.LKJCholeskyCov(
            "chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1), compute_corr=True
        )
        pm.MvNormal("z", order[:2], chol=chol, observed=np.ones((4, 2)))
    return model


def compare(model, mode=None, spread=1.0, m=12, seed=0):
    """Compare a batch with PyMC's compiled scalar functions."""
    kwargs = {} if mode is None else {"mode": mode}
    density = batched_density(model, compile_kwargs=kwargs)
    point = {v.name: model.initial_point()[v.name] for v in model.value_vars}
    raveled = DictToArrayBijection.map(point)
    np.testing.assert_array_equal(raveled.data, density.initial_point)
    rng = np.random.default_rng(seed)
    x = raveled.data + spread * rng.standard_normal((m, density.d))
    points = [DictToArrayBijection.rmap(RaveledVars(row, raveled.point_map_info)) for row in x]
    # The scalar functions are only called a few times: not worth a full compilation.
    logp = model.compile_logp(mode=PYTHON)
    dlogp = model.compile_dlogp(mode=PYTHON)
    truth = np.array([logp(p) for p in points])
    gradient = np.array([dlogp(p) for p in points])
    value, slope = density.logp_and_grad(x)
    inside = np.isfinite(truth)
    assert inside.sum() >= m // 3
    np.testing.assert_array_equal(np.isfinite(value), inside)
    np.testing.assert_allclose(value[inside], truth[inside], rtol=1e-8)
    np.testing.assert_allclose(slope[inside], gradient[inside], rtol=1e-6, atol=1e-6)
    return density, x, truth


def test_bounded_variables_and_hard_constraints():
    density, x, truth = compare(bounded_model(), PYTHON)
    assert not np.isfinite(truth).all(), "the wall must be met, or this test is blind to it"
    log_prior, log_likelihood = density.parts(x)
    np.testing.assert_allclose(log_prior + log_likelihood, truth, rtol=1e-8)


def test_simplex_ordered_and_cholesky():
    compare(shapes_model(), PYTHON)


@pytest.mark.slow
@pytest.mark.parametrize("make", [bounded_model, shapes_model])
def test_fully_compiled(make):
    compare(make())


def test_the_two_parts_and_their_weighted_gradient():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, 1, observed=[1.0, 3.0])
    density = batched_density(model)
    x = np.linspace(-2, 2, 7)[:, None]
    weight = np.linspace(0, 1, 7)
    prior, likelihood, gradient = density.parts_and_grad(x, weight)
    mu = x[:, 0]
    np.testing.assert_allclose(prior, -0.5 * mu**2 / 4 - np.log(2) - 0.5 * np.log(2 * np.pi))
    expected = -0.5 * ((mu - 1) ** 2 + (mu - 3) ** 2) - np.log(2 * np.pi)
    np.testing.assert_allclose(likelihood, expected)
    np.testing.assert_allclose(gradient[:, 0], -mu / 4 + weight * (4 - 2 * mu), atol=1e-12)


def test_one_bad_row_leaves_the_others_alone():
    """A parameter check that fails is -inf there; vectorized naively it spoils the whole batch."""
    with pm.Model() as model:
        sigma = pm.Flat("sigma")
        pm.Normal("y", 0, sigma, observed=[1.0, -1.0])
    value = batched_density(model, compile_kwargs={"mode": PYTHON}).logp(
        np.array([[1.0], [-1.0], [2.0]])
    )
    np.testing.assert_array_equal(np.isfinite(value), [True, False, True])


def test_long_sums_are_the_same_sums():
    """Rows of observations are summed by a product; what is not finite stays in its own row."""
    y = np.random.default_rng(0).normal(size=50)
    with pm.Model() as model:
        mu = pm.Flat("mu")
        sigma = pm.Flat("sigma")
        pm.Normal("y", mu, sigma, observed=y)
    x = np.array([[0.0, 1.0], [0.0, -1.0], [1e200, 1.0], [2.0, 3.0]])
    density = batched_density(model, gradient=False, compile_kwargs={"mode": PYTHON})
    value = density.logp(x)
    expected = [stats.norm.logpdf(y, *row).sum() for row in x[[0, 3]]]
    np.testing.assert_allclose(value[[0, 3]], expected)
    assert np.all(np.isneginf(value[[1, 2]]))
    operations = [type(node.op).__name__ for node in density._parts.maker.fgraph.toposort()]
    assert "Sum" not in operations


def test_data_can_be_changed_after_compilation():
    with pm.Model() as model:
        data = pm.Data("data", np.zeros(3))
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=data)
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    before = density.logp(np.zeros((1, 1)))
    pm.set_data({"data": np.ones(3)}, model=model)
    np.testing.assert_allclose(density.logp(np.zeros((1, 1))) - before, -1.5)


def test_gradient_in_the_far_tails_of_a_mixture():
    target = targets.paper2d()
    x = np.array([[300.0, 100.0], [-1000.0, 2000.0]])
    value, gradient = batched_density(target.build()).logp_and_grad(x)
    np.testing.assert_allclose(value, target.logp(x))
    step = 1e-3
    for i in range(2):
        shift = np.eye(2)[i] * step
        slope = (target.logp(x + shift) - target.logp(x - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[:, i], slope, rtol=1e-5)


def test_nan_and_infinity_are_minus_inf_and_counted_and_often_infinity_is_refused():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("log", pt.log(x))
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    np.testing.assert_array_equal(density.logp(np.array([[-1.0], [1.0]])), [-np.inf, 0.0])
    assert density.n_nan == 1
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("pole", 1 / x**2)
    density = batched_density(model, compile_kwargs={"mode": PYTHON})
    np.testing.assert_array_equal(density.logp(np.array([[1.0], [0.0]])), [1.0, -np.inf])
    assert density.n_infinite == 1
    with pytest.raises(ValueError, match=r"\+inf at .* points, at \{'x': 0\.0\}"):
        density.logp(np.zeros((100, 1)))


class Square(Op):
    """An Op that PyTensor knows nothing about: no gradient, no C, no Numba."""

    def make_node(self, x):
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(-0.5 * inputs[0] ** 2)


def black_box_model():
    with pm.Model() as model:
        x = pm.Flat("x", shape=3)
        pm.Potential("p", Square()(x).sum())
    return model


def test_black_box_has_no_gradient_but_a_density():
    density = batched_density(black_box_model(), compile_kwargs={"mode": PYTHON})
    assert not density.has_gradient
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(density.logp(x), -0.5 * (x**2).sum(axis=1))
    with pytest.raises(ValueError, match="no gradient"):
        density.logp_and_grad(x)


def test_falls_back_to_a_loop_when_the_graph_refuses(monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise NotImplementedError("this Op cannot be vectorized")

    monkeypatch.setattr("pymc_spectral.density.batched.vectorize_graph", refuse)
    target = targets.crossing()
    with caplog.at_level(logging.WARNING, logger="pymc_spectral"):
        density = batched_density(target.build(), compile_kwargs={"mode": PYTHON})
    assert not density.vectorized
    assert caplog.text.count("one by one") == 1
    x = np.random.default_rng(0).normal(size=(5, 2))
    value, gradient = density.logp_and_grad(x)
    np.testing.assert_allclose(value, target.logp(x))
    assert gradient.shape == (5, 2)


def test_a_scan_is_evaluated_row_by_row_or_at_once_but_rightly():
    # An AR(1) likelihood written as a loop, against the same written out.
    y = np.random.default_rng(1).normal(size=8)

    def log_density(previous, now, rho):
        return pm.logp(pm.Normal.dist(rho * previous, 1.0), now)

    with pm.Model() as model:
        rho = pm.Normal("rho")
        terms = pytensor.scan(
            log_density,
            sequences=[{"input": pt.as_tensor(y), "taps": [-1, 0]}],
            non_sequences=[rho],
            return_updates=False,
        )
        pm.Potential("series", terms.sum())
    density = batched_density(model)
    x = np.linspace(-1.5, 1.5, 7)[:, None]
    mean = x * y[:-1]
    expected = stats.norm.logpdf(x[:, 0]) + stats.norm.logpdf(y[1:], mean).sum(axis=1)
    value, gradient = density.logp_and_grad(x)
    np.testing.assert_allclose(value, expected)
    slope = -x[:, 0] + ((y[1:] - mean) * y[:-1]).sum(axis=1)
    np.testing.assert_allclose(gradient[:, 0], slope)


def test_wrong_shape_discrete_and_empty_models():
    with pytest.raises(ValueError, match=r"shape \(m, 2\)"):
        batched_density(targets.crossing().build()).logp(np.zeros((3, 3)))
    with pm.Model() as model:
        pm.Bernoulli("flip", 0.5)
    with pytest.raises(
        ValueError, match=r'discrete: flip.*pymc_extras\.marginalize\(model, \["flip"\]\)'
    ):
        batched_density(model)
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=[1.0])
    with pytest.raises(ValueError, match="no free variables"):
        batched_density(model)
