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
    "arcs-printed": lambda: targets.arcs("printed"),
    "docs_pair-4": lambda: targets.docs_pair(4),
    "docs_pair-80": lambda: targets.docs_pair(80),
    "twenty": targets.twenty,
    "ten_d": targets.ten_d,
    "wide-3": lambda: targets.wide(3),
    "wide-10": lambda: targets.wide(10, (0, 3, -3)),
    "labels-2": lambda: targets.labels(2),
    "labels-3": lambda: targets.labels(3),
    "labels-4": lambda: targets.labels(4),
    "normal-1": lambda: targets.normal(1),
    "normal-5-flat": lambda: targets.normal(5, prior="flat"),
    "normal-20": lambda: targets.normal(20),
    "signs-3-6": lambda: targets.signs(3, 6),
    "signs-2-0": lambda: targets.signs(2, 0),
    "rings": targets.rings,
    "bananas": targets.bananas,
    "aliases": targets.aliases,
    "tails-3-1": lambda: targets.tails(3, 1),
    "tails-3-5-broad": lambda: targets.tails(3, 5, 0.9, "broad"),
    "tails-1-2": lambda: targets.tails(1, 2),
    "galaxies-2": lambda: targets.galaxies(2),
    "galaxies-3": lambda: targets.galaxies(3),
    "galaxies-4": lambda: targets.galaxies(4),
}
# Nobody can draw exactly from these; tests/targets/test_galaxies.py has their truth.
WITHOUT_DRAWS = ("galaxies-2", "galaxies-3", "galaxies-4")
N_EXACT = 40_000
# Few evaluations, so nothing is compiled; but with the rewrites that keep logsumexp stable.
PYTHON_MODE = Mode(linker="py", optimizer="fast_run")


@pytest.fixture(params=list(TARGETS), scope="module")
def target(request):
    return TARGETS[request.param]()


@pytest.fixture(params=[name for name in TARGETS if name not in WITHOUT_DRAWS], scope="module")
def drawn(request):
    """Give a target that has exact draws."""
    return TARGETS[request.param]()


@pytest.fixture(scope="module")
def model(target):
    return target.build()


def on_rows(model, function, points: np.ndarray) -> np.ndarray:
    """Evaluate a compiled function with the raveled value variables taken from each row."""
    initial = model.initial_point()
    names = [value.name for value in model.value_vars]
    ends = np.cumsum([initial[name].size for name in names])[:-1]
    return np.array(
        [
            function(
                {
                    name: part.reshape(initial[name].shape)
                    for name, part in zip(names, np.split(row, ends), strict=True)
                }
            )
            for row in points
        ]
    )


def near_points(target, rng, n: int) -> np.ndarray:
    """Exact draws; or where there are none, points around the centers."""
    if target.sample is not None:
        return target.sample(rng, n)
    return target.centers[rng.integers(target.n_modes, size=n)] + rng.normal(
        0, 0.3, (n, target.dim)
    )


def test_model_is_continuous_and_of_the_stated_dimension(target, model):
    assert target.variable in {variable.name for variable in model.free_RVs}
    assert not model.discrete_value_vars
    assert sum(value.size for value in model.initial_point().values()) == target.dim


def test_constrained_points_are_the_models_own_variable(target, model, rng):
    (variable,) = (v for v in model.free_RVs if v.name == target.variable)
    value = model.rvs_to_values[variable]
    transform = model.rvs_to_transforms[variable]
    back = value if transform is None else transform.backward(value, *variable.owner.inputs)
    points = near_points(target, rng, 5)
    inputs = model.value_vars
    of_row = model.compile_fn(back, inputs=inputs, mode=PYTHON_MODE, on_unused_input="ignore")
    own = on_rows(model, of_row, points)
    np.testing.assert_allclose(target.constrain(points), own.reshape(len(points), -1), rtol=1e-9)
    assert target.mean.shape == target.variance.shape == own.reshape(len(points), -1).shape[1:]


def test_numpy_logp_is_the_model_logp(target, model, rng):
    near = near_points(target, rng, 20)
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


