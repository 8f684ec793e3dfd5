"""Example 2: two interlocking arcs, cells by spectral clustering against cells by k-means.

The main observations to make are:

- spectral clustering gives each arc a cell, or nearly so if the exploration left a gap; k-means
  cuts both, since its cells are convex;
- a k-means cell then holds pieces of both arcs that no small step connects: its chain stays in the
  piece in which it started, and the error does not fall however long it runs. The mean shows it or
  hides it, according to where chains start: the arcs are symmetric, and so are the pieces missed.
  Squares about the mean do not hide it;
- what such chains must be expected to do follows from linear algebra, without simulation;
- both are shown, the arcs as the authors' experiment has them (the second one shifted down) and as
  the paper prints them (the second one flattened, a misprint).

Two chains of 5000 steps explore, one from each set, N = 700, Q = N(0, 0.015 I), 10,000 steps per
cell; weights come from one run of the step and stay fixed, as in the paper. Where cells are cut is
an accident of the exploration, so everything is repeated over 24 explorations, where the paper had
one. Chains start at the center of their cell, as the paper recommends, or elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from common import OURS, QUIET, THEIRS, row, run
from lattice import expected_error, lattice, restricted_chains
from pymc.step_methods.metropolis import MultivariateNormalProposal

import pymc_spectral as ps
from pymc_spectral.targets import arcs

Q = 0.015
PAPER = {"spectral": (0.04, 0.05), "kmeans": (0.13, 0.03)}


@dataclass
class Shape:
    """A uniform distribution on two sets, the first the same in both: model, support, moments."""

    build: Callable[[], pm.Model]
    inside: Callable[[np.ndarray], np.ndarray]
    mean: np.ndarray
    variance: np.ndarray
    starts: np.ndarray


def on_first(x, y):
    """Whether a point of the support, or of PyTensor's, lies on S1."""
    radius = (x**2 + y**2) ** 0.5
    return (radius >= 1) & (radius <= 1.1) & (x <= radius / 2)


def as_run() -> Shape:
    """The arcs of the authors' experiment."""
    target = arcs()
    return Shape(
        target.build,
        lambda x: target.logp(x) == 0,
        target.mean,
        target.variance,
        np.array([[1.05, -1.0], [-1.05, 0.0]]),
    )


def as_printed() -> Shape:
    """The sets that the paper prints: S2 = {(r cos t, (r - 1) sin t)}, |t| <= 4 pi / 6.

    Its points lie in the ellipse with half axes 1.1 and 0.1, on the ellipse of half axes r and
    r - 1 for one r; left of -1/2, those with |t| > 4 pi / 6 are missing.
    """

    def on_second(x, y):
        ellipse = x**2 / 1.21 + y**2 / 0.01 <= 1
        return ellipse & ((x >= -0.5) | (y**2 >= 0.75 * (2 * x + 1) ** 2))

    def inside(points):
        x, y = points.T
        return on_first(x, y) | on_second(x, y)

    def build():
        with pm.Model() as model:
            x = pm.Flat("x", shape=2, initval=[-1.05, 0.0])
            support = on_first(x[0], x[1]) | on_second(x[0], x[1])
            pm.Potential("log_density", pt.switch(support, 0.0, -np.inf))
        return model

    # In (r, t) the element of area of S2 is r - cos^2 t, that of S1 is r; midpoint rule.
    r, t = np.meshgrid(1 + (np.arange(400) + 0.5) / 4000, (np.arange(4000) + 0.5) / 4000)
    t1, t2 = np.pi / 3 + 4 * np.pi / 3 * t, (2 * t - 1) * 2 * np.pi / 3
    area = np.stack([r, r - np.cos(t2) ** 2])
    area /= area.sum()
    x = np.stack([r * np.cos(t1), r * np.cos(t2)])
    y = np.stack([r * np.sin(t1), (r - 1) * np.sin(t2)])
    mean = np.array([np.sum(area * x), 0.0])
    variance = np.array([np.sum(area * x**2), np.sum(area * y**2)]) - mean**2
    return Shape(build, inside, mean, variance, np.array([[1.05, 0.0], [-1.05, 0.0]]))


SHAPES = {"as run": as_run, "as printed": as_printed}


def walk(shape, starts, T, rng, partition=None):
    """Metropolis with proposal N(0, Q I) on a uniform distribution, many chains at once.

    Returns the means of x and of the squares about the true mean, and all positions if there is no
    partition to respect.
    """
    x = starts.copy()
    cell = None if partition is None else partition.predict(starts)
    total, squares, draws = np.zeros_like(x), np.zeros_like(x), []
    for _ in range(T):
        proposal = x + np.sqrt(Q) * rng.standard_normal(x.shape)
        accept = np.flatnonzero(shape.inside(proposal))
        if partition is not None and accept.size:
            accept = accept[partition.predict(proposal[accept]) == cell[accept]]
        x[accept] = proposal[accept]
        total += x
        squares += (x - shape.mean) ** 2
        if partition is None:
            draws.append(x.copy())
    return total / T, squares / T, np.concatenate(draws) if draws else None


