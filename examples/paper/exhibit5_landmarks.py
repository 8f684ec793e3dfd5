"""Section 4.2: how many landmarks a partition needs, and the paper's heuristic for it.

The main observations to make are:

- somewhere among the first hundred or two landmarks there is a number at which chains mix within
  1 % as fast as with the best partition, earlier when the modes are far apart. This first number,
  the paper's N_max, is no number that suffices: at a given N, most partitions of modes that touch
  are further off, and come nearer slowly;
- the heuristic (largest distance between cells / smallest weight times gap)^2 is far above N_max,
  and grows with the separation, while N_max does not;
- this does not hang on tau, which the paper does not print: 1 here, and 0.5 and 2 beside it.

The target is half N(-mu, 1), half N(mu, 1), Q uniform on [x - tau, x + tau]. ``SpectralPartition``
has the paper's normal Q; its uniform one, of use on a line only, is written out here. N_max is the
first N at which Algorithm 2 on the first N of a sequence of independent draws gives a partition
whose smaller spectral gap is at least 1 - eps times that of the cut at 0. Gaps come from exact
spectra. From 60 on, N grows by steps of 5 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import GRAY, OURS, THEIRS, THIRD, line, pair_density, run, spectral_gap

import pymc_spectral as ps
from pymc_spectral.partition.spectrum import leading_eigenpairs

TAU, OTHER_TAUS = 1.0, (0.5, 2.0)
SPACING, FINER = 0.05, 5
EPSILONS = (0.015, 0.01, 0.0085)
LARGEST = 1000
# Numbers of landmarks at which the share of good partitions is counted.
FIXED, FIXED_EPSILON = (100, 200, 400, 800), 0.01
NUMBERS = [*range(2, 60), *np.unique((60 * 1.05 ** np.arange(58)).astype(int))]


class Line:
    """The discretized target: exact gaps of any partition of the line."""

    def __init__(self, mu: float, tau: float):
        self.x = line(mu + 5, SPACING)
        self.density = pair_density(self.x, 1.0, mu)
        self.tau, self.width = tau, round(tau / SPACING)
        # Cells are asked for on a finer line than spectra are computed on.
        self.fine = line(len(self.x) * SPACING / 2, SPACING / FINER)
        self._known: dict[bytes, float] = {}
        self._cuts = SPACING * np.arange(41)
        self._gaps = np.array([self._smaller_gap(self.x > cut) for cut in self._cuts])
        self.best = self._gaps[0]
        right = self.x > 0
        p = self.density[right] / self.density[right].sum()
        # E|x - y| for x and y in different halves: two half means apart.
        distance = 2 * float(p @ self.x[right])
        self.heuristic = ps.landmark_heuristic([0.5, 0.5], [self.best, self.best], distance)

    def smaller_gap(self, mask: np.ndarray) -> float:
        """Smaller spectral gap of chains confined to a part of the fine line, and to the rest."""
        switches = np.flatnonzero(np.diff(mask.astype(int)))
        if len(switches) == 1:  # a single cut: between those whose gaps are known
            cut = abs(self.fine[switches[0]] + SPACING / FINER / 2)
            if cut <= self._cuts[-1]:
                return float(np.interp(cut, self._cuts, self._gaps))
        coarse = mask[FINER // 2 :: FINER]
        return 0.0 if coarse.all() or not coarse.any() else self._smaller_gap(coarse)

    def _smaller_gap(self, mask: np.ndarray) -> float:
        key = np.packbits(mask if mask[-1] else ~mask).tobytes()
        if key not in self._known:
            self._known[key] = min(
                spectral_gap(self.density[side], self.width, np.flatnonzero(side))
                for side in (mask, ~mask)
            )
        return self._known[key]


def algorithm_2(points: np.ndarray, x: np.ndarray, tau: float) -> np.ndarray:
    """Two cells from the paper's uniform Q: which of them each place of the line belongs to."""
    affinity = (np.abs(np.subtract.outer(points, points)) < tau).astype(float)
    root = np.sqrt(affinity.sum(axis=1))
    values, vectors = leading_eigenpairs(affinity / np.outer(root, root), 2)
    near = np.abs(np.subtract.outer(x, points)) < tau
    labels, centers = two_means(vectors)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (near / root) @ (vectors / values)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
    cell = np.argmin(((z[:, None, :] - centers) ** 2).sum(axis=2), axis=1)
    nearest = np.argmin(np.abs(np.subtract.outer(x, points)), axis=1)
    return np.where(near.any(axis=1) & np.isfinite(z[:, 0]), cell, labels[nearest]).astype(bool)


