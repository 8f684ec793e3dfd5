"""Evaluations per second: one batched call against a Python loop over PyMC's scalar logp.

    python benchmarks/batched_density.py [--points 64] [--out benchmarks/results]

Both start from the same (points, d) array, in the same process, in turn, and the median of several
repeats is taken; only the ratio means anything on another machine. ``loop`` turns every row into a
point and calls ``model.compile_logp()``; ``points ready`` has the points made beforehand, which an
explorer that works on arrays does not.
"""

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import pymc as pm
from provenance import save
from pymc.blocking import DictToArrayBijection, RaveledVars

from pymc_spectral import targets
from pymc_spectral.density.batched import batched_density


def hierarchical_regression(n_groups: int = 45, n_observations: int = 200) -> pm.Model:
    """Varying intercepts: 50 parameters, 200 observations."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_observations, 3))
    group = rng.integers(0, n_groups, n_observations)
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=n_groups)[group] + rng.normal(size=n_observations)
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 5, shape=3)
        between = pm.HalfNormal("between", 2)
        intercepts = pm.Normal("intercepts", 0, between, shape=n_groups)
        noise = pm.HalfNormal("noise", 2)
        pm.Normal("y", pm.math.dot(x, slopes) + intercepts[group], noise, observed=y)
    return model


def seconds_per_call(functions, repeats: int = 15, budget: float = 0.02) -> list[float]:
    """Median seconds of each function, measured in turn so that load hits all alike."""
    counts = []
    for function in functions:
        function()
        start = time.perf_counter()
        function()
        counts.append(max(1, int(budget / (time.perf_counter() - start))))
    times = np.empty((repeats, len(functions)))
    for i in range(repeats):
        for j, (function, count) in enumerate(zip(functions, counts, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                function()
            times[i, j] = (time.perf_counter() - start) / count
    return np.median(times, axis=0).tolist()


def measure(name: str, model: pm.Model, n_points: int) -> dict:
    """Time the loop and the batch on one model."""
    density = batched_density(model)
    initial = {v.name: model.initial_point()[v.name] for v in model.value_vars}
    raveled = DictToArrayBijection.map(initial)
    rng = np.random.default_rng(1)
    x = raveled.data + 0.5 * rng.standard_normal((n_points, density.d))
    logp = model.compile_logp()
    information = raveled.point_map_info

    def point(row):
        return DictToArrayBijection.rmap(RaveledVars(row, information))

    points = [point(row) for row in x]
    np.testing.assert_allclose(density.logp(x), [logp(p) for p in points], rtol=1e-8)
    loop, ready, batch, gradient = seconds_per_call(
        [
            lambda: [logp(point(row)) for row in x],
            lambda: [logp(p) for p in points],
            lambda: density.logp(x),
            lambda: density.logp_and_grad(x),
        ]
    )
    return {
        "model": name,
        "d": density.d,
        "points": n_points,
        "loop_per_second": n_points / loop,
        "batch_per_second": n_points / batch,
        "batch_with_gradient_per_second": n_points / gradient,
        "ratio": loop / batch,
        "ratio_points_ready": ready / batch,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--out", type=Path, help="folder for the JSON")
    arguments = parser.parse_args()
    models = {
        "paper2d": targets.paper2d().build(),
        "hierarchical regression": hierarchical_regression(),
        "docs_pair 80": targets.docs_pair(80).build(),
    }
    rows = [measure(name, model, arguments.points) for name, model in models.items()]
    print(f"PyMC {pm.__version__}, Python {platform.python_version()}, {arguments.points} points")
    print(f"{'model':26}{'d':>4}{'loop/s':>12}{'batch/s':>12}{'ratio':>8}{'points ready':>14}")
    for row in rows:
        print(
            f"{row['model']:26}{row['d']:>4}{row['loop_per_second']:>12.0f}"
            f"{row['batch_per_second']:>12.0f}{row['ratio']:>8.0f}{row['ratio_points_ready']:>14.0f}"
        )
    if arguments.out:
        series = pm.__version__.split(".")[0]
        save(arguments.out / f"batched_density_pymc{series}.json", {"rows": rows})


if __name__ == "__main__":
    main()
