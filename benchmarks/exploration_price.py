"""How long exploring takes, against plain sampling of the same model in the same run.

    python benchmarks/exploration_price.py --out benchmarks/results

``explore`` is tempering at its defaults, ``sample`` is ``pm.sample()`` at its defaults; both
without compilation. ``normal(20)`` has one mode, so there exploring is all loss.
"""

import argparse
import logging
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm
from provenance import save

from pymc_spectral import targets
from pymc_spectral.density.batched import batched_density
from pymc_spectral.exploration.explorers import explore as find_points

TARGETS = {"paper2d": targets.paper2d, "normal(20)": lambda: targets.normal(20)}
SEEDS = range(5)


def measure(name: str) -> dict:
    """Median seconds over some seeds, in turn."""
    target = TARGETS[name]()
    model = target.build()
    density = batched_density(model)
    explore, sample, rounds = [], [], []
    for seed in SEEDS:
        report = find_points(model, density=density, random_seed=seed).tempering
        with model:
            idata = pm.sample(random_seed=seed, progressbar=False, compute_convergence_checks=False)
        explore.append(report.seconds)
        sample.append(float(idata["posterior"].attrs["sampling_time"]))
        rounds.append(len(report.rounds))
    return {
        "model": name,
        "d": density.d,
        "explore_seconds": float(np.median(explore)),
        "sample_seconds": float(np.median(sample)),
        "ratio": float(np.median(np.divide(explore, sample))),
        "rounds": int(np.median(rounds)),
    }


def main() -> None:
    """Print the table, and with --out save it."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    arguments = parser.parse_args()
    rows = [measure(name) for name in TARGETS]
    for row in rows:
        print(row)
    if arguments.out:
        series = pm.__version__.split(".")[0]
        save(arguments.out / f"exploration_price_pymc{series}.json", {"rows": rows})


if __name__ == "__main__":
    main()