def test_exact_draws_have_the_stated_moments(drawn, rng):
    draws = drawn.constrain(drawn.sample(rng, N_EXACT))
    if drawn.name.startswith("tails"):
        # Fourth moments are infinite at nu = 3, and all at nu = 1: a test of their own has these.
        return
    error = np.sqrt(drawn.variance / N_EXACT)
    # 5 standard errors: up to 80 coordinates are compared at once.
    assert np.all(np.abs(draws.mean(axis=0) - drawn.mean) < 5 * error)
    squared = (draws - drawn.mean) ** 2
    error = squared.std(axis=0) / math.sqrt(N_EXACT)
    assert np.all(np.abs(squared.mean(axis=0) - drawn.variance) < 5 * error)


def test_exact_draws_fall_in_the_modes_by_weight(drawn, rng):
    assert drawn.weights.sum() == pytest.approx(1)
    mass, error = drawn.region_mass(drawn.classify, rng, N_EXACT, n_regions=drawn.n_modes)
    assert mass.sum() == pytest.approx(1)
    if drawn.name in ("crossing", "pair1d-0.4"):
        # Components overlap here: a region is not a component, so only the sum is certain.
        return
    # Overlap moves about 1e-4 of the mass between neighbors in paper2d, twenty and tails.
    assert np.all(np.abs(mass - drawn.weights) < 5 * error + 3e-4)


def test_each_center_is_in_its_own_mode(target):
    assert list(target.classify(target.centers)) == list(range(target.n_modes))


def test_draws_follow_the_density(drawn, rng):
    # Importance identity: the mean of q / p over draws from p is 1 / Z, for a normalized q that is
    # narrower than p. In many dimensions its variance explodes, so only the small ones are asked;
    # what is not near its own center (arcs, rings, bananas, aliases) has a test of its own below.
    if drawn.dim > 5 or drawn.name.startswith(("arcs", "rings", "bananas", "aliases")):
        classes = drawn.classify(drawn.sample(rng, 100))
        assert classes.max() < drawn.n_modes
        return
    # One half of the draws makes q, of those near the center of each mode; the other half measures.
    ours, draws = np.split(drawn.sample(rng, N_EXACT), 2)
    mode = drawn.classify(ours)
    log_q = np.full(len(draws), -np.inf)
    for k, (share, center) in enumerate(zip(drawn.weights, drawn.centers, strict=True)):
        mine = ours[mode == k]
        distance = (np.abs(mine - center) / stats.iqr(mine, axis=0)).max(axis=1)
        inner = mine[distance < np.quantile(distance, 0.4)]
        normal = stats.multivariate_normal(inner.mean(axis=0), np.atleast_2d(np.cov(inner.T)))
        log_q = np.logaddexp(log_q, np.log(share) + np.atleast_1d(normal.logpdf(draws)))
    ratio = np.exp(log_q - drawn.logp(draws) + drawn.log_z)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(len(draws))


@pytest.mark.parametrize("s", [0.15, 0.4])
def test_pair1d_evidence_by_quadrature(s):
    target = targets.pair1d(s)
    value, _ = integrate.quad(
        lambda x: float(np.exp(target.logp(np.array([[x]])))[0]), -4, 4, points=[-1, 1], limit=200
    )
    assert np.log(value) == pytest.approx(target.log_z, abs=1e-8)


PLANE = {
    "paper2d": ((-13, -10), (16, 14), 1e-6),
    "crossing": ((-9, -20), (9, 25), 1e-6),
    "twenty": ((0, -1), (10, 11), 1e-6),
    "arcs": ((-1.3, -2.3), (1.3, 1.3), 5e-3),  # a step at the edges: first order only
    "arcs-printed": ((-1.2, -1.2), (1.2, 1.2), 5e-3),
    "labels-2": ((5, 5), (25, 25), 1e-6),
    "signs-2-0": ((-5, -5), (5, 5), 1e-6),
    "rings": ((-7.5, -4), (7.5, 4), 1e-6),  # on the logit scale
    "bananas": ((-18, -175), (18, 175), 1e-6),
}


