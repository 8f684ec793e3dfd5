"""Settings shared by all tests; nothing here changes what is tested."""

import logging
import os
import platform
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version

import pytest

# Before NumPy is imported: threads of a BLAS would fight with the two pytest workers over the
# cores, and would make the last digits depend on the machine's load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

with warnings.catch_warnings():
    # What the dependencies say while they are imported is no test's business.
    warnings.simplefilter("ignore")
    import numpy as np
    import pymc

logging.getLogger("pymc").setLevel(logging.ERROR)
_ = pymc  # imported for its import-time warnings only

SEED_VARIABLE = "PYMC_SPECTRAL_SEED"


def _seeds() -> list[int]:
    """Read the seeds to test with: unset is 42, "7" is one seed, "0-19" is twenty."""
    text = os.environ.get(SEED_VARIABLE, "42")
    first, _, last = text.partition("-")
    try:
        return list(range(int(first), int(last or first) + 1))
    except ValueError:
        raise pytest.UsageError(
            f"{SEED_VARIABLE}={text!r} is neither a seed nor a range of seeds; "
            f"set it to a number such as 7 or a range such as 0-19."
        ) from None


def pytest_addoption(parser):
    parser.addoption(
        "--runslow",
        action="store_true",
        default=False,
        help="also run the tests marked slow (statistics over many seeds)",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--runslow"):
        return
    deselected = [item for item in items if item.get_closest_marker("slow")]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_report_header(config):
    packages = ("pymc", "pytensor", "arviz", "numpy", "scipy", "scikit-learn", "xarray")
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (not installed)")
    return [
        f"python {platform.python_version()}, " + ", ".join(found),
        f"seeds {os.environ.get(SEED_VARIABLE, '42')} (set {SEED_VARIABLE} for others)",
    ]


@pytest.fixture(scope="session", params=_seeds(), ids=lambda value: f"seed{value}")
def seed(request) -> int:
    """Give the seed under test; a test may still parametrize "seed" itself."""
    return request.param


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Random numbers that follow the seed under test."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _close_figures():
    """Close the figures a test has left open, if it has used Matplotlib at all."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
