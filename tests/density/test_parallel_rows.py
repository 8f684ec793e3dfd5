"""Rows that take long are shared between processes; what comes out does not depend on it."""

import logging
import multiprocessing
import os
import sys
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spectral.density import parallel_rows as processes
from pymc_spectral.density.batched import batched_density
from pymc_spectral.density.parallel_rows import MAX_CORES, RowProcesses, available_cores

# Right or wrong does not depend on the linker, and this one spares minutes of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")
PARENT = os.getpid()

forked = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def slow_sum(row, factor=1.0):
    """Sum of a row, times a factor, and the process that computed it."""
    time.sleep(0.002)
    return [np.array(factor * row.sum()), np.array(os.getpid())]


@forked
def test_rows_come_back_in_order_whoever_computed_them():
    rows, factors = np.arange(30.0).reshape(10, 3), np.linspace(0, 1, 10)
    shared = RowProcesses(slow_sum, 3)
    first, where = shared(rows, factors)
    assert set(where) == {PARENT}, "the first batch measures how long a row takes"
    second, where = shared(rows, factors)
    assert len(set(where)) == 3
    assert PARENT not in where
    np.testing.assert_array_equal(first, factors * rows.sum(axis=1))
    np.testing.assert_array_equal(second, first)


@forked
def test_two_rows_for_three_processes():
    shared = RowProcesses(slow_sum, 3)
    rows = np.arange(6.0).reshape(2, 3)
    shared(rows)
    np.testing.assert_array_equal(shared(rows)[0], [3, 12])


def test_one_core_or_fast_rows_stay_in_this_process(monkeypatch):
    rows = np.arange(30.0).reshape(10, 3)
    alone = RowProcesses(slow_sum, 1)
    for _ in range(2):
        assert set(alone(rows)[1]) == {PARENT}
    monkeypatch.setattr(processes, "WORTHWHILE_SECONDS", 10.0)
    fast = RowProcesses(slow_sum, 2)
    for _ in range(2):
        assert set(fast(rows)[1]) == {PARENT}


def test_cores_are_limited_by_what_this_process_may_use():
    assert 1 <= available_cores() <= MAX_CORES
    if hasattr(os, "sched_getaffinity"):
        assert available_cores() <= len(os.sched_getaffinity(0))


class SlowSquare(Op):
    """A black box that takes its time as a solver would, and says which process it ran in."""

    def make_node(self, x):
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        time.sleep(0.003)
        outputs[0][0] = np.asarray(-0.5 * inputs[0] ** 2 + float(os.getpid() == PARENT))


def slow_black_box(cores):
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("p", SlowSquare()(x))
    return batched_density(model, compile_kwargs={"mode": PYTHON}, cores=cores)


@forked
def test_slow_black_boxes_are_shared_between_processes():
    x = np.linspace(-2, 2, 9)[:, None]
    truth = -0.5 * x[:, 0] ** 2
    one, two = slow_black_box(1), slow_black_box(2)
    for density in (one, two):
        np.testing.assert_array_equal(density.logp(x), truth + 1)  # times itself, in this process
    np.testing.assert_array_equal(one.logp(x), truth + 1)
    np.testing.assert_array_equal(two.logp(x), truth)  # elsewhere, and in order
    np.testing.assert_array_equal(two.logp(x[:1]), truth[:1] + 1)  # one row is not worth it


@forked
def test_a_killed_process_is_replaced_by_this_one(caplog):
    density = slow_black_box(2)
    x = np.linspace(-2, 2, 9)[:, None]
    before = {child.pid for child in multiprocessing.active_children()}
    density.logp(x)
    density.logp(x)
    mine = [c for c in multiprocessing.active_children() if c.pid not in before]
    assert len(mine) == 2
    mine[0].kill()
    mine[0].join()
    with caplog.at_level(logging.WARNING, logger="pymc_spectral"):
        np.testing.assert_array_equal(density.logp(x), -0.5 * x[:, 0] ** 2 + 1)
    assert "died" in caplog.text
