"""A broad normal fitted to where a density has its mass: the reference of tempering."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from pymc_spectral.density.batched import BatchedDensity
from pymc_spectral.exploration.metropolis_acceptance import StepSize, accept

__all__ = ["fit_normal"]

# Numbers without a paper are heuristics: a reference need only be broad enough and cheap to find,
# tempering does the rest.

# Searches, from points scattered at all distances. More of them find more of the extent.
N_WALKERS = 32
# The normal's standard deviations are this many times those of what was found: to miss a mode costs
# its whole mass, to be too broad only a few more temperatures.
INFLATE = 2.0
# Lengths that are tried for a coordinate: from 6e-5 to 16384, so from tiny to huge units.
LENGTHS = 2.0 ** np.arange(-14, 15)
# A length scale is where the log density changes by this: about one standard deviation of a normal
# is where it drops by a half.
CHANGE = 1.0
# Scattered points lie up to this many length scales away, at distances uniform in their logarithm.
REACH = 300.0
# Points at zero density are drawn in by this factor, at most so often: from 300 scales to 0.005.
DRAW_IN = 0.4
MAX_DRAWN_IN = 12
# L-BFGS steps of a climb: what is still far from its mode after these is walked on, or dropped.
CLIMB_STEPS = 60
# What a climb is told of points outside the support: higher than anything inside.
OUTSIDE = 1e100
# Steps of the walks around each mode. Without a climb they have to find the mode too.
WALK_STEPS = 150
WALK_STEPS_WITHOUT_CLIMB = 600
# Acceptance that walks steer to: between 0.23 and 0.44, best in many dimensions and in one
# (Roberts, Gelman and Gilks 1997).
WALK_ACCEPTANCE = 0.3
# How their step sizes learn, see `StepSize`: fast, since walks are short and give no estimate.
WALK_GAIN, WALK_DELAY = 3.0, 5
# Walks end this far, and so much further per dimension, below the best: they are on no mode with
# mass. A draw of a normal lies d / 2 below its peak on average, and e**-30 is no mass.
MAX_DEPTH = 30.0
MAX_DEPTH_PER_DIMENSION = 3.0
# Points that the covariance's own diagonal is worth, per dimension, against those of the walks;
# these are few and stay close together.
PRIOR_POINTS_PER_DIMENSION = 20.0
# Least variance of a coordinate, in squared length scales: Cholesky must not fail.
LEAST_VARIANCE = 1e-9


def fit_normal(
    density: BatchedDensity, rng: np.random.Generator, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a broad normal to the region where a density has its mass.

    Parameters
    ----------
    density : BatchedDensity
        The model's density.
    rng : numpy.random.Generator
        Source of random numbers.
    start : array of shape (d,) or (m, d), optional
        Where to look from, by default the model's initial point.

    Returns
    -------
    mean : array of shape (d,)
    covariance : array of shape (d, d)

    Notes
    -----
    1. The length scale of each coordinate is where the density starts to drop.
    2. Points are scattered around the start, from one such length to hundreds.
    3. Each climbs to a mode. The outermost modes are found from outside, and they are what a broad
       reference needs to know; those between them are left to tempering.
    4. A short random walk around each mode adds its width.
    """
    starts, logp = _usable_starts(density, start)
    best = int(np.argmax(logp))
    scale = _length_scales(density, starts[best], logp[best])
    walkers = _scatter(density, rng, starts, scale)
    if density.has_gradient:
        walkers = np.array([_climb(density, walker, scale) for walker in walkers])
    walkers = np.concatenate([starts[best][None], walkers[np.isfinite(walkers).all(axis=1)]])
    n_steps = WALK_STEPS if density.has_gradient else WALK_STEPS_WITHOUT_CLIMB
    cloud = _wander(density, rng, walkers, scale, n_steps)
    height = density.logp(cloud[-1])
    deepest = height.max() - MAX_DEPTH - MAX_DEPTH_PER_DIMENSION * density.d
    return _broad_normal(cloud[:, height > deepest], scale)