def make_partition(method: str, points, n_landmarks, seed):
    if method == "kmeans":
        partition = ps.KMeansPartition(
            2, n_landmarks=n_landmarks, standardize=False, random_state=seed
        )
    else:
        partition = ps.SpectralPartition(
            2, affinity="gaussian", Q=Q, join=False, extension="nystrom", n_landmarks=n_landmarks,
            random_state=seed,
        )  # fmt: skip
    return partition.fit(points)


def distance(estimates, truth):
    return np.sum((np.asarray(estimates) - truth) ** 2, axis=-1)


def by_step(shape, partition, T, few, seed):
    """Weights from the first two chains of a run; errors of the mean from the others, which start
    at random landmarks of their cells: of the draws alone, as in the paper, and of draws and the
    bridge's proposed points pooled.
    """
    with shape.build():
        step = ps.SpectralPartitionStep(
            partition=partition, kernel="metropolis", bridge="geometric", proposal="student",
            jumps=0,
            kernel_kwargs={"S": Q * np.eye(2), "proposal_dist": MultivariateNormalProposal,
                           "tune": False},
            random_seed=seed, progressbar=False,
        )  # fmt: skip
        idata = pm.sample(
            draws=T, tune=0, step=step, chains=2 * (few + 1), random_seed=seed, **QUIET
        )
    pairs = [ps.reweight(idata.sel(chain=[2 * k, 2 * k + 1])) for k in range(few + 1)]
    weights = pairs[0]["cells"]["weight"].values
    errors = {}
    for name, pooled in (("step", False), ("step_pooled", True)):
        means = [ps.cell_summary(pair, pooled=pooled)[["x[0]", "x[1]"]] for pair in pairs[1:]]
        errors[name] = distance([weights @ m.to_numpy() for m in means], shape.mean)
    return weights, errors


class Expectations:
    """Expected squared errors by linear algebra, for every kind of start."""

    def __init__(self, shape: Shape, partition, spacing: float):
        def log_density(points):
            return np.where(shape.inside(points), 0.0, -np.inf)

        box = lattice([-1.2, -2.2], [1.2, 1.2], spacing)
        self.chains, self.mass = restricted_chains(partition.predict, log_density, box, Q, spacing)
        chains = self.chains
        self.starts = {
            "target": [chain.mass for chain in chains],
            "random": [chain.start_at(partition.members(k)) for k, chain in enumerate(chains)],
            "center": [chain.start_at(partition.members(k)[:1]) for k, chain in enumerate(chains)],
        }
        cells = partition.predict(shape.starts)
        if sorted(cells) == [0, 1]:
            places = zip(chains, shape.starts[np.argsort(cells)], strict=True)
            self.starts["explorers"] = [chain.start_at(place[None]) for chain, place in places]
        # The lattice's own mean, so that its edges do not count as an error.
        self.truth = self.mass @ [chain.mass @ chain.points for chain in chains]
        shares = sorted(on_first(*chain.points.T) @ chain.mass for chain in chains)
        self.are_the_sets = shares[0] < 0.01 and shares[1] > 0.99

    def errors(self, T: int, weights=None) -> dict[str, np.ndarray]:
        """With exact weights, or, as in the simulation, with those of the bridge."""
        suffix = "_exact_weights" if weights is None else ""
        weights = self.mass if weights is None else weights
        return {
            f"{name}_expected{suffix}": np.array(
                [expected_error(self.chains, law, weights, self.truth, T)]
            )
            for name, law in self.starts.items()
        }


def simulate(shape, partition, weights, T, many, rng):
    """Squared errors of repeated last stages, from the centers of the cells: of means, squares."""
    centers = np.array([partition.members(cell)[0] for cell in (0, 1)])
    means, squares, _ = walk(shape, np.tile(centers, (many, 1)), T, rng, partition)
    means, squares = means.reshape(many, 2, 2), squares.reshape(many, 2, 2)
    return {
        "center": distance(weights @ means, shape.mean),
        "center_squares": distance(weights @ squares, shape.variance),
    }


def together(parts):
    """One row from the repeats of several partitions; the error is that of their means."""
    whole = row(np.concatenate(parts), partitions=len(parts))
    means = np.array([part.mean() for part in parts])
    if len(parts) > 1:
        whole["standard_error"] = means.std(ddof=1) / np.sqrt(len(parts))
    return {**whole, "by_partition": means}


def factor_of(kmeans: dict, spectral: dict) -> dict:
    """Ratio of two mean errors over the same explorations, its error by the jackknife."""
    means = np.array([kmeans["by_partition"], spectral["by_partition"]])
    n = means.shape[1]
    without = (means.sum(axis=1, keepdims=True) - means) / max(n - 1, 1)
    spread = (without[0] / without[1]).var() if n > 1 else 0.0
    return {
        "mean": kmeans["mean"] / spectral["mean"],
        "standard_error": np.sqrt((n - 1) * spread),
    }


