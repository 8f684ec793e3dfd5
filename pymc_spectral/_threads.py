"""How many threads linear algebra may use.

What we compute in the process that constructs a step is thousands of small products. A BLAS with
its default of a thread for each core wakes all of them for each product and waits for the slowest;
on a machine with other work that takes thirty times as long as one thread does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for linear algebra, and go back to the user's setting afterwards."""
    with threadpool_limits(limits=1):
        yield
