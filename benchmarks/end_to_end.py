"""Does the whole line find every mode and weigh it rightly, with nothing but defaults?

For every target and seed: ``SpectralPartitionStep()`` explores by itself, ``pm.sample`` runs one
chain per cell. Counted are the seeds on which all modes were found, and the errors of the modes'
weights, of the log evidence and of tempering's own log evidence, each in units of the error that
was reported with it.

    python benchmarks/end_to_end.py docs_pair80 --seeds 20 --first-seed 100 --out benchmarks/results
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

TARGETS = {
    "paper2d": targets.paper2d,
    "twenty": targets.twenty,
    "ten_d": targets.ten_d,
    "docs_pair4": lambda: targets.docs_pair(4),
    "docs_pair80": lambda: targets.docs_pair(80),
    "labels": targets.labels,
}
N_EXACT = 1_000_000  # independent draws that the mass of a cell is counted in


def run_seed(name: str, seed: int) -> dict:
    """Run one seed end to end."""
    target = TARGETS[name]()
    start = time.perf_counter()
    with target.build():
        step = ps.SpectralPartitionStep(random_seed=seed, progressbar=False)
        explored = time.perf_counter()
        idata = pm.sample(
            step=step, chains=step.n_cells, cores=1, random_seed=seed, progressbar=False
        )
    done = time.perf_counter()
    report, cells = step.exploration.tempering, idata["cells"]
    counts = np.bincount(target.classify(step.exploration.points), minlength=target.n_modes)
    # Where modes overlap, the mass of a cell is not that of the mixture's component.
    mass, mass_error = target.region_mass(
        step.partition.predict, np.random.default_rng(seed), N_EXACT, step.n_cells
    )
    # A mode may fill several cells; the center of a cell tells which mode it belongs to.
    mode = target.classify(np.array([step.partition.members(c)[0] for c in range(step.n_cells)]))
    within = (np.arange(target.n_modes)[:, None] == mode).astype(float)
    weight = within @ cells["weight"].values
    mcse = np.sqrt(np.diag(within @ cells["weight_cov"].values @ within.T))
    mcse = np.hypot(mcse, np.sqrt(within @ mass_error**2))
    return {
        "seed": seed,
        "n_cells": step.n_cells,
        "points_by_mode": counts.tolist(),
        "weight": weight.tolist(),
        "weight_mcse": mcse.tolist(),
        "weight_true": (within @ mass).tolist(),
        "log_z": float(cells["log_marginal_likelihood"]),
        "log_z_mcse": float(cells["log_marginal_likelihood_mcse"]),
        "log_z_true": target.log_z,
        "stepping_stone": report.log_evidence,
        "stepping_stone_mcse": report.log_evidence_error,
        "round_trips": int(report.round_trips),
        "warnings": ps.diagnose(idata).query("severity == 'warning'")["code"].tolist(),
        "explore_seconds": explored - start,
        "sample_seconds": done - explored,
    }


def run_smc(name: str, seed: int) -> dict:
    """Weights of the modes by PyMC's sequential Monte Carlo, as its documentation runs it."""
    target = TARGETS[name]()
    start = time.perf_counter()
    with target.build():
        idata = pm.sample_smc(2000, chains=4, cores=1, random_seed=seed, progressbar=False)
    draws = idata["posterior"][target.variable].values.reshape(-1, target.dim)
    # Modes are told apart by their nearest center, on the scale of the model's own variable.
    centers = target.constrain(target.centers)
    nearest = np.argmin(((draws[:, None] - centers) ** 2).sum(axis=2), axis=1)
    weight = np.bincount(nearest, minlength=target.n_modes) / len(draws)
    return {"seed": seed, "weight": weight.tolist(), "seconds": time.perf_counter() - start}


def report(runs: list[dict]) -> dict:
    """Count the runs that found everything, and set errors against what was reported."""

    def z(key: str) -> np.ndarray:
        errors = [np.subtract(r[key], r[key.replace("stepping_stone", "log_z") + "_true"])
                  for r in complete]  # fmt: skip
        return np.abs(np.array(errors) / np.array([r[key + "_mcse"] for r in complete]))

    complete = [r for r in runs if min(r["points_by_mode"]) > 0 and min(r["weight"]) > 0]
    found = {
        "seeds": len(runs),
        "all_modes_found": len(complete),
        "n_cells": sorted({r["n_cells"] for r in runs}),
        "runs_with_warnings": sum(bool(r["warnings"]) for r in runs),
        "explore_seconds": float(np.mean([r["explore_seconds"] for r in runs])),
        "sample_seconds": float(np.mean([r["sample_seconds"] for r in runs])),
    }
    if complete:
        for key in ("weight", "log_z", "stepping_stone"):
            found[f"{key}_max_z"] = float(z(key).max())
            found[f"{key}_rms_z"] = float(np.sqrt(np.mean(z(key) ** 2)))
        found["weight_first_mode"] = [r["weight"][0] for r in runs]
    return found


def _quiet_run(job: tuple[str, int, bool]) -> dict:
    """Run one seed without logs: they would drown the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_spectral").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    name, seed, smc = job
    return run_smc(name, seed) if smc else run_seed(name, seed)


def main() -> None:
    """Run the seeds and print, and with --out save, what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    parser.add_argument("--smc", action="store_true", help="run pm.sample_smc instead")
    args = parser.parse_args()
    what = "smc" if args.smc else "end_to_end"
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=20) as pool:
        for name in args.targets:
            runs = []
            for run in pool.imap_unordered(_quiet_run, [(name, s, args.smc) for s in seeds]):
                runs.append(run)
                print(name, json.dumps(run if args.smc else report(runs)), flush=True)
            runs.sort(key=lambda r: r["seed"])
            if args.out:
                path = args.out / f"{what}_{name}_pymc{pm.__version__.split('.')[0]}.json"
                save(path, {"runs": runs} if args.smc else {"report": report(runs), "runs": runs})


if __name__ == "__main__":
    main()
