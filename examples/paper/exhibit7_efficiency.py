"""Section 2: the condition for beating naive parallel chains, estimated from a finished run.

The main observations to make are:

- ``pymc_spectral.efficiency_ratio`` recovers the left side of the paper's inequality, which exact
  spectra give for this target, from the draws of the cells alone once the gap of the unrestricted
  kernel is known;
- without that gap it answers with an upper bound, from how often chains try to leave their cells.

The target is that of exhibit 1(a): half N(-1, 0.4), half N(1, 0.4), tau = 0.2, cut at 0.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import GRAY, OURS, QUIET, THEIRS, line, pair_density, run, spectral_gap
from exhibit6_consistency import SIGMA, TARGET, TAU, cut_at, make_step
from pymc.step_methods.metropolis import UniformProposal

import pymc_spectral as ps

SPACING = 0.01


def exact():
    """Ratio, gap of the whole chain, and the bound of that gap by trials to leave a cell."""
    x = line(1 + 6 * SIGMA, SPACING)
    density, width = pair_density(x, SIGMA), round(TAU / SPACING)
    right = x > 0
    gap, cell_gap = spectral_gap(density, width), spectral_gap(density[right], width)
    # Share of a proposal's 2 width + 1 bins that lie left of 0, averaged over the right cell.
    outside = np.clip(width - np.arange(right.sum()), 0, None) / (2 * width + 1)
    trials = density[right] @ outside / density[right].sum()
    # Both cells have mass 1/2 and the same norm of h.
    return {"gap": gap, "cell_gap": cell_gap, "ratio": gap / cell_gap,
            "gap_bound": 2 * trials, "ratio_bound": 2 * trials / cell_gap}  # fmt: skip


def exhibit(quick: bool, seed: int, repeats: int | None = None):
    truth = exact()
    repeats = repeats or (4 if quick else 20)
    draws = 5000 if quick else 10_000
    with TARGET.build():
        step = make_step(cut_at(0.0), seed)
        idata = pm.sample(
            draws=draws, tune=0, step=step, chains=2 * repeats, random_seed=seed, **QUIET
        )
        # Long enough to travel between the modes many times: what a plain run would have to be.
        free = pm.Metropolis(S=np.array([TAU]), proposal_dist=UniformProposal, tune=False)
        plain = pm.sample(
            draws=5 * draws, tune=0, step=free, chains=2 * repeats, random_seed=seed, **QUIET
        )
    known, bound, by_run = [], [], []
    for r in range(repeats):
        mine = [2 * r, 2 * r + 1]
        one = ps.reweight(idata.isel(chain=mine))
        known.append(ps.efficiency_ratio(one, naive=truth["gap"]).loc["x", "ratio"])
        bound.append(ps.efficiency_ratio(one).loc["x", "ratio"])
        by_run.append(ps.efficiency_ratio(one, naive=plain.isel(chain=mine)).loc["x", "ratio"])
    estimates = {"known_gap": known, "plain_run": by_run, "bound": bound}
    numbers = {
        "exact": truth,
        "draws": draws,
        "repeats": repeats,
        "estimates": {
            k: {"mean": np.mean(v), "sd": np.std(v, ddof=1), "values": v}
            for k, v in estimates.items()
        },
    }
    figure, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
    names = ["gap known", "gap from a plain run", "default: bound\nfrom boundary hits"]
    rng = np.random.default_rng(0)
    for k, values in enumerate(estimates.values()):
        height = k + rng.uniform(-0.15, 0.15, size=repeats)
        axis.semilogx(values, height, "o", ms=5, color=OURS, alpha=0.6)
    below_legend = {"ymax": 0.85}
    axis.axvline(
        truth["ratio"], color=THEIRS, label=f"exact ratio {truth['ratio']:.3f}", **below_legend
    )
    bound_label = f"exact bound {truth['ratio_bound']:.3f}"
    axis.axvline(truth["ratio_bound"], color=THEIRS, ls="--", label=bound_label, **below_legend)
    axis.axvline(1, color=GRAY, ls=":", label="as good as naive chains", **below_legend)
    axis.set_yticks(range(3), names)
    ticks = [0.03, 0.05, 0.1, 0.2, 0.5, 1]
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axis.minorticks_off()
    axis.set(xlabel="efficiency ratio (below 1: partitioning wins)", ylim=(-0.6, 3.6),
             title=f"efficiency_ratio() of {repeats} runs of {draws:,} draws per cell")  # fmt: skip
    axis.legend(frameon=False, loc="upper center", ncols=3, fontsize=9)
    return numbers, figure


if __name__ == "__main__":
    run("exhibit7", exhibit, __doc__.splitlines()[0])
