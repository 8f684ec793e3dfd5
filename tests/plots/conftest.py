"""Results to draw, sampled once for all pictures."""

import numpy as np
import pymc as pm
import pytest
from helpers import make_step, sample

import pymc_spectral as ps
from pymc_spectral import targets


@pytest.fixture(scope="session")
def two():
    """Two parameters, explored by tempering."""
    model = targets.paper2d().build()
    with model:
        step = ps.SpectralPartitionStep(
            random_seed=1, progressbar=False, explore_kwargs={"n_points": 1000, "n_rounds": 6}
        )
    return sample(model, step)


@pytest.fixture(scope="session")
def thirty():
    """Thirty parameters, two modes, points handed in."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        sign = pm.Normal("sign", 0.1, 2)
        pm.Normal("effect", sign, 0.5, shape=28)
        pm.HalfNormal("scale", 1)
        pm.Normal("square", sign**2, 0.5, observed=4.0)
    points = rng.normal(0, 0.5, (400, 30))
    points[:, :29] += np.repeat([-2.0, 2.0], 200)[:, None]
    return sample(model, make_step(model, points), draws=100, tune=150)


@pytest.fixture(scope="session")
def line():
    """One parameter."""
    target = targets.pair1d(0.25)
    model = target.build()
    return sample(model, make_step(model, target.sample(np.random.default_rng(0), 500)), draws=100)
