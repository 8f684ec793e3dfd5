"""Rules: what they compute, what a file holds of them, and that blocks do not matter."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from pymc_spectral import KMeansPartition, SpectralPartition, targets
from pymc_spectral.partition import cell_rules as rules
from pymc_spectral.partition.cell_rules import RULES, DiscriminantRule, NystromRule, VoronoiRule

ESTIMATORS = {
    "VoronoiRule": KMeansPartition(4, random_state=0),
    "DiscriminantRule": SpectralPartition(4, random_state=0, n_landmarks=150),
    "NystromRule": SpectralPartition(4, random_state=0, n_landmarks=150, extension="nystrom"),
    "the paper's": SpectralPartition(
        4, random_state=0, n_landmarks=150, extension="nystrom", affinity="gaussian", Q=0.8
    ),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    x = targets.paper2d().sample(np.random.default_rng(0), 600)
    return request.param, ESTIMATORS[request.param].fit(x), x


def test_a_rule_comes_back_from_its_arrays(fitted):
    name, partition, x = fitted
    rule = partition.rule_
    arrays = rule.to_arrays()
    assert all(isinstance(value, np.ndarray) for value in arrays.values())
    again = RULES[type(rule).__name__].from_arrays({**arrays, "not a field": np.zeros(3)})
    assert type(again) is type(rule)
    if name in RULES:
        assert type(rule).__name__ == name
    np.testing.assert_array_equal(again.predict(x), rule.predict(x))
    for field, value in again.to_arrays().items():
        np.testing.assert_array_equal(value, arrays[field])


def test_blocks_do_not_change_cells(fitted, monkeypatch):
    _, partition, x = fitted
    rule = partition.rule_
    whole = rule.predict(x)
    monkeypatch.setattr(rules, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(rules, "NYSTROM_BUDGET", 2100)
    np.testing.assert_array_equal(np.concatenate([rule.predict(row[None]) for row in x]), whole)
    np.testing.assert_array_equal(rule.predict(x), whole)


def test_no_rows_have_no_cells(fitted):
    _, partition, x = fitted
    assert partition.rule_.predict(x[:0]).shape == (0,)


def test_members_are_sorted_by_eccentricity(fitted):
    _, partition, _ = fitted
    for cell in range(4):
        members = partition.members(cell)
        assert len(members) == np.sum(partition.labels_ == cell)
        assert np.all(np.diff(partition.rule_.eccentricity(members)) >= 0)


def test_a_voronoi_cell_is_that_of_the_nearest_center():
    rng = np.random.default_rng(0)
    shift, scale, centers = np.ones(2), np.array([1.0, 5.0]), rng.standard_normal((6, 2))
    rule = VoronoiRule(shift, scale, centers, np.array([0, 1, 2, 0, 1, 2]))
    x = 3 * rng.standard_normal((500, 2))
    distance = np.linalg.norm(((x - shift) / scale)[:, None] - centers, axis=2)
    np.testing.assert_array_equal(rule.segment(x), distance.argmin(axis=1))
    np.testing.assert_array_equal(rule.predict(x), distance.argmin(axis=1) % 3)
    np.testing.assert_allclose(rule.eccentricity(x), distance.min(axis=1))


def test_a_discriminant_score_is_the_log_density_of_a_student():
    rng = np.random.default_rng(0)
    factor = np.array([[1.0, 0.3], [0.0, 2.0]])
    precision = factor @ factor.T
    mean = np.array([1.0, -2.0])
    at_mean = multivariate_t(mean, np.linalg.inv(precision), df=5).logpdf(mean)
    rule = DiscriminantRule(mean[None], factor[None], np.array([at_mean]), np.array([0]), 5.0)
    x = 4 * rng.standard_normal((50, 2))
    expected = multivariate_t(mean, np.linalg.inv(precision), df=5).logpdf(x)
    np.testing.assert_allclose(rule.scores(x)[:, 0], expected)
    # Two axes of factors are the diagonal ones.
    diagonal = np.array([2.0, 0.5])
    thin = DiscriminantRule(mean[None], diagonal[None], np.zeros(1), np.array([0]), 5.0)
    full = DiscriminantRule(mean[None], np.diag(diagonal)[None], np.zeros(1), np.array([0]), 5.0)
    np.testing.assert_allclose(thin.distances(x), full.distances(x))


def test_far_from_all_landmarks_the_nearest_one_decides():
    x = targets.paper2d().sample(np.random.default_rng(0), 300)
    rule = SpectralPartition(4, extension="nystrom", random_state=0).fit(x).rule_
    assert isinstance(rule, NystromRule)
    direction = np.random.default_rng(1).standard_normal((200, 2))
    far = 1e4 * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    nearest = rule.squared_distances(far).argmin(axis=1)
    np.testing.assert_array_equal(rule.segment(far), rule.landmark_segment[nearest])


def test_every_rule_is_known_by_its_name():
    assert RULES == {c.__name__: c for c in (VoronoiRule, DiscriminantRule, NystromRule)}
