"""Densities written by hand, behind the interface of the batched density: none is compiled."""

import numpy as np
from scipy.special import logsumexp


class HandDensity:
    """Mixture of unit normals times scales, without PyMC.

    Parameters
    ----------
    means : array of shape (K, d)
    scale : float or array of shape (d,)
    inside : callable, optional
        Mask of the rows that lie in the support.
    has_gradient : bool
    """

    def __init__(self, means, scale=1.0, inside=None, has_gradient=True):
        self.means = np.atleast_2d(np.asarray(means, float))
        self.d = self.means.shape[1]
        self.scale = np.broadcast_to(np.asarray(scale, float), (self.d,))
        self.inside = inside or (lambda x: np.ones(len(x), dtype=bool))
        self.has_gradient = has_gradient
        self.initial_point = self.means[0].copy()

    def _terms(self, x):
        offset = (x[:, None] - self.means) / self.scale
        constant = -np.log(self.scale).sum() - 0.5 * self.d * np.log(2 * np.pi)
        return constant - 0.5 * np.square(offset).sum(axis=2) - np.log(len(self.means)), offset

    def logp(self, x):
        return np.where(self.inside(x), logsumexp(self._terms(x)[0], axis=1), -np.inf)

    def logp_and_grad(self, x):
        assert self.has_gradient
        terms, offset = self._terms(x)
        share = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
        gradient = -(share[:, :, None] * offset).sum(axis=1) / self.scale
        return self.logp(x), np.where(self.inside(x)[:, None], gradient, 0.0)

    def parts(self, x):
        """All of it is prior."""
        return self.logp(x), np.zeros(len(x))
