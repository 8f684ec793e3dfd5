"""Labels compressed into components: islands mended, tails chosen, and refused where it fails."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import kneighbors_graph

from pymc_spectral import targets
from pymc_spectral.partition.cell_rules import FULL_MAX_DIM
from pymc_spectral.partition.discriminant_fit import (
    discriminant_rule,
    keeps,
    mend_islands,
    most_likely_rule,
    student_rule,
)
from pymc_spectral.partition.normal_components import Component


def line(n=400):
    """A narrow strip from 0 to 10."""
    rng = np.random.default_rng(0)
    return np.column_stack([np.linspace(0, 10, n), rng.normal(0, 0.1, n)])


def graph_of(x):
    """Ten nearest neighbors, in the units of x."""
    graph = kneighbors_graph(x, 10)
    return graph.maximum(graph.T).tocsr()


def test_mending_moves_an_island_and_spares_a_mode():
    far_mode = np.random.default_rng(1).normal([100, 0], 0.1, (30, 2))
    x = np.vstack([line(), far_mode])
    labels = np.where(x[:, 0] < 5, 0, 1)
    labels[:20] = 1  # an island of cell 1 at the far end of cell 0
    mended, share = mend_islands(labels, graph_of(x))
    assert share == pytest.approx(20 / 430)
    assert np.all(mended[:20] == 0)
    assert np.all(mended[400:] == 1)  # far away, no neighbors elsewhere: a mode of cell 1


STRIP = line()
STRIP_GRAPH = graph_of(STRIP)


@settings(max_examples=20, deadline=None)
@given(
    first=st.integers(50, 120),
    second=st.integers(260, 330),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
)
def test_mending_makes_both_halves_whole_and_then_finds_nothing_to_do(first, second, sizes):
    """An island in each half moves, wherever it cuts off no more; a second pass changes nothing."""
    halves = np.repeat([0, 1], 200)
    labels = halves.copy()
    # What is left on either side of an island holds a fifth of its cell, and so stays.
    labels[first : first + sizes[0]] = 1
    labels[second : second + sizes[1]] = 0
    mended, share = mend_islands(labels, STRIP_GRAPH)
    np.testing.assert_array_equal(mended, halves)
    assert share == pytest.approx(sum(sizes) / 400)
    again, nothing = mend_islands(mended, STRIP_GRAPH)
    np.testing.assert_array_equal(again, mended)
    assert nothing == 0


def test_a_piece_with_a_fifth_of_its_cell_stays():
    labels = np.repeat([0, 1], 200)
    labels[:60] = 1  # 60 of the 260 rows of its cell
    mended, share = mend_islands(labels, STRIP_GRAPH)
    np.testing.assert_array_equal(mended, labels)
    assert share == 0


def test_keeping_most_of_every_cell_is_judged_cell_by_cell():
    wanted = np.repeat([0, 1], [900, 100])
    found = wanted.copy()
    found[-21:] = 0  # 2 % of the rows, but 21 % of the small cell
    assert not keeps(found, wanted, 2)
    found[-21:-1] = 1
    assert keeps(found, wanted, 2)


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_are_seen(seed):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((4000, 2))
    heavy = normal / np.sqrt(rng.chisquare(3, (4000, 1)) / 3)
    for x, expected in ((normal, {30.0, 100.0}), (heavy, {3.0})):
        shift, scale = x.mean(axis=0), x.std(axis=0)
        # Covariance as given: that of the draws.
        rule = most_likely_rule([[Component(shift, scale, np.eye(2), len(x))]], x)
        assert rule.dof in expected


def test_components_are_weighed_by_their_shares():
    """Equal widths, shares of 1 to e: the boundary is where log densities differ by one."""
    components = [
        [Component(np.array([place]), np.ones(1), np.eye(1), share)]
        for place, share in ((-2.0, 1.0), (2.0, np.e))
    ]
    rule = student_rule(components, 100.0)
    scores = rule.scores(np.zeros((1, 1)))[0]
    assert scores[1] - scores[0] == pytest.approx(1.0)
    assert np.sum(np.exp(rule.scores(np.linspace(-40, 40, 8001)[:, None]))) * 0.01 == (
        pytest.approx(1.0, abs=1e-6)
    )


def two_blobs(d, n=600):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], n // 2)
    x = rng.standard_normal((n, d))
    x[:, 1] += 0.8 * x[:, 0]
    return x + 8.0 * labels[:, None], labels


@pytest.mark.parametrize("d", [2, FULL_MAX_DIM + 1])
def test_separate_groups_are_reproduced_by_diagonal_components_in_many_dimensions(d):
    x, labels = two_blobs(d)
    rule = discriminant_rule(x, labels, 2, np.random.RandomState(0))
    np.testing.assert_array_equal(rule.predict(x), labels)
    off = rule.factors[:, ~np.eye(d, dtype=bool)] if rule.factors.ndim == 3 else np.zeros(1)
    assert np.all(off == 0) == (d > FULL_MAX_DIM)


def test_labels_without_a_place_are_refused():
    """Negative control: what no components can reproduce is left to the Nystrom rule."""
    x, _ = two_blobs(2)
    labels = np.random.default_rng(1).integers(2, size=len(x))
    assert discriminant_rule(x, labels, 2, np.random.RandomState(0)) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_small_mode_cut_in_two_is_made_whole(seed):
    """A fiftieth of the mass, half of it labeled as part of its large neighbor."""
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(seed), 4000)
    mode = target.classify(x)
    small, neighbor = 0, 2  # at (3, 3) and (2, 7)
    labels = np.where((mode == small) & (x[:, 1] > 3), neighbor, mode)
    found = discriminant_rule(x, labels, 4, np.random.RandomState(seed)).predict(x)
    assert np.mean(found[mode == small] == small) > 0.9
    assert np.mean(found[mode == neighbor] == neighbor) > 0.98
