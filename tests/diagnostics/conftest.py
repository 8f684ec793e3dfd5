"""One run in health, sampled once, which the tests of findings make sick in their ways."""

import pytest
from helpers import sample

import pymc_spectral as ps
from pymc_spectral import targets


@pytest.fixture(scope="session")
def step():
    with targets.paper2d().build():
        return ps.SpectralPartitionStep(
            random_seed=1, progressbar=False, explore_kwargs={"n_points": 2000}
        )


@pytest.fixture(scope="session")
def healthy(step):
    """Two chains per cell, explored by tempering, so that every check has something to look at."""
    return sample(step.model, step, chains=2 * step.n_cells, draws=500, tune=500)
