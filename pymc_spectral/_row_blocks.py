"""Work cut into pieces, so that memory does not grow with the size of a result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["column_blocks", "fitting", "slices"]

NUMBERS_AT_ONCE = 2_000_000
"""Draws of so many numbers are worked on together. Heuristic: 16 MB, and with Fourier transforms or
pooling some ten arrays of that size, fit into any memory; a thousand Deterministics do not."""


def slices(total: int, size: int) -> Iterator[slice]:
    """Cut ``range(total)`` into slices of `size`; the last one may be shorter.

    Parameters
    ----------
    total : int
        Length of what is cut. With 0, nothing is yielded.
    size : int
        Length of a piece, at least 1.
    """
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def fitting(budget: int, per_item: int) -> int:
    """How many items of `per_item` numbers each a budget of numbers allows, at least one."""
    return max(1, budget // max(1, per_item))


def column_blocks(x: np.ndarray) -> Iterator[slice]:
    """Cut the last axis of a (chains, draws, p) array into pieces of bounded size."""
    return slices(x.shape[2], fitting(NUMBERS_AT_ONCE, x.shape[0] * x.shape[1]))
