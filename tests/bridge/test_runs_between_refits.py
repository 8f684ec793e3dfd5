"""Runs of rows that share a fit, and what is taken for their level."""

import numpy as np
import pytest

from pymc_spectral.bridge.runs_between_refits import draw_series, number_runs, run_means


def fits(*lengths):
    return np.repeat(np.arange(len(lengths)), lengths)[None]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([60, 60], [60, 60]),
        ([50, 49], [99]),  # too short to be the last
        ([10, 100], [110]),  # too short to be the first
        ([60, 10, 60], [60, 70]),  # a short run joins the next
        ([60, 60, 10], [60, 70]),  # unless there is none
    ],
)
def test_short_runs_are_joined(lengths, expected):
    runs = number_runs((1, sum(lengths)), fits(*lengths))
    assert np.bincount(runs[0]).tolist() == expected
    assert (np.diff(runs[0]) >= 0).all()


def test_chains_share_no_run():
    np.testing.assert_array_equal(number_runs((3, 2), None), [[0, 0], [1, 1], [2, 2]])
    both = number_runs((2, 120), np.repeat(fits(60, 60), 2, axis=0))
    assert np.bincount(both.ravel()).tolist() == [60] * 4
    with pytest.raises(ValueError, match=r"shape \(1, 3\); expected \(1, 4\)"):
        number_runs((1, 4), np.zeros((1, 3)))


def test_means_are_of_the_rows_that_count():
    values = np.array([[1.0, 3.0, np.nan, 10.0], [7.0, 7.0, 7.0, 7.0]])
    use = np.array([[True, True, False, True], [False] * 4])
    means, count = run_means(values, np.array([[0, 0, 0, 1], [2, 2, 2, 2]]), use)
    assert means.tolist() == [2.0, 10.0, 0.0]
    assert count.tolist() == [2.0, 1.0, 1.0]  # at least one, to divide by


def zigzag(n, size=0.01):
    return size * np.tile([1.0, -1.0], n // 2)


def test_levels_that_differ_are_subtracted():
    """Proposed points without noise know the levels, 0.5 and 1.5, exactly."""
    level = np.repeat([0.5, 1.5], 100)[None]
    runs = number_runs((1, 200), fits(100, 100))
    found = draw_series(level + zigzag(200), level, np.ones((1, 200), dtype=bool), runs)
    np.testing.assert_allclose(found.centered[0], zigzag(200), atol=1e-4)
    assert found.n_means == pytest.approx(3, abs=1e-3)  # of all rows, and of either run


def test_levels_that_do_not_differ_are_left_to_the_draws():
    """What the draws' runs differ by is then their own slow fluctuation, which is an error."""
    drift = np.repeat([0.9, 1.1], 100)[None]
    runs = number_runs((1, 200), fits(100, 100))
    found = draw_series(drift, np.ones((1, 200)), np.ones((1, 200), dtype=bool), runs)
    np.testing.assert_allclose(found.centered, drift - 1.0, atol=1e-12)
    assert found.n_means == 1
    assert found.time > 50


def test_draws_that_do_not_count_are_zero_in_the_series():
    use = np.ones((1, 100), dtype=bool)
    use[0, :10] = False
    terms = np.where(use, 1 + zigzag(100), np.inf)
    found = draw_series(terms, np.ones((1, 100)), use, number_runs((1, 100), None))
    assert (found.centered[0, :10] == 0).all()
    assert found.centered.sum() == pytest.approx(0, abs=1e-12)
