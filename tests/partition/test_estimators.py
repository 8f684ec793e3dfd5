"""The partition: exact at its landmarks in any units, total, and blind to nothing it should see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from pymc_spectral import KMeansPartition, SpectralPartition, targets
from pymc_spectral.partition.compression import discriminant_rule, mend_islands
from pymc_spectral.partition.rules import DiscriminantRule, NystromRule
from pymc_spectral.partition.spectrum import (
    choose_landmarks,
    leading_eigenpairs,
    spectral_embedding,
)

TARGETS = {
    "paper2d": targets.paper2d,
    "arcs": targets.arcs,
    "pair1d": lambda: targets.pair1d(0.15),
    "crossing": targets.crossing,
    "docs_pair4": lambda: targets.docs_pair(4),
    "docs_pair80": lambda: targets.docs_pair(80),
    "twenty": targets.twenty,
    "ten_d": targets.ten_d,
    "labels": targets.labels,
    "normal10": lambda: targets.normal(10),
}


def draws_of(name, seed=0, n=2000):
    return TARGETS[name]().sample(np.random.default_rng(seed), n)


def random_rotation(d, seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return q * np.sign(np.diag(r))


def far_points(x, seed):
    """10^4 points: the draws' own region, its surroundings, far tails and 1e6-sized ones."""
    rng = np.random.default_rng(seed)
    d, spread = x.shape[1], x.std(axis=0)
    return np.vstack(
        [
            x[:2000],
            x.mean(axis=0) + spread * 3 * rng.standard_normal((3000, d)),
            x.mean(axis=0) + spread * 50 * rng.standard_cauchy((3000, d)),
            1e6 * rng.standard_normal((2000, d)),
        ]
    )


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
def test_landmarks_keep_their_labels_in_any_units(name, extension):
    """The paper's printed extension loses 92 % of them in other units."""
    x = draws_of(name)
    d = x.shape[1]
    for factor in (1.0, 1000.0, 0.001):
        y = factor * x @ random_rotation(d, 3) if factor != 1.0 else x
        fitted = SpectralPartition(extension=extension, n_landmarks=300, random_state=1).fit(y)
        np.testing.assert_array_equal(fitted.predict(fitted.landmarks_), fitted.labels_)
        assert set(fitted.labels_) == set(range(fitted.n_cells_))


@pytest.mark.parametrize("name", ["paper2d", "arcs", "normal10", "ten_d", "pair1d"])
@pytest.mark.parametrize("n_cells", [2, 7])
@pytest.mark.parametrize("join", [True, False])
def test_more_and_fewer_cells_than_modes(name, n_cells, join):
    x = draws_of(name)
    fitted = SpectralPartition(n_cells, join=join, n_landmarks=300, random_state=1).fit(x)
    assert fitted.n_cells_ == n_cells
    np.testing.assert_array_equal(fitted.predict(fitted.landmarks_), fitted.labels_)
    assert set(fitted.labels_) == set(range(n_cells))


@pytest.mark.parametrize("name", ["paper2d", "arcs", "docs_pair80", "twenty"])
def test_nystrom_reproduces_the_clusters_of_the_embedding(name):
    """Not by relabelling: labels of k-means on the eigenvectors come back from the extension."""
    x = draws_of(name, n=400)
    fitted = SpectralPartition(
        4, join=False, extension="nystrom", n_landmarks=400, random_state=0
    ).fit(x)
    assert isinstance(fitted.rule_, NystromRule)
    np.testing.assert_array_equal(fitted.rule_.owner[fitted.rule_.landmark_segment], fitted.labels_)


