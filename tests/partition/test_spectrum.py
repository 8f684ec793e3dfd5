"""Scales, landmarks, and the spectrum of their affinity."""

import numpy as np
import pytest

from pymc_spectral import targets
from pymc_spectral.partition.spectrum import (
    choose_landmarks,
    leading_eigenpairs,
    nystrom_rule,
    spectral_embedding,
    standardization,
)


def blobs(k, n=40, d=2, seed=0):
    """Groups of `n` points, a hundred of their widths apart; their group."""
    group = np.repeat(np.arange(k), n)
    noise = np.random.default_rng(seed).standard_normal((k * n, d))
    return noise + 100.0 * group[:, None], group


def test_a_constant_column_keeps_scale_one_even_if_rounding_spreads_it():
    x = np.column_stack([np.full(1000, 0.1), np.arange(1000.0)])
    assert x[:, 0].std() > 0  # the sum of many tenths is rounded
    shift, scale = standardization(x)
    np.testing.assert_allclose(shift, x.mean(axis=0))
    np.testing.assert_allclose(scale, [1.0, x[:, 1].std()])


def test_repeated_rows_are_one_landmark():
    x = np.repeat(np.random.default_rng(0).standard_normal((30, 2)), 4, axis=0)
    np.testing.assert_array_equal(choose_landmarks(x, 100, None), np.arange(0, 120, 4))
    rows = choose_landmarks(x, 10, np.random.RandomState(0))
    assert len(np.unique(x[rows], axis=0)) == 10


def test_small_mode_keeps_landmarks():
    target = targets.paper2d()
    x = target.sample(np.random.default_rng(0), 8000)
    rows = choose_landmarks(x, 500, np.random.RandomState(0))
    assert len(rows) == 500
    assert len(np.unique(rows)) == 500
    small = target.classify(x[rows]) == int(np.argmin(target.weights))
    # A uniform subsample of 500 holds 10 of them on average.
    assert small.sum() >= 15


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


@pytest.mark.parametrize("affinity", ["self-tuning", "gaussian"])
def test_separate_groups_have_an_eigenvalue_of_one_each(affinity):
    x, group = blobs(3)
    Q = np.eye(2) if affinity == "gaussian" else None
    embedding = spectral_embedding(x, affinity=affinity, Q=Q, n_neighbors=10, n_vectors=6)
    np.testing.assert_allclose(embedding.eigenvalues[:3], 1, atol=1e-6)
    assert embedding.eigenvalues[3] < 0.99
    rule = nystrom_rule(embedding, 3, np.random.RandomState(0))
    assert len({(s, g) for s, g in zip(rule.landmark_segment, group, strict=True)}) == 3
    np.testing.assert_array_equal(rule.predict(x), rule.landmark_segment)


def test_units_change_the_paper_s_affinity_and_not_the_self_tuning_one():
    x, _ = blobs(3)

    def spectrum(x, **how):
        return spectral_embedding(x, n_neighbors=10, n_vectors=6, **how).eigenvalues

    own = {"affinity": "self-tuning", "Q": None}
    np.testing.assert_allclose(spectrum(x, **own), spectrum(x * [1e3, 1e-3], **own), atol=1e-9)
    paper = {"affinity": "gaussian", "Q": np.eye(2)}
    assert np.abs(spectrum(x, **paper) - spectrum(10 * x, **paper)).max() > 0.01


def test_the_paper_s_affinity_is_the_density_of_its_random_walk():
    x, _ = blobs(1, n=15)
    Q = np.array([[2.0, 0.5], [0.5, 1.0]])
    embedding = spectral_embedding(x, affinity="gaussian", Q=Q, n_neighbors=10, n_vectors=2)
    step = x[:, None] - x[None]
    walk = np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", step, np.linalg.inv(Q), step))
    np.testing.assert_allclose(embedding.degree, walk.sum(axis=1))


def test_no_more_segments_than_distinct_rows_of_the_embedding():
    """Three separate pairs have three places in the embedding of three vectors."""
    x = np.array([[0.0], [0.1], [100.0], [100.1], [200.0], [200.1]])
    embedding = spectral_embedding(x, affinity="gaussian", Q=np.eye(1), n_neighbors=0, n_vectors=3)
    assert len(nystrom_rule(embedding, 5, np.random.RandomState(0)).owner) <= 6
    assert len(nystrom_rule(embedding, 3, np.random.RandomState(0)).owner) == 3