def on_grid(name: str, n: int) -> tuple[targets.Target, np.ndarray, np.ndarray]:
    """Give a target of two dimensions, the (n^2, 2) nodes of a grid and the mass at each."""
    target = TARGETS[name]()
    low, high, _ = PLANE[name]
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    area = np.prod([axis[1] - axis[0] for axis in axes])
    return target, points, np.exp(target.logp(points) - target.log_z) * area


@pytest.mark.parametrize("name", list(PLANE))
def test_evidence_and_moments_on_a_grid(name):
    target, points, mass = on_grid(name, 801)
    abs_tol = PLANE[name][2]
    assert mass.sum() == pytest.approx(1, abs=abs_tol)
    values = target.constrain(points)
    mean = mass @ values / mass.sum()
    np.testing.assert_allclose(mean, target.mean, atol=10 * abs_tol)
    variance = mass @ (values - mean) ** 2 / mass.sum()
    np.testing.assert_allclose(variance, target.variance, atol=100 * abs_tol)


@pytest.mark.parametrize("name", ["arcs", "arcs-printed", "rings", "bananas"])
def test_draws_fall_in_boxes_by_the_mass_of_the_grid(name, rng):
    # Few draws for a density with steps, of whose boxes the grid knows the mass to one percent.
    n_draws = 5_000 if name.startswith("arcs") else N_EXACT
    target, points, mass = on_grid(name, 1001)
    low, high, _ = PLANE[name]

    def box(points):
        cell = (points - low) / np.subtract(high, low) * 24
        return np.clip(cell.astype(int), 0, 23) @ [24, 1]

    expected = n_draws * np.bincount(box(points), mass, minlength=24**2) / mass.sum()
    seen = np.bincount(box(target.sample(rng, n_draws)), minlength=24**2)
    enough = expected > 10
    expected = np.append(expected[enough], expected[~enough].sum() + 1e-9)
    seen = np.append(seen[enough], seen[~enough].sum())
    assert enough.sum() > 20
    assert stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1) > 1e-6


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


def test_area_of_the_printed_sliver():
    # The integral of r - cos^2 t over r from 1 to 1.1 and |t| up to h = 2 pi / 3.
    h = 2 * np.pi / 3
    sliver = 0.105 * 2 * h - 0.1 * (h + np.sin(2 * h) / 2)
    target = targets.arcs("printed")
    assert np.exp(target.log_z) == pytest.approx(0.105 * 2 * h + sliver, rel=1e-12)
    assert target.weights[1] == pytest.approx(sliver / (0.105 * 2 * h + sliver), rel=1e-12)


@pytest.mark.parametrize("d", [3, 30])
def test_wide_has_the_stated_volumes_and_distances(d, rng):
    volumes = np.array([0.0, 4.0, -2.0])
    target = targets.wide(d, volumes)
    # At its center a component's density is its weight over (2 pi)^(d/2) and its volume.
    expected = np.log(target.weights) - d / 2 * np.log(2 * np.pi) - volumes
    np.testing.assert_allclose(target.logp(target.centers), expected, rtol=1e-9)
    gram = target.centers @ target.centers.T
    np.testing.assert_allclose(gram, gram[0, 0] * np.eye(3), atol=1e-9)

    draws = target.sample(rng, N_EXACT)
    mode = target.classify(draws)
    distances = []
    for i in range(3):
        for j in {0, 1, 2} - {i}:
            line = target.centers[j] - target.centers[i]
            length = np.linalg.norm(line)
            distances.append(length / (draws[mode == i] @ line / length).std())
    # The error of a standard deviation from n draws is 1 / sqrt(2 n) of it.
    error = 1 / math.sqrt(2 * 0.2 * N_EXACT)
    assert min(distances) == pytest.approx(10, rel=5 * error)


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


