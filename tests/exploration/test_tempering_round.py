"""A scan leaves the product of all temperatures unchanged; a round keeps what it should of them."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import kstest
from toy_path import BETAS, GRID, ToyPath

from pymc_spectral._progress import ScanProgress
from pymc_spectral.exploration import tempering_round as rounds
from pymc_spectral.exploration.ladder import swap_probability
from pymc_spectral.exploration.local_moves import Hamiltonian, RandomWalk
from pymc_spectral.exploration.tempering_round import run_round, scan


def p_values_after_scans(kernel, seed, copies=4000, scans=6):
    """Start all temperatures at exact draws, run frozen scans, test every temperature by KS."""
    path, rng = ToyPath(), np.random.default_rng(seed)
    state = path.exact(rng, BETAS, copies)
    moves = kernel(len(BETAS) - 1, 1, path.scale)
    moves.adapting = False
    for t in range(scans):
        *_, index = scan(path, moves, state, BETAS, t % 2, rng)
        state.take(index)
    return np.array(
        [
            kstest(state.x[k, :, 0], lambda x, k=k: np.interp(x, GRID, path.cdf(BETAS[k]))).pvalue
            for k in range(len(BETAS))
        ]
    )


@pytest.mark.parametrize("kernel", [Hamiltonian, RandomWalk])
def test_a_scan_leaves_the_product_target_unchanged(kernel, monkeypatch):
    assert p_values_after_scans(kernel, seed=1).min() > 1e-4

    def wrong(values, betas):  # The ratio upside down.
        return swap_probability(-values, betas)

    monkeypatch.setattr("pymc_spectral.exploration.tempering_round.swap_probability", wrong)
    assert p_values_after_scans(kernel, seed=1).min() < 1e-12


def test_memory_does_not_grow_with_the_length_of_a_round(monkeypatch):
    monkeypatch.setattr(rounds, "MAX_KEPT_SCANS", 64)
    path, peaks = ToyPath(), []
    for scans in (100, 100, 1000):  # the first one only warms up
        rng = np.random.default_rng(0)
        state = path.exact(rng, BETAS, 200)
        moves = RandomWalk(len(BETAS) - 1, 1, path.scale)
        tracemalloc.start()
        with ScanProgress(False) as progress:
            result = run_round(path, moves, state, BETAS, scans, 20, rng, progress)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert 20 * 200 <= len(result.points) <= 40 * 200
    assert peaks[2] < 1.3 * peaks[1]


def test_swaps_exchange_neighbors_of_one_parity_only():
    path, rng = ToyPath(), np.random.default_rng(0)
    replicas = path.exact(rng, BETAS, 500)
    moves = RandomWalk(len(BETAS) - 1, 1, path.scale)
    for parity, pairs in ((0, [(0, 1), (2, 3)]), (1, [(1, 2)])):
        origin = scan(path, moves, replicas, BETAS, parity, rng).origin
        np.testing.assert_array_equal(np.sort(origin, axis=0).T, np.tile(np.arange(4), (500, 1)))
        moved = origin != np.arange(4)[:, None]
        assert moved.any()
        for a, b in pairs:
            np.testing.assert_array_equal(moved[a], moved[b])
        alone = set(range(4)) - {k for pair in pairs for k in pair}
        assert not moved[sorted(alone)].any()


def test_round_trips_count_arrivals_from_the_reference(monkeypatch):
    """Swaps that always happen carry a replica up a step a scan: one arrives every other scan."""
    path, rng = ToyPath(), np.random.default_rng(0)
    monkeypatch.setattr(rounds, "swap_probability", lambda values, betas: np.ones((3, 2)))
    replicas = path.exact(rng, BETAS, 2)
    moves = RandomWalk(len(BETAS) - 1, 1, path.scale)
    with ScanProgress(False) as progress:
        found = run_round(path, moves, replicas, BETAS, 12, 5, rng, progress)
    # By hand: scans 0, 1, 2 carry the first replica from 0 to 3; others follow two scans apart.
    assert found.report.round_trips == 2 * 5
    np.testing.assert_array_equal(found.report.rejection, 0.0)
    assert found.report.barrier == 0.0
    assert found.report.acceptance[0] == 1.0


def test_points_of_a_round_are_those_of_the_posterior():
    path, rng = ToyPath(), np.random.default_rng(1)
    replicas = path.exact(rng, BETAS, 500)
    moves = Hamiltonian(len(BETAS) - 1, 1, path.scale)
    moves.adapting = False
    with ScanProgress(False) as progress:
        found = run_round(path, moves, replicas, BETAS, 8, 4, rng, progress)
    assert found.points.shape == (4 * 500, 1)
    np.testing.assert_allclose(found.logp, path.log_target(found.points[:, 0]))
    assert found.replicas.shape == (len(BETAS), 8 * 500, 1)
    row = found.report.row()
    assert row["scans"] == 8
    assert row["temperatures"] == len(BETAS)
    assert abs(row["log_evidence"]) < 5 * row["log_evidence_error"]
