"""Do the same seeds still give the same draws? Digests of whole results, bit by bit.

A change that only moves code must not change a number. This script runs small models over all
kernels, explorers and partitions and writes a digest of each part of every result; run before and
after a change, in one environment on one machine, the two files must agree. Last digits depend on
the versions of NumPy and of the BLAS, so digests from elsewhere prove nothing.

    python benchmarks/digests.py --out before.json            # on the commit before
    python benchmarks/digests.py --against before.json        # on the commit after

``--against`` prints every part that differs and ends with exit code 1 if any does.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import logging
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from provenance import provenance
from pytensor.graph.op import Op

import pymc_spectral as ps


def module(*names: str):
    """Import a module of the package by the first of its names, the newest first, that is there."""
    for name in names:
        if has_module(name):
            return importlib.import_module(f"pymc_spectral.{name}")
    raise ImportError(f"pymc_spectral has none of the modules {', '.join(names)}.")


def has_module(name: str) -> bool:
    """Return whether the package has a module of this name."""
    try:
        return importlib.util.find_spec(f"pymc_spectral.{name}") is not None
    except ModuleNotFoundError:  # its folder is missing
        return False


targets = module("targets", "testing")
efficiency_ratio = module(
    "diagnostics.paper_rules", "diagnostics.rules_of_thumb", "efficiency"
).efficiency_ratio

DRAWS, TUNE = 150, 150
# Names in files taken before a change of names, and what the arrays are called now.
RENAMED = {
    "partition.rule_n_neighbours": "partition.rule_n_neighbors",
    "partition.rule_centres": "partition.rule_centers",
}
# Differences that a change meant to make: case (or "*"), array, reason.
MEANT = [
    ("*", "cells.excess", "new: what raised the variance of a weight"),
    ("*", "exploration.point_round", "new: which round of partitioning a point comes from"),
    *(
        ("rounds", f"exploration.{name}", "points of all rounds, not of the first alone")
        for name in ("points", "logp", "point_cell")
    ),
    ("rounds", "partition.wandering", "judged by the points of all rounds, not of the first alone"),
]
# Seconds, and PyMC's own clocks, differ between any two runs.
CLOCKS = {"process_time_diff", "perf_counter_diff", "perf_counter_start", "seconds"}
# Left out of the reweighted rows on purpose: repeated rows spoil statistics of consecutive ones.
LEFT_OUT = {"energy"}


def signs() -> pm.Model:
    """README's model: four modes."""
    with pm.Model() as model:
        x = pm.Normal("x", mu=0.3, sigma=2, shape=2)
        pm.Normal("y", mu=x**2, sigma=0.5, observed=[4.0, 3.0])
    return model


def transformed() -> pm.Model:
    """Positive, simplex and bounded variables with coords, a Deterministic, and two modes."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        w = pm.Dirichlet("w", np.ones(3), dims="group")
        s = pm.HalfNormal("s", 2.0)
        u = pm.Uniform("u", -3, 3)
        pm.Deterministic("double", 2 * w, dims="group")
        pm.Normal("y", u**2 + w[0], s, observed=[4.1, 3.8, 4.3])
    return model


def bounds_of_bounds() -> pm.Model:
    """A variable whose bound is another variable."""
    with pm.Model() as model:
        top = pm.HalfNormal("top", 3.0)
        u = pm.Uniform("u", -top, top, shape=2)
        pm.Normal("y", u**2, 0.4, observed=[2.0, 1.5])
    return model


class Pair(Op):
    """Two normals at -2 and 3, known to PyTensor as a black box."""

    def make_node(self, x):
        return pt.basic.Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        near = np.logaddexp(-0.5 * np.sum((x + 2) ** 2), np.log(2) - 0.5 * np.sum((x - 3) ** 2))
        outputs[0][0] = np.asarray(near)


def black_box() -> pm.Model:
    """A likelihood without gradients."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 4, shape=2)
        pm.Potential("pair", Pair()(x))
    return model


