"""Example 1: four normals in the plane, the paper's table, and the comparison it did not make.

The main observations to make are:

- at the paper's settings the squared error of the mean is what the paper printed if only draws are
  used, as there: linear algebra says what it must be expected to be, and that it hardly depends on
  the exploration. It is far below that of parallel tempering and of naive parallel chains;
- the bridge's proposed points, which are paid for, make it much smaller again;
- the paper repeated the last stage only. Where every repeat explores, partitions and weighs anew,
  and cost is counted in density evaluations, the method still wins, by less;
- today's defaults (adaptive tempering, NUTS, optimal bridge) are better again.

The exploration is the authors' own: tempering at four temperatures, one random pair swapped at a
time, every chain started at (-5, 0).
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import GRAY, OURS, QUIET, THEIRS, THIRD, row, run, source
from lattice import error_parts, lattice, restricted_chains

import pymc_spectral as ps
from pymc_spectral.targets import paper2d

TARGET = paper2d()
BETAS = np.array([1, 0.7, 0.4, 0.25])
STEPS = np.sqrt([0.8, 1, 2, 3])
START = (-5.0, 0.0)
Q = 0.8
PAPER = {"ours": (0.008, 0.009), "tempering": (0.21, 0.28), "naive": (14.08, 13.5)}


def logp(x: np.ndarray) -> np.ndarray:
    return TARGET.logp(x.reshape(-1, 2)).reshape(x.shape[:-1])


def temper(n_iterations: int, repeats: int, rng: np.random.Generator, keep: bool = False):
    """The authors' parallel tempering, many repeats at once; mean or draws of the cold chain."""
    x = np.tile(np.array(START), (repeats, len(BETAS), 1))
    current = logp(x)
    total, draws = np.zeros((repeats, 2)), []
    everyone = np.arange(repeats)
    for _ in range(n_iterations):
        proposal = x + STEPS[:, None] * rng.standard_normal(x.shape)
        proposed = logp(proposal)
        accept = np.log(rng.random(current.shape)) < BETAS * (proposed - current)
        x, current = np.where(accept[..., None], proposal, x), np.where(accept, proposed, current)
        k = rng.integers(len(BETAS) - 1, size=repeats)  # swap k and k + 1
        low, high = current[everyone, k], current[everyone, k + 1]
        swap = np.log(rng.random(repeats)) < (BETAS[k] - BETAS[k + 1]) * (high - low)
        i, k = everyone[swap], k[swap]
        x[i, k], x[i, k + 1] = x[i, k + 1], x[i, k]
        current[i, k], current[i, k + 1] = current[i, k + 1], current[i, k]
        total += x[:, 0]
        if keep:
            draws.append(x[:, 0].copy())
    return np.array(draws).swapaxes(0, 1) if keep else total / n_iterations


def walk(starts: np.ndarray, n_iterations: int, rng: np.random.Generator, partition=None):
    """Means of many Metropolis chains with proposal N(0, Q), each confined to its cell if given."""
    x, current = starts.copy(), logp(starts)
    cell = None if partition is None else partition.predict(starts)
    total = np.zeros_like(x)
    for _ in range(n_iterations):
        proposal = x + np.sqrt(Q) * rng.standard_normal(x.shape)
        proposed = logp(proposal)
        accept = np.flatnonzero(np.log(rng.random(len(x))) < proposed - current)
        if partition is not None:
            accept = accept[partition.predict(proposal[accept]) == cell[accept]]
        x[accept], current[accept] = proposal[accept], proposed[accept]
        total += x
    return total / n_iterations


def expected(partition, n_iterations: int, weights=None, spacing: float = 0.25) -> np.ndarray:
    """Squared error that :func:`walk` must be expected to have, from the most central landmarks.

    By linear algebra on a lattice, on whose spacing it hardly depends; exact weights by default.
    Returns its parts: the squared bias, and the variance in each cell.
    """
    landmarks = partition.landmarks_
    box = lattice(landmarks.min(axis=0) - 4, landmarks.max(axis=0) + 4, spacing)
    chains, mass = restricted_chains(partition.predict, logp, box, Q, spacing)
    starts = [chain.start_at(partition.members(k)[:1]) for k, chain in enumerate(chains)]
    weights = mass if weights is None else weights
    return error_parts(chains, starts, weights, TARGET.mean, n_iterations)


