"""A mixture model with its label switching left in.

The components of a mixture can be numbered in K! ways, and the posterior has one mode for each.
Usually one forbids all but one by an ordering, which bends the prior where components overlap. Here
nothing is forbidden.

The main observations to make are:

- six labelings are found, and each weighs 1/6 within its error, though nothing told the step
  that they must be equal: a check of the whole method that costs nothing;
- the log marginal likelihood holds the log 6 that is lost when one labeling is taken for all;
- quantities that do not depend on the labels, such as the sorted means, are estimated from all six.
"""

import argparse
import logging
from math import factorial, log

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_spectral as ps
from pymc_spectral.targets import LABELS_DATA, labels

K = 3


def mixture() -> pm.Model:
    lengths = LABELS_DATA[:K].ravel()  # body lengths of fish of three year classes, in cm
    with pm.Model(coords={"component": range(K)}) as model:
        mu = pm.Normal("mu", 20, 8, dims="component")
        pm.Deterministic("sorted_mu", pt.sort(mu), dims="component")
        pm.NormalMixture("y", w=np.full(K, 1 / K), mu=mu, sigma=1.2, observed=lengths)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Label switching left in, and weighed.")
    parser.add_argument("--quick", action="store_true", help="few draws, for tests")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    size = {"tune": 300, "draws": 300} if arguments.quick else {"tune": 1000, "draws": 1000}
    logging.getLogger("pymc").setLevel(logging.ERROR)

    with mixture():
        step = ps.SpectralPartitionStep(random_seed=arguments.seed, progressbar=False)
        idata = pm.sample(
            **size, step=step, chains=step.n_cells, random_seed=arguments.seed, progressbar=False
        )

    print(f"{step.n_cells} cells; there are {factorial(K)} labelings.\n")
    print(ps.cell_summary(idata, var_names="mu", round_to=4).to_string())
    print("\n", ps.summary(idata).to_string(), sep="")

    cells, truth = idata["cells"], labels(K).log_z
    print(
        f"\nLog marginal likelihood: {float(cells['log_marginal_likelihood']):.3f} "
        f"± {float(cells['log_marginal_likelihood_mcse']):.3f}"
        f"\nBy integration on a grid: {truth:.3f}, of one labeling {truth - log(factorial(K)):.3f}"
    )


if __name__ == "__main__":
    main()