def undefined_beyond() -> pm.Model:
    """A log density that is NaN for large values: two modes in what is left."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2, shape=2)
        pm.Potential("cut", pt.sqrt(12.0 - x[0]) + 0.1 * x[1])
        pm.Normal("y", x**2, 0.5, observed=[3.0, 3.0])
    return model


def stuck(model: pm.Model):
    """Plain chains of a model, each in its own mode."""
    # With fast maths a chain depends on whether Numba compiled its function or had it in its cache.
    with model, pytensor.config.change_flags(numba__fastmath=False):
        return pm.sample(
            100,
            tune=100,
            chains=4,
            cores=1,
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
        )


def exact(target, n: int = 1500) -> np.ndarray:
    """Exact draws of a target, as exploration."""
    return target.sample(np.random.default_rng(5), n)


def prior_points(model, rng):
    """Explorer of our own: points about the four modes of `signs`."""
    centers = np.array([[a, b] for a in (-2.0, 2.0) for b in (-1.7, 1.7)])
    return centers[rng.integers(4, size=800)] + 0.1 * rng.standard_normal((800, 2))


def cases() -> dict:
    """Name of a case -> function that returns (model, options of the step, options of sample)."""
    paper = targets.paper2d()
    spectral, kmeans = ps.SpectralPartition, ps.KMeansPartition
    fitted = spectral(4, random_state=0).fit(exact(paper))
    as_printed = {
        "partition": spectral(
            4, affinity="gaussian", Q=0.8, extension="nystrom", join=False, n_landmarks=400
        ),
        "kernel": "metropolis",
        "proposal": "student",
        "bridge": "geometric",
    }
    return {
        "defaults": lambda: (signs(), {}, {}),
        "two chains a cell": lambda: (signs(), {"explore": prior_points}, {"per_cell": 2}),
        "flat priors": lambda: (paper.build(), {"bridge": "geometric"}, {}),
        "as the paper": lambda: (paper.build(), {"explore": exact(paper), **as_printed}, {}),
        "k-means, slice": lambda: (
            paper.build(),
            {"explore": exact(paper), "partition": "kmeans", "n_cells": 4, "kernel": "slice"},
            {},
        ),
        "metropolis": lambda: (
            paper.build(),
            {"explore": exact(paper), "kernel": "metropolis"},
            {},
        ),
        "hmc": lambda: (
            paper.build(),
            {"explore": exact(paper), "kernel": pm.HamiltonianMC},
            {},
        ),
        "differential evolution": lambda: (
            paper.build(),
            {"explore": exact(paper), "kernel": pm.DEMetropolisZ, "proposal": "student"},
            {},
        ),
        "k-means by instance": lambda: (
            paper.build(),
            {"explore": exact(paper), "partition": kmeans(5, random_state=1)},
            {},
        ),
        "smc": lambda: (
            signs(),
            {"explore": "smc", "n_landmarks": 500, "explore_kwargs": {"draws": 500}},
            {},
        ),
        "transforms": lambda: (transformed(), {"explore_kwargs": {"n_points": 1500}}, {}),
        "bounds of bounds": lambda: (
            bounds_of_bounds(),
            {"explore_kwargs": {"n_points": 1500}},
            {},
        ),
        "stuck chains": lambda: (lambda m: (m, {"explore": stuck(m)}, {}))(signs()),
        "rounds": lambda: (
            paper.build(),
            {"explore": exact(paper, 600), "rounds": 2, "round_draws": 80, "n_landmarks": 400},
            {},
        ),
        "fitted": lambda: (paper.build(), {"partition": fitted}, {}),
        "black box": lambda: (
            black_box(),
            {"explore_kwargs": {"n_points": 500, "n_rounds": 5}},
            {},
        ),
        "one mode": lambda: (targets.normal(5).build(), {}, {}),
        "hard walls": lambda: (
            targets.arcs().build(),
            {"explore_kwargs": {"n_points": 1000, "n_rounds": 6}, "n_landmarks": 600},
            {},
        ),
        "crossing, three cells": lambda: (
            targets.crossing().build(),
            {
                "explore": exact(targets.crossing()),
                "n_cells": 3,
                "partition_kwargs": {"extension": "nystrom"},
                "pool_fresh": False,
            },
            {},
        ),
        "ten dimensions": lambda: (
            targets.ten_d().build(),
            {"explore": exact(targets.ten_d()), "kernel_kwargs": {"target_accept": 0.9}},
            {},
        ),
        "NaN": lambda: (undefined_beyond(), {"explore_kwargs": {"n_points": 1000}}, {}),
    }


def digest(value) -> str:
    """Digest of an array's bytes, the sign of NaN and of zero left out."""
    value = np.asarray(value)
    if value.dtype.kind in "OUS":
        data = json.dumps([str(v) for v in value.ravel()]).encode()
    else:
        value = np.where(value == 0, 0, value)
        value = np.where(np.isnan(value), np.nan, value) if value.dtype.kind == "f" else value
        data = np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(str(value.shape).encode() + data).hexdigest()[:16]


