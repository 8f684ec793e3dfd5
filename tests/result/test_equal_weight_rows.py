"""Which draw stands in which row: counts, order and shares, for any weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_spectral.result.equal_weight_rows import (
    apportion,
    choose_rows,
    order_runs,
    run_length,
    spread_over_blocks,
)

FOUR = np.array([0.02, 0.2, 0.2, 0.58])


def rows_of(weight, cell_of_chain, draws, length=1, seed=0):
    """Choose rows and return them with the cell of each, all (chains, draws)."""
    cells = np.asarray(cell_of_chain)
    rows = choose_rows(np.asarray(weight), cells, draws, length, np.random.default_rng(seed))
    return *rows, cells[rows[0]]


@pytest.mark.parametrize("length", [1, 3, 40, 10_000])
@pytest.mark.parametrize("draws", [100, 1000, 333])
@pytest.mark.parametrize(
    ("weight", "cell_of_chain"),
    [
        (FOUR, [0, 1, 2, 3]),
        (FOUR, [0, 1, 2, 3, 0, 1, 2, 3]),
        (FOUR, [0, 1, 2, 3, 0, 1]),
        ([1.0], [0]),
        ([1.0], [0, 0, 0]),
        ([1e-9, 1 - 1e-9], [0, 1]),
        ([1 / 3, 1 / 3, 1 / 3], [0, 1, 2]),
    ],
)
def test_rows_share_out_draws_as_promised(weight, cell_of_chain, draws, length):
    chain, draw, cell = rows_of(weight, cell_of_chain, draws, length)
    total = cell.size
    halves = [h for c in cell for h in (c[: draws // 2], c[draws // 2 :])]
    for i, w in enumerate(weight):
        mine = np.flatnonzero(np.asarray(cell_of_chain) == i)
        assert abs(np.sum(cell == i) - w * total) < 1
        # Every half chain has the same mix, up to rounding.
        shares = [np.sum(h == i) - w * h.size for h in halves]
        assert np.abs(shares).max() <= 2
        # In time order throughout, and every draw equally often up to rounding.
        place = np.concatenate([(chain * draws + draw)[k][cell[k] == i] for k in range(len(cell))])
        assert (np.diff(place) >= 0).all()
        uses = np.bincount(chain[cell == i] * draws + draw[cell == i], minlength=chain.size)
        uses = uses.reshape(chain.shape)[mine]
        assert np.ptp(uses) <= 1


def test_rows_of_one_cell_come_in_runs():
    _, _, cell = rows_of([0.5, 0.5], [0, 1], 1000, length=10)
    changes = np.mean(np.diff(cell, axis=1) != 0)
    # Runs of 10 in random order: a change at half of the run ends.
    assert changes == pytest.approx(0.05, abs=0.02)
    _, _, cell = rows_of([0.5, 0.5], [0, 1], 1000, length=1)
    assert np.mean(np.diff(cell, axis=1) != 0) == pytest.approx(0.5, abs=0.06)


def test_one_cell_is_handed_back_as_it_ran():
    chain, draw, _ = rows_of([1.0], [0, 0, 0], 50)
    np.testing.assert_array_equal(chain, np.repeat(np.arange(3), 50).reshape(3, 50))
    np.testing.assert_array_equal(draw, np.tile(np.arange(50), (3, 1)))


def test_run_length_covers_the_errors_of_the_weights():
    weight = np.array([0.3, 0.7])
    jacobian = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for mcse in (0.0, 1e-4, 0.01, 0.05):
        g = run_length(weight, mcse**2 * jacobian, 4000)
        assert g * 0.21 / 4000 >= mcse**2
        assert g <= max(1, np.ceil(1.5 * mcse**2 * 4000 / 0.21))
    assert run_length(weight, np.zeros((2, 2)), 4000, inefficiency=10.0) == 15
    assert run_length(np.array([1.0]), np.zeros((1, 1)), 100) == 1
    assert run_length(np.array([1.0, 0.0]), np.zeros((2, 2)), 100) == 1


# Weights as small as a double can be are among them.
weights = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8).filter(lambda w: sum(w) > 1e-3)


def normalized(weight):
    """Return weights that sum to 1."""
    weight = np.asarray(weight)
    return weight / weight.sum()


@given(weight=weights, total=st.integers(1, 10**6))
def test_apportioned_rows_sum_to_the_total_and_are_within_one_of_their_share(weight, total):
    weight = normalized(weight)
    counts = apportion(weight * total, total)
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert np.abs(counts - weight * total).max() < 1


@given(weight=weights, total=st.integers(1, 10**4), data=st.data())
def test_apportioning_does_not_depend_on_the_order_of_cells(weight, total, data):
    weight = normalized(weight)
    order = np.array(data.draw(st.permutations(range(weight.size))))
    shares = weight * total
    remainder = shares - np.floor(shares)
    counts, permuted = apportion(shares, total), apportion(shares[order], total)
    # Equal remainders are served in order of the cells; without ties it plays no part.
    if np.unique(remainder).size == remainder.size:
        np.testing.assert_array_equal(permuted, counts[order])
    assert sorted(permuted) == sorted(counts)


def test_a_larger_remainder_is_served_first():
    np.testing.assert_array_equal(apportion(np.array([0.4, 1.3, 1.3]), 3), [1, 1, 1])
    np.testing.assert_array_equal(apportion(np.array([2.6, 0.7, 0.7]), 4), [2, 1, 1])


counts_and_sizes = st.tuples(
    st.lists(st.integers(0, 500), min_size=1, max_size=6).filter(any),
    st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(any),
)


@given(case=counts_and_sizes)
def test_blocks_are_full_and_every_row_of_a_cell_is_in_one(case):
    shares, pieces = (np.array(values) for values in case)
    total = int(shares.sum())
    sizes = apportion(total * pieces / pieces.sum(), total)
    table = spread_over_blocks(shares, sizes)
    assert (table >= 0).all()
    np.testing.assert_array_equal(table.sum(axis=1), sizes)
    np.testing.assert_array_equal(table.sum(axis=0), shares)


@given(case=counts_and_sizes)
def test_every_block_has_the_mix_of_all(case):
    shares, pieces = (np.array(values) for values in case)
    total = int(shares.sum())
    sizes = apportion(total * pieces / pieces.sum(), total)
    done = np.cumsum(spread_over_blocks(shares, sizes), axis=0)
    due = np.outer(np.cumsum(sizes) / total, shares)
    # A block gives whole rows, and makes up for what earlier ones were short of: up to each block's
    # end no cell is ahead or behind by as many rows as there are cells.
    assert np.abs(done - due).max() < max(2, shares.size)


@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=6),
    length=st.integers(1, 300),
    seed=st.integers(0, 99),
)
def test_runs_hold_every_row_and_are_about_as_long_as_asked(counts, length, seed):
    counts = np.array(counts)
    cell = order_runs(counts, length, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.bincount(cell, minlength=counts.size), counts)
    # At most one change for every run: no more runs than rows divided by about the length.
    n_runs = sum(max(1, round(c / length)) for c in counts if c)
    assert np.sum(np.diff(cell) != 0) <= max(n_runs - 1, 0)


def test_the_order_of_runs_is_random():
    orders = {tuple(order_runs(np.array([3, 3]), 1, np.random.default_rng(k))) for k in range(40)}
    assert len(orders) > 10


@settings(max_examples=60, deadline=None)
@given(
    weight=weights,
    extra=st.lists(st.integers(0, 7), max_size=6),
    draws=st.integers(1, 120),
    length=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_chosen_rows_exist_and_are_shared_out_fairly(weight, extra, draws, length, seed):
    weight = normalized(weight)
    # Each cell has a chain, some have more, in no special order.
    cells = np.concatenate([np.arange(weight.size), np.array(extra, dtype=int) % weight.size])
    chain, draw, cell = rows_of(weight, cells, draws, length, seed)
    assert chain.shape == draw.shape == (cells.size, draws)
    assert ((draw >= 0) & (draw < draws)).all()
    np.testing.assert_array_equal(
        np.bincount(cell.ravel(), minlength=weight.size), apportion(weight * cell.size, cell.size)
    )
    for i in np.unique(cell):
        place = (chain * draws + draw)[cell == i]
        # In time order, chain after chain: a repeated draw is beside itself.
        assert (np.diff(place) >= 0).all()
        uses = np.bincount(place, minlength=cells.size * draws).reshape(cells.size, draws)
        assert np.ptp(uses[cells == i]) <= 1
        assert uses[cells != i].sum() == 0


@settings(max_examples=60, deadline=None)
@given(weight=weights, draws=st.integers(2, 200), length=st.integers(1, 50))
def test_every_half_chain_has_the_same_mix(weight, draws, length):
    weight = normalized(weight)
    _, _, cell = rows_of(weight, np.arange(weight.size), draws, length)
    halves = [half for row in cell for half in (row[: draws // 2], row[draws // 2 :])]
    for i, w in enumerate(weight):
        ahead = np.cumsum([np.sum(half == i) - w * half.size for half in halves])
        assert np.abs(ahead).max() < max(2, weight.size) + 1


@settings(max_examples=40, deadline=None)
@given(weight=weights, draws=st.integers(1, 100), seeds=st.tuples(*[st.integers(0, 10**6)] * 2))
def test_the_seed_changes_the_order_of_rows_and_nothing_else(weight, draws, seeds):
    weight = normalized(weight)
    found = [rows_of(weight, np.arange(weight.size), draws, 3, seed) for seed in seeds]
    places = [np.sort((chain * draws + draw).ravel()) for chain, draw, _ in found]
    np.testing.assert_array_equal(*places)


@given(
    weight=weights,
    scale=st.floats(0.0, 0.1),
    total=st.integers(10, 10**5),
    data=st.data(),
)
def test_runs_cover_the_error_of_any_function_that_differs_between_cells(
    weight, scale, total, data
):
    weight = normalized(weight)
    log_mass_error = scale * np.array(
        data.draw(st.lists(st.floats(0.1, 1.0), min_size=weight.size, max_size=weight.size))
    )
    jacobian = np.diag(weight) - np.outer(weight, weight)
    cov = jacobian @ np.diag(log_mass_error**2) @ jacobian.T
    g = run_length(weight, cov, total)
    values = np.array(
        data.draw(st.lists(st.floats(-1.0, 1.0), min_size=weight.size, max_size=weight.size))
    )
    spread = weight @ (values - weight @ values) ** 2
    # What ArviZ sees of the mean's error must not be below the weights' share of it.
    assert g * spread / total >= values @ cov @ values * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("tiny", [1e-300, 1e-308, 5e-324])
def test_a_cell_of_no_mass_worth_naming_does_not_overflow(tiny):
    weight = np.array([0.3, 0.7 - tiny, tiny])
    cov = np.zeros((3, 3))
    cov[:2, :2] = 1e-4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert run_length(weight, cov, 4000) == run_length(weight[:2], cov[:2, :2], 4000)
