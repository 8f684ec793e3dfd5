"""How many threads linear algebra may use.

What we compute beside the model's own density is thousands of small products. A BLAS with its
default of a thread for each core wakes all of them for each product and waits for the slowest; on a
machine with other work that takes thirty times as long as one thread does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "one_thread_if_forked"]

# A forked process has the modules of its parent, imported under another process number.
_IMPORTED_BY = os.getpid()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for linear algebra, and go back to the user's setting afterwards."""
    with _pools().limit(limits=1):
        yield


def one_thread_if_forked() -> None:
    """Use one thread from now on, if this process is a chain that PyMC has forked.

    PyMC gives each of its processes an equal share of the cores, one thread by default, but leaves
    forked ones as they are since OpenMP may not be touched there (its issue 7354).
    """
    if os.getpid() != _IMPORTED_BY:
        _pools().limit(limits=1)


def _pools() -> ThreadpoolController:
    """Return the pools of threads that may be limited here: OpenBLAS is made for forks."""
    pools = _all_pools()
    return pools if os.getpid() == _IMPORTED_BY else pools.select(internal_api="openblas")


@cache
def _all_pools() -> ThreadpoolController:
    """Find the pools, once: it takes as long as a hundred draws, and all are loaded by now."""
    return ThreadpoolController()
