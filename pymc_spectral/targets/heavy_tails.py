"""Two modes whose tails reach into one another."""

from typing import Literal, get_args

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln

from pymc_spectral._validate import one_of
from pymc_spectral.targets.target import FloatArray, IntArray, Target

__all__ = ["tails"]

TailsPrior = Literal["flat", "broad"]

_DISTANCE = 30.0  # between the two locations; the scale of both Students is 1
_BROAD_SCALE = 100.0  # of the Student prior, whose tails are as heavy as the posterior's


def tails(nu: float = 3, d: int = 1, w: float = 0.5, prior: TailsPrior = "flat") -> Target:
    """Two Students, 30 scales apart along the diagonal, of weights w and 1 - w.

    Would catch: proposals whose tails are lighter than the posterior's (weights of infinite
    variance, errors that are too small), scales that are measured by standard deviations though
    there are none, and a step or a summary that fails where the mean does not exist.

    Parameters
    ----------
    nu : float
        Degrees of freedom. At 2 or less the variance is infinite; at 1 (Cauchy) or less neither
        ``mean`` nor ``variance`` exists, and both are nan.
    d : int
        Dimension; the Students are spherical, not products.
    w : float
        Weight of the first, in the negative quadrant. It is the mass of the component: tails cross
        to the other's side (2 % of them each way if nu = 1, 0.03 % if nu = 3).
    prior : {"flat", "broad"}
        A Potential on Flat variables; or a proper Student prior of scale 100 with the same degrees
        of freedom, and a Potential for the density over that prior. The posterior is the same, and
        so is the evidence of 1.
    """
    if not nu > 0:
        raise ValueError(f"nu={nu} must be positive.")
    if d < 1:
        raise ValueError(f"d={d} must be at least 1.")
    if not 0 < w < 1:
        raise ValueError(f"w={w} must be between 0 and 1.")
    one_of("prior", prior, get_args(TailsPrior))
    weights = np.array([w, 1 - w])
    centers = _DISTANCE / 2 / np.sqrt(d) * np.array([[-1.0], [1.0]]) * np.ones(d)
    log_constant = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu * np.pi)

    def build() -> pm.Model:
        with pm.Model() as model:
            if prior == "flat":
                x = pm.Flat("x", shape=d, initval=centers[0])
                log_prior = 0.0
            else:
                x = pm.StudentT("x", nu, mu=0, sigma=_BROAD_SCALE, shape=d, initval=centers[0])
                log_prior = pm.logp(
                    pm.StudentT.dist(nu, mu=0, sigma=_BROAD_SCALE, shape=d), x
                ).sum()
            log_kernel = pt.log1p(((x - centers) ** 2).sum(axis=1) / nu)
            each = np.log(weights) + log_constant - (nu + d) / 2 * log_kernel
            pm.Potential("log_density_over_prior", pt.logsumexp(each) - log_prior)
        return model

    def component_logp(points: FloatArray) -> FloatArray:
        squared = ((np.atleast_2d(points)[:, None, :] - centers) ** 2).sum(axis=2)
        return np.log(weights) + log_constant - (nu + d) / 2 * np.log1p(squared / nu)

    def sample(rng: np.random.Generator, n: int) -> FloatArray:
        which = rng.choice(2, size=n, p=weights)
        stretch = np.sqrt(nu / rng.chisquare(nu, size=n))
        return centers[which] + rng.standard_normal((n, d)) * stretch[:, None]

    def classify(points: FloatArray) -> IntArray:
        return component_logp(points).argmax(axis=1)

    mean = weights @ centers if nu > 1 else np.full(d, np.nan)
    within = nu / (nu - 2) if nu > 2 else np.inf
    return Target(
        name=f"tails-{nu:g}-{d}-{w:g}" + ("" if prior == "flat" else f"-{prior}"),
        dim=d,
        build=build,
        logp=lambda points: np.logaddexp.reduce(component_logp(points), axis=1),
        sample=sample,
        classify=classify,
        centers=centers,
        weights=weights,
        mean=mean,
        variance=within + weights @ centers**2 - mean**2,
        log_z=0.0,
    )