@pytest.mark.parametrize("k", [1, 2, 3])
def test_signs_truth_by_adaptive_quadrature(k):
    target = targets.signs(k, 1)
    log_z, positive = 0.0, []
    for i, y in enumerate((4.0, 3.0, 5.0)[:k]):

        def joint(x, power=0, y=y):
            return x**power * stats.norm.pdf(x, 0.3, 2) * stats.norm.pdf(y, x**2, 0.5)

        # Ends and the middle are far out: y has a standard deviation of .5, and is 25 away or 3.
        minus, plus = (
            np.array([integrate.quad(joint, a, b, args=(p,), epsabs=1e-14)[0] for p in range(3)])
            for a, b in ((-6, 0), (0, 6))
        )
        z, first, second = minus + plus
        log_z += np.log(z)
        positive.append(plus[0] / z)
        assert target.mean[i] == pytest.approx(first / z, abs=1e-8)
        assert target.variance[i] == pytest.approx(second / z - (first / z) ** 2, abs=1e-8)
    assert target.log_z == pytest.approx(log_z, abs=target.log_z_error)
    np.testing.assert_allclose(
        target.weights,
        [
            np.prod([p if x > 0 else 1 - p for x, p in zip(center, positive, strict=False)])
            for center in target.centers
        ],
        atol=1e-9,
    )
    np.testing.assert_allclose(positive, [0.574, 0.564, 0.583][:k], atol=5e-4)


@pytest.mark.parametrize(
    ("nu", "d", "w", "prior"),
    [(3, 1, 0.5, "flat"), (3, 5, 0.9, "broad"), (1, 2, 0.5, "flat"), (1.5, 3, 0.3, "broad")],
)
def test_tails_are_a_mixture_of_students(nu, d, w, prior, rng):
    target = targets.tails(nu, d, w, prior)
    assert np.linalg.norm(np.diff(target.centers, axis=0)) == pytest.approx(30)
    draws = target.sample(rng, N_EXACT)
    students = [stats.multivariate_t(center, np.eye(d), df=nu) for center in target.centers]
    density = w * students[0].pdf(draws) + (1 - w) * students[1].pdf(draws)
    np.testing.assert_allclose(target.logp(draws), np.log(density), rtol=1e-9)

    # Along the diagonal draws are a pair of Students, at right angles to it they are one; and in
    # the middle between the modes nobody can tell whose a draw was, so its radius is not asked.
    def along(x):
        return w * stats.t.cdf(x + 15, nu) + (1 - w) * stats.t.cdf(x - 15, nu)

    diagonal = np.ones(d) / np.sqrt(d)
    assert stats.kstest(draws @ diagonal, along).pvalue > 1e-6
    if d > 1:
        across = (draws[:, 0] - draws[:, 1]) / np.sqrt(2)
        assert stats.kstest(across, stats.t(nu).cdf).pvalue > 1e-6
    if nu > 1:
        np.testing.assert_allclose(target.mean, (1 - 2 * w) * 15 / np.sqrt(d), rtol=1e-12)
    else:
        assert np.isnan(target.mean).all() and np.isnan(target.variance).all()
    if nu > 2:
        between = w * (1 - w) * 900 / d
        np.testing.assert_allclose(target.variance, stats.t(nu).var() + between, rtol=1e-12)
    elif nu > 1:
        assert np.isinf(target.variance).all()


def alias_measurements() -> tuple[np.ndarray, np.ndarray]:
    """Nights and the measurements of them, from the model."""
    model = targets.aliases().build()
    nights = np.concatenate([np.arange(7.0), np.arange(60.0, 67.0)])
    return nights, model.rvs_to_values[model.observed_RVs[0]].eval()


