"""Is the answer right where modes are bent, heavy-tailed, many, or hidden among nuisances?

For every target and seed: ``SpectralPartitionStep()`` with nothing but defaults, ``pm.sample`` with
one chain per cell. Recorded are the total variation between the weights of the modes and the truth,
the error of the log evidence, squared errors of the mean in units of those of as many independent
draws and of those of tempering's own points, and errors in units of those reported.

    python benchmarks/real_posteriors.py rings arcs --seeds 20 --jobs 2 --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm
from provenance import save

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral.exploration.explorers import unconstrained_draws

TARGETS = {
    "signs_3_6": lambda: targets.signs(3, 6),
    "signs_3_20": lambda: targets.signs(3, 20),
    "signs_2_40": lambda: targets.signs(2, 40),
    "signs_1_100": lambda: targets.signs(1, 100),
    "rings": targets.rings,
    "arcs": targets.arcs,
    "arcs_printed": lambda: targets.arcs("printed"),
    "bananas": targets.bananas,
    "aliases": targets.aliases,
    "galaxies_4": lambda: targets.galaxies(4),
    **{
        f"tails_{d}_{int(100 * w)}": lambda d=d, w=w: targets.tails(3, d, w)
        for d in (1, 2, 5)
        for w in (0.5, 0.9)
    },
    "cauchy_2": lambda: targets.tails(1, 2, 0.5),
}
DRAWS = TUNE = 1000
N_EXACT = 400_000  # independent draws that the mass of a cell is counted in


def group(idata, name):
    """A group as a Dataset, on both series."""
    found = idata[name]
    return found.dataset if hasattr(found, "dataset") else found


def run_seed(name: str, seed: int) -> dict:
    """Run one seed end to end."""
    target = TARGETS[name]()
    start = time.perf_counter()
    with target.build() as model:
        step = ps.SpectralPartitionStep(random_seed=seed, progressbar=False)
        explored = time.perf_counter()
        idata = pm.sample(
            draws=DRAWS,
            tune=TUNE,
            step=step,
            chains=step.n_cells,
            cores=1,
            random_seed=seed,
            progressbar=False,
        )
    done = time.perf_counter()
    cells, stats = group(idata, "cells"), group(idata, "cell_sample_stats")
    draws = unconstrained_draws(model, group(idata, "cell_posterior"), 10**9)
    points = step.exploration.points
    return {
        "seed": seed,
        "n_cells": step.n_cells,
        "kernel": step.kernel_name,
        **_of_modes(target, cells, stats, draws, points),
        **_of_cells(target, step, cells, seed),
        **_of_means(target, idata, points, DRAWS * step.n_cells),
        "log_z": float(cells["log_marginal_likelihood"]),
        "log_z_mcse": float(cells["log_marginal_likelihood_mcse"]),
        "log_z_true": target.log_z,
        "log_z_true_error": target.log_z_error,
        "r_hat": float(cells["r_hat"].max()),
        "ess": float(cells["ess_bulk"].min()),
        "jump_rate": float(stats["jump_accepted"].sum() / max(1, stats["n_jumps"].sum())),
        "by_tempering": int(cells["mass_by_tempering"].sum() + cells["draws_by_tempering"].sum()),
        "warnings": ps.diagnose(idata).query("severity == 'warning'")["code"].tolist(),
        "explore_seconds": explored - start,
        "sample_seconds": done - explored,
    }


def _of_modes(target, cells, stats, draws, points) -> dict:
    """Weights of the modes: those of the cells, shared out by where the draws lie."""
    weight, own = cells["weight"].values, stats["cell"].values[:, 0]
    shares = np.zeros((len(weight), target.n_modes))
    for chain, cell in enumerate(own):
        mode = target.classify(draws[chain])
        shares[cell] += (
            np.bincount(mode, minlength=target.n_modes) / len(mode) / np.sum(own == cell)
        )
    found = weight @ shares
    tempering = np.bincount(target.classify(points), minlength=target.n_modes) / len(points)
    return {
        "mode_weight": found.tolist(),
        "tv": float(0.5 * np.abs(found - target.weights).sum()),
        "tv_of_tempering": float(0.5 * np.abs(tempering - target.weights).sum()),
        "purity": float(weight @ shares.max(axis=1)),
    }


def _of_cells(target, step, cells, seed) -> dict:
    """Weights of the cells in units of their errors, where their masses can be counted."""
    if target.sample is None:
        return {"weight_z": None}
    mass, mass_error = target.region_mass(
        step.partition.predict, np.random.default_rng(seed), N_EXACT, step.n_cells
    )
    error = np.hypot(cells["weight_mcse"].values, mass_error)
    return {
        "weight_z": ((cells["weight"].values - mass) / np.maximum(error, 1e-12)).tolist(),
        "weight_mcse": cells["weight_mcse"].values.tolist(),
    }


def _of_means(target, idata, points, n_draws: int) -> dict:
    """Squared error of the mean, in units of independent draws' and of tempering's."""
    table = ps.summary(idata, var_names=[target.variable], round_to=None)
    error = table["mean"].values - np.ravel(target.mean)
    known = np.isfinite(error) & np.isfinite(target.variance)
    if not known.any():
        return {"mean_z": None, "squared_error": None, "of_iid": None, "of_tempering": None}
    cold = target.constrain(points).mean(axis=0) - np.ravel(target.mean)
    error, scale = error[known], target.variance[known]
    squared = float(np.mean(error**2 / scale))
    return {
        "mean_z": (error / table["mcse_mean"].values[known]).tolist(),
        "of_iid": squared * n_draws,
        "of_tempering": squared / float(np.mean(cold[known] ** 2 / scale)),
        "squared_error": squared,
        "squared_error_of_tempering": float(np.mean(cold[known] ** 2 / scale)),
    }


def report(runs: list[dict]) -> dict:
    """What the runs of one target show together."""

    def every(key: str) -> np.ndarray:
        return np.array([r[key] for r in runs])

    def pooled(key: str) -> np.ndarray | None:
        kept = [np.ravel(r[key]) for r in runs if r[key] is not None]
        return np.concatenate(kept) if kept else None

    error = every("log_z") - every("log_z_true")
    log_z_z = error / np.hypot(every("log_z_mcse"), every("log_z_true_error"))
    found = {
        "seeds": len(runs),
        "n_cells": [int(every("n_cells").min()), int(every("n_cells").max())],
        "pure": int(np.sum(every("purity") > 0.99)),
        "tv_mean": float(every("tv").mean()),
        "tv_max": float(every("tv").max()),
        "tv_of_tempering": float(every("tv_of_tempering").mean()),
        "log_z_error_rms": float(np.sqrt(np.mean(error**2))),
        "log_z_error_max": float(np.abs(error).max()),
        "log_z_rms_z": float(np.sqrt(np.mean(log_z_z**2))),
        "log_z_max_z": float(np.abs(log_z_z).max()),
        "r_hat_max": float(every("r_hat").max()),
        "by_tempering": int(np.sum(every("by_tempering") > 0)),
        "runs_with_warnings": sum(bool(r["warnings"]) for r in runs),
        "explore_seconds": float(every("explore_seconds").mean()),
        "sample_seconds": float(every("sample_seconds").mean()),
    }
    for key in ("weight_z", "mean_z"):
        z = pooled(key)
        if z is not None:
            found[f"{key}_rms"] = float(np.sqrt(np.mean(z**2)))
            found[f"{key}_max"] = float(np.abs(z).max())
    if runs[0]["of_iid"] is not None:
        found["of_iid"] = float(every("of_iid").mean())
        found["of_tempering"] = float(
            every("squared_error").mean() / every("squared_error_of_tempering").mean()
        )
    return found


def _quiet_run(job: tuple[str, int]) -> dict:
    """Run one seed without logs: they would drown the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_spectral").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    return run_seed(*job)


def main() -> None:
    """Run the seeds and print, and with --out save, what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=20) as pool:
        for name in args.targets:
            runs = sorted(
                pool.imap_unordered(_quiet_run, [(name, seed) for seed in seeds]),
                key=lambda r: r["seed"],
            )
            print(name, json.dumps(report(runs)), flush=True)
            if args.out:
                path = args.out / f"real_posteriors_{name}_pymc{pm.__version__.split('.')[0]}.json"
                save(path, {"report": report(runs), "runs": runs})


if __name__ == "__main__":
    main()
