"""The targets are the ruler of every other test, so they are measured here by other means."""

import math

import numpy as np
import pytest
from pytensor.compile.mode import Mode
from scipy import integrate, stats

from pymc_spectral import targets

TARGETS = {
    "paper2d": targets.paper2d,
    "paper2d-normal": lambda: targets.paper2d("normal"),
    "paper2d-mixture": lambda: targets.paper2d("mixture"),
    "pair1d-0.15": lambda: targets.pair1d(0.15),
    "pair1d-0.4": lambda: targets.pair1d(0.4),
    "crossing": targets.crossing,
    "arcs": targets.arcs,
    "docs_pair-4": lambda: targets.docs_pair(4),
    "docs_pair-80": lambda: targets.docs_pair(80),
    "twenty": targets.twenty,
    "ten_d": targets.ten_d,
    "labels-2": lambda: targets.labels(2),
    "labels-3": lambda: targets.labels(3),
    "labels-4": lambda: targets.labels(4),
    "normal-1": lambda: targets.normal(1),
    "normal-5-flat": lambda: targets.normal(5, prior="flat"),
    "normal-20": lambda: targets.normal(20),
}
N_EXACT = 40_000
# Few evaluations, so nothing is compiled; but with the rewrites that keep logsumexp stable.
PYTHON_MODE = Mode(linker="py", optimizer="fast_run")


@pytest.fixture(params=list(TARGETS), scope="module")
def target(request):
    return TARGETS[request.param]()


@pytest.fixture(scope="module")
def model(target):
    return target.build()


def on_rows(model, function, points: np.ndarray) -> np.ndarray:
    """Evaluate a compiled function with the raveled value variable taken from each row."""
    (value,) = model.value_vars
    shape = model.initial_point()[value.name].shape
    return np.array([function({value.name: row.reshape(shape)}) for row in points])


def test_model_is_one_continuous_variable_of_the_stated_dimension(target, model):
    (variable,) = model.free_RVs
    assert variable.name == target.variable
    assert not model.discrete_value_vars
    assert sum(value.size for value in model.initial_point().values()) == target.dim


def test_numpy_logp_is_the_model_logp(target, model, rng):
    near = target.sample(rng, 20)
    spread = near.std(axis=0) + 0.1
    far = near + 3 * spread * rng.standard_normal(near.shape)
    points = np.concatenate([near, far, target.centers])
    logp = on_rows(model, model.compile_logp(mode=PYTHON_MODE), points)
    np.testing.assert_allclose(logp, target.logp(points), rtol=1e-9)


def test_gradient_is_finite_at_the_centers(target, model):
    gradient = model.compile_dlogp(mode=PYTHON_MODE)
    assert np.isfinite(on_rows(model, gradient, target.centers)).all()


def test_model_starts_inside_the_support(model):
    logp = model.compile_logp(mode=PYTHON_MODE)
    assert np.isfinite(logp(model.initial_point()))


def test_exact_draws_have_the_stated_moments(target, rng):
    draws = target.constrain(target.sample(rng, N_EXACT))
    error = np.sqrt(target.variance / N_EXACT)
    # 5 standard errors: up to 80 coordinates are compared at once.
    assert np.all(np.abs(draws.mean(axis=0) - target.mean) < 5 * error)
    squared = (draws - target.mean) ** 2
    error = squared.std(axis=0) / math.sqrt(N_EXACT)
    assert np.all(np.abs(squared.mean(axis=0) - target.variance) < 5 * error)


def test_exact_draws_fall_in_the_modes_by_weight(target, rng):
    if target.name in ("crossing", "pair1d-0.4"):
        # Components overlap here: a region is not a component, so only the sum is certain.
        mass, _ = target.region_mass(target.classify, rng, N_EXACT)
        assert mass.sum() == pytest.approx(1)
        return
    mass, error = target.region_mass(target.classify, rng, N_EXACT, n_regions=target.n_modes)
    # Overlap moves about 1e-4 of the mass between neighbors in paper2d and twenty.
    assert np.all(np.abs(mass - target.weights) < 5 * error + 3e-4)
    assert target.weights.sum() == pytest.approx(1)


def test_each_center_is_in_its_own_mode(target):
    assert list(target.classify(target.centers)) == list(range(target.n_modes))


def test_draws_follow_the_density(target, rng):
    # Importance identity with a Student: the mean of q / p over draws from p is 1 / Z.
    # In many dimensions its variance explodes, so only the small ones are asked.
    if target.dim > 5 or target.name == "arcs":
        classes = target.classify(target.sample(rng, 100))
        assert classes.max() < target.n_modes
        return
    draws = target.sample(rng, N_EXACT)
    mode = target.classify(draws)
    log_q = np.full(N_EXACT, -np.inf)
    for k, share in enumerate(target.weights):
        mine = draws[mode == k]
        covariance = np.atleast_2d(np.cov(mine.T)) * 0.5
        normal = stats.multivariate_normal(mine.mean(axis=0), covariance)
        log_q = np.logaddexp(log_q, np.log(share) + np.atleast_1d(normal.logpdf(draws)))
    ratio = np.exp(log_q - target.logp(draws) + target.log_z)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(N_EXACT)


