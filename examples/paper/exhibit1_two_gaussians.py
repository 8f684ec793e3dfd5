"""Section 2, Example 1: why cutting between two modes pays, from exact spectra.

The main observations to make are:

- the cut that minimizes the weighted inverse spectral gaps, what a sampler wants, is also the one
  that minimizes the conductance, what spectral clustering looks for;
- the narrower the modes, the more a partition gains over naive parallel chains, exponentially;
- the gain survives cuts far away from the best one: for the plain mean it is all but complete over
  a wide range, in the worst case it falls off at once but stays a gain nearly to the mode.

The target is half N(-1, sigma), half N(1, sigma), the kernel Metropolis with a uniform proposal of
half-width tau = 0.2; the line is cut into bins and eigenvalues of the transition matrix are exact.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import (
    GRAY,
    OURS,
    THEIRS,
    asymptotic_variance,
    line,
    metropolis,
    pair_density,
    run,
    spectral_gap,
)

TAU = 0.2
SPACING = 0.01


def two_cells(x, density, cut, width):
    """Masses and gaps of the cells left and right of a cut, and the flow between them."""
    left = x <= cut
    w = density[left].sum() / density.sum()
    gaps = [spectral_gap(density[left], width), spectral_gap(density[~left], width)]
    kernel = metropolis(density, width)
    flow = density[left] @ kernel[np.ix_(left, ~left)].sum(axis=1) / density.sum()
    return np.array([w, 1 - w]), np.array(gaps), flow


def objectives(cuts, sigma=0.4, spacing=SPACING):
    """Weighted inverse gaps, and the conductance, at each cut."""
    x = line(1 + 6 * sigma, spacing)
    density, width = pair_density(x, sigma), round(TAU / spacing)
    sampler, clustering = [], []
    for cut in cuts:
        w, gaps, flow = two_cells(x, density, cut, width)
        sampler.append(np.sum(w / gaps))
        clustering.append(flow / (w[0] * w[1]))
    return np.array(sampler), np.array(clustering)


def efficiency(sigma, spacing=SPACING):
    """Bound and exact value, for h(x) = x, of Var(partitioned) / Var(naive); the cut is at 0."""
    x = line(1 + 6 * sigma, spacing)
    density, width = pair_density(x, sigma), round(TAU / spacing)
    right = x > 0
    gap, cell_gap = spectral_gap(density, width), spectral_gap(density[right], width)
    # n w^2 (1 - lambda) / (1 - lambda_i), summed over two equal cells with equal norms of h.
    bound = gap / cell_gap
    naive = asymptotic_variance(density, width, x) / 2
    partitioned = 2 * 0.25 * asymptotic_variance(density[right], width, x[right])
    return {"gap": gap, "cell_gap": cell_gap, "bound": bound, "exact": partitioned / naive}


def moving_cut(cuts, sigma=0.15, spacing=SPACING):
    """T Var as the cut moves, and of naive chains: for the worst h of norm 1, and for h(x) = x.

    The worst h of the partitioned estimator lives in the cell of largest w / gap.
    """
    x = line(1 + 6 * sigma, spacing)
    density, width = pair_density(x, sigma), round(TAU / spacing)
    norm = density @ x**2 / density.sum()
    worst, plain = [], []
    for cut in cuts:
        w, gaps, _ = two_cells(x, density, cut, width)
        worst.append(2 * np.max(w / gaps))
        sides = (x <= cut, x > cut)
        variances = [asymptotic_variance(density[side], width, x[side]) for side in sides]
        plain.append(w**2 @ variances / norm)
    naive = {"worst": 1 / spectral_gap(density, width),
             "plain": asymptotic_variance(density, width, x) / 2 / norm}  # fmt: skip
    return {"worst": np.array(worst), "plain": np.array(plain)}, naive


def exhibit(quick: bool, seed: int):
    spacing = 0.04 if quick else SPACING
    cuts = np.linspace(-1.2, 1.2, 13 if quick else 61)
    sampler, clustering = objectives(cuts, spacing=spacing)
    sigmas = np.linspace(0.15, 0.4, 6 if quick else 26)
    table = [efficiency(s, spacing) for s in sigmas]
    moved = np.linspace(0, 1.4, 8 if quick else 71)  # multiples of the bins' width
    variance, naive = moving_cut(moved, spacing=spacing)

    def up_to(good):
        """Largest cut up to which all are good."""
        return moved[np.argmin(np.append(good, False)) - 1]

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    for values, color, name in (
        (sampler, OURS, "sampler: sum of w / gap"),
        (clustering, THEIRS, "clustering: sum of w × conductance"),
    ):
        axes[0].plot(cuts, values / values.min(), color=color, label=name)
    axes[0].set(
        xlabel="cut point", ylabel="objective / its minimum", yscale="log",
        title="(a) two objectives, σ = 0.4, τ = 0.2",
    )  # fmt: skip
    axes[0].axvline(0, ymax=0.8, color=GRAY, lw=0.8, ls=":")
    axes[0].set_ylim(0.85, 70)
    axes[0].legend(frameon=False, loc="upper center")
    log_bound = np.log([t["bound"] for t in table])
    log_exact = np.log([t["exact"] for t in table])
    axes[1].plot(sigmas, log_bound, color=OURS, label="bound (worst h)")
    axes[1].plot(sigmas, log_exact, color=THEIRS, ls="--", label="exact, h(x) = x")
    axes[1].set(
        xlabel="σ", ylabel="ln (Var partitioned / Var naive)",
        title="(b) efficiency ratio, cut at 0, τ = 0.2",
    )  # fmt: skip
    axes[1].legend(frameon=False)
    for kind, name, style in (("worst", "worst h", "-"), ("plain", "h(x) = x", "--")):
        axes[2].plot(moved, 1 / variance[kind], color=OURS, ls=style, label=f"cut at R, {name}")
    # h(x) = x is all but the worst h of naive chains: a second line would lie upon this one.
    axes[2].axhline(1 / naive["worst"], color=GRAY, ls="-.", label="naive chains, either h")
    axes[2].set(
        xlabel="cut point R", ylabel="1 / (T Var)", yscale="log",
        title="(c) a cut away from 0, σ = 0.15, τ = 0.2",
    )  # fmt: skip
    axes[2].legend(frameon=False, loc="upper right", fontsize=9)

    middle = int(np.argmin(np.abs(sigmas - 0.25)))
    numbers = {
        "a": {
            "cuts": cuts,
            "sampler": sampler,
            "clustering": clustering,
            "minimizer_sampler": cuts[np.argmin(sampler)],
            "minimizer_clustering": cuts[np.argmin(clustering)],
        },
        "b": {
            "sigma": sigmas,
            "log_bound": log_bound,
            "log_exact": log_exact,
            "gain_bound_at_0.15": 1 / table[0]["bound"],
            "gain_bound_at_0.25": 1 / table[middle]["bound"],
            "gain_bound_at_0.4": 1 / table[-1]["bound"],
            "gain_exact_at_0.15": 1 / table[0]["exact"],
            "gain_exact_at_0.25": 1 / table[middle]["exact"],
            "gain_exact_at_0.4": 1 / table[-1]["exact"],
        },
        "c": {
            "cut": moved,
            **{f"inverse_{kind}": 1 / variance[kind] for kind in variance},
            **{f"inverse_naive_{kind}": 1 / naive[kind] for kind in naive},
            **{
                f"{kind}_within_factor_2_up_to": up_to(variance[kind] < 2 * variance[kind].min())
                for kind in variance
            },
            **{
                f"{kind}_ahead_of_naive_up_to": up_to(variance[kind] < naive[kind])
                for kind in variance
            },
        },
    }
    return numbers, figure


if __name__ == "__main__":
    run("exhibit1", exhibit, __doc__.splitlines()[0])
