"""Valleys on paths, and the joining and splitting of segments by them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pymc_spectral import targets
from pymc_spectral.partition.clusterers import KERNEL_VALLEY
from pymc_spectral.partition.segment_joining import (
    VERY_LOW,
    join_segments,
    kernel_log_density,
    lowest_between,
    representative,
    representatives,
    saddles,
    split_along_directions,
)


def normal(x):
    return -0.5 * np.sum(x**2, axis=1)


def pair(x, gap=4.0):
    """Two normals of unit width, `gap` from the origin along the first coordinate."""
    shift = np.zeros(x.shape[1])
    shift[0] = gap
    return np.logaddexp(normal(x - shift), normal(x + shift))


def ring(x):
    """Points about a circle of radius 5."""
    return -0.5 * (np.linalg.norm(x, axis=1) - 5) ** 2 / 0.1**2


def test_lowest_of_a_symmetric_pair_is_in_the_middle():
    ends = np.array([[-4.0, 0.0]]), np.array([[4.0, 0.0]])
    assert lowest_between(*ends, pair)[0] == pytest.approx(pair(np.zeros((1, 2)))[0])


def test_one_point_on_a_path_is_its_middle_and_ends_are_left_out():
    asked = []

    def density(x):
        asked.append(x)
        return np.zeros(len(x))

    lowest_between(np.array([[0.0, 2.0]]), np.array([[4.0, 0.0]]), density, 1)
    np.testing.assert_allclose(asked[0], [[2.0, 1.0]])
    lowest_between(np.array([[0.0]]), np.array([[4.0]]), density, 3)
    np.testing.assert_allclose(asked[1].ravel(), [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.inf, -3.0), (-np.inf, VERY_LOW), (np.nan, VERY_LOW), (-7.0, -7.0)],
)
def test_what_a_path_meets_in_its_middle(value, expected):
    """+inf says nothing; -inf and NaN are very low."""

    def density(x):
        return np.where(np.abs(x[:, 0]) < 0.1, value, -3.0)

    found = lowest_between(np.array([[-1.0]]), np.array([[1.0]]), density)
    assert found[0] == expected


def test_a_path_of_which_nothing_is_known_has_no_lowest_point():
    found = lowest_between(np.zeros((2, 1)), np.ones((2, 1)), lambda x: np.full(len(x), np.inf))
    np.testing.assert_array_equal(found, np.inf)


def test_the_mean_stands_for_a_normal_in_many_dimensions_and_a_row_for_a_ring():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 50))
    point, height = representative(x, normal, n_tried=50)
    np.testing.assert_allclose(point, x.mean(axis=0))
    assert height == normal(x.mean(axis=0)[None])[0] > normal(x).max()
    angle = rng.uniform(0, 2 * np.pi, 200)
    circle = 5 * np.column_stack([np.cos(angle), np.sin(angle)])
    point, _ = representative(circle, ring, n_tried=50)
    assert np.linalg.norm(point) == pytest.approx(5)
    # All groups at once say the same where all rows are tried.
    both = representatives(np.vstack([circle, circle + 100]), np.repeat([0, 1], 200), ring)
    np.testing.assert_allclose(both[0][0], representative(circle, ring, n_tried=200)[0])
    assert both[0].shape == (2, 2)


def test_the_mean_stands_where_nothing_is_known():
    point, height = representative(
        np.array([[0.0], [2.0]]), lambda x: np.full(len(x), np.inf), n_tried=5
    )
    np.testing.assert_array_equal(point, [1.0])
    assert height == VERY_LOW


def test_saddles_are_symmetric_and_no_higher_than_their_ends():
    rng = np.random.default_rng(0)
    points = rng.normal(0, 4, (30, 2))  # 435 pairs: more than one block
    heights = pair(points)
    saddle = saddles(points, heights, pair)
    np.testing.assert_array_equal(saddle, saddle.T)
    off = ~np.eye(30, dtype=bool)
    assert np.all((saddle <= np.minimum.outer(heights, heights) + 1e-12)[off])


def three_pieces(seed=0, n=200):
    """Two modes, the left one cut in two by its middle; segments 0 and 2 are the left ones."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2 * n, 2)) + np.repeat([[-4.0, 0], [4.0, 0]], n, axis=0)
    return x, np.where(x[:, 0] > 0, 1, np.where(x[:, 1] > 0, 0, 2))


def test_pieces_of_a_mode_are_joined_and_modes_are_not():
    x, segment = three_pieces()
    joined = join_segments(x, segment, pair, n_cells=None, valley=0.25, min_size=5)
    assert joined.owner[0] == joined.owner[2] != joined.owner[1]
    # Depth of the valley: from the peak of a mode to the origin.
    depth = pair(np.array([[4.0, 0.0]]))[0] - pair(np.zeros((1, 2)))[0]
    assert joined.prominences[0] == pytest.approx(depth, abs=0.1)
    assert joined.prominences[1] < 0.25


@pytest.mark.parametrize(("n_cells", "found"), [(1, 1), (2, 2), (3, 2)])
def test_joining_leaves_no_more_cells_than_asked_for(n_cells, found):
    """A mode is not cut to reach a number: that is done later."""
    x, segment = three_pieces()
    joined = join_segments(x, segment, pair, n_cells=n_cells, valley=0.25, min_size=5)
    assert len(set(joined.owner)) == found


