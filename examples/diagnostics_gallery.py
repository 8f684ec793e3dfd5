"""Pictures of healthy and of sick results, and what the diagnostics say of each.

The main observations to make are:

- in health there is nothing to read: no warnings, weights that agree with the shares of tempering's
  points, swaps accepted at all temperatures;
- two modes in one cell and a boundary through a mode are found and said; a mode that was never
  explored is seen only if a chain strays there;
- colors and markers of a cell are the same in every picture, with 2 parameters as with 30.

Run it as ``python3 examples/diagnostics_gallery.py --out docs/images`` to make the pictures anew.
"""

import argparse
import logging
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_spectral as ps
from pymc_spectral import targets

logging.getLogger("pymc").setLevel(logging.ERROR)
# A PyTensor from pip finds no BLAS on most machines; models this small do not miss it.
warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")


def thirty() -> pm.Model:
    """Thirty parameters: two levels known by their squares only, 27 groups, one scale."""
    rng = np.random.default_rng(1)
    with pm.Model(coords={"group": range(27)}) as model:
        level = pm.Normal("level", mu=0.3, sigma=2, shape=2)
        effect = pm.Normal("effect", level[np.arange(27) % 2], 0.5, dims="group")
        noise = pm.HalfNormal("noise", 1)
        pm.Normal("squares", mu=level**2, sigma=0.5, observed=[4.0, 3.0])
        pm.Normal("y", effect**2, 1.0 + noise, observed=3.5 + rng.normal(0, 1, 27))
    return model


def run(model: pm.Model, size: dict[str, int], per_cell: int = 1, **options):
    with model:
        step = ps.SpectralPartitionStep(random_seed=1, progressbar=False, **options)
        return pm.sample(
            **size,
            step=step,
            chains=per_cell * step.n_cells,
            cores=1,
            random_seed=1,
            progressbar=False,
        )


def say(title: str, idata) -> None:
    print(f"\n{title}")
    findings = ps.diagnose(idata)
    for _, row in findings.iterrows():
        print(f"  {row['severity']:7} {row['code']:20} {row['message']}")
    if findings.empty:
        print("  nothing to say")


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of healthy and of sick results.")
    parser.add_argument("--out", default=".", help="folder for the pictures")
    parser.add_argument("--quick", action="store_true", help="few draws, for tests")
    arguments = parser.parse_args()
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    size = {"tune": 300, "draws": 300} if arguments.quick else {"tune": 1000, "draws": 1000}
    short = {"n_rounds": 6} if arguments.quick else {}

    def save(name: str) -> None:
        plt.gcf().savefig(folder / f"{name}.png", dpi=90)
        plt.close("all")

    target = targets.paper2d()
    healthy = run(target.build(), size, explore_kwargs=short)
    say("Four modes in two dimensions, explored by tempering", healthy)
    for name in ("overview", "partition", "weights", "spectrum", "tempering", "cells"):
        getattr(ps, f"plot_{name}")(healthy)
        save(f"plot_{name}")

    # Jumps would cross the valleys inside the cells.
    two_in_one = run(target.build(), size, per_cell=2, n_cells=2, jumps=0, explore_kwargs=short)
    say("The same with n_cells=2, jumps=0: cells that hold several modes", two_in_one)
    ps.plot_overview(two_in_one)
    save("several_modes")

    cut = run(
        targets.normal(2).build(),
        size,
        n_cells=3,
        explore=targets.normal(2).sample(np.random.default_rng(1), 2000),
    )
    say("One normal in three cells: boundaries through mass", cut)
    _, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    ps.plot_partition(cut, ax=axes[0])
    ps.plot_spectrum(cut, kind="valleys", ax=axes[1])
    save("boundary")

    points = target.sample(np.random.default_rng(1), 4000)
    points = points[target.classify(points) != 1]
    missed = run(target.build(), size, explore=points)
    say("Points of three of the four modes only: seen if a chain strays", missed)
    ps.plot_partition(missed)
    save("missed_mode")

    many = run(thirty(), size, explore_kwargs=short)
    say("Thirty parameters", many)
    ps.plot_overview(many)
    save("overview_30")
    ps.plot_cells(many)
    save("cells_30")
    ps.plot_partition(many, var_names=["level[0]", "level[1]"])
    save("partition_30")
    print(f"\nPictures: {folder}")


if __name__ == "__main__":
    main()
