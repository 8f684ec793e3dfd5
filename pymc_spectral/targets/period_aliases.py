"""A period that sparse nights leave open: the posterior's modes are its aliases."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import logsumexp

from pymc_spectral.targets.bounded import Interval
from pymc_spectral.targets.quadrature import grid_jitter, log_trapezoid_weights
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["aliases"]

# Two runs of seven nights that begin 60 days apart: how many cycles fit between the runs is open.
_NIGHTS: FloatArray = np.concatenate([np.arange(7.0), 60 + np.arange(7.0)])

# The truth that data are simulated from. With seed 1 six periods hold more than 5 % each.
_TRUE_PERIOD, _TRUE_AMPLITUDE, _TRUE_OFFSET, _TRUE_SIGMA = 8.1, 2.0, 3.0, 1.0

# PyTensor would take the logarithm of a Python float of few digits in single precision.
_COEFFICIENT_SIGMA = np.float64(10.0)  # prior standard deviation of A, B and g
_NOISE_SIGMA = np.float64(5.0)  # scale of the HalfNormal prior of s
_LOG_PERIODS = Interval(float(np.log(2)), float(np.log(100)))

# The narrowest alias has a standard deviation of 0.002 in log P, 20 spacings; the noise, in log s,
# has one of 0.2. Halving either spacing moves the evidence by less than 1e-8.
_N_PERIODS, _N_SIGMAS = 40_001, 201
_LOG_SIGMAS = np.log(0.05), np.log(40.0)

# A segment below this mass joins a neighbor: no run of a sampler can say whether it was found.
_LIGHT = 0.01


def _design(log_period: FloatArray) -> FloatArray:
    """Give the regressors of A, B and g at each log period, (m, 14, 3)."""
    phase = 2 * np.pi * _NIGHTS / np.exp(log_period)[:, None]
    return np.stack([np.cos(phase), np.sin(phase), np.ones_like(phase)], axis=2)


def _log_joint(y: FloatArray, log_period: FloatArray, log_sigma: FloatArray) -> FloatArray:
    """Log density of data, log P and log s with A, B and g integrated out, (m, n_sigmas).

    Given the period and s, data are normal with covariance s^2 I + 10^2 X X', X the design. In the
    basis of X's left singular vectors that is diagonal.
    """
    left, singular, _ = np.linalg.svd(_design(log_period), full_matrices=False)
    along = np.einsum("mtk,t->mk", left, y) ** 2
    noise = np.exp(2 * log_sigma)
    n_free = len(y) - along.shape[1]
    logp = -0.5 * ((y @ y - along.sum(axis=1))[:, None] / noise + n_free * np.log(noise))
    for k in range(along.shape[1]):
        total = noise + (_COEFFICIENT_SIGMA * singular[:, k, None]) ** 2
        logp -= 0.5 * (along[:, k, None] / total + np.log(total))
    log_half_normal = np.log(2) - 0.5 * np.log(2 * np.pi) - np.log(_NOISE_SIGMA)
    log_half_normal = log_half_normal - 0.5 * noise / _NOISE_SIGMA**2 + log_sigma
    constant = -len(y) / 2 * np.log(2 * np.pi) - np.log(_LOG_PERIODS.width)
    return np.asarray(logp + log_half_normal + constant)


def _coefficient_posterior(
    y: FloatArray, log_period: FloatArray, log_sigma: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean (m, 3) and precision (m, 3, 3) of A, B and g given log P and log s."""
    design = _design(log_period)
    noise = np.exp(2 * log_sigma)
    gram = np.swapaxes(design, 1, 2) @ design / noise[:, None, None]
    precision = gram + np.eye(3) / _COEFFICIENT_SIGMA**2
    projected = np.einsum("mtk,t->mk", design, y) / noise[:, None]
    return np.linalg.solve(precision, projected[:, :, None])[:, :, 0], precision


