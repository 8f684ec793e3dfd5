"""Which draw stands in which row of the equal-weight posterior."""

from __future__ import annotations

import numpy as np

__all__ = ["apportion", "choose_rows", "order_runs", "run_length", "spread_over_blocks"]

# The run length aims at this multiple of the weights' own variance, because ArviZ's estimate of
# the label process scatters around its mean. Heuristic: half as much again keeps ArviZ's error at
# or above the true one on average (tests/result/test_reweighting.py measures it).
_CAUTION = 1.5

# Weights below this are left out of the run length: no row will ever be of such a cell, and their
# reciprocals overflow.
_NO_MASS = 1e-300

# Shares that are whole numbers come out of floating point sums a little below: what is missing is
# far below one row, and far above the rounding of sums of this many rows (heuristic).
_ROUNDING = 1e-9


def run_length(
    weight: np.ndarray, weight_cov: np.ndarray, total: int, inefficiency: float = 0.0
) -> int:
    """Return how many rows of one cell should follow each other.

    ArviZ takes the sequence of cells in a chain for a random process. Runs of g rows make it see a
    variance of ``g w (1 - w) / total`` in a weight, and of about ``g Var(x) / total`` in a mean.

    Parameters
    ----------
    weight, weight_cov : ndarray, shapes (cells,) and (cells, cells)
        Weights and the covariance of their errors. What ArviZ sees is made to exceed the weights'
        own error variance for every function that differs between cells: g is at least `total`
        times the largest eigenvalue of ``weight_cov`` relative to ``diag(weight)``.
    total : int
        Rows in all chains.
    inefficiency : float
        ``total * mcse ** 2 / sd ** 2`` of the worst estimated parameter. g is at least this, so
        that the error of slowly mixing cells is covered too, although alternating cells hide their
        autocorrelation.

    Returns
    -------
    int
        g >= 1.
    """
    held = weight > _NO_MASS
    scale = 1.0 / np.sqrt(weight[held])
    relative = weight_cov[np.ix_(held, held)] * np.outer(scale, scale)
    largest = total * float(np.linalg.eigvalsh(relative)[-1])
    return max(1, int(np.ceil(_CAUTION * max(largest, inefficiency))))


def choose_rows(
    weight: np.ndarray,
    cell_of_chain: np.ndarray,
    draws: int,
    length: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose which draw stands in each row of the equal-weight posterior.

    Parameters
    ----------
    weight : ndarray, shape (cells,)
        Weights, summing to 1.
    cell_of_chain : ndarray of int, shape (chains,)
        Cell in which each chain ran.
    draws : int
        Draws per chain, in and out.
    length : int
        Rows of one cell that follow each other, see :func:`run_length`.
    rng : numpy.random.Generator
        Orders the cells.

    Returns
    -------
    source_chain, source_draw : ndarray of int, shape (chains, draws)
        Where each row comes from.

    Notes
    -----
    1. The chains x draws rows are apportioned to the cells by their weights (largest remainder),
       then evenly to the half chains, so that no chain or half differs from another by its mix of
       cells and `r_hat` compares what it should.
    2. The rows of a cell take its draws in time order at even spacing: every draw about equally
       often, repeats side by side, each output chain its own stretch.
    3. Within a half chain, runs of `length` rows of one cell come in random order.
    """
    chains = cell_of_chain.size
    total = chains * draws
    rows_of_cell = apportion(weight * total, total)
    halves = np.tile([draws // 2, draws - draws // 2], chains)
    table = spread_over_blocks(rows_of_cell, halves)
    cell_of_row = np.concatenate([order_runs(counts, length, rng) for counts in table])
    source_chain = np.empty(total, dtype=int)
    source_draw = np.empty(total, dtype=int)
    for cell in np.flatnonzero(rows_of_cell):
        mine = np.flatnonzero(cell_of_chain == cell)
        place = np.arange(rows_of_cell[cell]) + 0.5
        draw = (place * (mine.size * draws / rows_of_cell[cell])).astype(int)
        here = np.flatnonzero(cell_of_row == cell)
        source_chain[here], source_draw[here] = mine[draw // draws], draw % draws
    return source_chain.reshape(chains, draws), source_draw.reshape(chains, draws)


def order_runs(counts: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    """Lay out `counts` rows of each cell in runs of about `length`, in random order.

    Parameters
    ----------
    counts : ndarray of int, shape (cells,)
        Rows of each cell.
    length : int
        Rows of one cell that follow each other, as near as its count allows; neighboring runs may
        be of one cell.
    rng : numpy.random.Generator
        Orders the runs.

    Returns
    -------
    ndarray of int, shape (counts.sum(),)
        Cell of each row.
    """
    cells, sizes = [], []
    for cell in np.flatnonzero(counts):
        n_runs = max(1, round(counts[cell] / length))
        edges = np.linspace(0, counts[cell], n_runs + 1).round().astype(int)
        cells.append(np.full(n_runs, cell))
        sizes.append(np.diff(edges))
    order = rng.permutation(sum(c.size for c in cells))
    if not cells:
        return np.empty(0, dtype=int)
    return np.repeat(np.concatenate(cells)[order], np.concatenate(sizes)[order])


def apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Round shares to integers that sum to `total`, by largest remainder.

    Parameters
    ----------
    shares : ndarray, shape (cells,)
        Not negative, with the sum `total` up to rounding.
    total : int
        Rows to give out.

    Returns
    -------
    ndarray of int, shape (cells,)
        Each within 1 of its share.
    """
    counts = np.floor(shares).astype(int)
    order = np.argsort(counts - shares, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def spread_over_blocks(rows_of_cell: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Spread the cells' rows over blocks of given sizes, each as close to the mix as can be.

    Parameters
    ----------
    rows_of_cell : ndarray of int, shape (cells,)
        Rows of each cell in all blocks.
    sizes : ndarray of int, shape (blocks,)
        Rows in each block, with the same sum.

    Returns
    -------
    ndarray of int, shape (blocks, cells)
        Rows of each cell in each block.
    """
    table = np.zeros((sizes.size, rows_of_cell.size), dtype=int)
    done = np.zeros(rows_of_cell.size, dtype=int)
    share = np.cumsum(sizes) / sizes.sum()
    for b, size in enumerate(sizes):
        due = rows_of_cell * share[b] - done
        counts = np.clip(np.floor(due + _ROUNDING).astype(int), 0, rows_of_cell - done)
        while (gap := int(size - counts.sum())) != 0:
            # Give to (or take from) the cell that is furthest behind (or ahead).
            room = counts < rows_of_cell - done if gap > 0 else counts > 0
            behind = np.where(room, (due - counts) * np.sign(gap), -np.inf)
            counts[int(np.argmax(behind))] += int(np.sign(gap))
        table[b] = counts
        done += counts
    return table
