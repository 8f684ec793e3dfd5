"""A labeling of draws, compressed into a rule of a few Student components per cell.

What describes a single cell is in :mod:`pymc_spectral.partition.normal_components`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln
from sklearn.neighbors import kneighbors_graph

from pymc_spectral.partition.cell_rules import FULL_MAX_DIM, DiscriminantRule, Floats, Ints
from pymc_spectral.partition.normal_components import (
    Component,
    cell_components,
    follow_shapes,
)
from pymc_spectral.partition.spectrum import standardization

__all__ = ["discriminant_rule", "rule_of_basins"]

# Degrees of freedom tried for the discriminant: from the heaviest tails that have a variance to
# what is a normal for all purposes.
DISCRIMINANT_DOFS = (3.0, 5.0, 10.0, 30.0, 100.0)
# The discriminant replaces the Nystrom rule only where it keeps this share of every cell.
# Heuristic: what is lost lies along boundaries, where little mass is.
DISCRIMINANT_AGREEMENT = 0.8
# Of basins it need keep no more than this: where one mode crosses another, basins cut the arm of
# the one at the other's edge, and components put it together again (heuristic).
BASIN_KEPT = 0.5
# Above this dimension a diagonal rule is taken if it reproduces this share of the labels. The
# dimension is that above which a full rule costs a product per component in the graph of a cell.
# It is `FULL_MAX_DIM`. The share is heuristic, nothing was measured: one draw in a thousand changes
# cells along the boundaries, far fewer than the tenth or so that would show in a cell's weight or
# mixing, and no answer depends on where boundaries run.
DIAGONAL_AGREEMENT = 0.999
# Neighbors that make a graph of the draws: as many as set the local scale of the affinity.
GRAPH_NEIGHBORS = 10
# A piece with this share of its cell is a mode in its own right, not an island (heuristic).
ISLAND_SHARE = 0.2
# Fits of the discriminant to its own labels. Heuristic: islands are gone after two or never.
MAX_FITS = 4
# Draws on which the likelihoods of the degrees of freedom are compared; enough to tell those apart.
LIKELIHOOD_ROWS = 2000


def student_rule(components: list[list[Component]], dof: float) -> DiscriminantRule:
    """Turn the components of all cells into one rule, with covariances as given."""
    flat = [(c, cell) for cell, own in enumerate(components) for c in own]
    d = len(flat[0][0].mean)
    total = sum(c.share for c, _ in flat)
    # A Student with scale matrix S has covariance S nu / (nu - 2).
    shrink = np.sqrt((dof - 2) / dof)
    constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * np.log(dof * np.pi)
    log_constants = [
        np.log(c.share / total) + constant - np.sum(np.log(np.diag(c.lower) * c.scale * shrink))
        for c, _ in flat
    ]
    return DiscriminantRule(
        means=np.array([c.mean for c, _ in flat]),
        factors=np.array([np.linalg.inv(c.lower).T / (shrink * c.scale[:, None]) for c, _ in flat]),
        log_constants=np.array(log_constants),
        owner=np.array([cell for _, cell in flat]),
        dof=dof,
    )


def most_likely_rule(components: list[list[Component]], x: Floats) -> DiscriminantRule:
    """Choose the degrees of freedom under which the draws are most likely.

    Tails too heavy for the modes move boundaries off the valleys; tails too light leave the far
    side of a narrow mode to a wide one.
    """
    rules = [student_rule(components, dof) for dof in DISCRIMINANT_DOFS]
    return max(rules, key=lambda rule: float(rule.scores(x).max(axis=1).sum()))


def mend_islands(labels: Ints, graph: csr_matrix) -> tuple[Ints, float]:
    """Give small pieces that are cut off from the rest of their cell to the cell around them.

    A chain does not reach an island of its own cell, so the mass there would be missed. A piece
    is a connected component of the neighbor graph within the cell; it moves to the cell most
    frequent among its neighbors. A piece without neighbors elsewhere, or with a fifth of its
    cell, is a mode in its own right and stays.

    Returns
    -------
    labels : array (n,)
    share : float
        Share of the rows that moved.
    """
    rows, columns = graph.nonzero()
    same = labels[rows] == labels[columns]
    inner = csr_matrix((np.ones(same.sum()), (rows[same], columns[same])), shape=graph.shape)
    piece = connected_components(inner, directed=False)[1]
    sizes = np.bincount(piece)
    cell_of_piece = np.zeros(len(sizes), dtype=int)
    cell_of_piece[piece] = labels
    small = sizes < ISLAND_SHARE * np.bincount(labels)[cell_of_piece]
    mended = labels.copy()
    # Votes of the neighbors outside: one row per piece, one column per cell.
    votes = csr_matrix(
        (np.ones((~same).sum()), (piece[rows[~same]], labels[columns[~same]])),
        shape=(len(sizes), labels.max() + 1),
    ).toarray()
    moves = small & (votes.sum(axis=1) > 0)
    moved = moves[piece]
    mended[moved] = votes.argmax(axis=1)[piece[moved]]
    return mended, float(moved.mean())


def discriminant_rule(
    x: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState
) -> DiscriminantRule | None:
    """Compress a labeling of draws into a few Student components per cell.

    Parameters
    ----------
    x : array (n, d)
    labels : array (n,)
        Cell of each row.
    n_cells : int
    rng : RandomState

    Returns
    -------
    DiscriminantRule or None
        None if it does not reproduce the labels, which leaves the Nystrom rule in charge.
    """
    graph = neighbor_graph(x)
    mended = mend_islands(labels, graph)[0]
    sample = x[rng.choice(len(x), min(len(x), LIKELIHOOD_ROWS), replace=False)]
    best = _fit_to_own_labels(x, labels, mended, graph, n_cells, sample, rng)
    return None if best is None else _cheaper_or_whole(x, best, n_cells, sample, rng)


def rule_of_basins(
    x: Floats, landmarks: Floats, labels: Ints, n_cells: int, rng: np.random.RandomState
) -> DiscriminantRule | None:
    """Extend the basins of the landmarks' peaks by a few Student components for each.

    Where a landmark climbs to is known, not guessed from distances, so nothing is mended. Points
    that are no landmarks take the cell that the landmarks' rule gives them, and then help to
    describe it.

    Parameters
    ----------
    x : array (n, d)
        All points.
    landmarks : array (N, d)
    labels : array (N,)
        Cell of each landmark.
    n_cells : int
    rng : RandomState

    Returns
    -------
    DiscriminantRule or None
        None if components do not reproduce the labels of the landmarks.
    """
    scale = standardization(x)[1]
    sample = x[rng.choice(len(x), min(len(x), LIKELIHOOD_ROWS), replace=False)]

    def fitted(rows: Floats, cell: Ints) -> DiscriminantRule:
        components = [cell_components(rows[cell == c], scale, rng) for c in range(n_cells)]
        return most_likely_rule(components, sample)

    best = fitted(landmarks, labels)
    found = best.predict(x)
    if len(np.unique(found)) == n_cells:
        again = fitted(x, found)
        if kept_shares(again.predict(landmarks), labels, n_cells).min() >= (
            kept_shares(best.predict(landmarks), labels, n_cells).min()
        ):
            best = again
    if kept_shares(best.predict(landmarks), labels, n_cells).min() < BASIN_KEPT:
        return None
    return _cheaper_or_whole(x, best, n_cells, sample, rng)


def _cheaper_or_whole(
    x: Floats, best: DiscriminantRule, n_cells: int, sample: Floats, rng: np.random.RandomState
) -> DiscriminantRule:
    """Return a diagonal rule if it serves as well, or one in which shapes are whole, or `best`."""
    if x.shape[1] > FULL_MAX_DIM:
        # In many dimensions modes that are apart are apart in the diagonal metric too, and the
        # rule is evaluated at every leapfrog step.
        found = best.predict(x)
        cheap = diagonal_rule(x, found, n_cells, sample)
        if np.mean(cheap.predict(x) == found) > DIAGONAL_AGREEMENT:
            return cheap
    described = follow_shapes(x, best, n_cells, rng)
    if described is not None:
        components, wanted = described
        rule = most_likely_rule(components, sample)
        if keeps(rule.predict(x), wanted, n_cells):
            return rule
    return best


def neighbor_graph(x: Floats) -> csr_matrix:
    """Return the symmetric graph of nearest neighbors, in standardized coordinates."""
    shift, scale = standardization(x)
    graph = kneighbors_graph((x - shift) / scale, min(GRAPH_NEIGHBORS, len(x) - 1))
    return graph.maximum(graph.T).tocsr()


def keeps(found: Ints, wanted: Ints, n_cells: int) -> bool:
    """Return whether a labeling holds most of every cell of another."""
    return bool(kept_shares(found, wanted, n_cells).min() >= DISCRIMINANT_AGREEMENT)


def kept_shares(found: Ints, wanted: Ints, n_cells: int) -> Floats:
    """Return the share of each cell of one labeling that another keeps."""
    return np.array([np.mean(found[wanted == cell] == cell) for cell in range(n_cells)])


def _fit_to_own_labels(
    x: Floats,
    labels: Ints,
    mended: Ints,
    graph: csr_matrix,
    n_cells: int,
    sample: Floats,
    rng: np.random.RandomState,
) -> DiscriminantRule | None:
    """Fit a rule, then rules to its own labels, and return the one with the fewest islands.

    Later fits drop the stray tail points of a neighboring mode, which a segment at the edge of a
    valley tends to pick up. None if already the first rule loses much of some cell.
    """
    global_scale = standardization(x)[1]
    current, best, least = mended, None, np.inf
    for attempt in range(MAX_FITS):
        if len(np.unique(current)) < n_cells:
            break
        components = [
            cell_components(x[current == cell], global_scale, rng) for cell in range(n_cells)
        ]
        rule = most_likely_rule(components, sample)
        found = rule.predict(x)
        if not keeps(found, labels, n_cells):
            break
        current, islands = mend_islands(found, graph)
        if islands <= least:
            best, least = rule, islands
        if attempt and islands == 0:
            break
    return best


def diagonal_rule(x: Floats, labels: Ints, n_cells: int, sample: Floats) -> DiscriminantRule:
    """Return a rule of one component with independent coordinates for each cell."""
    components = []
    for cell in range(n_cells):
        rows = x[labels == cell]
        shift, scale = standardization(rows)
        components.append([Component(shift, scale, np.eye(x.shape[1]), len(rows))])
    rule = most_likely_rule(components, sample)
    return replace(rule, factors=np.array([np.diag(f) for f in rule.factors]))