@dataclass
class Size:
    """How much is done: in full, or quickly."""

    explored: int = 5000
    n_landmarks: int = 700
    T: int = 10_000
    explorations: int = 24
    many: int = 9  # repeats for each exploration, 216 in all
    by_step: int = 3
    spacing: float = 0.03


QUICK = Size(1500, 200, 300, 1, 20, 2, 0.05)


def study(shape: Shape, method: str, points, size: Size, seed: int, rng):
    """One exploration: partition, weights of the bridge, expectations, and errors by their name."""
    partition = make_partition(method, points, size.n_landmarks, seed)
    exact = Expectations(shape, partition, size.spacing)
    weights, errors = by_step(shape, partition, size.T, size.by_step, seed)
    errors |= exact.errors(size.T) | exact.errors(size.T, weights)
    errors |= simulate(shape, partition, weights, size.T, size.many, rng)
    return partition, weights, exact, errors


def collect(studies) -> dict:
    """Numbers of one method over all explorations."""
    every = [errors for *_, errors in studies]
    # Starts of explorers are left out unless they serve for every exploration.
    common = [key for key in every[0] if all(key in errors for errors in every)]
    return {key: together([errors[key] for errors in every]) for key in common} | {
        "weights": [weights for _, weights, _, _ in studies],
        "mass": [exact.mass for _, _, exact, _ in studies],
        "cells_are_the_sets": [exact.are_the_sets for _, _, exact, _ in studies],
    }


def exhibit(quick: bool, seed: int, explorations: int | None = None):
    size = QUICK if quick else Size(explorations=explorations or Size.explorations)
    numbers, drawn = {"published": PAPER}, []
    for name in list(SHAPES)[: 1 if quick else 2]:
        shape = SHAPES[name]()
        studies = {"spectral": [], "kmeans": []}
        for k in range(size.explorations):
            rng = np.random.default_rng([seed, len(drawn), k])
            points = walk(shape, shape.starts, size.explored, rng)[2]
            for method, done in studies.items():
                done.append(study(shape, method, points, size, seed + k, rng))
        found = {method: collect(done) for method, done in studies.items()}
        for method, r in found.items():
            drawn.append((name, method, studies[method][0][0], r))
            means = {key: f"{v['mean']:.4f}" for key, v in r.items() if isinstance(v, dict)}
            print(f"{name}, {method}:", *(f"{k} {v}" for k, v in means.items()), flush=True)
        factors = {
            key: factor_of(r, found["spectral"][key])
            for key, r in found["kmeans"].items()
            if isinstance(r, dict) and key in found["spectral"]
        }
        numbers[name] = found | {"factor": factors}
    return numbers, picture(drawn)


NAMES = {"as run": "second arc shifted, as run", "as printed": "second arc flat, as printed"}


def picture(drawn) -> plt.Figure:
    rows = len(drawn) // 2
    figure, axes = plt.subplots(
        rows, 2, figsize=(10, 5.4 * rows), layout="constrained", squeeze=False
    )
    for axis, (name, method, partition, numbers) in zip(axes.ravel(), drawn, strict=True):
        # The cell further left is blue in every panel; cells are numbered by chance.
        places = [partition.members(k)[:, 0].mean() for k in (0, 1)]
        colors = [OURS, THEIRS] if places[0] < places[1] else [THEIRS, OURS]
        low = -2.3 if name == "as run" else -1.3
        u, v = np.meshgrid(np.linspace(-1.3, 1.3, 260), np.linspace(low, 1.3, 260))
        cell = partition.predict(np.column_stack([u.ravel(), v.ravel()])).reshape(u.shape)
        axis.contourf(u, v, cell, levels=[-0.5, 0.5, 1.5], colors=colors, alpha=0.15)
        for k in (0, 1):
            mine = partition.landmarks_[partition.labels_ == k]
            axis.plot(*mine.T, ".", ms=4, color=colors[k])
            axis.plot(*partition.members(k)[0], "*", ms=16, mec="black", mew=1.2, color=colors[k])
        title = {"spectral": "Spectral", "kmeans": "k-means"}[method]
        expected = numbers["center_expected"]
        axis.set(
            title=f"{title} cells, {NAMES[name]}\nexpected squared error of the draws' mean: here "
            f"{expected['by_partition'][0]:.2g},\nmean of {expected['partitions']} explorations "
            f"{expected['mean']:.2g}",
            xlabel="x[0]", ylabel="x[1]", aspect="equal",
        )  # fmt: skip
        axis.title.set_fontsize(10)
    handles = [
        plt.Line2D([], [], ls="", marker=".", ms=8, color=color, label=f"landmarks, {name} cell")
        for color, name in ((OURS, "left"), (THEIRS, "right"))
    ]
    handles.append(
        plt.Line2D([], [], ls="", marker="*", ms=14, mec="black", color="white",
                   label="center of a cell, where its chain starts")
    )  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


if __name__ == "__main__":
    run("exhibit4", exhibit, __doc__.splitlines()[0])