def dataset(idata, name: str):
    """A group as a Dataset, or None."""
    names = idata.children if hasattr(idata, "children") else idata.groups()
    if name not in names:
        return None
    found = idata[name]
    return found.to_dataset() if hasattr(found, "to_dataset") else found


def run(make) -> dict[str, str]:
    """Run one case; return a digest of every array that a user sees."""
    model, options, how = make()
    with model:
        step = ps.SpectralPartitionStep(random_seed=7, progressbar=False, **options)
        idata = pm.sample(
            DRAWS,
            tune=TUNE,
            step=step,
            chains=step.n_cells * how.get("per_cell", 1),
            cores=1,
            random_seed=11,
            progressbar=False,
        )
    found = {"partition.labels_": digest(step.partition.labels_)}
    for group in (
        "posterior",
        "sample_stats",
        "cells",
        "cell_posterior",
        "cell_sample_stats",
        "cell_fresh",
        "partition",
        "exploration",
    ):
        data = dataset(idata, group)
        if data is None:
            continue
        for name, values in sorted(data.data_vars.items()):
            skipped = CLOCKS | (LEFT_OUT if group == "sample_stats" else set())
            if not any(clock in name for clock in skipped):
                found[f"{group}.{name}"] = digest(values.values)
    for name, table in (
        ("summary", ps.summary(idata, round_to=None)),
        ("cell_summary", ps.cell_summary(idata)),
        ("diagnose", ps.diagnose(idata)[["code", "severity", "cell", "value"]]),
    ):
        for column in table.columns:
            values = table[column]
            text = values.astype(str) if values.dtype.kind not in "fib" else values
            found[f"{name}.{column}"] = digest(text.to_numpy())
    found["efficiency"] = digest(efficiency_ratio(idata).to_numpy())
    return found


def main() -> int:
    """Write digests, or compare them with earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="file to write the digests to")
    parser.add_argument("--against", type=Path, help="file of digests to compare with")
    parser.add_argument("--only", nargs="*", help="names of cases")
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    found = {}
    for name, make in cases().items():
        if not arguments.only or name in arguments.only:
            found[name] = run(make)
            print(f"{name}: {len(found[name])} arrays", flush=True)
    if arguments.out:
        record = {**provenance(), "digests": found}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    if not arguments.against:
        return 0
    before = json.loads(arguments.against.read_text())["digests"]
    return compare(before, found)


def compare(before: dict, found: dict) -> int:
    """Print every array that differs; 1 if any does that was not meant to."""
    meant = {(case, key): reason for case, key, reason in MEANT}
    differ = 0
    for name, after in found.items():
        old = {RENAMED.get(key, key): value for key, value in before.get(name, {}).items()}
        for key in sorted(set(old) | set(after)):
            if old.get(key) == after.get(key):
                continue
            reason = meant.get((name, key)) or meant.get(("*", key))
            differ += reason is None
            state = "only before" if key not in after else "only after"
            state = "changed" if key in old and key in after else state
            print(f"{state}: {name}: {key}{f' (meant: {reason})' if reason else ''}")
    print(f"{sum(map(len, found.values()))} arrays in {len(found)} cases, {differ} differ unmeant")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