def papers_partition(seed: int, n_landmarks: int = 700) -> ps.SpectralPartition:
    """Algorithm 2 at the paper's settings."""
    return ps.SpectralPartition(
        4,
        affinity="gaussian",
        Q=Q,
        join=False,
        extension="nystrom",
        n_landmarks=n_landmarks,
        random_state=seed,
    )


def papers_step(partition: ps.SpectralPartition, points, seed: int) -> ps.SpectralPartitionStep:
    """The step at the paper's settings, on points that were explored."""
    return ps.SpectralPartitionStep(
        partition=partition,
        kernel="metropolis",
        bridge="geometric",
        proposal="student",
        jumps=0,
        explore=points,
        random_seed=seed,
        progressbar=False,
    )


def means_of(idata) -> list[np.ndarray]:
    """Posterior mean from the draws alone, as in the paper, and from the bridge's points too."""
    return [
        ps.summary(idata, round_to=None, pooled=pooled)["mean"].to_numpy()
        for pooled in (False, True)
    ]


def between_modes() -> float:
    """Variance of the mean of the mode that a draw of the target belongs to."""
    return float(TARGET.weights @ np.sum((TARGET.centers - TARGET.mean) ** 2, axis=1))


def squared(estimates) -> np.ndarray:
    return np.sum((np.asarray(estimates) - TARGET.mean) ** 2, axis=-1)


def last_stage(step, weights, draws, repeats, seed, batch=20):
    """Repeat the restricted chains, several repeats a call: chain k runs in cell k mod n_cells.

    Returns means with the weights held fixed and with each repeat's own: of the draws alone, and
    of draws and the bridge's proposed points pooled.
    """
    n = step.n_cells
    found = {"fixed": [], "fixed_pooled": [], "own": [], "own_pooled": []}
    for first in range(0, repeats, batch):
        size = min(batch, repeats - first)
        chain_seed = int(np.random.SeedSequence([seed, first]).generate_state(1)[0])
        idata = pm.sample(
            draws=draws, tune=0, step=step, chains=n * size, random_seed=chain_seed, **QUIET
        )
        for k in range(size):
            one = ps.reweight(idata.sel(chain=np.arange(k * n, (k + 1) * n)))
            own = means_of(one)
            for pooled, suffix in enumerate(("", "_pooled")):
                cells = ps.cell_summary(one, pooled=bool(pooled))[["x[0]", "x[1]"]].to_numpy()
                found["fixed" + suffix].append(weights @ cells)
                found["own" + suffix].append(own[pooled])
    return found


def fair_paper(repeats, draws, iterations, n_landmarks, rng, seed):
    """Explore, partition, weigh: all of it again for every repeat, at the paper's settings.

    Returns means (repeats, 2, 2), of the draws alone and pooled.
    """
    explored = temper(iterations, repeats, rng, keep=True)
    estimates = []
    for k in range(repeats):
        with TARGET.build():
            step = papers_step(papers_partition(seed + k, n_landmarks), explored[k], seed + k)
            idata = pm.sample(
                draws=draws, tune=0, step=step, chains=step.n_cells, random_seed=seed + k, **QUIET
            )
        estimates.append(means_of(idata))
    return np.array(estimates)


def fair_defaults(repeats, seed, **size):
    """The same with nothing but defaults; returns means and density evaluations."""
    estimates, cost = [], []
    for k in range(repeats):
        with TARGET.build():
            step = ps.SpectralPartitionStep(random_seed=seed + k, progressbar=False)
            idata = pm.sample(
                **size, step=step, chains=step.n_cells, random_seed=seed + k,
                discard_tuned_samples=False, **QUIET,
            )  # fmt: skip
        estimates.append(means_of(idata))
        leapfrogs = sum(
            int(idata[group]["n_steps"].sum())
            for group in ("cell_sample_stats", "warmup_sample_stats")
        )
        jumps = sum(
            int(idata[group]["n_jumps"].sum())
            for group in ("cell_sample_stats", "warmup_sample_stats")
        )
        fresh = idata["cell_sample_stats"]["n_steps"].size
        cost.append(step.exploration.tempering.n_evaluations + leapfrogs + jumps + fresh)
    return np.array(estimates), np.array(cost)


