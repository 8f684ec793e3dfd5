"""Places and passes: what a valley sets apart stays apart, what a bent way joins is one."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_spectral import targets
from pymc_spectral.partition.clusterers import SpectralPartition
from pymc_spectral.partition.peaks import find_peaks, join_peaks
from pymc_spectral.partition.quench import Quenched, quench


def peaks_of(x, gradient, n_steps=80, max_segments=30, seed=0):
    moved = quench(x, gradient, n_steps)
    return find_peaks(x, moved, lambda x: gradient(x)[0], max_segments, np.random.RandomState(seed))


def joined(peaks, gradient, **options):
    asked = {"n_cells": None, "valley": 0.25, "min_size": 5, **options}
    found = join_peaks(peaks, lambda x: gradient(x)[0], **asked)
    return found.owner[peaks.segment[peaks.place]], found


def normals(centers):
    centers = np.asarray(centers, dtype=float)

    def gradient(x):
        parts = -0.5 * ((x[:, None] - centers) ** 2).sum(axis=2)
        logp = logsumexp(parts, axis=1)
        share = np.exp(parts - logp[:, None])
        return logp, (share[:, :, None] * (centers - x[:, None])).sum(axis=1)

    return gradient


@pytest.mark.parametrize("d", [2, 20, 60])
def test_modes_in_one_direction_among_many(rng, d):
    """Four modes by two signs; all other coordinates have nothing to tell."""
    signs = np.array([[a, b] for a in (-4, 4) for b in (-4, 4)])
    centers = np.hstack([signs, np.zeros((4, d - 2))])
    which = rng.integers(4, size=800)
    x = centers[which] + rng.standard_normal((800, d))
    gradient = normals(centers)
    labels, found = joined(peaks_of(x, gradient), gradient)
    assert labels.max() == 3
    # Same partition of the points, whatever the numbers of the cells.
    side = (x[:, :2] > 0) @ [2, 1]
    assert len(set(zip(labels, side, strict=True))) == 4
    assert np.sum(found.prominences > 0.25) == 3


def test_a_shallow_valley_is_none(rng):
    """Normals 2.5 apart: the density dips by .17, less than a quarter."""
    gradient = normals([[0.0, 0.0], [2.5, 0.0]])
    x = rng.standard_normal((500, 2)) + np.array([2.5, 0.0]) * rng.integers(2, size=(500, 1))
    assert joined(peaks_of(x, gradient), gradient)[0].max() == 0
    # The same valley counts if it is asked for.
    assert joined(peaks_of(x, gradient), gradient, valley=0.05)[0].max() == 1


def test_a_number_of_cells_keeps_the_deepest_valleys(rng):
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [30.0, 0.0]])
    x = centers[rng.integers(3, size=600)] + rng.standard_normal((600, 2))
    gradient = normals(centers)
    labels, _ = joined(peaks_of(x, gradient), gradient, n_cells=2)
    assert labels.max() == 1
    assert len(np.unique(labels[x[:, 0] < 15])) == 1


def test_points_still_on_their_way_found_no_cell(rng):
    gradient = normals([[0.0, 0.0]])
    x = rng.standard_normal((200, 2))
    on_the_way = x[:, 0] > 1.5
    stopped = Quenched(np.where(on_the_way[:, None], x, 0.0), gradient(x)[0], ~on_the_way)
    peaks = find_peaks(x, stopped, lambda x: gradient(x)[0], 30, np.random.RandomState(0))
    assert joined(peaks, gradient)[0].max() == 0


def numeric(logp, d, step=1e-6):
    """Log density and gradient by central differences, zero where there is none."""

    def gradient(x):
        slopes = [(logp(x + step * e) - logp(x - step * e)) / (2 * step) for e in np.eye(d)]
        return logp(x), np.nan_to_num(np.column_stack(slopes), posinf=0, neginf=0)

    return gradient


def fitted(target, seed, n=4000, **options):
    x = target.sample(np.random.default_rng(seed), n)
    partition = SpectralPartition(random_state=seed, **options)
    return x, partition.fit(x, logp=target.logp, gradient=numeric(target.logp, target.dim))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "n_cells"),
    [
        (lambda: targets.signs(3, 6), [8]),
        (lambda: targets.signs(2, 20), [4]),
        (targets.rings, [2]),
        (targets.bananas, [2]),
        (targets.arcs, [2, 3, 4]),
    ],
    ids=["signs_3_6", "signs_2_20", "rings", "bananas", "arcs"],
)
def test_cells_are_the_modes(make, n_cells, seed):
    target = make()
    x, partition = fitted(target, seed)
    assert partition.n_cells_ in n_cells
    table = np.zeros((partition.n_cells_, target.n_modes))
    np.add.at(table, (partition.predict(x), target.classify(x)), 1)
    assert table.max(axis=1).sum() / len(x) > 0.98


def test_without_climbing_nuisances_drown_the_modes():
    """Negative control: the same points, compared where they are."""
    _, partition = fitted(targets.signs(3, 20), 0, quench=0)
    assert partition.n_cells_ < 8


def test_cells_follow_the_units():
    """A change of units by powers of two, which changes no digit, changes no cell."""
    target = targets.signs(2, 5)
    x, partition = fitted(target, 1)
    scale = 2.0 ** np.arange(-9, 12, 3)
    plain = numeric(target.logp, target.dim)

    def gradient(y):
        logp, slopes = plain(y / scale)
        return logp, slopes / scale

    again = SpectralPartition(random_state=1).fit(
        x * scale, logp=lambda y: target.logp(y / scale), gradient=gradient
    )
    np.testing.assert_array_equal(again.predict(x * scale), partition.predict(x))


def test_a_density_without_a_peak_is_not_climbed():
    """The scale of a hierarchy may vanish, and the density grows without bound on the way."""
    rng = np.random.default_rng(3)
    d = 5
    log_tau = np.log(np.abs(rng.standard_cauchy(1500)))
    theta = np.exp(log_tau)[:, None] * rng.standard_normal((1500, d))
    sign = rng.choice([-3.0, 3.0], 1500) + 0.3 * rng.standard_normal(1500)
    x = np.column_stack([log_tau, theta, sign])

    def logp(x):
        log_tau, theta, sign = x[:, 0], x[:, 1:-1], x[:, -1]
        of_theta = -d * log_tau - 0.5 * (theta**2).sum(axis=1) * np.exp(-2 * log_tau)
        bumps = np.logaddexp(-0.5 * ((sign - 3) / 0.3) ** 2, -0.5 * ((sign + 3) / 0.3) ** 2)
        return log_tau - np.log1p(np.exp(2 * log_tau)) + of_theta + bumps

    gradient = numeric(logp, d + 2)
    assert quench(x, gradient, 80).at_rest.mean() < 0.5
    partition = SpectralPartition(random_state=0).fit(x, logp=logp, gradient=gradient)
    table = np.zeros((partition.n_cells_, 2))
    np.add.at(table, (partition.predict(x), (sign > 0).astype(int)), 1)
    assert table.max(axis=1).sum() > 0.97 * len(x)
