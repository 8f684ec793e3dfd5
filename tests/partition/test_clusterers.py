"""The partition: exact at its landmarks in any units, total, and blind to nothing it should see."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

from pymc_spectral import KMeansPartition, SpectralPartition, targets
from pymc_spectral.partition.cell_rules import DiscriminantRule, NystromRule
from pymc_spectral.partition.discriminant_fit import mend_islands
from pymc_spectral.partition.spectrum import spectral_embedding

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


@cache
def fitted_in(name, factor, extension):
    """Fit draws of a target in other units; rotated too, where these are not its own."""
    x = draws_of(name, n=1000)
    y = factor * x @ random_rotation(x.shape[1], 3) if factor != 1.0 else x
    return SpectralPartition(extension=extension, n_landmarks=300, random_state=1).fit(y)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
@pytest.mark.parametrize("factor", [1.0, 1000.0, 0.001])
def test_landmarks_keep_their_labels_in_any_units(name, extension, factor):
    """The paper's printed extension loses 92 % of them in other units."""
    fitted = fitted_in(name, factor, extension)
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
    """Not by relabeling: labels of k-means on the eigenvectors come back from the extension."""
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
    embedding = spectral_embedding(x, affinity="gaussian", Q=Q, n_neighbors=0, n_vectors=4)
    fitted = SpectralPartition(
        4, affinity="gaussian", Q=Q, join=False, extension="nystrom", random_state=0
    ).fit(x)
    rule = fitted.rule_
    assert isinstance(rule, NystromRule)
    affinity = np.exp(-0.5 * rule.squared_distances(x)) / (2 * np.pi * 0.8e6)
    printed = (
        np.sqrt(len(x)) * affinity @ (embedding.eigenvectors[:, :4] / embedding.eigenvalues[:4])
    )
    nearest = np.argmin(((printed[:, None] - rule.centers[None]) ** 2).sum(axis=2), axis=1)
    assert np.mean(rule.owner[nearest] == fitted.predict(x)) < 0.7


@pytest.mark.parametrize("extension", ["discriminant", "nystrom"])
@pytest.mark.parametrize("name", ["paper2d", "twenty", "docs_pair80"])
def test_every_point_has_one_cell(name, extension):
    fitted = fitted_in(name, 1.0, extension)
    cells = fitted.predict(far_points(draws_of(name), 1))
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


def test_cells_are_in_one_piece():
    """An island of a cell is out of its chain's reach; exact draws show none above 1 in 1000."""
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


# Array API input needs a variable that SciPy reads before it is imported.
@pytest.mark.filterwarnings("ignore:Skipping check:sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([SpectralPartition(), KMeansPartition()])
def test_meets_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


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
    distance = np.linalg.norm(starts[:, None] - target.centers[None], axis=2)
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
    with pytest.raises(ValueError, match="1 of 4 points are not finite"):
        fitted.predict([[0, 0], [1, 1], [np.nan, 0], [2, 2]])
    with pytest.raises(NotFittedError, match="call fit"):
        SpectralPartition().predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="needs a number of cells"):
        KMeansPartition("auto").fit(np.zeros((4, 3)))