def test_printed_extension_loses_landmarks():
    """Negative control: without the degrees and the norm, the same check fails."""
    x = 1000 * draws_of("paper2d", n=400)
    Q = 0.8e6 * np.eye(2)
    embedding = spectral_embedding(x, affinity="gaussian", Q=Q, n_neighbours=0, n_vectors=4)
    fitted = SpectralPartition(
        4, affinity="gaussian", Q=Q, join=False, extension="nystrom", random_state=0
    ).fit(x)
    rule = fitted.rule_
    assert isinstance(rule, NystromRule)
    affinity = np.exp(-0.5 * rule.squared_distances(x)) / (2 * np.pi * 0.8e6)
    printed = (
        np.sqrt(len(x)) * affinity @ (embedding.eigenvectors[:, :4] / embedding.eigenvalues[:4])
    )
    nearest = np.argmin(((printed[:, None] - rule.centres[None]) ** 2).sum(axis=2), axis=1)
    assert np.mean(rule.owner[nearest] == fitted.predict(x)) < 0.7


def test_leading_eigenpairs_of_separate_groups():
    """A matrix of eight groups, for which LAPACK's solver for a few pairs returns none."""
    x = [4.4, 2.96, 2.66, 2.48, -2.97, 2.86, 2.06, 0.63, -1.63, -3.26, -4.06, 3.83, 2.3, 2.65,
         1.28, 2.72, 3.08, -4.03, -3.85]  # fmt: skip
    near = (np.abs(np.subtract.outer(x, x)) < 0.5).astype(float)
    root = np.sqrt(near.sum(axis=1))
    matrix = near / np.outer(root, root)
    for k in (1, 2, 8, 9, len(x)):
        values, vectors = leading_eigenpairs(matrix, k)
        np.testing.assert_allclose(values[:8], 1)
        assert np.all(values[8:] < 0.99)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)


@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
@pytest.mark.parametrize("name", ["paper2d", "twenty", "docs_pair80"])
def test_every_point_has_one_cell(name, extension):
    x = draws_of(name)
    fitted = SpectralPartition(extension=extension, n_landmarks=300, random_state=0).fit(x)
    cells = fitted.predict(far_points(x, 1))
    assert cells.dtype.kind == "i"
    assert cells.min() >= 0
    assert cells.max() < fitted.n_cells_


@settings(max_examples=25, deadline=None)
@given(
    log_scale=st.floats(-6, 6),
    shift=st.floats(-1e3, 1e3),
    rotation=st.integers(0, 10**6),
    n_cells=st.integers(1, 6),
    extension=st.sampled_from(["discriminant", "nystrom"]),
)
def test_any_units_any_rotation(log_scale, shift, rotation, n_cells, extension):
    """Any affine picture of the draws gives a partition that is exact at its landmarks."""
    x = draws_of("paper2d", n=300)
    y = 10.0**log_scale * (x @ random_rotation(2, rotation) + shift)
    fitted = SpectralPartition(n_cells, extension=extension, n_landmarks=120, random_state=0).fit(y)
    np.testing.assert_array_equal(fitted.predict(fitted.landmarks_), fitted.labels_)
    assert fitted.n_cells_ == n_cells


@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_units_do_not_change_the_cells(factor):
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(0), 2000)
    plain = SpectralPartition(random_state=0).fit(x, logp=target.logp)
    scaled = SpectralPartition(random_state=0).fit(
        factor * x, logp=lambda points: target.logp(points / factor)
    )
    np.testing.assert_array_equal(plain.predict(x), scaled.predict(factor * x))


N_MODES = {
    "paper2d": 4,
    "docs_pair4": 2,
    "docs_pair80": 2,
    "twenty": 20,
    "ten_d": 4,
    "labels": 6,
    "normal10": 1,
    "crossing": 3,
    "pair1d": 2,
}


@pytest.mark.parametrize("name", N_MODES)
def test_auto_gives_each_mode_a_cell(name, seed):
    target = TARGETS[name]()
    x = target.sample(np.random.default_rng(seed), 4000)
    fitted = SpectralPartition(random_state=seed).fit(x, logp=target.logp)
    assert fitted.n_cells_ == N_MODES[name]
    if name != "crossing":  # where modes overlap, no cell can hold exactly one
        cells, modes = fitted.predict(x), target.classify(x)
        pure = sum(np.bincount(modes[cells == c]).max() for c in range(fitted.n_cells_))
        assert pure / len(x) > 0.97


