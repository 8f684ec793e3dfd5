"""A path of densities in one dimension of which everything is known."""

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import logsumexp

from pymc_spectral.exploration.local_moves import Replicas

GRID = np.linspace(-30, 30, 20001)
BETAS = np.array([0.0, 0.1, 0.4, 1.0])


class ToyPath:
    """One dimension, from N(0, 3^2) to .3 N(-2, .5^2) + .7 N(2, .5^2), all by hand."""

    name = "toy"
    log_z = 0.0
    scale = np.array([3.0])

    def log_reference(self, x):
        return -0.5 * (x / 3) ** 2 - np.log(3) - 0.5 * np.log(2 * np.pi)

    def log_target(self, x):
        weights = np.log([0.3, 0.7]) - np.log(0.5) - 0.5 * np.log(2 * np.pi)
        exponents = -0.5 * ((x[..., None] - np.array([-2.0, 2.0])) / 0.5) ** 2
        return logsumexp(weights + exponents, axis=-1)

    def sample(self, rng, n):
        return 3 * rng.standard_normal((n, 1))

    def evaluate(self, x):
        reference = self.log_reference(x[:, 0])
        return reference, self.log_target(x[:, 0]) - reference

    def evaluate_grad(self, x, beta):
        step = 1e-5
        reference, value = self.evaluate(x)
        (r1, v1), (r0, v0) = self.evaluate(x + step), self.evaluate(x - step)
        return reference, value, ((r1 - r0 + beta * (v1 - v0)) / (2 * step))[:, None]

    def cdf(self, beta):
        """Points of the cumulative distribution at one temperature, by quadrature."""
        logp = self.log_reference(GRID) * (1 - beta) + beta * self.log_target(GRID)
        density = np.exp(logp - logp.max())
        total = cumulative_trapezoid(density, GRID, initial=0)
        return total / total[-1]

    def exact(self, rng, betas, copies):
        """Independent exact draws at every temperature."""
        rows = [np.interp(rng.random(copies), self.cdf(beta), GRID) for beta in betas]
        x = np.array(rows)[:, :, None]
        reference, value = self.evaluate(x.reshape(-1, 1))
        shape = (len(betas), copies)
        return Replicas(x, reference.reshape(shape), value.reshape(shape))
