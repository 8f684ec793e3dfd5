"""What several test modules need: quick sampling and access to groups on both series."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr

import pymc_spectral as ps
from pymc_spectral._inference_data import LEGACY


def group(idata, name):
    """A group as an xarray Dataset, for InferenceData and DataTree alike."""
    found = idata[name]
    return found.dataset if hasattr(found, "dataset") else found


def sample(model, step, **kwargs):
    """``pm.sample`` with the settings of a quick test."""
    options = {
        "draws": 200,
        "tune": 200,
        "chains": step.n_cells,
        "cores": 1,
        "random_seed": 1,
        "progressbar": False,
        "compute_convergence_checks": False,
    }
    with model:
        return pm.sample(step=step, **{**options, **kwargs})


def make_step(model, points, **kwargs):
    """Step on given points, without a progress bar."""
    with model:
        defaults = {"explore": points, "random_seed": 1, "progressbar": False}
        return ps.SpectralPartitionStep(**{**defaults, **kwargs})


def true_mass(target, partition, n=400_000):
    """Mass of each cell by exact draws, with its standard error."""
    return target.region_mass(
        partition.predict, np.random.default_rng(10**6), n, n_regions=partition.n_cells_
    )


def run_script(script, *arguments, cwd):
    """Run a script as a user would, in a folder of its own; return the finished process."""
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def container(groups=None, **named):
    """Put datasets into what the installed ArviZ uses, InferenceData or DataTree."""
    groups = {**(groups or {}), **named}
    if LEGACY:
        import arviz as az

        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


def rms(x):
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(x))))