def _usable_starts(
    density: BatchedDensity, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return starting points inside the support, by default the model's, and their log density."""
    starts = np.atleast_2d(density.initial_point if start is None else np.asarray(start, float))
    if starts.ndim != 2 or starts.shape[1] != density.d:
        raise ValueError(
            f"start must have shape (d,) or (m, d) with d = {density.d}; got {starts.shape}."
        )
    logp = density.logp(starts)
    inside = np.isfinite(logp)
    if not inside.any():
        raise ValueError(
            f"The log density is -inf or NaN at all {len(starts)} starting points. Give `start` a "
            "point inside the support, or an initval to the variables: "
            "model.debug() shows which term is at fault."
        )
    return starts[inside], logp[inside]


def _broad_normal(cloud: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and inflated covariance of walks, an array of shape (steps, walkers, d)."""
    d = cloud.shape[-1]
    mean = cloud.mean(axis=(0, 1))
    centered = (cloud - mean).reshape(-1, d)
    covariance = centered.T @ centered / len(centered)
    diagonal = np.diag(covariance)
    keep = len(centered) / (len(centered) + PRIOR_POINTS_PER_DIMENSION * d)
    floor = LEAST_VARIANCE * scale**2
    covariance = keep * covariance + np.diag((1 - keep) * diagonal + floor)
    return mean, INFLATE**2 * covariance


def _length_scales(density: BatchedDensity, x: np.ndarray, logp: float) -> np.ndarray:
    """Measure how far each coordinate can move before the log density changes by `CHANGE`."""
    scale = np.empty(density.d)
    for i in range(density.d):
        rows = np.repeat(x[None], 2 * len(LENGTHS), axis=0)
        rows[:, i] += np.concatenate([LENGTHS, -LENGTHS])
        change = np.abs(density.logp(rows) - logp).reshape(2, -1).max(axis=0)
        far = ~(change < CHANGE)
        # Where it never changes that much, any length is as good as another.
        scale[i] = LENGTHS[far.argmax()] if far.any() else 1.0
    return scale


def _scatter(
    density: BatchedDensity, rng: np.random.Generator, starts: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Scatter points at all distances from the starts, drawn in where the density is zero."""
    center = starts[rng.integers(len(starts), size=N_WALKERS)]
    size = np.exp(rng.uniform(0.0, np.log(REACH), size=N_WALKERS))
    offset = rng.standard_normal((N_WALKERS, density.d)) * scale
    for _ in range(MAX_DRAWN_IN):
        x = center + size[:, None] * offset
        outside = ~np.isfinite(density.logp(x))
        if not outside.any():
            return x
        size[outside] *= DRAW_IN
    x[outside] = center[outside]
    return x


def _climb(density: BatchedDensity, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Climb to a mode."""

    def descend(z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate minus log density and its gradient, in units of the length scales."""
        logp, gradient = density.logp_and_grad((z * scale)[None])
        if not np.isfinite(logp[0]):
            return OUTSIDE, np.zeros_like(z)
        return -float(logp[0]), -gradient[0] * scale

    options = {"maxiter": CLIMB_STEPS}
    result = minimize(descend, x / scale, jac=True, method="L-BFGS-B", options=options)
    return result.x * scale


def _wander(
    density: BatchedDensity,
    rng: np.random.Generator,
    x: np.ndarray,
    scale: np.ndarray,
    n_steps: int,
) -> np.ndarray:
    """Walk around each point; return the second half of the walks, shape (steps, walkers, d)."""
    logp = density.logp(x)
    first = np.full(len(x), np.log(1.0 / np.sqrt(density.d)))
    step = StepSize(first, WALK_ACCEPTANCE, WALK_GAIN, WALK_DELAY)
    keep = []
    for i in range(n_steps):
        size = np.exp(step.log - np.abs(rng.standard_normal(len(x))))
        proposal = x + (size[:, None] * scale) * rng.standard_normal(x.shape)
        proposed_logp = density.logp(proposal)
        accepted, probability = accept(proposed_logp - logp, rng)
        x = np.where(accepted[:, None], proposal, x)
        logp = np.where(accepted, proposed_logp, logp)
        step.update(probability)
        if i >= n_steps // 2:
            keep.append(x)
    return np.array(keep)
