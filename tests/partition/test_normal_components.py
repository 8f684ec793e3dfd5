"""Normal components that describe cells: merged, chosen by BIC, and given to the right cell."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pymc_spectral import targets
from pymc_spectral.partition.cell_rules import DiscriminantRule
from pymc_spectral.partition.discriminant_fit import discriminant_rule
from pymc_spectral.partition.normal_components import (
    MIXTURE_MAX_DIM,
    Shape,
    cell_components,
    follow_shapes,
    merged_shapes,
    mixture_by_bic,
    mixture_of_shapes,
    owners_of_shapes,
)


def shape_of(rows, piece=0):
    mean = rows.mean(axis=0)
    return Shape((piece,), len(rows), mean, (rows - mean).T @ (rows - mean))


def test_two_shapes_together_are_the_shape_of_their_rows():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (30, 3)), rng.normal(2, 3, (50, 3))
    both, expected = shape_of(a, 4) + shape_of(b, 7), shape_of(np.vstack([a, b]))
    assert both.pieces == (4, 7)
    assert both.size == expected.size
    np.testing.assert_allclose(both.mean, expected.mean)
    np.testing.assert_allclose(both.scatter, expected.scatter)


def test_log_likelihood_is_that_of_the_fitted_normal_and_its_share():
    x = np.random.default_rng(0).normal(0, 2, (40, 2))
    normal = multivariate_normal(x.mean(axis=0), np.cov(x.T, bias=True))
    expected = normal.logpdf(x).sum() + 40 * np.log(40 / 100)
    assert shape_of(x).log_likelihood(100) == pytest.approx(expected)


def test_pieces_of_one_normal_merge_and_two_normals_do_not():
    rng = np.random.default_rng(0)
    left, right = rng.normal(-6, 1, (600, 2)), rng.normal(6, 1, (600, 2))
    x = np.vstack([left, right])
    # Rows of one normal dealt out at random to three pieces; the other is one piece.
    piece = np.concatenate([rng.integers(3, size=600), np.full(600, 3)])
    assert sorted(sorted(s.pieces) for s in merged_shapes(x, piece)) == [[0, 1, 2], [3]]


def test_a_piece_of_too_few_rows_has_no_shape():
    x = np.random.default_rng(0).normal(size=(103, 2))
    piece = np.repeat([0, 1], [100, 3])
    assert [s.pieces for s in merged_shapes(x, piece)] == [(0,)]


def ring(n=1000):
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, n)
    return 5 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, 0.2, (n, 2))


def test_a_straight_cell_is_one_component_and_a_bent_one_more():
    state = np.random.RandomState
    normal = np.random.default_rng(0).normal(3, 2, (1000, 2))
    [one] = cell_components(normal, np.ones(2), state(0))
    np.testing.assert_allclose(one.mean, normal.mean(axis=0))
    covariance = one.lower @ one.lower.T * np.outer(one.scale, one.scale)
    # Shrunk a little towards the diagonal (Ledoit and Wolf), which is what it is.
    np.testing.assert_allclose(covariance, np.cov(normal.T, bias=True), atol=0.1)
    bent = cell_components(ring(), np.ones(2), state(0))
    assert len(bent) >= 3
    assert sum(c.share for c in bent) == pytest.approx(1000)
    assert mixture_by_bic(normal, 3, state(0)) is None
    assert mixture_by_bic(ring(), 0, state(0)) is None


def test_two_rows_borrow_a_scale():
    [one] = cell_components(np.array([[1.0, 1], [3, 1]]), np.array([7.0, 5]), None)
    np.testing.assert_allclose(one.mean, [2, 1])
    np.testing.assert_allclose(one.scale, [0.7, 0.5])


def test_a_flat_cell_keeps_a_width():
    x = np.column_stack([np.random.default_rng(0).normal(size=50), np.full(50, 2.0)])
    for c in cell_components(x, np.array([1.0, 1.0]), np.random.RandomState(0)):
        assert np.all(np.diag(c.lower) * c.scale > 0)


def test_a_shape_goes_to_the_cell_that_it_is_the_largest_share_of():
    """Ten of the small cell's twenty rows count for more than forty of the large one's thousand."""
    before = np.repeat([0, 1], [1000, 20])
    piece = np.zeros(1020, dtype=int)
    piece[960:1010] = 1
    shapes = [Shape((k,), 1, np.zeros(1), np.eye(1)) for k in (0, 1)]
    owner, after = owners_of_shapes(shapes, piece, before, 2)
    assert owner == [0, 1]
    assert np.all(after[960:1010] == 1)
    assert np.all(after[:960] == 0)


def test_a_spare_shape_is_dropped_and_the_last_of_a_cell_is_not():
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 1, (500, 2))
    halves = [shape_of(rows[:250]), shape_of(rows[250:])]
    mixture, owner = mixture_of_shapes(rows, halves, [0, 0], np.random.RandomState(0))
    assert owner == [0]
    assert mixture.n_components == 1
    _, owner = mixture_of_shapes(rows, halves, [0, 1], np.random.RandomState(0))
    assert owner == [0, 1]


def test_modes_that_cross_are_followed_through_the_crossing():
    """The far end of an arm is labeled with the other arm, and comes back to its own."""
    rng = np.random.default_rng(0)
    along = rng.normal(0, 4, 3000)
    across = rng.normal(0, 0.2, 3000)
    mode = np.repeat([0, 1], 1500)
    x = np.where((mode == 0)[:, None], np.c_[along, across], np.c_[across, along])
    labels = np.where((mode == 0) & (x[:, 0] > 4), 1, mode)
    rule = discriminant_rule(x, labels, 2, np.random.RandomState(0))
    assert np.mean(rule.predict(x) == mode) > 0.95
    assert np.mean(labels == mode) < 0.93  # negative control


def one_piece_each(d):
    factors = np.repeat(np.eye(d)[None], 2, axis=0)
    return DiscriminantRule(np.zeros((2, d)), factors, np.zeros(2), np.array([0, 1]), 5.0)


@pytest.mark.parametrize(("d", "n_cells"), [(2, 2), (2, 1), (MIXTURE_MAX_DIM + 1, 2)])
def test_cells_of_one_piece_have_no_shapes_to_follow(d, n_cells):
    x = targets.normal(d).sample(np.random.default_rng(0), 100)
    assert follow_shapes(x, one_piece_each(d), n_cells, np.random.RandomState(0)) is None
