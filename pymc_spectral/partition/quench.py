"""Points moved uphill: what is left is where they end, and that tells modes apart.

In many dimensions distances between draws are all alike, whatever the modes: coordinates that have
nothing to tell drown those that have. Uphill from a draw the former collapse to their peak, and
draws of one mode end at one place. Every point moves by itself, so that a batched density serves
all of them at once.

References
----------
.. [1] Nocedal and Wright. Numerical Optimization (2006), chapter 7.2: limited-memory BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_spectral.partition.cell_rules import Floats
from pymc_spectral.partition.segment_joining import LogDensity, finite
from pymc_spectral.partition.spectrum import standardization

__all__ = ["Gradient", "Quenched", "quench", "quench_at_random"]

Gradient = Callable[[Floats], tuple[Floats, Floats]]
"""Log density and its gradient, (m,) and (m, d), of an (m, d) array of points."""

# Longest step, in standard deviations of all points together. Heuristic: shorter than the way
# between modes, long enough that a mode is climbed in a few steps.
LONGEST_STEP = 0.5
# Share of it that the first step takes, when nothing is known of the curvature.
FIRST_STEP = 0.1
# Pairs of steps and changes of gradient that are remembered: Nocedal and Wright find 3 to 20 good.
MEMORY = 6
# After a step that went down, the next one is so much shorter; after one that went up, longer.
SHORTER, LONGER = 0.25, 4.0
# Points stop when they gained no more than this in so many steps: far less than any valley. What
# gained more than REST in the last steps of all is still on its way, and founds no cell.
STILL, REST, LOOKBACK = 1e-6, 0.05, 6
# Random moves have a length that is some power of two below the longest: whatever is right for
# where a point is gets its turn (heuristic).
SMALLEST_POWER = -12


@dataclass(frozen=True, eq=False)
class Quenched:
    """Where points ended.

    Attributes
    ----------
    points : array (n, d)
    heights : array (n,)
        Log density there.
    at_rest : array (n,) of bool
        False for points that were still gaining when the steps ended.
    """

    points: Floats
    heights: Floats
    at_rest: np.ndarray


class _Curvature:
    """What the last steps say about the curvature around each point."""

    def __init__(self) -> None:
        self._steps: list[Floats] = []
        self._changes: list[Floats] = []
        self._weights: list[Floats] = []

    def observe(self, step: Floats, change: Floats) -> None:
        """Remember steps and how much the gradient fell along them; rows of zeros say nothing."""
        product = np.einsum("ij,ij->i", step, change)
        # Where the density is not concave along the step, the pair would spoil the direction.
        useful = product > np.finfo(float).tiny
        self._steps.append(step)
        self._changes.append(change)
        self._weights.append(np.where(useful, 1.0 / np.where(useful, product, 1.0), 0.0))
        for kept in (self._steps, self._changes, self._weights):
            del kept[:-MEMORY]

    def keep(self, rows: np.ndarray) -> None:
        """Forget all rows but these."""
        for kept in (self._steps, self._changes, self._weights):
            kept[:] = [values[rows] for values in kept]

    def direction(self, gradient: Floats, first: Floats) -> Floats:
        """Return the direction of the quasi-Newton step, the gradient times `first` without one."""
        out = gradient.copy()
        pairs = list(zip(self._steps, self._changes, self._weights, strict=True))
        sizes, scale = [], np.zeros(len(out))
        for step, change, weight in reversed(pairs):
            size = weight * np.einsum("ij,ij->i", step, out)
            out -= size[:, None] * change
            sizes.append(size)
            square = np.einsum("ij,ij->i", change, change)
            newest = (scale == 0) & (weight > 0)
            scale[newest] = 1.0 / (weight[newest] * square[newest])
        out *= np.where(scale > 0, scale, first)[:, None]
        for (step, change, weight), size in zip(pairs, reversed(sizes), strict=True):
            back = weight * np.einsum("ij,ij->i", change, out)
            out += step * (size - back)[:, None]
        uphill = np.einsum("ij,ij->i", out, gradient) > 0
        return np.where(uphill[:, None], out, gradient * first[:, None])


def quench(x: Floats, gradient: Gradient, n_steps: int) -> Quenched:
    """Move points uphill by quasi-Newton steps that never go down.

    Parameters
    ----------
    x : array (n, d)
        Points of finite log density.
    gradient : callable
        Log density and gradient of an (m, d) array of points.
    n_steps : int
        At most so many evaluations of each point; one that has come to rest takes no more.
    """
    scale = standardization(x)[1]

    def climb(z: Floats) -> tuple[Floats, Floats]:
        heights, slopes = gradient(z * scale)
        return finite(heights), np.where(np.isfinite(slopes), slopes, 0.0) * scale

    place = x / scale
    top, slope = climb(place)
    ended, ends = place.copy(), top.copy()
    at_rest = np.zeros(len(x), dtype=bool)
    rows = np.arange(len(x))
    curvature, reach = _Curvature(), np.full(len(x), LONGEST_STEP)
    before = [top.copy()]
    for _ in range(n_steps - 1):
        first = FIRST_STEP * LONGEST_STEP / np.maximum(np.linalg.norm(slope, axis=1), 1.0)
        step = curvature.direction(slope, first)
        length = np.linalg.norm(step, axis=1)
        step *= np.minimum(1.0, reach / np.maximum(length, np.finfo(float).tiny))[:, None]
        height, new_slope = climb(place + step)
        up = height >= top
        curvature.observe(
            np.where(up[:, None], step, 0.0), np.where(up[:, None], slope - new_slope, 0.0)
        )
        reach = np.where(
            up, np.minimum(LONGEST_STEP, LONGER * reach), SHORTER * np.minimum(reach, length)
        )
        place = np.where(up[:, None], place + step, place)
        slope = np.where(up[:, None], new_slope, slope)
        top = np.where(up, height, top)
        ended[rows], ends[rows] = place, top
        before.append(top.copy())
        if len(before) <= LOOKBACK:
            continue
        gained = top - before.pop(0)
        at_rest[rows] = gained < REST
        moving = gained > STILL
        if not moving.any():
            break
        if not moving.all():
            rows, top, reach = rows[moving], top[moving], reach[moving]
            place, slope = place[moving], slope[moving]
            before = [values[moving] for values in before]
            curvature.keep(moving)
    return Quenched(ended * scale, ends, at_rest)


def quench_at_random(
    x: Floats, logp: LogDensity, n_steps: int, rng: np.random.RandomState
) -> Quenched:
    """Move points uphill by random steps of many lengths, those that go down being refused.

    For models without gradients. In many dimensions it does not get far, but what it gains is
    mostly in the coordinates that are easy to gain in.

    Parameters
    ----------
    x : array (n, d)
    logp : callable
        Log density of an (m, d) array of points.
    n_steps : int
        Evaluations of each point.
    rng : RandomState
    """
    scale = standardization(x)[1]
    n, d = x.shape
    place, top = x.copy(), finite(logp(x))
    for _ in range(n_steps):
        length = 2.0 ** rng.uniform(SMALLEST_POWER, 0, size=(n, 1)) / np.sqrt(d)
        tried = place + length * rng.standard_normal((n, d)) * scale
        height = finite(logp(tried))
        up = height >= top
        place = np.where(up[:, None], tried, place)
        top = np.where(up, height, top)
    return Quenched(place, top, np.ones(n, dtype=bool))
