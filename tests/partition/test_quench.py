"""Points moved uphill end at the peaks of their modes, each by itself, never lower than before."""

import numpy as np
import pytest

from pymc_spectral.partition.quench import quench, quench_at_random


def two_peaks(d, gap=10.0):
    """Modes at 0 and at `gap` in the first coordinate, of widths over three decades."""
    scale = np.logspace(-1.5, 1.5, d)
    shift = np.zeros(d)
    shift[0] = gap * scale[0]

    def parts(x):
        return np.stack([-0.5 * (((x - s) / scale) ** 2).sum(axis=1) for s in (0 * shift, shift)])

    def gradient(x):
        both = parts(x)
        logp = np.logaddexp(*both)
        share = np.exp(both - logp)
        slope = [-(x - s) / scale**2 for s in (0 * shift, shift)]
        return logp, share[0][:, None] * slope[0] + share[1][:, None] * slope[1]

    return gradient, scale, shift


def draws(rng, scale, shift, n=200):
    which = np.arange(n) % 2
    return which, rng.standard_normal((n, len(scale))) * scale + which[:, None] * shift


@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_points_of_a_mode_end_at_its_peak(rng, d):
    gradient, scale, shift = two_peaks(d)
    which, x = draws(rng, scale, shift)
    end = quench(x, gradient, 80)
    away = np.abs(end.points - which[:, None] * shift) / scale
    assert away.max() < 0.05
    assert end.at_rest.all()
    # Nuisance coordinates have collapsed: what is left tells the modes apart.
    assert away.max() < 0.1 * np.abs(x - which[:, None] * shift).max() / scale.max()


def test_no_point_goes_down_and_evaluations_are_bounded(rng):
    gradient, scale, shift = two_peaks(5)
    _, x = draws(rng, scale, shift)
    asked = []

    def counted(points):
        asked.append(len(points))
        return gradient(points)

    end = quench(x, counted, 30)
    assert len(asked) <= 30 and max(asked) == len(x)
    assert np.all(end.heights >= gradient(x)[0] - 1e-9)
    np.testing.assert_allclose(end.heights, gradient(end.points)[0])


def test_points_that_need_longer_say_so(rng):
    gradient, scale, shift = two_peaks(20)
    _, x = draws(rng, scale, shift)
    assert not quench(x, gradient, 8).at_rest.all()


def test_a_ridge_is_climbed_and_not_left(rng):
    """A ring: points end on its crest, all around it."""

    def gradient(x):
        radius = np.linalg.norm(x, axis=1)
        return -0.5 * ((radius - 2) / 0.1) ** 2, (-(radius - 2) / 0.01 / radius)[:, None] * x

    angle = rng.uniform(0, 2 * np.pi, 300)
    x = (2 + 0.1 * rng.standard_normal(300))[:, None] * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    )
    end = quench(x, gradient, 80).points
    assert np.abs(np.linalg.norm(end, axis=1) - 2).max() < 0.01
    turned = np.abs(np.angle(np.exp(1j * (np.arctan2(end[:, 1], end[:, 0]) - angle))))
    assert turned.max() < 0.1


def test_on_a_plateau_nothing_moves(rng):
    x = rng.uniform(size=(50, 3))
    end = quench(x, lambda x: (np.zeros(len(x)), np.zeros_like(x)), 80)
    np.testing.assert_allclose(end.points, x, rtol=1e-14)


def test_walls_and_nan_are_not_crossed(rng):
    """Uphill leads out of the support: points stay inside, with the height that they have."""

    def gradient(x):
        logp = np.where(x[:, 0] < 1, x[:, 0], np.where(x[:, 0] < 2, np.nan, -np.inf))
        return logp, np.where(x[:, :1] < 1, 1.0, np.nan) * np.array([[1.0, 0.0]])

    x = np.column_stack([rng.uniform(0, 1, 100), rng.standard_normal(100)])
    end = quench(x, gradient, 80)
    assert np.isfinite(end.heights).all()
    assert (end.points[:, 0] < 1).all()
    assert end.points[:, 0].mean() > x[:, 0].mean()


def test_without_gradients_points_climb_by_trial_and_error(rng):
    gradient, scale, shift = two_peaks(3)
    which, x = draws(rng, scale, shift)
    end = quench_at_random(x, lambda x: gradient(x)[0], 200, np.random.RandomState(1))
    before = np.abs(x - which[:, None] * shift) / scale
    after = np.abs(end.points - which[:, None] * shift) / scale
    assert np.median(after) < 0.3 * np.median(before)
    assert np.all(end.heights >= gradient(x)[0] - 1e-9)
