"""Section 4.1: the estimate converges whatever the partition; a bad one only takes longer.

The main observations to make are:

- with a cut between the modes the error falls like 1 / sqrt(T) from the start;
- with a random cut, one cell holds both modes: its chain needs long to travel between them, and
  the error begins to fall like 1 / sqrt(T) only when it has done so. Both converge, as the theorem
  says.

The target is half N(-1, 0.4), half N(1, 0.4), the kernel Metropolis with a uniform proposal of
half-width 0.2; weights are estimated from the same draws as the means, by the geometric bridge.
The theorem is for a bounded space, which this is not. The random cut is a draw from the target,
drawn again if it falls between the modes, where it would be no bad cut.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import GRAY, OURS, QUIET, THEIRS, run
from pymc.step_methods.metropolis import UniformProposal

import pymc_spectral as ps
from pymc_spectral.targets import pair1d

SIGMA, TAU = 0.4, 0.2
LATE = 2048
TARGET = pair1d(SIGMA)


def cut_at(place: float) -> ps.KMeansPartition:
    """Partition of the line into what lies left and right of a place: two centers around it."""
    return ps.KMeansPartition(2, standardize=False).fit([[place - 0.5], [place + 0.5]])


def make_step(partition, seed: int) -> ps.SpectralPartitionStep:
    return ps.SpectralPartitionStep(
        partition=partition,
        kernel="metropolis",
        kernel_kwargs={"S": np.array([TAU]), "proposal_dist": UniformProposal, "tune": False},
        bridge="geometric",
        proposal="student",
        jumps=0,
        random_seed=seed,
        progressbar=False,
    )


def errors(partition, lengths, repeats, seed):
    """Absolute error of the mean after each length, for every repeat."""
    found = np.empty((repeats, len(lengths)))
    with TARGET.build():
        step = make_step(partition, seed)
        idata = pm.sample(
            draws=lengths[-1], tune=0, step=step, chains=2 * repeats, random_seed=seed, **QUIET
        )
    for r in range(repeats):
        for k, T in enumerate(lengths):
            # Two chains of the call, one in each cell, and their first T draws.
            part = ps.reweight(idata.isel(chain=[2 * r, 2 * r + 1], draw=slice(T)))
            weights = part["cells"]["weight"].values
            means = part["cell_posterior"]["x"].values.mean(axis=1)
            found[r, k] = abs(weights @ means - TARGET.mean[0])
    return found


def late_slope(lengths, found, rng):
    """Slope of the root mean square error on log-log axes, and its error by the bootstrap."""
    late = [k for k, T in enumerate(lengths) if LATE <= T] if lengths[-1] > LATE else [-2, -1]
    x = np.log(np.array(lengths)[late])

    def slope(rows):
        return np.polyfit(x, 0.5 * np.log((rows[:, late] ** 2).mean(axis=0)), 1)[0]

    again = [slope(found[rng.integers(len(found), size=len(found))]) for _ in range(500)]
    return float(slope(found)), float(np.std(again))


def exhibit(quick: bool, seed: int, repeats: int | None = None):
    repeats = repeats or (2 if quick else 24)
    lengths = [250, 500] if quick else [2**k for k in range(8, 16)]
    random_cut = float(TARGET.sample(np.random.default_rng(seed), 1)[0, 0])
    while abs(random_cut) < 0.5:  # a draw that happens to fall between the modes is no bad cut
        seed += 1
        random_cut = float(TARGET.sample(np.random.default_rng(seed), 1)[0, 0])
    cuts = {"good": 0.0, "bad": random_cut}
    numbers = {"lengths": lengths, "repeats": repeats, "cuts": cuts, "late": LATE}
    figure, axis = plt.subplots(figsize=(7.5, 5.6), layout="constrained")
    for (name, place), color in zip(cuts.items(), (OURS, THEIRS), strict=True):
        found = errors(cut_at(place), lengths, repeats, seed)
        rms = np.sqrt((found**2).mean(axis=0))
        slope, slope_error = late_slope(lengths, found, np.random.default_rng(seed))
        numbers[name] = {"rms": rms, "late_slope": slope, "late_slope_error": slope_error}
        beside = np.array(lengths) * (0.96 if name == "good" else 1.04)
        axis.loglog(beside, found.T, ".", ms=4, color=color, alpha=0.35)
        label = f"cut at {place:.2f}: slope {slope:.2f} ± {slope_error:.2f} from T = {LATE:,} on"
        axis.loglog(lengths, rms, "o-", color=color, label=label)
        reference = rms[-1] * np.sqrt(lengths[-1] / np.array(lengths))
        axis.loglog(lengths, reference, color=GRAY, lw=0.8, ls=":")
    axis.plot([], [], color=GRAY, lw=0.8, ls=":", label="1 / √T")
    axis.plot([], [], ".", color=GRAY, ms=4, label="single repeats; lines: root mean square")
    axis.set(xlabel="draws per cell T",
             ylabel="absolute error of the mean",
             title="Good and bad cut of half N(-1, 0.4), half N(1, 0.4)")  # fmt: skip
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return numbers, figure


if __name__ == "__main__":
    run("exhibit6", exhibit, __doc__.splitlines()[0])
