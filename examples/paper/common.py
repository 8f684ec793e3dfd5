"""What the scripts of this folder share: command line, provenance, exact spectra on a line."""

import argparse
import importlib.metadata
import inspect
import json
import logging
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

# Before NumPy is imported: these matrices are small, and threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigvalsh

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "paper"
# Results of runs with PyMC 5 lie beside those with PyMC 6, without pictures of their own.
OLDER = RESULTS / "pymc5"
PACKAGES = ["pymc_spectral", "pymc", "pytensor", "arviz", "numpy", "scipy", "scikit-learn"]
# For pm.sample: one chain after the other, without a word.
QUIET = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}
OURS, THEIRS, THIRD, GRAY = "#0b6e99", "#c2571a", "#4c8c2b", "#666666"


# ---------------------------------------------------------------- running a script


def run(name: str, exhibit: Callable[..., tuple[dict, plt.Figure]], description: str) -> None:
    """Parse the command line, run an exhibit, and write its numbers and its figure."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small numbers, for tests")
    parser.add_argument("--out", type=Path, help="folder (default: docs/paper, or here if quick)")
    parser.add_argument("--seed", type=int, default=1)
    known = inspect.signature(exhibit).parameters
    if "repeats" in known:
        parser.add_argument("--repeats", type=int, help="repeats of what takes long")
    if "explorations" in known:
        parser.add_argument("--explorations", type=int, help="the first so many, not all")
    if "rows" in known:
        parser.add_argument(
            "--rows", nargs="+", help="compute these only, keep the others' results"
        )
    arguments = parser.parse_args()
    is_older = int(importlib.metadata.version("pymc").split(".")[0]) < 6
    committed = OLDER if is_older else RESULTS
    folder = arguments.out or (Path() if arguments.quick else committed)
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    # A PyTensor from pip finds no BLAS on most machines; models this small do not miss it.
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
    options = {k: v for k, v in vars(arguments).items() if k in known}
    file = folder / f"{name}.json"
    if "previous" in known and file.exists():
        options["previous"] = json.loads(file.read_text())["numbers"]
    start = time.perf_counter()
    numbers, figure = exhibit(**options)
    record = {
        "exhibit": name,
        "quick": arguments.quick,
        "seed": arguments.seed,
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
        "numbers": numbers,
    }
    file.write_text(json.dumps(_plain(record), indent=1) + "\n")
    written = [file]
    if folder != OLDER:
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
    plt.close(figure)
    print(f"{name}: {record['seconds']} s; {', '.join(map(str, written))}")


def provenance() -> dict:
    """Versions, the commit, and whether the package differs from it."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "source tree"
    return {
        "commit": _git("rev-parse", "HEAD"),
        "package_changed_since_commit": bool(_git("status", "--porcelain", "pymc_spectral")),
        "python": platform.python_version(),
        "versions": versions,
    }


def _git(*arguments: str) -> str:
    """Output of git in the repository; empty where there is none."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def source() -> dict:
    """Where a single row comes from, for exhibits whose rows are run one at a time."""
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "pymc": importlib.metadata.version("pymc"),
    }


def _plain(value):
    """Arrays and NumPy scalars as lists and numbers of six digits."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}")
    return value


def row(squared: np.ndarray, **more) -> dict:
    """Mean of squared errors over repeats, its standard error, and the errors' spread."""
    squared = np.asarray(squared, dtype=float)
    sd = squared.std(ddof=1) if squared.size > 1 else 0.0
    return {
        "mean": squared.mean(),
        "standard_error": sd / np.sqrt(squared.size),
        "sd": sd,
        "median": np.median(squared),
        "repeats": squared.size,
        **more,
    }


# ---------------------------------------------------------------- exact spectra on a line


def pair_density(x: np.ndarray, sigma: float, center: float = 1.0) -> np.ndarray:
    """Half N(-center, sigma), half N(center, sigma), not normalized."""
    return np.exp(-0.5 * ((x - center) / sigma) ** 2) + np.exp(-0.5 * ((x + center) / sigma) ** 2)


def line(reach: float, spacing: float) -> np.ndarray:
    """Midpoints of an even number of bins, symmetric about 0, which is an edge."""
    n = int(np.ceil(reach / spacing))
    return (np.arange(-n, n) + 0.5) * spacing


def metropolis(density: np.ndarray, width: int, bins: np.ndarray | None = None) -> np.ndarray:
    """Transition matrix of Metropolis whose proposal is uniform on 2 width + 1 neighboring bins.

    What is proposed outside the array is rejected, so that a part of the array gives the kernel
    restricted to a cell; `bins` are the bins' places if the part has gaps.
    """
    n = len(density)
    bins = np.arange(n) if bins is None else bins
    offset = np.abs(np.subtract.outer(bins, bins))
    kernel = np.minimum(1, density[None, :] / density[:, None]) / (2 * width + 1)
    kernel[(offset > width) | (offset == 0)] = 0
    kernel[np.diag_indices(n)] = 1 - kernel.sum(axis=1)
    return kernel


def spectral_gap(density: np.ndarray, width: int, bins: np.ndarray | None = None) -> float:
    """One minus the second largest modulus of the eigenvalues of :func:`metropolis`."""
    n = len(density)
    if n < 2:
        return 1.0
    # Similar to the kernel, and symmetric: min(p_i, p_j) / sqrt(p_i p_j) off the diagonal.
    kernel = metropolis(density, width, bins)
    root = np.sqrt(density)
    symmetric = kernel * root[:, None] / root[None, :]
    symmetric = (symmetric + symmetric.T) / 2
    high = eigvalsh(symmetric, subset_by_index=[n - 2, n - 2])[0]
    low = eigvalsh(symmetric, subset_by_index=[0, 0])[0]
    return 1 - max(high, abs(low))


def asymptotic_variance(density: np.ndarray, width: int, h: np.ndarray) -> float:
    """Limit of T Var of the mean of h over a chain, by the Poisson equation (I - K) g = h - mu."""
    p = density / density.sum()
    centered = h - p @ h
    kernel = metropolis(density, width)
    # Adding the projection on constants makes I - K regular and leaves the solution unchanged.
    g = np.linalg.solve(np.eye(len(p)) - kernel + p[None, :], centered)
    return float(2 * p @ (centered * g) - p @ centered**2)