def two_means(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact 2-means of rows on an arc of the unit circle: the best split of the sorted angles."""
    # A third separate group of points is 0 in both eigenvectors, up to rounding: it stays at 0.
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    z = np.where(norm > 1e-9, vectors / np.maximum(norm, 1e-9), 0.0)
    angle = np.arctan2(z[:, 1], z[:, 0])
    # Angles are counted from the widest gap between them, so that no group straddles the start.
    order = np.argsort(angle)
    gaps = np.diff(angle[order], append=angle[order[0]] + 2 * np.pi)
    order = np.roll(order, -1 - int(np.argmax(gaps)))
    sums = np.cumsum(z[order], axis=0)
    count = np.arange(1, len(z))[:, None]
    gain = (sums[:-1] ** 2 / count + (sums[-1] - sums[:-1]) ** 2 / (len(z) - count)).sum(axis=1)
    split = int(np.argmax(gain)) + 1
    labels = np.zeros(len(z), dtype=int)
    labels[order[split:]] = 1
    return labels, np.array([z[labels == k].mean(axis=0) for k in (0, 1)])


def quality(target: Line, points: np.ndarray) -> float:
    """Smaller gap of the partition from these points, against that of the best one."""
    return target.smaller_gap(algorithm_2(points, target.fine, target.tau)) / target.best


def n_max(target: Line, points: np.ndarray) -> list[int]:
    """First N that is good enough, for each epsilon; LARGEST if none is."""
    found = dict.fromkeys(EPSILONS, LARGEST)
    for n in (n for n in NUMBERS if n < LARGEST):
        reached = quality(target, points[:n])
        for epsilon in EPSILONS:
            if found[epsilon] == LARGEST and reached >= 1 - epsilon:
                found[epsilon] = n
        if max(found.values()) < LARGEST:
            break
    return [found[e] for e in EPSILONS]


def study(separations: np.ndarray, tau: float, repeats: int, rng: np.random.Generator) -> dict:
    """N_max and the heuristic at every separation."""
    found, medians, heuristic, good, capped = [], [], [], [], 0
    for mu in separations:
        target = Line(mu, tau)
        sequences = rng.standard_normal((repeats, LARGEST))
        sequences += mu * rng.choice([-1, 1], size=(repeats, LARGEST))
        runs = np.array([n_max(target, points) for points in sequences])
        good.append(
            [[quality(target, x[:n]) >= 1 - FIXED_EPSILON for n in FIXED] for x in sequences]
        )
        capped += int((runs == LARGEST).sum())
        found.append(runs.mean(axis=0))
        medians.append(np.median(runs, axis=0))
        heuristic.append(target.heuristic)
    found, heuristic = np.array(found), np.array(heuristic)
    return {
        "tau": tau, "runs_at_largest": capped, "n_max": found, "heuristic": heuristic,
        "share_good": np.mean(good, axis=(0, 1)), "median_n_max": np.mean(medians, axis=0),
        "mean_n_max": found.mean(axis=0), "largest_mean_n_max": found.max(axis=0),
        "constant": float(np.exp(np.log(found / heuristic[:, None]).mean())),
        "correlation_of_logs": np.corrcoef(np.log(found.mean(axis=1)), np.log(heuristic))[0, 1],
    }  # fmt: skip


def exhibit(quick: bool, seed: int, repeats: int | None = None):
    repeats = repeats or (2 if quick else 20)
    separations = np.array([0.5, 2.0, 3.5]) if quick else np.arange(2, 38) / 10
    main = study(separations, TAU, repeats, np.random.default_rng(seed))
    others = [
        study(separations, tau, repeats, np.random.default_rng([seed, k]))
        for k, tau in enumerate(OTHER_TAUS)
        if not quick
    ]
    numbers = {
        "repeats": repeats, "largest_tried": LARGEST, "fixed": FIXED,
        "fixed_epsilon": FIXED_EPSILON, "epsilon": EPSILONS, "mu": separations,
        **main, "other_taus": others,
    }  # fmt: skip
    return numbers, picture(numbers)


def picture(n: dict) -> plt.Figure:
    found, heuristic, constant = np.array(n["n_max"]), np.array(n["heuristic"]), n["constant"]
    separations = n["mu"]
    figure, axis = plt.subplots(figsize=(7.5, 5), layout="constrained")
    window = min(5, len(separations))
    for k, color in enumerate((OURS, THEIRS, THIRD)):
        axis.semilogy(separations, found[:, k], ".", ms=7, color=color, alpha=0.6)
        smooth = np.convolve(np.log(found[:, k]), np.ones(window) / window, mode="valid")
        inner = np.convolve(separations, np.ones(window) / window, mode="valid")
        axis.semilogy(inner, np.exp(smooth), color=color, label=f"measured, ε = {EPSILONS[k]}")
    axis.semilogy(separations, heuristic, color=GRAY, ls="--", label="heuristic as printed")
    axis.semilogy(separations, constant * heuristic, color=GRAY, ls=":",
                  label=f"heuristic × {constant:.2g}")  # fmt: skip
    axis.set(xlabel="μ, in standard deviations of a mode; the modes are at -μ and μ",
             ylabel="landmarks N",
             title=f"N_max, τ = {n['tau']:g}: means of {n['repeats']} runs; lines smoothed",
             )  # fmt: skip
    axis.legend(frameon=False)
    return figure


if __name__ == "__main__":
    run("exhibit5", exhibit, __doc__.splitlines()[0])
