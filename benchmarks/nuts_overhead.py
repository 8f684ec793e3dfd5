"""Seconds per draw of NUTS in a cell against plain ``pm.NUTS``, same model, same run.

The model is a pair of normals, far apart, so that both samplers see one normal and do the same
work; what is left is the price of the cell and of the bridge's terms. Both use a fixed step size
and mass matrix, so that they build trees of the same size, and alternate in short blocks, so that
a busy machine slows both.

    python benchmarks/nuts_overhead.py --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from provenance import save

import pymc_spectral as ps

DIMENSIONS = (2, 20, 100)
BLOCKS = 15
DRAWS = 150
FIXED = {"adapt_step_size": False, "is_cov": True}


def pair_of_normals(d: int) -> tuple[pm.Model, np.ndarray]:
    """Model of two unit normals at -10 and 10 in every coordinate, and points of both."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=d, initval=np.full(d, 10.0))
        squares = [pt.sum((x - center) ** 2) for center in (-10.0, 10.0)]
        pm.Potential("p", pt.logaddexp(-0.5 * squares[0], -0.5 * squares[1]))
    rng = np.random.default_rng(0)
    center = np.where(rng.random((2000, 1)) < 0.5, -10.0, 10.0)
    return model, center + rng.standard_normal((2000, d))


def measure(d: int) -> dict:
    """Median over blocks of the ratio of seconds per draw, and what it is made of."""
    model, points = pair_of_normals(d)
    options = {**FIXED, "scaling": np.ones(d), "step_scale": 0.8}
    with model:
        plain = pm.NUTS(model=model, **options)
        step = ps.SpectralPartitionStep(
            explore=points, kernel_kwargs=options, random_seed=1, progressbar=False
        )
    cell = int(step.partition.predict(np.full((1, d), 10.0))[0])
    step._begin(cell, cell, np.random.default_rng(1), 0, 0)
    step.stop_tuning()
    plain.stop_tuning()
    position = {"plain": model.initial_point(), "cell": model.initial_point()}
    samplers = {"plain": plain, "cell": step}
    seconds: dict[str, list[float]] = {"plain": [], "cell": []}
    leapfrogs = {"plain": 0.0, "cell": 0.0}
    for block in range(BLOCKS + 1):
        for name, sampler in samplers.items():
            start = time.process_time()
            for _ in range(DRAWS):
                position[name], stats = sampler.step(position[name])
                leapfrogs[name] += stats[0]["tree_size"] * (block > 0)
            if block:  # the first block warms caches
                seconds[name].append((time.process_time() - start) / DRAWS)
    ratios = np.array(seconds["cell"]) / np.array(seconds["plain"])
    return {
        "d": d,
        "ratio": float(np.median(ratios)),
        "ratio_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        "microseconds_plain": 1e6 * float(np.median(seconds["plain"])),
        "microseconds_cell": 1e6 * float(np.median(seconds["cell"])),
        "leapfrogs_per_draw": {k: v / (BLOCKS * DRAWS) for k, v in leapfrogs.items()},
    }


def main() -> None:
    """Print the table, and with --out save it."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    args = parser.parse_args()
    rows = []
    for d in DIMENSIONS:
        rows.append(measure(d))
        print(json.dumps(rows[-1]), flush=True)
    if args.out:
        path = args.out / f"nuts_overhead_pymc{pm.__version__.split('.')[0]}.json"
        save(path, {"rows": rows})


if __name__ == "__main__":
    main()
