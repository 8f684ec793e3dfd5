"""What chains missed of their cells, from arrays alone."""

import numpy as np
import pytest

from pymc_spectral.diagnostics.cell_coverage import DEEPEST, MAX_COMPARED, coverage

GAP = 6.0


def blob(seed, n, place=0.0, d=2):
    x = np.random.default_rng(seed).standard_normal((n, d))
    x[:, 0] += place
    return x


def log_pair(x, gap=GAP):
    """Two normals at -gap and gap along the first coordinate."""
    shift = np.zeros(x.shape[1])
    shift[0] = gap
    parts = [-0.5 * np.sum((x - s) ** 2, axis=1) for s in (shift, -shift)]
    return np.logaddexp(*parts)


# From a peak to the middle between two.
DEPTH = float(log_pair(np.array([[GAP, 0.0]]))[0] - log_pair(np.zeros((1, 2)))[0])


def both_modes(n=600, d=2):
    return np.concatenate([blob(1, n // 2, -GAP, d), blob(2, n // 2, GAP, d)])


def look(draws, points, *, low=-np.inf, logp=log_pair, cell_of_chain=None, cell=None):
    """Coverage of a single cell, unless cells are given."""
    cell_of_chain = np.zeros(len(draws), int) if cell_of_chain is None else cell_of_chain
    cell = np.zeros(len(points), int) if cell is None else cell
    n_cells = int(cell_of_chain.max()) + 1
    return coverage(
        draws,
        cell_of_chain,
        points,
        logp(points),
        cell,
        np.full(n_cells, low),
        lambda cell, x: logp(x),
    )


def test_a_mode_that_no_chain_visits_is_seen_and_so_is_the_valley_before_it():
    found = look(blob(3, 400, -GAP)[None], both_modes())
    # Half of the points are there; a few of them lie near enough to the draws by chance, or not.
    assert found.unvisited[0] == pytest.approx(0.5, abs=0.02)
    assert found.valley_unvisited[0] == pytest.approx(DEPTH, abs=1.0)
    assert found.wandering[0] < 0.02
    assert found.valley_chains[0] < 0.5


def test_chains_that_saw_it_all_miss_nothing():
    """Negative control."""
    rows = np.random.default_rng(0).permutation(both_modes(800))
    found = look(rows.reshape(2, 400, 2), both_modes())
    assert found.unvisited[0] < 0.02
    assert found.wandering[0] < 0.02
    assert found.valley_unvisited[0] < 0.5


def test_chains_in_one_mode_see_all_of_it():
    """Negative control: no valley within a normal, in few dimensions or in many."""
    for d in (1, 2, 20):
        draws = np.stack([blob(4, 300, d=d), blob(5, 300, d=d)])
        found = look(draws, blob(6, 500, d=d), logp=lambda x: -0.5 * np.sum(x**2, axis=1))
        assert found.unvisited[0] < 0.02
        assert found.wandering[0] < 0.02
        assert found.valley_chains[0] < 0.25
        assert found.valley_unvisited[0] < 0.25


def test_chains_on_two_sides_have_a_valley_between_them():
    draws = np.stack([blob(3, 300, -GAP), blob(4, 300, GAP)])
    found = look(draws, both_modes())
    assert found.valley_chains[0] == pytest.approx(DEPTH, abs=1.0)
    assert found.unvisited[0] < 0.02


def test_a_chain_that_changed_sides_halfway_shows_the_valley_too():
    draws = np.concatenate([blob(3, 300, -GAP), blob(4, 300, GAP)])[None]
    assert look(draws, both_modes()).valley_chains[0] == pytest.approx(DEPTH, abs=1.0)


def test_draws_far_from_all_points_are_wandering():
    draws = blob(3, 400)
    draws[:40] += 50.0
    found = look(draws[None], blob(4, 500))
    assert found.wandering[0] == pytest.approx(0.1, abs=0.02)
    assert found.unvisited[0] < 0.02


def test_a_mode_apart_in_one_of_many_coordinates_is_seen():
    """Distances do not tell in sixty dimensions; the direction between the means does."""
    found = look(blob(3, 400, -GAP, 60)[None], both_modes(d=60))
    assert found.unvisited[0] == pytest.approx(0.5, abs=0.02)
    assert found.valley_unvisited[0] > 5


def test_points_lower_than_known_are_no_part_of_a_mode():
    strays = np.concatenate([blob(3, 400), blob(4, 100, 30.0)])

    def logp(x):
        return -0.5 * np.sum(x**2, axis=1)

    draws = blob(5, 400)[None]
    assert look(draws, strays, logp=logp).unvisited[0] > 0.1
    found = look(draws, strays, logp=logp, low=-12.0)
    assert found.unvisited[0] == 0.0
    assert found.valley_unvisited[0] == 0.0


def test_a_path_outside_of_the_cell_says_nothing():
    """Two halves of a cell around a hole: the density in the hole belongs to another cell."""
    draws = np.stack([blob(3, 300, -GAP), blob(4, 300, GAP)])

    def outside_in_the_middle(x):
        return np.where(np.abs(x[:, 0]) < 2, np.inf, log_pair(x))

    known = look(draws, both_modes(), logp=outside_in_the_middle).valley_chains[0]
    # What is left of the path ends at 2, where the density has fallen by (GAP - 2)^2 / 2.
    assert known <= 0.5 * (GAP - 2) ** 2 + 1
    walls = look(draws, both_modes(), logp=lambda x: np.where(x[:, 0] ** 2 < 4, -np.inf, 0.0))
    assert walls.valley_chains[0] == DEEPEST


def test_each_cell_is_asked_about_its_own_points_with_its_own_density():
    asked = {0: [], 1: []}

    def logp_in_cell(cell, x):
        asked[cell].append(x)
        return log_pair(x)

    points = both_modes()
    cell = (points[:, 0] > 0).astype(int)
    # Chains in another order than cells; the second cell's chain misses half of nothing.
    draws = np.stack([blob(3, 300, GAP), blob(4, 300, -GAP)])
    found = coverage(
        draws, np.array([1, 0]), points, log_pair(points), cell, np.full(2, -np.inf), logp_in_cell
    )
    for figures in (found.unvisited, found.wandering, found.valley_chains, found.valley_unvisited):
        assert figures.shape == (2,)
        assert np.all(figures < 0.5)
    assert all(np.all(x[:, 0] < 2) for x in asked[0])
    assert all(np.all(x[:, 0] > -2) for x in asked[1])


def test_too_few_points_or_draws_say_nothing_but_of_the_chains():
    found = look(blob(3, 400)[None], blob(4, 2))
    assert np.isnan([found.unvisited[0], found.wandering[0], found.valley_unvisited[0]]).all()
    assert found.valley_chains[0] >= 0
    stuck = look(np.zeros((1, 50, 2)), blob(4, 100))
    assert np.isnan(stuck.unvisited[0])
    assert stuck.valley_chains[0] == 0


def test_a_cell_without_points_is_no_error():
    draws = np.stack([blob(3, 300, -GAP), blob(4, 300, GAP)])
    found = look(draws, blob(1, 300, -GAP), cell_of_chain=np.array([0, 1]))
    assert found.unvisited[0] < 0.02
    assert np.isnan(found.unvisited[1])


def test_the_work_does_not_grow_with_the_number_of_points_and_repeats_count_once():
    points = np.repeat(both_modes(), 3, axis=0)
    found = look(blob(3, 400, -GAP)[None], points)
    once = look(blob(3, 400, -GAP)[None], points[::3])
    assert found.unvisited[0] == once.unvisited[0]
    asked = []

    def logp(x):
        asked.append(len(x))
        return log_pair(x)

    many = blob(4, 20 * MAX_COMPARED, -GAP)
    coverage(
        blob(3, 400, -GAP)[None],
        np.zeros(1, int),
        many,
        log_pair(many),
        np.zeros(len(many), int),
        np.full(1, -np.inf),
        lambda cell, x: logp(x),
    )
    assert sum(asked) < MAX_COMPARED
