"""When does a result that should not be believed say so, and one that should be keep quiet?

Four studies, whose counts ``docs/limits.md`` shows:

- ``missed_half``: points of the heavy one of two far modes only, which nothing can notice;
- ``missed_mode``: points of three of the four modes of ``paper2d``, each of the larger ones left
  out in turn;
- ``two_modes``: four modes in ten dimensions, three cells;
- ``healthy``: results known to be right, of which no warning should be said.

    python benchmarks/limits.py --seeds 20 --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm
from provenance import save
from pymc.stats.convergence import run_convergence_checks

import pymc_spectral as ps
from pymc_spectral import targets

# What PyMC says of every run with so few chains, right or wrong.
HARMLESS = ("Only one chain", "We recommend running at least 4 chains")
WRONG = 0.1  # a log evidence further off than this lacks a mode, if that holds so much
HEALTHY = {
    "paper2d": (targets.paper2d, {"n_cells": 4}),
    "labels": (targets.labels, {}),
    "normal10": (lambda: targets.normal(10), {}),
}


def run(target, points, seed: int, chains_per_cell: int = 1, size=None, **options) -> dict:
    """One result, and what is said of it."""
    with target.build() as model:
        step = ps.SpectralPartitionStep(
            explore=points, random_seed=seed, progressbar=False, **options
        )
        idata = pm.sample(
            **(size or {}), step=step, chains=chains_per_cell * step.n_cells, cores=1,
            random_seed=seed, progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    said = [w.message for w in run_convergence_checks(idata, model)]
    log_z = float(idata["cells"]["log_marginal_likelihood"])
    return {
        "seed": seed,
        "n_cells": step.n_cells,
        "log_z": log_z,
        "log_z_error": log_z - target.log_z,
        "warnings": ps.diagnose(idata).query("severity == 'warning'")["code"].unique().tolist(),
        "pymc_says": [m for m in said if not m.startswith(HARMLESS)],
    }


def missed_half(seed: int) -> list[dict]:
    target = targets.docs_pair(10)
    points = target.sample(np.random.default_rng(10_000 + seed), 2000)
    return [run(target, points[target.classify(points) == 1], seed)]


def missed_mode(seed: int) -> list[dict]:
    target = targets.paper2d()
    points = target.sample(np.random.default_rng(10_000 + seed), 4000)
    mode = target.classify(points)
    size = {"draws": 500, "tune": 500}
    return [
        {"omitted": k, **run(target, points[mode != k], seed, size=size)}
        for k in np.flatnonzero(target.weights > WRONG).tolist()
    ]


def two_modes(seed: int) -> list[dict]:
    target = targets.ten_d()
    points = target.sample(np.random.default_rng(10_000 + seed), 2000)
    return [run(target, points, seed, chains_per_cell=2, n_cells=3)]


def healthy(seed: int) -> list[dict]:
    runs = []
    for name, (make, options) in HEALTHY.items():
        target = make()
        points = target.sample(np.random.default_rng(10_000 + seed), 4000)
        runs.append({"target": name, **run(target, points, seed, **options)})
        runs.append({"target": f"{name}, explored", **run(target, None, seed)})
    return runs


STUDIES = {f.__name__: f for f in (missed_half, missed_mode, two_modes, healthy)}


def report(runs: list[dict]) -> dict:
    """Counts of a study."""
    wrong = [r for r in runs if abs(r["log_z_error"]) > WRONG]
    return {
        "runs": len(runs),
        "with_warnings": sum(bool(r["warnings"]) for r in runs),
        "several_modes": sum("several_modes" in r["warnings"] for r in runs),
        "pymc_objects": sum(bool(r["pymc_says"]) for r in runs),
        "wrong": len(wrong),
        "wrong_with_warnings": sum(bool(r["warnings"]) for r in wrong),
        "wrong_codes": sorted({code for r in wrong for code in r["warnings"]}),
        "mean_log_z_error": float(np.mean([r["log_z_error"] for r in runs])),
    }


def main() -> None:
    """Run the studies and print, and with --out save, what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=400)
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    args = parser.parse_args()
    for name in ("pymc", "pymc_spectral"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    found, every = {}, []
    for name, study in STUDIES.items():
        runs = []
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            runs += study(seed)
        found[name] = report(runs)
        every += [{"study": name, **r} for r in runs]
        print(name, json.dumps(found[name]), flush=True)
    if args.out:
        path = args.out / f"limits_pymc{pm.__version__.split('.')[0]}.json"
        save(path, {"report": found, "runs": every})


if __name__ == "__main__":
    main()
