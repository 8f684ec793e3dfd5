"""A labelling of draws, compressed into a few Student components per cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln
from sklearn.neighbors import kneighbors_graph

from pymc_spectral.partition.rules import DiscriminantRule, Floats, Ints
from pymc_spectral.partition.shapes import (
    Component,
    cell_components,
    follow_shapes,
)
from pymc_spectral.partition.spectrum import standardisation

__all__ = ["discriminant_rule"]

# Degrees of freedom tried for the discriminant.
DISCRIMINANT_DOFS = (3.0, 5.0, 10.0, 30.0, 100.0)
# The discriminant replaces the Nystrom rule only where it keeps this share of every cell.
DISCRIMINANT_AGREEMENT = 0.8
# Above this dimension a diagonal rule is taken if it reproduces this share of the labels.
FULL_MAX_DIM = 8
DIAGONAL_AGREEMENT = 0.999


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
    is a connected component of the neighbour graph within the cell; it moves to the cell most
    frequent among its neighbours. A piece without neighbours elsewhere, or with a fifth of its
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
    small = sizes < 0.2 * np.bincount(labels)[cell_of_piece]
    mended = labels.copy()
    # Votes of the neighbours outside: one row per piece, one column per cell.
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
    """Compress a labelling of draws into a few Student components per cell.

    ``None`` if they do not reproduce it, which leaves the Nystrom rule in charge.
    """
    shift, global_scale = standardisation(x)
    n_neighbours = min(10, len(x) - 1)
    graph = kneighbors_graph((x - shift) / global_scale, n_neighbours)
    graph = graph.maximum(graph.T).tocsr()
    current = mend_islands(labels, graph)[0]
    sample = x[rng.choice(len(x), min(len(x), 2000), replace=False)]

    def keeps(found: Ints, wanted: Ints) -> bool:
        """Tell whether a labelling holds most of every cell."""
        kept = [np.mean(found[wanted == cell] == cell) for cell in range(n_cells)]
        return min(kept) >= DISCRIMINANT_AGREEMENT

    def fit(current: Ints) -> tuple[DiscriminantRule, Ints] | None:
        """Rule for a labelling and its own labels, or None if it loses much of some cell."""
        if len(np.unique(current)) < n_cells:
            return None
        components = [
            cell_components(x[current == cell], global_scale, rng) for cell in range(n_cells)
        ]
        rule = most_likely_rule(components, sample)
        found = rule.predict(x)
        return (rule, found) if keeps(found, labels) else None

    best: tuple[DiscriminantRule, Ints] | None = None
    least = np.inf
    for attempt in range(4):
        # Later fits are on the rule's own labels: that drops the stray tail points of a
        # neighbouring mode, which a segment at the edge of a valley tends to pick up.
        fitted = fit(current)
        if fitted is None:
            break
        current, islands = mend_islands(fitted[1], graph)
        if islands <= least:
            best, least = fitted, islands
        if attempt and islands == 0:
            break
    if best is None:
        return None
    if x.shape[1] > FULL_MAX_DIM:
        # In many dimensions modes that are apart are apart in the diagonal metric too, and the
        # rule is evaluated at every leapfrog step.
        cheap = diagonal_rule(x, best[1], n_cells, sample)
        if np.mean(cheap.predict(x) == best[1]) > DIAGONAL_AGREEMENT:
            return cheap
    described = follow_shapes(x, best[0], n_cells, rng)
    if described is not None:
        components, wanted = described
        rule = most_likely_rule(components, sample)
        if keeps(rule.predict(x), wanted):
            return rule
    return best[0]


def diagonal_rule(x: Floats, labels: Ints, n_cells: int, sample: Floats) -> DiscriminantRule:
    """One component with independent coordinates for each cell."""
    components = []
    for cell in range(n_cells):
        rows = x[labels == cell]
        shift, scale = standardisation(rows)
        components.append([Component(shift, scale, np.eye(x.shape[1]), len(rows))])
    rule = most_likely_rule(components, sample)
    return replace(rule, factors=np.array([np.diag(f) for f in rule.factors]))