def test_a_small_cell_is_joined_across_a_valley_only_where_the_number_is_open():
    x, segment = three_pieces()
    keep = np.concatenate([np.flatnonzero(segment != 1), np.flatnonzero(segment == 1)[:4]])
    x, segment = x[keep], segment[keep]
    auto = join_segments(x, segment, pair, n_cells=None, valley=0.25, min_size=5)
    two = join_segments(x, segment, pair, n_cells=2, valley=0.25, min_size=5)
    assert len(set(auto.owner)) == 1
    assert len(set(two.owner)) == 2


def test_one_segment_stays_one():
    joined = join_segments(
        np.zeros((3, 1)), np.zeros(3, int), normal, n_cells=None, valley=1, min_size=1
    )
    np.testing.assert_array_equal(joined.owner, [0])
    assert joined.prominences.size == 0


def many_pieces(seed):
    """Six groups at random places, each a mode of the density."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-6, 6, (6, 2))
    segment = np.repeat(np.arange(6), 30)
    x = centers[segment] + 0.5 * rng.standard_normal((180, 2))

    def density(points):
        parts = [normal(2 * (points - c)) - 0.3 * k for k, c in enumerate(centers)]
        return np.logaddexp.reduce(parts, axis=0)

    return x, segment, density, rng


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), valley=st.floats(0.01, 20))
def test_names_of_segments_do_not_matter(seed, valley):
    x, segment, density, rng = many_pieces(seed)
    # A segment on a slope is lower than all the paths from it, and its passes are equally high:
    # which one it is joined across is then a matter of order.
    saddle = saddles(*representatives(x, segment, density), density)
    assume(len(np.unique(saddle[np.triu_indices(6, 1)])) == 15)
    name = rng.permutation(6)
    options = {"n_cells": None, "valley": valley, "min_size": 5}
    plain = join_segments(x, segment, density, **options)
    renamed = join_segments(x, name[segment], density, **options)
    np.testing.assert_array_equal(renamed.owner[name], plain.owner)
    np.testing.assert_allclose(renamed.prominences, plain.prominences)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), low=st.floats(0.01, 10), more=st.floats(0, 10))
def test_a_deeper_valley_asked_for_only_joins_further(seed, low, more):
    x, segment, density, _ = many_pieces(seed)
    fine, coarse = (
        join_segments(x, segment, density, n_cells=None, valley=valley, min_size=1).owner
        for valley in (low, low + more)
    )
    assert coarse.max() <= fine.max()
    for cell in range(fine.max() + 1):
        assert len(set(coarse[fine == cell])) == 1


def test_cells_are_numbered_from_the_highest_peak():
    x, segment, density, _ = many_pieces(3)
    owner = join_segments(x, segment, density, n_cells=None, valley=1.0, min_size=1).owner
    _, heights = representatives(x, segment, density)
    peaks = [heights[owner == c].max() for c in range(owner.max() + 1)]
    assert peaks == sorted(peaks, reverse=True)


def high_pair(n=400, d=30):
    """Two modes that differ in one of many coordinates; their density and labels."""
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], n // 2)
    x = rng.standard_normal((n, d))
    x[:, 0] += 5.0 * (2 * side - 1)
    return x, side, lambda points: pair(points, 5.0)


def test_modes_apart_in_one_of_many_coordinates_are_split():
    x, side, density = high_pair()
    labels = split_along_directions(
        x, np.zeros(len(x), int), density, valley=2.0, min_size=5, max_cells=50
    )
    assert labels.max() == 1
    assert np.array_equal(labels, side) or np.array_equal(labels, 1 - side)


@pytest.mark.parametrize(
    "options", [{"valley": 1e3}, {"min_size": 300}, {"max_cells": 1}], ids=lambda o: next(iter(o))
)
def test_no_split_beyond_what_is_asked_for(options):
    x, _, density = high_pair()
    options = {"valley": 2.0, "min_size": 5, "max_cells": 50, **options}
    labels = split_along_directions(x, np.zeros(len(x), int), density, **options)
    assert labels.max() == 0


def test_one_mode_is_not_split_curved_or_straight():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 400)
    circle = (5 + 0.1 * rng.standard_normal(400))[:, None] * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    )
    for x, density in ((rng.standard_normal((400, 20)), normal), (circle, ring)):
        labels = split_along_directions(
            x, np.zeros(len(x), int), density, valley=2.0, min_size=5, max_cells=50
        )
        assert labels.max() == 0


def test_kernel_estimate_has_the_valley_and_repeats_do_not_matter():
    x, _ = three_pieces()
    density = kernel_log_density(x)
    ends = np.array([[-4.0, 0.0]]), np.array([[4.0, 0.0]])
    assert density(ends[0])[0] - lowest_between(*ends, density)[0] > 2
    again = kernel_log_density(np.repeat(x, 3, axis=0))
    np.testing.assert_array_equal(density(x), again(x))


def test_valleys_of_the_kernel_estimate_of_one_mode_are_noise():
    for seed in range(5):
        x = targets.normal(2).sample(np.random.default_rng(seed), 1000)
        segment = (x[:, 0] > 0).astype(int)
        joined = join_segments(
            x, segment, kernel_log_density(x), n_cells=None, valley=KERNEL_VALLEY, min_size=5
        )
        assert joined.owner.max() == 0


def test_kernel_estimate_of_a_constant_coordinate_is_finite():
    x = np.column_stack([np.random.default_rng(0).standard_normal(50), np.full(50, 0.1)])
    assert np.all(np.isfinite(kernel_log_density(x)(x)))