class Study:
    """One method a row; each has its own seed, so that rows can be computed one at a time."""

    def __init__(self, quick: bool, seed: int, repeats: int | None):
        self.seed = seed
        self.many, self.iterations, self.explored, self.draws = 500, 16_000, 8000, 4000
        self.stage, self.fair, self.defaults, self.size = 500, 500, 500, {}
        self.explorations = 20
        self.n_landmarks = 700
        if quick:
            self.many, self.iterations, self.explored, self.draws = 20, 400, 2000, 200
            self.stage, self.fair, self.defaults, self.explorations = 2, 1, 1, 2
            self.n_landmarks = 200
            self.size = {"draws": 100, "tune": 100}
        if repeats:
            self.stage = self.fair = self.defaults = repeats
        # Exploration, four temperatures; bridge, four cells and a proposed point for every draw.
        self.cost = 4 * self.explored + 4 * 2 * self.draws
        self.points = temper(self.explored, 1, self.rng(0), keep=True)[0]
        self.partition = papers_partition(seed, self.n_landmarks).fit(self.points)

    def rng(self, key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, key])

    def tempering(self):
        estimates = temper(self.iterations, self.many, self.rng(1))
        return {"tempering": row(squared(estimates), evaluations=4 * self.iterations)}

    def naive(self):
        rng = self.rng(2)
        starts = TARGET.sample(rng, 4 * self.many)
        means = walk(starts, self.iterations, rng).reshape(self.many, 4, 2).mean(axis=1)
        return {"naive": row(squared(means), evaluations=4 * self.iterations)}

    def paper(self):
        """Weights from one run, then the last stage again and again: by the step, and in NumPy."""
        rng = self.rng(3)
        with TARGET.build():
            step = papers_step(self.partition, None, self.seed)
            first = pm.sample(
                draws=self.draws, tune=0, step=step, chains=4, random_seed=self.seed, **QUIET
            )
            weights = first["cells"]["weight"].values
            again = last_stage(step, weights, self.draws, self.stage, self.seed)
        n = 20_000 if self.many < 100 else 400_000
        mass, error = TARGET.region_mass(self.partition.predict, rng, n, 4)
        central = np.array([self.partition.members(cell)[0] for cell in range(4)])
        means = walk(np.tile(central, (self.many, 1)), self.draws, rng, self.partition)
        in_numpy = weights @ means.reshape(self.many, 4, 2)
        cost = self.cost + 4 * self.draws
        return {
            "paper": row(squared(in_numpy), evaluations=cost, weights=weights, exact_weights=mass,
                         exact_weights_error=error,
                         expected=expected(self.partition, self.draws, weights).sum()),
            "paper_by_step": row(squared(again["fixed"]), evaluations=cost),
            # Here the last stage needs its proposed points too.
            "paper_pooled": row(
                squared(again["fixed_pooled"]), evaluations=cost + 4 * self.draws
            ),
            "paper_own_weights": row(squared(again["own"]), evaluations=self.cost),
            "paper_own_pooled": row(squared(again["own_pooled"]), evaluations=self.cost),
        }  # fmt: skip

    def expected(self):
        """What the paper's row must be, with exact weights, for one exploration after another."""
        explored = temper(self.explored, self.explorations, self.rng(5), keep=True)
        parts = np.array(
            [
                expected(papers_partition(self.seed + k, self.n_landmarks).fit(points), self.draws)
                for k, points in enumerate(explored)
            ]
        )
        values = parts.sum(axis=1)
        shares = parts.max(axis=1) / values
        return {
            "expected": row(
                values, lowest=min(values), highest=max(values), largest_part=min(shares)
            )
        }

    def fair_paper(self):
        estimates = fair_paper(
            self.fair, self.draws, self.explored, self.n_landmarks, self.rng(4), self.seed
        )
        return both_ways("fair_paper", estimates, self.cost)

    def fair_defaults(self):
        estimates, evaluations = fair_defaults(self.defaults, self.seed, **self.size)
        return both_ways("defaults", estimates, int(np.mean(evaluations)))

    def fair_long(self):
        """Defaults but for the length of the chains, which is the paper's."""
        size = {**self.size, "draws": self.draws}
        estimates, evaluations = fair_defaults(self.defaults, 1000 + self.seed, **size)
        return both_ways("defaults_long", estimates, int(np.mean(evaluations)))


def both_ways(name: str, estimates: np.ndarray, evaluations: int) -> dict[str, dict]:
    """Two rows from the same runs: means of the draws alone, and pooled."""
    return {
        name: row(squared(estimates[:, 0]), evaluations=evaluations),
        f"{name}_pooled": row(squared(estimates[:, 1]), evaluations=evaluations),
    }