@pytest.mark.parametrize("s", [0.15, 0.4])
def test_pair1d_evidence_by_quadrature(s):
    target = targets.pair1d(s)
    value, _ = integrate.quad(
        lambda x: float(np.exp(target.logp(np.array([[x]])))[0]), -4, 4, points=[-1, 1], limit=200
    )
    assert np.log(value) == pytest.approx(target.log_z, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "low", "high", "abs_tol"),
    [
        ("paper2d", (-13, -10), (16, 14), 1e-6),
        ("crossing", (-9, -20), (9, 25), 1e-6),
        ("twenty", (0, -1), (10, 11), 1e-6),
        ("arcs", (-1.3, -2.3), (1.3, 1.3), 5e-3),  # a step at the edges: first order only
        ("labels-2", (5, 5), (25, 25), 1e-6),
    ],
)
def test_evidence_and_mean_on_a_grid(name, low, high, abs_tol):
    target = TARGETS[name]()
    n = 1201
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(target.logp(points) - target.log_z)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    assert density.sum() * cell == pytest.approx(1, abs=abs_tol)
    mean = density @ points / density.sum()
    np.testing.assert_allclose(mean, target.mean, atol=10 * abs_tol)


def test_docs_pair_evidence_is_that_of_the_published_example():
    assert targets.docs_pair(4).log_z == pytest.approx(-5.545177, abs=1e-6)
    assert targets.docs_pair(80).log_z == pytest.approx(-110.903549, abs=1e-6)


def test_docs_pair_evidence_by_quadrature_on_the_logit_scale():
    # One coordinate: Jacobian and prior constant show here or nowhere.
    target = targets.docs_pair(1)
    value, _ = integrate.quad(
        lambda z: float(np.exp(target.logp(np.array([[z]])))[0]),
        -4,
        4,
        points=list(target.centers.ravel()),
        limit=200,
    )
    assert np.log(value) == pytest.approx(target.log_z, abs=1e-8)


def test_published_truths():
    paper = targets.paper2d()
    np.testing.assert_allclose(paper.mean, [-1.04, 0.86], atol=1e-12)
    assert paper.variance.sum() == pytest.approx(38.1, abs=0.05)
    twenty = targets.twenty()
    np.testing.assert_allclose(twenty.mean, [4.478, 4.905], atol=5e-4)
    np.testing.assert_allclose(twenty.variance + twenty.mean**2, [25.60468, 33.91964], atol=2e-3)
    assert np.exp(targets.arcs().log_z) == pytest.approx(0.8796, abs=5e-5)


@pytest.mark.parametrize("n_components", [2, 3])
def test_stored_label_evidence_is_the_quadrature(n_components):
    target = targets.labels(n_components)
    log_z, mean, variance = targets.labels_quadrature(n_components)
    finer, _, _ = targets.labels_quadrature(n_components, n_grid=41, width=11)
    assert abs(log_z - finer) < target.log_z_error
    assert log_z + np.log(math.factorial(n_components)) == pytest.approx(
        target.log_z, abs=target.log_z_error
    )
    np.testing.assert_allclose(target.mean, mean.mean(), atol=1e-8)
    np.testing.assert_allclose(target.variance, variance.mean() + mean.var(), atol=1e-8)


@pytest.mark.slow
def test_stored_label_evidence_of_four_components():
    target = targets.labels(4)
    log_z, _, _ = targets.labels_quadrature(4, n_grid=25, width=8)
    assert log_z + np.log(24) == pytest.approx(target.log_z, abs=target.log_z_error)


def test_label_draws_are_exchangeable_and_negative_control_is_not(rng):
    target = targets.labels(3)
    draws = target.sample(rng, 20_000)
    mass, error = target.region_mass(target.classify, rng, 20_000, n_regions=6)
    assert np.all(np.abs(mass - 1 / 6) < 5 * error)
    ordered = np.sort(draws, axis=1)
    assert len(np.unique(target.classify(ordered))) == 1


def test_wrong_weights_are_noticed(rng):
    # Negative control: the check on masses must be able to fail.
    target = targets.paper2d()
    mass, error = target.region_mass(target.classify, rng, N_EXACT)
    wrong = np.array([0.03, 0.20, 0.20, 0.57])
    assert np.any(np.abs(mass - wrong) > 5 * error + 3e-4)


def test_region_mass_counts_empty_regions(rng):
    mass, error = targets.normal(2).region_mass(lambda x: np.zeros(len(x), int), rng, 10, 3)
    assert list(mass) == [1, 0, 0]
    assert list(error) == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: targets.paper2d("cauchy"), ["'cauchy'", "flat", "normal", "mixture"]),
        (lambda: targets.normal(3, prior="cauchy"), ["'cauchy'", "mvnormal", "flat"]),
        (lambda: targets.normal(0), ["d=0", "at least 1"]),
        (lambda: targets.docs_pair(0), ["n=0", "at least 1"]),
        (lambda: targets.pair1d(-1), ["s=-1", "positive"]),
        (lambda: targets.labels(5), ["K=5", "2, 3, 4"]),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)