def test_no_mode_is_cut_when_there_is_one():
    for d in (1, 2, 30):
        x = targets.normal(d).sample(np.random.default_rng(d), 3000)
        target = targets.normal(d)
        assert SpectralPartition(random_state=0).fit(x, logp=target.logp).n_cells_ == 1
        assert SpectralPartition(random_state=0).fit(x).n_cells_ == 1


def test_arcs_need_spectral_clustering():
    """K-means cuts the arcs; spectral clustering does not, and the discriminant keeps that."""
    target = targets.arcs()
    x = target.sample(np.random.default_rng(0), 3000)
    truth = target.classify(x)

    def agreement(labels):
        return max(np.mean(labels == truth), np.mean(labels != truth))

    for extension in ("discriminant", "nystrom"):
        fitted = SpectralPartition(2, join=False, extension=extension, random_state=0).fit(x)
        assert agreement(fitted.predict(x)) > 0.98
    assert agreement(KMeansPartition(2, random_state=0).fit_predict(x)) < 0.9


def test_small_mode_keeps_landmarks():
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(0), 8000)
    rows = choose_landmarks(x, 500, np.random.RandomState(0))
    assert len(rows) == 500
    assert len(np.unique(rows)) == 500
    small = target.classify(x[rows]) == int(np.argmin(target.weights))
    # A uniform subsample of 500 holds 10 of them on average.
    assert small.sum() >= 15


def test_cells_are_in_one_piece():
    """An island of a cell is out of its chain's reach; exact draws show none above 1 in 1000."""
    from sklearn.neighbors import kneighbors_graph

    target = targets.paper2d()
    exact = target.sample(np.random.default_rng(1), 20_000)
    graph = kneighbors_graph(exact / exact.std(axis=0), 10)
    graph = graph.maximum(graph.T).tocsr()
    for seed in range(5):
        x = target.sample(np.random.default_rng(seed), 4000)
        fitted = SpectralPartition(random_state=seed).fit(x, logp=target.logp)
        assert isinstance(fitted.rule_, DiscriminantRule)
        assert mend_islands(fitted.predict(exact), graph)[1] < 1e-3


def test_cells_follow_modes_through_a_crossing():
    """The far end of a long mode belongs with its near end, not with the mode that it crosses.

    A cut across the arms, which is what clustering finds, leaves 0.05 or more with the wrong one.
    """
    target = targets.crossing()
    exact = target.sample(np.random.default_rng(1), 20_000)
    mode = target.classify(exact)
    for seed in range(5):
        x = target.sample(np.random.default_rng(seed), 4000)
        fitted = SpectralPartition(random_state=seed).fit(x, logp=target.logp)
        cell = fitted.predict(exact)
        of_cell = np.array([np.bincount(mode[cell == c]).argmax() for c in range(3)])
        assert sorted(of_cell) == [0, 1, 2]
        assert np.mean(of_cell[cell] == mode) > 0.97


def test_mending_moves_an_island_and_spares_a_mode():
    from sklearn.neighbors import kneighbors_graph

    rng = np.random.default_rng(0)
    line = np.column_stack([np.linspace(0, 10, 400), rng.normal(0, 0.1, 400)])
    far_mode = rng.normal([100, 0], 0.1, (30, 2))
    x = np.vstack([line, far_mode])
    labels = np.where(x[:, 0] < 5, 0, 1)
    labels[:20] = 1  # an island of cell 1 at the far end of cell 0
    graph = kneighbors_graph(x, 10)
    mended, share = mend_islands(labels, graph.maximum(graph.T).tocsr())
    assert share == pytest.approx(20 / 430)
    assert np.all(mended[:20] == 0)
    assert np.all(mended[400:] == 1)  # far away, no neighbours elsewhere: a mode of cell 1