ROWS = (
    "tempering", "naive", "paper", "expected", "fair_paper", "fair_defaults", "fair_long",
)  # fmt: skip


def exhibit(quick: bool, seed: int, repeats: int | None = None, rows=None, previous=None):
    study = Study(quick, seed, repeats)
    found = dict(previous["rows"]) if previous and not quick else {}
    for name in rows or ROWS:
        for key, result in getattr(study, name)().items():
            found[key] = {**result, **source()}
            print(f"{key}: {result['mean']:.4g} ± {result['standard_error']:.2g}", flush=True)
    numbers = {
        "rows": found,
        "published": {k: {"mean": v[0], "sd": v[1]} for k, v in PAPER.items()},
        "independent_draws": {n: TARGET.variance.sum() / n for n in (4000, 16_000)},
        # Four chains from the target: each stays in its mode, or even at its point.
        "naive_never_leaving": between_modes() / 4,
        "naive_never_moving": TARGET.variance.sum() / 4,
    }
    return numbers, picture(study.points, study.partition, found)


def picture(points, partition, rows) -> plt.Figure:
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    low, high = points.min(axis=0) - 1, points.max(axis=0) + 1
    u, v = np.meshgrid(*(np.linspace(a, b, 220) for a, b in zip(low, high, strict=True)))
    grid = np.column_stack([u.ravel(), v.ravel()])
    colors = ["#0b6e99", "#c2571a", "#4c8c2b", "#7b4fa3"]
    axes[0].contourf(
        u, v, partition.predict(grid).reshape(u.shape), levels=np.arange(5) - 0.5,
        colors=colors, alpha=0.18,
    )  # fmt: skip
    for cell in range(partition.n_cells_):
        mine = partition.landmarks_[partition.labels_ == cell]
        axes[0].plot(*mine.T, ".", ms=3.5, color=colors[cell], label=f"cell {cell}")
    axes[0].set(
        xlabel="x[0]",
        ylabel="x[1]",
        title=f"Cells and the {len(partition.landmarks_)} landmarks they come from",
    )
    axes[0].legend(frameon=False, markerscale=3, loc="upper left")
    shown = [
        ("naive", "naive parallel chains", THEIRS, "naive"),
        ("tempering", "parallel tempering", THEIRS, "tempering"),
        ("paper_by_step", "paper's settings, last\nstage, draws alone", OURS, "ours"),
        ("paper_pooled", "paper's settings, last\nstage, pooled", OURS, None),
        ("fair_paper", "paper's settings, all\nof it, draws alone", OURS, None),
        ("fair_paper_pooled", "paper's settings, all\nof it, pooled", OURS, None),
        ("defaults", "today's defaults, all\nof it, draws alone", THIRD, None),
        ("defaults_pooled", "today's defaults, all\nof it, pooled", THIRD, None),
        ("defaults_long_pooled", "defaults, draws=4000,\nall of it, pooled", THIRD, None),
    ]
    shown = [s for s in shown if s[0] in rows]
    for k, (key, _, color, published) in enumerate(shown):
        r = rows[key]
        axes[1].errorbar(
            r["mean"], k, xerr=2 * r["standard_error"], fmt="o", color=color, capsize=3
        )
        axes[1].annotate(f"{r['mean']:.2g}", (r["mean"], k), (0, 8), textcoords="offset points",
                         ha="center", color=color)  # fmt: skip
        if published:
            axes[1].plot(PAPER[published][0], k, "x", color=GRAY, ms=9, mew=2)
    smallest = min(rows[s[0]]["mean"] for s in shown)
    axes[1].set_xlim(smallest / 3, 3 * PAPER["naive"][0])  # room for the numbers
    axes[1].plot([], [], "x", color=GRAY, ms=9, mew=2, label="printed in the paper")
    axes[1].plot([], [], "o", color=GRAY, label="measured, ± 2 standard errors")
    axes[1].set_yticks(range(len(shown)), [s[1] for s in shown])
    axes[1].set(xscale="log", xlabel="mean squared distance from the true mean",
                ylim=(-0.5, len(shown) - 0.3), title="Error of the posterior mean")  # fmt: skip
    axes[1].legend(frameon=False, loc="upper right")
    return figure


if __name__ == "__main__":
    run("exhibit3", exhibit, __doc__.splitlines()[0])