@dataclass(frozen=True, eq=False)
class _Grid:
    """The posterior of log P and log s on a grid."""

    y: FloatArray
    log_periods: FloatArray
    log_sigmas: FloatArray
    log_z: float
    mass: FloatArray  # (n_periods, n_sigmas), sums to 1

    @property
    def period_density(self) -> FloatArray:
        """Density of log P at its nodes."""
        return self.mass.sum(axis=1) / np.exp(log_trapezoid_weights(self.log_periods))

    def sample(self, rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        """Draw log P and log s."""
        cumulative = np.cumsum(self.mass)
        node = np.searchsorted(cumulative, rng.uniform(0, cumulative[-1], size=n), side="right")
        period, sigma = np.unravel_index(node, self.mass.shape)
        return (
            grid_jitter(rng, self.log_periods, period),
            grid_jitter(rng, self.log_sigmas, sigma),
        )


def _simulate(seed: int) -> FloatArray:
    """Make up the measurements, to two decimals."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi)
    signal = _TRUE_AMPLITUDE * np.cos(2 * np.pi * _NIGHTS / _TRUE_PERIOD + phase)
    return np.round(_TRUE_OFFSET + signal + _TRUE_SIGMA * rng.standard_normal(len(_NIGHTS)), 2)


@lru_cache(maxsize=2)
def _integrate(seed: int) -> _Grid:
    """Integrate the posterior of the data of this seed over log P and log s."""
    y = _simulate(seed)
    log_periods = np.linspace(_LOG_PERIODS.low, _LOG_PERIODS.high, _N_PERIODS)
    log_sigmas = np.linspace(*_LOG_SIGMAS, _N_SIGMAS)
    blocks = np.array_split(log_periods, 1 + _N_PERIODS // 5_000)
    logp = np.concatenate([_log_joint(y, block, log_sigmas) for block in blocks])
    logp += log_trapezoid_weights(log_periods)[:, None] + log_trapezoid_weights(log_sigmas)
    log_z = float(logsumexp(logp))
    return _Grid(y, log_periods, log_sigmas, log_z, np.exp(logp - log_z))


def _segments(density: FloatArray) -> IntArray:
    """Give the nodes at which a new segment begins: minima, but for those that part light ones.

    As long as a segment is lighter than one percent, the lightest is joined to the neighbor from
    which it is parted by the shallower minimum.
    """
    inner = density[1:-1]
    walls = (1 + np.flatnonzero((inner < density[:-2]) & (inner <= density[2:]))).tolist()
    while walls:
        mass = np.add.reduceat(density, np.array([0, *walls])) / density.sum()
        lightest = int(mass.argmin())
        if mass[lightest] >= _LIGHT:
            break
        # The walls of segment i are number i - 1, to its left, and number i.
        around = [i for i in (lightest - 1, lightest) if 0 <= i < len(walls)]
        del walls[max(around, key=lambda i: density[walls[i]])]
    return np.array(walls, dtype=int)


def aliases(seed: int = 1) -> Target:
    """One sinusoid, fourteen nights, and a period with many candidates: aliases of one another.

    The model is y = A cos(2 pi t / P) + B sin(2 pi t / P) + g + Normal(0, s), with A, B, g ~
    N(0, 10), s ~ HalfNormal(5) and log P uniform between log 2 and log 100. The nights fall into
    two runs 60 days apart, so that periods that fit one cycle more or less between the runs fit
    almost as well. A, B and g integrate out in closed form; truth about log P and s is a quadrature
    on a fine grid, from which draws are taken too. A mode is a segment of log P between two minima
    of its density; a segment below one percent is counted with its neighbor over the shallower
    minimum.

    Would catch: an exploration that follows gradients along the period and never leaves the first
    alias, modes of very different widths joined or lost, a Jacobian forgotten (two of three
    variables are transformed), and errors that leave out the modes not found.

    Parameters
    ----------
    seed : int
        Seed of the simulated data. With 1 there are six periods above 5 %; others give other
        posteriors, whose truth is integrated anew.
    """
    grid = _integrate(seed)
    density = grid.period_density
    walls = _segments(density)
    weights = np.add.reduceat(grid.mass.sum(axis=1), [0, *walls])
    mean = float(grid.mass.sum(axis=1) @ grid.log_periods)

    def classify(points: FloatArray) -> IntArray:
        log_period = _LOG_PERIODS.constrain(np.atleast_2d(points)[:, 4])
        return np.searchsorted(grid.log_periods[walls], log_period, side="right")

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        log_period, log_sigma = grid.sample(rng, n)
        coefficients, precision = _coefficient_posterior(grid.y, log_period, log_sigma)
        # If L L' is the precision, L'^-1 of a standard normal has its inverse as covariance.
        factor = np.swapaxes(np.linalg.cholesky(precision), 1, 2)
        noise = np.linalg.solve(factor, rng.standard_normal((n, 3, 1)))[:, :, 0]
        return np.column_stack(
            [coefficients + noise, log_sigma, _LOG_PERIODS.unconstrain(log_period)]
        )

    return Target(
        name=f"aliases-{seed}",
        dim=5,
        build=lambda: _build(grid.y),
        logp=lambda points: _logp(grid.y, points),
        sample=sample,
        classify=classify,
        centers=_centers(grid, density, walls),
        weights=weights,
        mean=np.array([mean]),
        variance=np.array([grid.mass.sum(axis=1) @ (grid.log_periods - mean) ** 2]),
        log_z=grid.log_z,
        log_z_error=1e-6,
        variable="log_P",
        constrain=lambda points: _LOG_PERIODS.constrain(np.asarray(points)[..., 4:]),
    )


def _build(y: FloatArray) -> pm.Model:
    """Make the model."""
    with pm.Model() as model:
        a = pm.Normal("A", 0, _COEFFICIENT_SIGMA)
        b = pm.Normal("B", 0, _COEFFICIENT_SIGMA)
        g = pm.Normal("g", 0, _COEFFICIENT_SIGMA)
        s = pm.HalfNormal("s", _NOISE_SIGMA)
        log_period = pm.Uniform("log_P", _LOG_PERIODS.low, _LOG_PERIODS.high)
        phase = 2 * np.pi * _NIGHTS / pt.exp(log_period)
        pm.Normal("y", a * pt.cos(phase) + b * pt.sin(phase) + g, s, observed=y)
    return model


def _logp(y: FloatArray, points: FloatArray) -> FloatArray:
    """Log density of A, B, g, log s and the logit of log P."""
    points = np.atleast_2d(points)
    coefficients, log_sigma, z = points[:, :3], points[:, 3], points[:, 4]
    sigma, half_log_2_pi = np.exp(log_sigma), 0.5 * np.log(2 * np.pi)
    fitted = np.einsum("mtk,mk->mt", _design(_LOG_PERIODS.constrain(z)), coefficients)
    log_likelihood = -0.5 * ((y - fitted) / sigma[:, None]) ** 2 - half_log_2_pi
    log_prior = -0.5 * (coefficients / _COEFFICIENT_SIGMA) ** 2
    log_prior = log_prior - np.log(_COEFFICIENT_SIGMA) - half_log_2_pi
    log_half_normal = np.log(2) - half_log_2_pi - np.log(_NOISE_SIGMA)
    log_half_normal = log_half_normal - 0.5 * (sigma / _NOISE_SIGMA) ** 2
    return (
        log_likelihood.sum(axis=1)
        - len(y) * log_sigma
        + log_prior.sum(axis=1)
        + (log_half_normal + log_sigma)
        + _LOG_PERIODS.log_prior(z)
    )


def _centers(grid: _Grid, density: FloatArray, walls: IntArray) -> FloatArray:
    """Give the highest log P of each segment, the best s there and the mean of the rest."""
    starts, ends = [0, *walls], [*walls, len(density)]
    peak = np.array([i + density[i:j].argmax() for i, j in zip(starts, ends, strict=True)])
    # On the very edge the unconstrained value would be infinite.
    peak = peak.clip(1, len(density) - 2)
    log_period, log_sigma = grid.log_periods[peak], grid.log_sigmas[grid.mass[peak].argmax(axis=1)]
    coefficients, _ = _coefficient_posterior(grid.y, log_period, log_sigma)
    return np.column_stack([coefficients, log_sigma, _LOG_PERIODS.unconstrain(log_period)])
