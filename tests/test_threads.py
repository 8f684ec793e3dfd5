"""Linear algebra of ours runs on one thread, and the user's setting comes back."""

import multiprocessing

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from pymc_spectral._threads import one_thread, one_thread_if_forked


def blas_threads():
    """Threads of each BLAS that NumPy and SciPy have loaded."""
    return {
        pool["num_threads"]
        for pool in ThreadpoolController().info()
        if pool["internal_api"] == "openblas"
    }


@pytest.fixture
def two_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2):
        yield


def test_one_thread_inside_and_two_again_after(two_threads):
    assert blas_threads() == {2}
    with one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_also_where_something_fails(two_threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0
    assert blas_threads() == {2}


def test_this_process_is_left_alone(two_threads):
    one_thread_if_forked()
    assert blas_threads() == {2}


def _forked(queue):
    one_thread_if_forked()
    queue.put(blas_threads())


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"
)
def test_a_forked_process_uses_one(two_threads):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_forked, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == {1}
    process.join()
