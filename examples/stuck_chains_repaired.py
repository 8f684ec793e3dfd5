"""Chains that got stuck in different modes, and how to use them instead of throwing them away.

The model is one-compartment pharmacokinetics. A drug taken by mouth enters the blood at rate
``ka`` and leaves it at rate ``ke``; its concentration is the same when the two rates are swapped
and the volume is scaled ("flip-flop kinetics"), so that data alone cannot tell them apart. The
prior can, a little.

The main observations to make are:

- four chains of ``pm.sample`` disagree, ``r_hat`` says so, and their number in each mode, here two
  and two, is an accident of where they started;
- ``SpectralPartitionStep(explore=stuck)`` learns the modes from those very draws, without any other
  exploration, and weighs them; the modes that no chain visited would still be missed;
- the weights agree with those of a three-dimensional integral on a grid.
"""

import argparse
import logging

import arviz as az
import numpy as np
import pymc as pm

import pymc_spectral as ps

TIMES = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])
CONCENTRATION = np.array([1.41, 2.74, 3.65, 4.43, 4.32, 3.84, 3.34, 2.17, 1.52, 0.67])
DOSE, NOISE_SD = 100.0, 0.1
RATE_PRIOR = (-0.7, 1.0)  # mean and sd of log ka and of log ke
VOLUME_PRIOR = (np.log(20.0), 1.2)  # mean and sd of log volume


def log_concentration(log_ka, log_ke, log_volume, times, exp=np.exp, log=np.log, maths=np):
    """Log concentration; written so that swapping the rates is harmless at any time."""
    fast, slow = maths.maximum(log_ka, log_ke), maths.minimum(log_ka, log_ke)
    difference = exp(fast) - exp(slow)
    decay = -exp(slow) * times + log(1 - exp(-difference * times)) - log(difference)
    return np.log(DOSE) + log_ka - log_volume + decay


def flip_flop() -> pm.Model:
    with pm.Model() as model:
        log_ka = pm.Normal("log_ka", *RATE_PRIOR)
        log_ke = pm.Normal("log_ke", *RATE_PRIOR)
        log_volume = pm.Normal("log_volume", *VOLUME_PRIOR)
        mean = log_concentration(
            log_ka, log_ke, log_volume, TIMES, exp=pm.math.exp, log=pm.math.log, maths=pm.math
        )
        pm.Normal("log_c", mean, NOISE_SD, observed=np.log(CONCENTRATION))
    return model


def exact_weight_of_fast_absorption(n: int = 61) -> float:
    """Mass of ka > ke. The other mode is its mirror image, with the same likelihood."""

    def log_prior(value, mean, sd):
        return -0.5 * ((value - mean) / sd) ** 2

    grid = [np.linspace(*ends, n) for ends in ((-0.7, 0.9), (-2.2, -1.0), (2.2, 3.4))]
    a, e, v = np.meshgrid(*grid, indexing="ij")
    mean = log_concentration(a[..., None], e[..., None], v[..., None], TIMES)
    likelihood = (-0.5 * ((np.log(CONCENTRATION) - mean) / NOISE_SD) ** 2).sum(axis=-1)
    likelihood -= likelihood.max()
    here = log_prior(a, *RATE_PRIOR) + log_prior(e, *RATE_PRIOR) + log_prior(v, *VOLUME_PRIOR)
    # The mirror image of (a, e, v) is (e, a, v + e - a), and the map keeps volumes.
    there = here - log_prior(v, *VOLUME_PRIOR) + log_prior(v + e - a, *VOLUME_PRIOR)
    fast, slow = np.exp(likelihood + here).sum(), np.exp(likelihood + there).sum()
    return fast / (fast + slow)


def main() -> None:
    parser = argparse.ArgumentParser(description="Repair a run whose chains got stuck.")
    parser.add_argument("--quick", action="store_true", help="few draws, for tests")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    size = {"tune": 300, "draws": 300} if arguments.quick else {"tune": 1000, "draws": 1000}
    logging.getLogger("pymc").setLevel(logging.ERROR)
    # Dispersed starts, as one should: rates of absorption and elimination both ways round.
    starts = [
        {"log_ka": fast, "log_ke": slow, "log_volume": volume}
        for fast, slow, volume in ((1, -2, 3), (0, -1, 3), (-2, 1, 1), (-1, 0, 1))
    ]

    with flip_flop():
        stuck = pm.sample(
            **size, chains=4, initvals=starts, random_seed=arguments.seed, progressbar=False
        )
        print("Four plain chains:\n")
        print(az.summary(stuck).to_string())
        fast = (stuck.posterior["log_ka"] > stuck.posterior["log_ke"]).mean()
        print(f"\nShare of draws with ka > ke, an accident of the starts: {float(fast):.3f}")

        step = ps.SpectralPartitionStep(
            explore=stuck, random_seed=arguments.seed, progressbar=False
        )
        idata = pm.sample(
            **size, step=step, chains=step.n_cells, random_seed=arguments.seed, progressbar=False
        )

    print("\nThe same draws used to explore, then one chain per cell:\n")
    print(ps.cell_summary(idata, round_to=3).to_string())
    print("\n", ps.summary(idata).to_string(), sep="")
    fast = (idata.posterior["log_ka"] > idata.posterior["log_ke"]).mean()
    print(f"\nShare of draws with ka > ke: {float(fast):.3f}")
    print(f"By integration on a grid:    {exact_weight_of_fast_absorption():.3f}")


if __name__ == "__main__":
    main()
