"""Four modes, plain chains and the spectral partition side by side.

The main observations to make are:

- squares hide signs, so the posterior has four modes; plain chains each stay in one of them, and
  counting their draws says nothing about how much mass a mode holds;
- with ``SpectralPartitionStep`` every mode has its own chain, and its weight comes with an error;
- the weights agree with the exact ones, which one-dimensional integrals give here.

Run it with ``python3 dev.py example``; the picture goes to ``quickstart.png``.
"""

import argparse
import logging
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy.integrate import quad

import pymc_spectral as ps

OBSERVED = (4.0, 3.0)
PRIOR_MEAN, PRIOR_SD, NOISE_SD = 0.3, 2.0, 0.5


def squares() -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", mu=PRIOR_MEAN, sigma=PRIOR_SD, shape=2)
        pm.Normal("y", mu=x**2, sigma=NOISE_SD, observed=OBSERVED)
    return model


def exact_weight(signs: np.ndarray) -> float:
    """Mass of the quadrant with these signs: the coordinates are independent."""

    def density(x: float, observed: float) -> float:
        prior = (x - PRIOR_MEAN) / PRIOR_SD
        return np.exp(-0.5 * prior**2 - 0.5 * ((observed - x**2) / NOISE_SD) ** 2)

    weight = 1.0
    for sign, observed in zip(signs, OBSERVED, strict=True):
        positive, negative = (
            quad(density, *ends, args=(observed,))[0] for ends in ((0, 5), (-5, 0))
        )
        weight *= (positive if sign > 0 else negative) / (positive + negative)
    return weight


def picture(plain, idata, path: str) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharex=True, sharey=True, layout="tight")
    colors = plt.get_cmap("tab10").colors
    for chain, draws in enumerate(plain.posterior["x"].values):
        axes[0].plot(*draws.T, ".", ms=3, alpha=0.5, color=colors[chain], label=f"chain {chain}")
    axes[0].set_title("pm.sample(): each chain stays where it started", fontsize=11)
    axes[0].legend(loc="center", frameon=False, markerscale=3)

    draws = idata.posterior["x"].values.reshape(-1, 2)
    cell_of_draw = idata.sample_stats["cell"].values.ravel()
    for cell, row in ps.cell_summary(idata).iterrows():
        mine = draws[cell_of_draw == cell]
        axes[1].plot(*mine.T, ".", ms=3, alpha=0.5, color=colors[cell])
        center = row[["x[0]", "x[1]"]].to_numpy(dtype=float)
        text = f"{row['weight']:.3f} ± {row['weight_mcse']:.3f}\nexact {exact_weight(center):.3f}"
        axes[1].annotate(text, center * [0.5, 0.42], ha="center", va="center", color=colors[cell])
    axes[1].set_title("SpectralPartitionStep(): weights, with errors", fontsize=11)
    for axis in axes:
        axis.set(xlabel="x[0]", ylabel="x[1]")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Four modes sampled with and without partition.")
    parser.add_argument("--out", default="quickstart.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="few draws, for tests")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    size = {"tune": 300, "draws": 300} if arguments.quick else {"tune": 1000, "draws": 1000}
    logging.getLogger("pymc").setLevel(logging.ERROR)
    # A PyTensor from pip finds no BLAS on most machines; a model this small does not miss it.
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")

    with squares():
        print("Four plain chains ...", flush=True)
        plain = pm.sample(**size, chains=4, random_seed=arguments.seed, progressbar=False)
        print("Exploring, then one chain per cell ...", flush=True)
        step = ps.SpectralPartitionStep(random_seed=arguments.seed, progressbar=False)
        print(f"{step.n_cells} cells found.")
        idata = pm.sample(
            **size, step=step, chains=step.n_cells, random_seed=arguments.seed, progressbar=False
        )

    cells = ps.cell_summary(idata)
    cells.insert(2, "exact", [exact_weight(row) for row in cells[["x[0]", "x[1]"]].to_numpy()])
    print("\nEach mode, its weight, and what the weight should be:\n")
    print(cells.round(3).to_string())
    print("\nThe whole posterior:\n")
    print(ps.summary(idata).to_string())
    print(
        f"\nLog marginal likelihood: {float(idata['cells']['log_marginal_likelihood']):.3f} "
        f"± {float(idata['cells']['log_marginal_likelihood_mcse']):.3f}"
    )
    picture(plain, idata, arguments.out)
    print(f"Picture: {arguments.out}")


if __name__ == "__main__":
    main()