def test_alias_evidence_and_weights_by_another_quadrature(rng):
    # A, B and g integrated out by the covariance of the data, on a coarser grid; the narrowest
    # alias still spans two spacings, and the standard deviation of log s, .2, three.
    nights, y = alias_measurements()
    log_period = np.linspace(np.log(2), np.log(100), 4_001)
    log_sigma = np.linspace(-1.9, 3.5, 82)
    phase = 2 * np.pi * nights / np.exp(log_period)[:, None]
    signal = np.cos(phase[:, :, None] - phase[:, None, :]) + 1  # 14 x 14 at each period
    mass = np.empty((len(log_period), len(log_sigma)))
    for j, sigma in enumerate(np.exp(log_sigma)):
        factor = np.linalg.cholesky(100 * signal + sigma**2 * np.eye(14))
        standard = np.linalg.solve(factor, np.broadcast_to(y[:, None], (len(signal), 14, 1)))
        log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        logp = -0.5 * (standard[:, :, 0] ** 2).sum(axis=1) - log_det - 7 * np.log(2 * np.pi)
        mass[:, j] = np.exp(logp) * stats.halfnorm.pdf(sigma, scale=5) * sigma
    mass[[0, -1]] /= 2
    mass *= (log_sigma[1] - log_sigma[0]) / (len(log_period) - 1)  # the prior is 1 / range
    target = targets.aliases()
    assert np.log(mass.sum()) == pytest.approx(target.log_z, abs=1e-5)

    of_period = mass.sum(axis=1) / mass.sum()
    points = np.zeros((len(log_period), 5))
    low, high = log_period[[0, -1]]
    inner = np.clip((log_period - low) / (high - low), 1e-12, 1 - 1e-12)
    points[:, 4] = np.log(inner) - np.log1p(-inner)
    # A node at the wall may be counted on either side.
    weights = np.bincount(target.classify(points), of_period)
    np.testing.assert_allclose(weights, target.weights, atol=of_period.max() / 5)
    mean = of_period @ log_period
    np.testing.assert_allclose(target.mean, mean, atol=1e-5)
    np.testing.assert_allclose(target.variance, of_period @ (log_period - mean) ** 2, atol=1e-5)
    assert (target.weights > 0.05).sum() >= 4

    # Draws: counts in bins of log P that are thirty nodes wide and in bins of log s, by their mass.
    draws = target.sample(rng, N_EXACT)
    of_sigma = mass.sum(axis=0) / mass.sum()
    for values, nodes, share, width in (
        (target.constrain(draws)[:, 0], log_period, of_period, 30),
        (draws[:, 3], log_sigma, of_sigma, 1),
    ):
        spacing = nodes[1] - nodes[0]
        n_bins = -(-len(nodes) // width)
        expected = N_EXACT * np.bincount(np.arange(len(nodes)) // width, share, minlength=n_bins)
        nearest = np.rint((values - nodes[0]) / spacing).astype(int) // width
        seen = np.bincount(nearest, minlength=n_bins)
        enough = expected > 20
        assert enough.sum() > 5
        statistic = ((seen - expected)[enough] ** 2 / expected[enough]).sum()
        assert stats.chi2.sf(statistic, enough.sum()) > 1e-6


def test_alias_coefficients_are_normal_given_period_and_noise(rng):
    nights, y = alias_measurements()
    target = targets.aliases()
    draws = target.sample(rng, 5_000)
    period = np.exp(target.constrain(draws)[:, 0])
    standard = []
    for coefficients, sigma, cycle in zip(draws[:, :3], np.exp(draws[:, 3]), period, strict=True):
        phase = 2 * np.pi * nights / cycle
        design = np.column_stack([np.cos(phase), np.sin(phase), np.ones(14)])
        covariance = np.linalg.inv(design.T @ design / sigma**2 + np.eye(3) / 100)
        delta = coefficients - covariance @ design.T @ y / sigma**2
        standard.append(np.linalg.solve(np.linalg.cholesky(covariance), delta))
    for coordinate in np.transpose(standard):
        assert stats.kstest(coordinate, "norm").pvalue > 1e-6


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
        (lambda: targets.arcs("mended"), ["'mended'", "shifted", "printed"]),
        (lambda: targets.wide(2), ["d=2", "at least 3"]),
        (lambda: targets.wide(3, (0, 1)), ["(0, 1)", "three numbers"]),
        (lambda: targets.galaxies(5), ["K=5", "2, 3, 4"]),
        (lambda: targets.signs(4), ["k=4", "1, 2, 3"]),
        (lambda: targets.signs(2, -1), ["m=-1", "at least 0"]),
        (lambda: targets.tails(0), ["nu=0", "positive"]),
        (lambda: targets.tails(3, 0), ["d=0", "at least 1"]),
        (lambda: targets.tails(3, 1, 1.0), ["w=1.0", "between 0 and 1"]),
        (lambda: targets.tails(3, prior="cauchy"), ["'cauchy'", "flat", "broad"]),
        (lambda: targets.galaxies(2).region_mass(len, None), ["galaxies-2", "no exact draws"]),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)
