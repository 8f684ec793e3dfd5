"""Signs that the data cannot tell, among variables that have nothing to tell."""

from itertools import product

import numpy as np
import pymc as pm

from pymc_spectral.targets.quadrature import GridDensity
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["signs"]

_SIGNS_DATA = (4.0, 3.0, 5.0)  # one observation of each squared x
# PyTensor would take the logarithm of a Python float of few digits in single precision.
_SIGNS_SIGMA = np.float64(0.5)  # standard deviation of an observation
_X_PRIOR = (0.3, np.float64(2.0))  # mean and standard deviation; the mean makes the signs unequal
_NUISANCE_SIGMA = np.float64(2.0)  # standard deviation of each nuisance variable

# Beyond 5 the observations are 30 standard deviations away; halving the spacing changes nothing
# before the 12th digit.
_NODES: FloatArray = np.linspace(-5, 5, 40_001)


def _normal_logp(x: FloatArray, mean: float, sigma: float) -> FloatArray:
    """Log density of a normal."""
    return -0.5 * ((x - mean) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)


def _one_sign_logp(x: FloatArray, y: float) -> FloatArray:
    """Log of prior times likelihood of one coordinate."""
    return _normal_logp(x, *_X_PRIOR) + _normal_logp(x**2, y, _SIGNS_SIGMA)


def signs(k: int = 2, m: int = 0) -> Target:
    """Two modes in each of k coordinates, as only squares are observed, and m that are unimodal.

    The prior of x is N(.3, 2), of which y = 4, 3, 5 (the first k) are the squares with a standard
    deviation of .5; the nuisance z is N(0, 2) and has no data. Coordinates are independent, so all
    truth is that of one-dimensional integrals, whatever m.

    Would catch: a partition or a count of cells that drowns when most coordinates say nothing about
    the modes, cells that join sign patterns, and weights that are not a product though the
    posterior is.

    Parameters
    ----------
    k : {1, 2, 3}
        Coordinates whose sign is open: 2^k modes.
    m : int
        Length of the nuisance vector ``z``; with 0 the model has no such variable. More of them
        make distances less telling, but change neither weights nor evidence.
    """
    if k not in range(1, len(_SIGNS_DATA) + 1):
        raise ValueError(f"k={k} is not known; use one of 1, 2, 3: there are three observations.")
    if m < 0:
        raise ValueError(f"m={m} must be at least 0.")
    y = np.array(_SIGNS_DATA[:k])
    posteriors = [GridDensity(_NODES, _one_sign_logp(_NODES, value)) for value in y]
    positive = np.array([one.mass[_NODES > 0].sum() for one in posteriors])
    # The minus signs come first: a mode's index has a binary digit for each coordinate.
    patterns = np.array(list(product((0, 1), repeat=k)))
    peaks = np.array(
        [
            [_NODES[np.where(side, one.logp, -np.inf).argmax()] for one in posteriors]
            for side in (_NODES < 0, _NODES > 0)
        ]
    )
    centers = np.hstack([peaks[patterns, np.arange(k)], np.zeros((2**k, m))])

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", *_X_PRIOR, shape=k)
            if m:
                pm.Normal("z", 0, _NUISANCE_SIGMA, shape=m)
            pm.Normal("y", x**2, _SIGNS_SIGMA, observed=y)
        return model

    def logp(points: FloatArray) -> FloatArray:
        x, z = np.split(np.atleast_2d(points), [k], axis=1)
        of_x = _normal_logp(x, *_X_PRIOR) + _normal_logp(x**2 - y, 0, _SIGNS_SIGMA)
        return of_x.sum(axis=1) + _normal_logp(z, 0, _NUISANCE_SIGMA).sum(axis=1)

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        x = np.column_stack([one.sample(rng, n) for one in posteriors])
        return np.hstack([x, rng.normal(0, _NUISANCE_SIGMA, size=(n, m))])

    def classify(points: FloatArray) -> IntArray:
        return (np.atleast_2d(points)[:, :k] > 0) @ 2 ** np.arange(k - 1, -1, -1)

    return Target(
        name=f"signs-{k}-{m}",
        dim=k + m,
        build=build,
        logp=logp,
        sample=sample,
        classify=classify,
        centers=centers,
        weights=np.where(patterns, positive, 1 - positive).prod(axis=1),
        mean=np.array([one.mean for one in posteriors]),
        variance=np.array([one.variance for one in posteriors]),
        log_z=sum(one.log_z for one in posteriors),
        log_z_error=1e-10,
        constrain=lambda points: np.asarray(points)[..., :k],
    )
