"""Are the reported errors the realized ones? Many seeds against exact answers.

For every seed: exact draws as exploration, a new partition, new chains. Then the root mean square
error of posterior means, of weights and of log Z over the seeds is set against the error that each
run reported. Ratios near 1 are honest; above 1 means that errors were reported too small.

    python benchmarks/honest_errors.py paper2d --seeds 200 --jobs 2 --out benchmarks/results
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

import arviz as az
import numpy as np
import pymc as pm
from provenance import save

import pymc_spectral as ps
from pymc_spectral import targets

TARGETS = {"paper2d": targets.paper2d, "crossing": targets.crossing}
GRID = 1500  # points per axis: masses to about 1e-5, far below any reported error


def run_seed(name: str, seed: int) -> dict:
    """Run one seed end to end and return estimates, their errors and the truth."""
    target = TARGETS[name]()
    model = target.build()
    points = target.sample(np.random.default_rng(seed), 4000)
    start = time.perf_counter()
    with model:
        step = ps.SpectralPartitionStep(explore=points, random_seed=seed, progressbar=False)
        idata = pm.sample(
            draws=1000,
            tune=1000,
            step=step,
            chains=step.n_cells,
            cores=1,
            random_seed=seed,
            progressbar=False,
        )
    seconds = time.perf_counter() - start
    # Cells in the order of the target's modes, so that one entry is one quantity over the seeds.
    order = step.partition.predict(target.centers)
    if len(set(order)) != step.n_cells:
        raise RuntimeError(f"{name}, seed {seed}: {step.n_cells} cells for modes in {order}.")
    cells = idata["cells"].isel(cell=order)
    mass = grid_mass(target, step.partition)[order]
    ours, theirs = ps.summary(idata, round_to=None), summary_of_arviz(idata)
    of_draws = ps.summary(idata, round_to=None, pooled=False)
    return {
        "seed": seed,
        "n_cells": step.n_cells,
        "weight": cells["weight"].values.tolist(),
        "weight_mcse": cells["weight_mcse"].values.tolist(),
        "mass": mass.tolist(),
        "log_z": float(cells["log_marginal_likelihood"]),
        "log_z_mcse": float(cells["log_marginal_likelihood_mcse"]),
        "log_z_true": target.log_z,
        "mean": ours["mean"].tolist(),
        "mcse_mean": ours["mcse_mean"].tolist(),
        "mean_of_draws": of_draws["mean"].tolist(),
        "mcse_of_draws": of_draws["mcse_mean"].tolist(),
        "mean_true": np.asarray(target.mean).tolist(),
        "arviz_mcse": theirs[0],
        "arviz_r_hat": theirs[1],
        "r_hat": cells["r_hat"].values.tolist(),
        "ess": cells["ess_bulk"].values.tolist(),
        "boundary_hit_rate": cells["boundary_hit_rate"].values.tolist(),
        "seconds": seconds,
    }


def grid_mass(target: targets.Target, partition: ps.SpectralPartition) -> np.ndarray:
    """Mass of each cell of a partition of the plane, by the midpoint rule."""
    draws = target.sample(np.random.default_rng(0), 100_000)
    low, high = draws.min(axis=0) - 2.0, draws.max(axis=0) + 2.0
    width = (high - low) / GRID
    axes = [low[k] + width[k] * (np.arange(GRID) + 0.5) for k in range(2)]
    mass = np.zeros(partition.n_cells_)
    for x in axes[0]:
        points = np.column_stack([np.full(GRID, x), axes[1]])
        density = np.exp(target.logp(points)) * width.prod()
        mass += np.bincount(partition.predict(points), density, minlength=len(mass))
    return mass / mass.sum()


def summary_of_arviz(idata) -> tuple[list[float], list[float]]:
    """MCSE of the mean and r_hat of all parameters, unrounded, as ArviZ gives them."""
    posterior = idata["posterior"]
    posterior = posterior.dataset if hasattr(posterior, "dataset") else posterior
    mcse = az.mcse(posterior, method="mean")
    r_hat = az.rhat(posterior)
    return (
        np.concatenate([np.ravel(mcse[v].values) for v in mcse.data_vars]).tolist(),
        np.concatenate([np.ravel(r_hat[v].values) for v in r_hat.data_vars]).tolist(),
    )


def report(runs: list[dict]) -> dict:
    """Ratios of realized to reported error, and what else the runs should show."""

    def ratio(error: np.ndarray, reported: np.ndarray) -> list[float]:
        return (np.sqrt(np.mean(error**2, axis=0)) / np.mean(reported, axis=0)).tolist()

    mean_error = np.array([np.subtract(r["mean"], r["mean_true"]) for r in runs])
    mcse = np.array([r["mcse_mean"] for r in runs])
    # Draws alone: what the equal-weight rows that ArviZ sees have the mean of.
    draws_error = np.array([np.subtract(r["mean_of_draws"], r["mean_true"]) for r in runs])
    draws_mcse = np.array([r["mcse_of_draws"] for r in runs])
    arviz = np.array([r["arviz_mcse"] for r in runs])
    weight_error = np.array([np.subtract(r["weight"], r["mass"]) for r in runs])
    weight_mcse = np.array([r["weight_mcse"] for r in runs])
    log_z_error = np.array([r["log_z"] - r["log_z_true"] for r in runs])
    log_z_mcse = np.array([r["log_z_mcse"] for r in runs])
    return {
        "seeds": len(runs),
        "n_cells": sorted({r["n_cells"] for r in runs}),
        "means": ratio(mean_error, mcse),
        "weights": ratio(weight_error, weight_mcse),
        "weights_rms_z": float(np.sqrt(np.mean((weight_error / weight_mcse) ** 2))),
        "weights_max_z": float(np.max(np.abs(weight_error / weight_mcse))),
        "log_z": ratio(log_z_error, log_z_mcse),
        "means_rms_z": np.sqrt(np.mean((mean_error / mcse) ** 2, axis=0)).tolist(),
        "log_z_rms_z": float(np.sqrt(np.mean((log_z_error / log_z_mcse) ** 2))),
        "log_z_mean_error": float(log_z_error.mean()),
        "log_z_max_error": float(np.abs(log_z_error).max()),
        "weights_max_error": float(np.abs(weight_error).max()),
        "means_of_draws": ratio(draws_error, draws_mcse),
        "arviz_means": ratio(draws_error, arviz),
        "arviz_r_hat_max": float(max(max(r["arviz_r_hat"]) for r in runs)),
        "squared_error": float(np.mean(np.sum(mean_error**2, axis=1))),
        "squared_error_of_draws": float(np.mean(np.sum(draws_error**2, axis=1))),
        "seconds": float(np.mean([r["seconds"] for r in runs])),
    }


def _quiet_run(job: tuple[str, int]) -> dict:
    """Run one seed without logs: they would drown the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    return run_seed(*job)


def collect(name: str, seeds: range, n_jobs: int, every: int = 10) -> list[dict]:
    """Run many seeds in several processes, printing the ratios now and then."""
    runs: list[dict] = []
    with multiprocessing.get_context("spawn").Pool(n_jobs, maxtasksperchild=50) as pool:
        jobs = [(name, seed) for seed in seeds]
        for done, run in enumerate(pool.imap_unordered(_quiet_run, jobs), 1):
            runs.append(run)
            if done % every == 0 or done == len(jobs):
                print(done, json.dumps(report(runs)), flush=True)
    return sorted(runs, key=lambda r: r["seed"])


def main() -> None:
    """Run the seeds and print, and with --out save, the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = collect(args.target, seeds, args.jobs)
    if args.out:
        path = args.out / f"honest_errors_{args.target}_pymc{pm.__version__.split('.')[0]}.json"
        save(path, {"report": report(runs), "runs": runs})


if __name__ == "__main__":
    main()
