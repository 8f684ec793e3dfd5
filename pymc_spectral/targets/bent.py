"""Targets whose modes are bent: two rings in a box, and two bananas."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_spectral.targets.bounded import Interval
from pymc_spectral.targets.quadrature import GridDensity
from pymc_spectral.targets.target import FloatArray, Target

__all__ = ["bananas", "rings"]

_LOG_2_PI = float(np.log(2 * np.pi))

_RING_CENTERS: FloatArray = np.array([[-3.5, 0.0], [3.5, 0.0]])
_RING_RADIUS, _RING_SIGMA = 2.0, 0.1  # mean and standard deviation of the distance from the center
_RING_BOX = Interval(-6, 6)  # it cuts a ring five standard deviations outside of its radius

_BANANA_SIGMA = 3.0  # standard deviation of the first coordinate; of the second given it, 1
_BANANA_GAP = 3.0  # how far the ridge of a banana stays away from the axis between them
_BANANA_UP = 0.7  # probability of the upper one
_BANANA_PRIOR_SIGMA = 10.0


def rings() -> Target:
    """Two thin rings of equal weight side by side in a box.

    The prior is U(-6, 6) in both coordinates; the likelihood is the sum, over the centers c =
    (-3.5, 0) and (3.5, 0), of the N(2, .1) density of the distance from c. A ring's integral is
    that of 2 pi r N(r; 2, .1) over r, which is 4 pi; what the box cuts off is 1.2e-8 of it.

    Would catch: proposals and cells that take a mode for an ellipsoid (a ring's center of mass lies
    in its hole, where the density is that of twenty standard deviations), rings cut into arcs that
    are then weighted wrongly, a Jacobian forgotten.
    """
    # A disk's area grows with its radius: the density of the distance is that of r N(r; 2, .1).
    nodes = _RING_RADIUS + _RING_SIGMA * np.linspace(-10, 10, 20_001)
    radius = GridDensity(nodes, np.log(nodes) - 0.5 * ((nodes - _RING_RADIUS) / _RING_SIGMA) ** 2)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", _RING_BOX.low, _RING_BOX.high, shape=2)
            distance = pt.sqrt(((x - _RING_CENTERS) ** 2).sum(axis=1))
            standard = (distance - _RING_RADIUS) / _RING_SIGMA
            log_rings = -0.5 * standard**2 - np.log(_RING_SIGMA) - 0.5 * _LOG_2_PI
            pm.Potential("log_likelihood", pt.logsumexp(log_rings))
        return model

    def log_rings(points: FloatArray) -> FloatArray:
        x = _RING_BOX.constrain(np.atleast_2d(points))
        distance = np.linalg.norm(x[:, None, :] - _RING_CENTERS, axis=2)
        standard = (distance - _RING_RADIUS) / _RING_SIGMA
        return -0.5 * standard**2 - np.log(_RING_SIGMA) - 0.5 * _LOG_2_PI

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        angle = rng.uniform(0, 2 * np.pi, size=n)
        around = np.column_stack([np.cos(angle), np.sin(angle)])
        which = rng.integers(2, size=n)
        return _RING_BOX.unconstrain(_RING_CENTERS[which] + around * radius.sample(rng, n)[:, None])

    # Moments of the radius under r N(r; 2, .1): E r^2 is the ratio of the normal's third moment and
    # its first. A direction that is uniform gives half of it to either coordinate.
    mean_r2 = _RING_RADIUS**2 + 3 * _RING_SIGMA**2
    return Target(
        name="rings",
        dim=2,
        build=build,
        logp=lambda z: (
            np.logaddexp.reduce(log_rings(z), axis=1)
            + _RING_BOX.log_prior(np.atleast_2d(z)).sum(axis=1)
        ),
        sample=sample,
        classify=lambda z: log_rings(z).argmax(axis=1),
        centers=_RING_BOX.unconstrain(_RING_CENTERS + np.array([0, _RING_RADIUS])),
        weights=np.array([0.5, 0.5]),
        mean=np.zeros(2),
        variance=mean_r2 / 2 + np.array([_RING_CENTERS[1, 0] ** 2, 0.0]),
        log_z=float(np.log(2 * 2 * np.pi * _RING_RADIUS) - 2 * np.log(_RING_BOX.width)),
        log_z_error=2e-8,
        constrain=_RING_BOX.constrain,
    )


def bananas() -> Target:
    """Two bananas back to back, of weights .7 and .3.

    The first coordinate is N(0, 3); the second, given the first, is N(s (x1^2 / 2 + 3), 1) with s =
    1 in the upper banana and -1 in the lower one. The model has a proper N(0, 10) prior, and a
    Potential of the density over that prior.

    Weights are those of the bananas. At their backs, six standard deviations apart, they touch:
    1.5e-4 of the draws of the upper one and 3.7e-4 of the lower one's lie on the other's side.

    Would catch: local scales taken for global ones (two standard deviations out, a banana's arms
    are six times as thin as its middle), cells and proposals that are ellipsoids, arms that are cut
    off and lost, and a prior that is counted twice.
    """

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, _BANANA_PRIOR_SIGMA, shape=2)
            ridge = x[0] ** 2 / 2 + _BANANA_GAP
            upper = np.log(_BANANA_UP) - 0.5 * (x[1] - ridge) ** 2
            lower = np.log(1 - _BANANA_UP) - 0.5 * (x[1] + ridge) ** 2
            first = -0.5 * (x[0] / _BANANA_SIGMA) ** 2 - np.log(_BANANA_SIGMA) - _LOG_2_PI
            log_prior = pm.logp(pm.Normal.dist(0, _BANANA_PRIOR_SIGMA, shape=2), x).sum()
            pm.Potential("log_density_over_prior", first + pt.logaddexp(upper, lower) - log_prior)
        return model

    def banana_logp(points: FloatArray) -> FloatArray:
        first, second = np.atleast_2d(points).T
        ridge = first**2 / 2 + _BANANA_GAP
        both = np.stack([second - ridge, second + ridge], axis=1)
        log_first = -0.5 * (first / _BANANA_SIGMA) ** 2 - np.log(_BANANA_SIGMA) - _LOG_2_PI
        return np.log(weights) + log_first[:, None] - 0.5 * both**2

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        first = rng.normal(0, _BANANA_SIGMA, size=n)
        sign = np.where(rng.uniform(size=n) < _BANANA_UP, 1, -1)
        second = sign * (first**2 / 2 + _BANANA_GAP) + rng.standard_normal(n)
        return np.column_stack([first, second])

    weights = np.array([_BANANA_UP, 1 - _BANANA_UP])
    # The ridge's moments, from E x1^2 = v and E x1^4 = 3 v^2.
    v = _BANANA_SIGMA**2
    mean_ridge = v / 2 + _BANANA_GAP
    mean_ridge2 = 3 * v**2 / 4 + v * _BANANA_GAP + _BANANA_GAP**2
    mean_second = (2 * _BANANA_UP - 1) * mean_ridge
    return Target(
        name="bananas",
        dim=2,
        build=build,
        logp=lambda points: np.logaddexp.reduce(banana_logp(points), axis=1),
        sample=sample,
        classify=lambda points: banana_logp(points).argmax(axis=1),
        centers=np.array([[0.0, _BANANA_GAP], [0.0, -_BANANA_GAP]]),
        weights=weights,
        mean=np.array([0.0, mean_second]),
        variance=np.array([v, mean_ridge2 + 1 - mean_second**2]),
        log_z=0.0,
    )
