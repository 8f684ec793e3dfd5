"""A function of one row, applied to many rows by several processes.

For models whose graph cannot be vectorized. The processes are forked, so the compiled function is
there without being pickled and no script needs a guard; where forking is no option (Windows,
macOS), or rows are cheaper than passing them on, the rows are evaluated one after another.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["RowProcesses", "available_cores"]

_log = logging.getLogger(__name__)

RowFunction = Callable[..., list[np.ndarray]]

# Seconds that a row must take before other processes share the work. Passing 64 rows of ten numbers
# to two processes and their results back took 4e-3 s (6e-5 s a row, two cores that were busy with
# other work): beside this limit, little.
WORTHWHILE_SECONDS = 1e-3
# Processes at most (heuristic: as many as PyMC runs chains by default).
MAX_CORES = 4


class RowProcesses:
    """Apply a function to the rows of several arrays.

    Parameters
    ----------
    function : callable
        ``function(row, *numbers)`` returns a list of arrays, for one row and one number of each
        further array.
    cores : int
        Processes to use at most. They start with the first batch of which a row takes longer than
        `WORTHWHILE_SECONDS`. Results do not depend on it.
    """

    def __init__(self, function: RowFunction, cores: int):
        self._function = function
        self._cores = cores if sys.platform.startswith("linux") else 1
        self._seconds: float | None = None
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, *columns: np.ndarray) -> list[np.ndarray]:
        """Apply the function to all rows and stack its outputs."""
        n = len(columns[0])
        if self._cores > 1 and n > 1 and (self._seconds or 0.0) > WORTHWHILE_SECONDS:
            try:
                return self._on_several(columns, n)
            except BrokenProcessPool:
                _log.warning("A process that evaluated the model died: going on with one core.")
                self._cores = 1
        start = time.perf_counter()
        done = _apply(self._function, *columns)
        # The fastest batch counts: the first one may have compiled something.
        self._seconds = min(self._seconds or np.inf, (time.perf_counter() - start) / max(n, 1))
        return done

    def _on_several(self, columns: tuple[np.ndarray, ...], n: int) -> list[np.ndarray]:
        """Cut the rows into one piece per process and put the results together."""
        pool = self._start()
        edges = np.linspace(0, n, min(self._cores, n) + 1).astype(int)
        pieces = [
            pool.submit(_work, *(column[start:stop] for column in columns))
            for start, stop in pairwise(edges)
        ]
        return [np.concatenate(parts) for parts in zip(*(p.result() for p in pieces), strict=True)]

    def _start(self) -> ProcessPoolExecutor:
        """Fork the processes, once; they end with this object."""
        if self._pool is None:
            with warnings.catch_warnings():
                # Python warns of forking beside threads; the children only call one function.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pool = ProcessPoolExecutor(
                    self._cores,
                    mp_context=multiprocessing.get_context("fork"),
                    initializer=_start_worker,
                    initargs=(self._function,),
                )
                for started in [self._pool.submit(os.getpid) for _ in range(self._cores)]:
                    started.result()
            weakref.finalize(self, self._pool.shutdown, wait=False)
        return self._pool


def available_cores() -> int:
    """Count the cores that this process may use, at most `MAX_CORES`."""
    usable = getattr(os, "sched_getaffinity", None)
    return min(MAX_CORES, len(usable(0)) if usable else os.cpu_count() or 1)


_row_function: Any = None


def _start_worker(function: RowFunction) -> None:
    """Remember the function in a new process, which leaves Ctrl-C to its parent."""
    global _row_function
    _row_function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(*columns: np.ndarray) -> list[np.ndarray]:
    """Apply the remembered function, in one of the processes."""
    return _apply(_row_function, *columns)


def _apply(function: RowFunction, *columns: np.ndarray) -> list[np.ndarray]:
    """Call the function row by row and stack its outputs."""
    rows = [
        function(columns[0][i], *(np.array(column[i]) for column in columns[1:]))
        for i in range(len(columns[0]))
    ]
    return [np.array(output, dtype=float) for output in zip(*rows, strict=True)]
