"""A broad normal fitted to where a density has its mass: the reference of tempering."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from pymc_spectral.density.batched import BatchedDensity

__all__ = ["fit_normal"]


def fit_normal(
    density: BatchedDensity,
    rng: np.random.Generator,
    start: np.ndarray | None = None,
    n_walkers: int = 32,
    inflate: float = 2.0,
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
    n_walkers : int
        Searches, from points scattered at all distances. More of them find more of the extent.
    inflate : float
        The normal's standard deviations are this many times those of what was found.

    Returns
    -------
    mean, covariance

    Notes
    -----
    1. The length scale of each coordinate is where the density starts to drop.
    2. Points are scattered around the start, from one such length to hundreds.
    3. Each climbs to a mode. The outermost modes are found from outside, and they are what a broad
       reference needs to know; those between them are left to tempering.
    4. A short random walk around each mode adds its width.
    """
    starts = np.atleast_2d(density.initial_point if start is None else np.asarray(start, float))
    if starts.shape[1] != density.d:
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
    starts, logp = starts[inside], logp[inside]
    best = int(np.argmax(logp))
    scale = _length_scales(density, starts[best], logp[best])
    walkers = _scatter(density, rng, starts, scale, n_walkers)
    if density.has_gradient:
        walkers = np.array([_climb(density, walker, scale) for walker in walkers])
    walkers = np.concatenate([starts[best][None], walkers[np.isfinite(walkers).all(axis=1)]])
    cloud = _wander(density, rng, walkers, scale, 150 if density.has_gradient else 600)
    # Whoever is still far below the others got lost on the way, or sits on a mode without mass.
    height = density.logp(cloud[-1])
    cloud = cloud[:, height > height.max() - 30.0 - 3.0 * density.d]
    mean = cloud.mean(axis=(0, 1))
    centred = (cloud - mean).reshape(-1, density.d)
    covariance = centred.T @ centred / len(centred)
    diagonal = np.diag(covariance)
    keep = len(centred) / (len(centred) + 20.0 * density.d)
    covariance = keep * covariance + np.diag((1 - keep) * diagonal + 1e-9 * scale**2)
    return mean, inflate**2 * covariance


def _length_scales(density: BatchedDensity, x: np.ndarray, logp: float) -> np.ndarray:
    """How far each coordinate can move before the log density drops by one."""
    sizes = 2.0 ** np.arange(-14, 15)
    scale = np.empty(density.d)
    for i in range(density.d):
        rows = np.repeat(x[None], 2 * len(sizes), axis=0)
        rows[:, i] += np.concatenate([sizes, -sizes])
        drop = np.abs(density.logp(rows) - logp).reshape(2, -1).max(axis=0)
        far = ~(drop < 1.0)
        scale[i] = sizes[far.argmax()] if far.any() else 1.0
    return scale


def _scatter(
    density: BatchedDensity,
    rng: np.random.Generator,
    starts: np.ndarray,
    scale: np.ndarray,
    n: int,
    reach: float = 300.0,
) -> np.ndarray:
    """Points at all distances from the starts, drawn in where the density is zero."""
    centre = starts[rng.integers(len(starts), size=n)]
    size = np.exp(rng.uniform(0.0, np.log(reach), size=n))
    offset = rng.standard_normal((n, density.d)) * scale
    for _ in range(12):
        x = centre + size[:, None] * offset
        outside = ~np.isfinite(density.logp(x))
        if not outside.any():
            return x
        size[outside] *= 0.4
    x[outside] = centre[outside]
    return x


def _climb(density: BatchedDensity, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Climb to a mode."""

    def descend(z: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus log density and gradient in units of the length scales."""
        logp, gradient = density.logp_and_grad((z * scale)[None])
        if not np.isfinite(logp[0]):
            return 1e100, np.zeros_like(z)
        return -float(logp[0]), -gradient[0] * scale

    result = minimize(descend, x / scale, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return result.x * scale


def _wander(
    density: BatchedDensity,
    rng: np.random.Generator,
    x: np.ndarray,
    scale: np.ndarray,
    n: int = 150,
) -> np.ndarray:
    """Walk around each point; return the second half of the walks, shape (steps, walkers, d)."""
    logp = density.logp(x)
    log_step = np.full(len(x), np.log(1.0 / np.sqrt(density.d)))
    keep = []
    for i in range(n):
        shrink = np.exp(log_step - np.abs(rng.standard_normal(len(x))))
        proposal = x + (shrink[:, None] * scale) * rng.standard_normal(x.shape)
        fresh = density.logp(proposal)
        probability = np.exp(np.minimum(0.0, fresh - logp))
        accept = rng.random(len(x)) < probability
        x = np.where(accept[:, None], proposal, x)
        logp = np.where(accept, fresh, logp)
        log_step += 3.0 / (i + 5) ** 0.6 * (probability - 0.3)
        if i >= n // 2:
            keep.append(x)
    return np.array(keep)