@pytest.mark.parametrize("seed", range(5))
def test_a_small_mode_cut_in_two_is_made_whole(seed):
    """A fiftieth of the mass, half of it labelled as part of its large neighbour."""
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(seed), 4000)
    mode = target.classify(x)
    small, neighbour = 0, 2  # at (3, 3) and (2, 7)
    labels = np.where((mode == small) & (x[:, 1] > 3), neighbour, mode)
    found = discriminant_rule(x, labels, 4, np.random.RandomState(seed)).predict(x)
    assert np.mean(found[mode == small] == small) > 0.9
    assert np.mean(found[mode == neighbour] == neighbour) > 0.98


def test_follows_scikit_learn():
    x = draws_of("paper2d")
    estimator = SpectralPartition(4, random_state=3)
    again = clone(estimator)
    np.testing.assert_array_equal(estimator.fit_predict(x), again.fit(x).predict(x))
    assert estimator.get_params()["n_cells"] == 4
    assert estimator.fit(x) is estimator
    kmeans = KMeansPartition(4, random_state=0)
    np.testing.assert_array_equal(kmeans.fit_predict(x), kmeans.predict(x))
    np.testing.assert_array_equal(kmeans.predict(kmeans.landmarks_), kmeans.labels_)


def test_members_lie_in_their_cell_the_most_central_first():
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(0), 2000)
    for estimator in (
        SpectralPartition(random_state=0).fit(x, logp=target.logp),
        SpectralPartition(4, join=False, extension="nystrom", random_state=0).fit(x),
        KMeansPartition(4, random_state=0).fit(x),
    ):
        for cell in range(estimator.n_cells_):
            members = estimator.members(cell)
            assert np.all(estimator.predict(members) == cell)
    fitted = SpectralPartition(random_state=0).fit(x, logp=target.logp)
    starts = np.array([fitted.members(c)[0] for c in range(4)])
    distance = np.linalg.norm(starts[:, None] - target.centres[None], axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2, 3]
    assert distance.min(axis=1).max() < 1.0


@pytest.mark.parametrize(
    ("arguments", "x", "message"),
    [
        ({"n_cells": 3}, [[0.0, 1], [1, 0]], "2 distinct points cannot fill 3 cells"),
        ({}, [[0.0, np.nan], [1, 0]], "1 of 2 points are not finite"),
        ({}, [[1.0, 1.0]] * 5, "All 5 points are the same point"),
        ({}, [1.0, 2.0], r"shape \(n, d\)"),
        ({"n_cells": 0}, [[0.0], [1]], "positive integer"),
        ({"n_cells": "many"}, [[0.0], [1]], 'integer or "auto"'),
        ({"affinity": "cosine"}, [[0.0], [1]], "self-tuning, gaussian"),
        ({"extension": "none"}, [[0.0], [1]], "discriminant, nystrom"),
        ({"affinity": "gaussian"}, [[0.0], [1]], "needs Q"),
        ({"Q": 1.0}, [[0.0], [1]], 'affinity="gaussian"'),
        ({"affinity": "gaussian", "Q": np.eye(3)}, [[0.0], [1]], r"shape \(3, 3\)"),
        ({"affinity": "gaussian", "Q": -1.0}, [[0.0], [1]], "positive definite"),
        ({"join": False}, [[0.0], [1]], "n_cells=4"),
        ({"n_landmarks": 1}, [[0.0], [1]], "n_landmarks=1 is too few"),
    ],
)
def test_bad_input_is_refused(arguments, x, message):
    with pytest.raises(ValueError, match=message):
        SpectralPartition(**arguments).fit(x)


def test_predict_refuses_other_shapes():
    fitted = SpectralPartition(random_state=0).fit(draws_of("paper2d", n=300))
    with pytest.raises(ValueError, match="fitted on 2 coordinates"):
        fitted.predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="call fit"):
        SpectralPartition().predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="needs a number of cells"):
        KMeansPartition("auto").fit(np.zeros((4, 3)))
