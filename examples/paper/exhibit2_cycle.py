"""Section 2, Example 2: a random walk on a cycle, where nothing is multimodal and cutting pays.

The main observations to make are:

- with n chains, the variance of the naive estimator falls like 1 / n, that of the partitioned one
  like 1 / n^3, although the target is flat and no partition is better than its rotations;
- both grow with the square of the length m of the cycle;
- unequal parts are worse than equal ones, yet better than naive chains for long. The paper says
  that parts of smaller order than 1 / sqrt(n) suffice; with one large part and n - 1 small ones,
  that part may hold up to (4 n)^(-1/4) of the cycle.

Every variance is measured over independent chains started in equilibrium, and set beside the exact
one, that of long chains. The function h, of norm 1, is the slowest of each estimator: cos(2 pi x/m)
for the whole cycle, cos(pi (x + 1/2) / k) on a part of k vertices. With equal parts this is the
bounds' worst case.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import GRAY, OURS, THEIRS, run


def whole(m: int) -> tuple[np.ndarray, float]:
    """Slowest function of the cycle, and its asymptotic variance (1 + lambda) / (1 - lambda)."""
    h = np.sqrt(2) * np.cos(2 * np.pi * np.arange(m) / m)
    eigenvalue = (1 + 2 * np.cos(2 * np.pi / m)) / 3
    return h, (1 + eigenvalue) / (1 - eigenvalue)


def part(k: int) -> tuple[np.ndarray, float]:
    """Slowest function of a path of k vertices whose ends reject, and its asymptotic variance."""
    if k == 1:
        return np.zeros(1), 0.0
    h = np.sqrt(2) * np.cos(np.pi * (np.arange(k) + 0.5) / k)
    eigenvalue = (1 + 2 * np.cos(np.pi / k)) / 3
    return h, (1 + eigenvalue) / (1 - eigenvalue)


def walk(h: np.ndarray, closed: bool, n_chains: int, T: int, rng: np.random.Generator):
    """Mean of h over T steps, for many chains at once."""
    m = len(h)
    x = rng.integers(m, size=n_chains)
    total = np.zeros(n_chains)
    for _ in range(T):
        x = x + rng.integers(-1, 2, size=n_chains)
        x = x % m if closed else np.clip(x, 0, m - 1)  # a step past an end stays at the end
        total += h[x]
    return total / T


def naive(m, n, T, repeats, rng):
    """Measured and exact T Var of the average over n free chains."""
    h, exact = whole(m)
    means = walk(h, True, n * repeats, T, rng).reshape(repeats, n).mean(axis=1)
    return T * means.var(ddof=1), exact / n


def partitioned(sizes, T, repeats, rng):
    """Measured and exact T Var of the weighted sum over parts."""
    m = sum(sizes)
    estimate, exact = np.zeros(repeats), 0.0
    for size in sorted(set(sizes)):
        count = sizes.count(size)
        h, variance = part(size)
        means = walk(h, False, count * repeats, T, rng).reshape(repeats, count)
        estimate += means.sum(axis=1) * size / m
        exact += count * (size / m) ** 2 * variance
    return T * estimate.var(ddof=1), exact


def unequal(m: int, n: int, largest: int) -> list[int]:
    """One part of a given size, the others as equal as can be."""
    rest, k = m - largest, n - 1
    return [largest, *(rest // k + (j < rest % k) for j in range(k))]


def slope(x, y) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def exhibit(quick: bool, seed: int, repeats: int | None = None):
    rng = np.random.default_rng(seed)
    repeats = repeats or (60 if quick else 500)
    T = 1500 if quick else 20_000
    lengths = [48] if quick else [48, 96]
    parts = [2, 4, 8, 16] if not quick else [2, 4, 8]
    table = []
    for m in lengths:
        for n in parts:
            free = naive(m, n, T, repeats, rng)
            cut = partitioned([m // n] * n, T, repeats, rng)
            table.append({"m": m, "n": n, "naive": free[0], "naive_exact": free[1],
                          "partitioned": cut[0], "partitioned_exact": cut[1]})  # fmt: skip
    slopes = {}
    for m in lengths:
        rows = [t for t in table if t["m"] == m]
        n = [t["n"] for t in rows]
        measured = [k for k in rows[0] if k not in ("m", "n")]
        slopes[m] = {k: slope(n, [t[k] for t in rows]) for k in measured}

    m, n = lengths[-1], 8 if not quick else 4
    sizes = np.unique(np.linspace(m // n, 0.9 * m, 4 if quick else 10).astype(int))
    uneven = []
    for largest in sizes:
        measured, exact = partitioned(unequal(m, n, int(largest)), T, repeats, rng)
        uneven.append({"share": largest / m, "partitioned": measured, "partitioned_exact": exact})
    reference = naive(m, n, T, repeats, rng)
    fine = np.arange(m // n, m - n)
    exact = np.array([partitioned(unequal(m, n, int(k)), 1, 2, rng)[1] for k in fine])
    crossing = fine[exact < reference[1]].max() / m

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for k, m_ in enumerate(lengths):
        rows = [t for t in table if t["m"] == m_]
        n_ = np.array([t["n"] for t in rows])
        for key, color in (("naive", THEIRS), ("partitioned", OURS)):
            axes[0].loglog(n_, [t[key + "_exact"] for t in rows], color=color, lw=1,
                           ls=["-", "--"][k])  # fmt: skip
            # Hollow where both fall on one point, so that either can be seen.
            face = "none" if key == "naive" else color
            size = 9 if key == "naive" else 5
            axes[0].loglog(n_, [t[key] for t in rows], "os"[k], color=color, mfc=face, ms=size)
            axes[0].plot([], [], "os"[k], ls=["-", "--"][k], color=color, mfc=face, ms=size, lw=1,
                         label=f"{key}, m = {m_}: slope {slopes[m_][key]:.2f}")  # fmt: skip
    axes[0].set(xlabel="number of chains n", ylabel="T × variance",
                title="Equal parts: measured (points), exact (lines)")  # fmt: skip
    axes[0].set_xticks(parts, [str(p) for p in parts])
    axes[0].minorticks_off()
    axes[0].legend(frameon=False, fontsize=9)
    axes[1].semilogy(fine / m, exact, color=OURS, lw=1, label="exact")
    axes[1].semilogy([u["share"] for u in uneven], [u["partitioned"] for u in uneven], "o",
                     color=OURS, label="measured")  # fmt: skip
    axes[1].axhline(reference[1], color=THEIRS, label="naive")
    axes[1].axvline(n**-0.5, color=GRAY, ls=":", label="1 / √n")
    axes[1].axvline((4 * n) ** -0.25, color=GRAY, ls="--", label=r"$(4n)^{-1/4}$")
    axes[1].set(xlabel="share of the largest part", ylabel="T × variance",
                title=f"Unequal parts, m = {m}, n = {n}")  # fmt: skip
    axes[1].legend(frameon=False, loc="lower right")
    numbers = {
        "T": T, "repeats": repeats, "table": table, "slopes": slopes,
        "unequal": {"m": m, "n": n, "rows": uneven, "naive": reference[0],
                    "naive_exact": reference[1], "largest_share_ahead_of_naive": crossing,
                    "one_over_root_n": n**-0.5, "one_large_part": (4 * n) ** -0.25},
    }  # fmt: skip
    return numbers, figure


if __name__ == "__main__":
    run("exhibit2", exhibit, __doc__.splitlines()[0])
