"""Non-reversible parallel tempering, all replicas in one batch.

Several copies of a ladder of temperatures run side by side, and replicas travel along each. Rounds
double in length; between them temperatures are spread anew and local moves learn. In the last round
nothing is adapted, and from it come the points, the evidence and every figure of the report.

References
----------
.. [1] Syed, Bouchard-Cote, Deligiannidis and Doucet. Non-reversible parallel tempering: a scalable
   highly parallel MCMC scheme. JRSS-B 84 (2022). https://arxiv.org/abs/1905.02939
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, get_args

import numpy as np

from pymc_spectral._progress import ScanProgress
from pymc_spectral._validate import one_of
from pymc_spectral.density.batched import BatchedDensity
from pymc_spectral.exploration.ladder import first_betas, respread
from pymc_spectral.exploration.local_moves import Hamiltonian, Moves, RandomWalk, Replicas
from pymc_spectral.exploration.tempered_path import Path, PriorSampler, Reference, choose_path
from pymc_spectral.exploration.tempering_round import RoundReport, run_round

__all__ = [
    "N_POINTS",
    "TEMPERING_OPTIONS",
    "Tempered",
    "TemperingConfig",
    "TemperingReport",
    "check_n_points",
    "temper",
]

_log = logging.getLogger(__name__)

N_POINTS = 4000
"""Points by default. Heuristic: a mode of weight 1 in 1000 is met by some, and four for each
landmark help to describe the cells."""

# Numbers without a paper are heuristics. With them, 99 runs of 100 (twenty seeds on each of five
# targets, the slow test of tempering) must find all modes, and the evidence within its errors.

# Temperatures of the first ladder: enough for a barrier of 5; harder ones get more from round 2 on.
FIRST_TEMPERATURES = 12
# The ladder has settled when, not before round SETTLED_ROUNDS, two rounds agree about the barrier
# (up to a share of it and a constant, for barriers near zero) and about the log evidence (in
# standard errors, and a constant, for errors near zero), some replicas of every copy have traveled,
# and local moves are accepted.
SETTLED_ROUNDS = 4
SETTLED_BARRIER, SETTLED_BARRIER_LEAST = 0.15, 0.2
SETTLED_ERRORS, SETTLED_EVIDENCE_LEAST = 4.0, 0.1
SETTLED_TRIPS_PER_COPY = 2
SETTLED_ACCEPTANCE = 0.1
# The last round is long enough for this many replicas to arrive at the posterior from the
# reference, each an independent draw of the modes: a share of 5 % is then known to a sixth. But it
# is at most so many times the length that the points take, or it would cost more than sampling.
ARRIVALS = 800
MAX_LAST_ROUND = 2
# From round 3 on, when steps have adapted: if more than this share of trajectories ends outside the
# support, gradients do not see its walls, and random walks do better.
FIRST_ROUND_OF_WALLS = 3
MAX_OUTSIDE = 0.05
# Batches of draws of the reference that are tried for a start inside the support, and their size.
START_BATCHES = 50
START_BATCH = 256


@dataclass(frozen=True, eq=False)
class TemperingConfig:
    """Knobs of parallel tempering; impossible values are refused.

    Attributes
    ----------
    n_rounds : int
        Rounds at most, each twice as long as the one before. Fewer are run if the ladder has
        settled. With 1, nothing is learned before the points are taken.
    n_copies : int
        Ladders side by side. More of them give more points per scan in one batch.
    first_scans : int
        Scans of the first round.
    betas : sequence of float, optional
        Inverse temperatures of the first round, increasing from 0 to 1. Later rounds spread them
        anew.
    max_temperatures : int
        Where to stop adding temperatures.
    reference : {"auto", "prior", "normal"}
        Where the path starts: ``"auto"`` takes the prior if it can be sampled, else a broad normal.
    start : array of shape (d,) or (m, d), optional
        Points to look from when the broad normal is fitted. With the prior as the reference it is
        not needed.
    gradient : bool
        False to move by random walks even if the model has gradients.
    """

    n_rounds: int = 9
    n_copies: int = 8
    first_scans: int = 8
    betas: Sequence[float] | None = None
    max_temperatures: int = 128
    reference: Reference = "auto"
    start: np.ndarray | None = None
    gradient: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        _at_least("n_rounds", self.n_rounds, 1, "nothing would be sampled")
        _at_least("n_copies", self.n_copies, 2, "errors come from comparing them")
        _at_least("first_scans", self.first_scans, 1, "nothing would be sampled")
        _at_least("max_temperatures", self.max_temperatures, 2, "a ladder has two ends")
        one_of("reference", self.reference, get_args(Reference))
        if self.betas is not None:
            _check_betas(self.betas)
        if self.start is not None:
            _check_start(self.start)

    def first_ladder(self) -> np.ndarray:
        """Return the inverse temperatures of the first round."""
        if self.betas is None:
            return first_betas(FIRST_TEMPERATURES)
        return np.asarray(self.betas, dtype=float)


TEMPERING_OPTIONS = ["n_points", *(knob.name for knob in fields(TemperingConfig))]
"""What users may set, besides what the step sets itself."""


@dataclass(frozen=True, eq=False)
class TemperingReport:
    """What tempering says of itself; all figures are of the last round unless said otherwise.

    Attributes
    ----------
    history : tuple of RoundReport
        Figures of all rounds.
    betas : array of shape (k,)
        Inverse temperatures, from 0 (the reference) to 1 (the posterior).
    rejection : array of shape (k - 1,)
        Share of rejected swaps of each pair. About equal on a good ladder.
    acceptance : array of shape (k,)
        Acceptance of local moves at each temperature; 1 at the reference, which is sampled.
    barrier : float
        Sum of the rejections: how hard it is to travel the ladder.
    round_trips : int
        How many times a replica went from the reference to the posterior, over all copies. Each is
        an independent start of the cold chain.
    log_evidence : float
        Log of the model's evidence, from both directions together.
    log_evidence_error : float
        Its standard error.
    log_evidence_forward, log_evidence_backward : float
        From the hotter and from the colder replica of each pair. Far apart, neither is to be
        believed; only where hard walls cut the reference, the backward one misses what is cut.
    n_evaluations : int
        Points at which the density was evaluated, over all rounds.
    seconds : float
        Time taken, compilation apart as far as it was done before.
    reference : str
        ``"prior"`` or ``"normal"``.
    n_copies : int
        Number of ladders side by side.
    settled : bool
        Whether barrier and evidence had stopped changing before the last round.
    rounds : tuple of dict
        One per round: scans, temperatures, barrier, log_evidence, log_evidence_error, round_trips,
        acceptance (lowest), swap (lowest acceptance of a pair), seconds.
    replicas : array of shape (k, m, d)
        Where replicas were at each temperature, at some moments of the last round.
    """

    history: tuple[RoundReport, ...] = field(repr=False)
    n_evaluations: int
    seconds: float
    reference: str
    n_copies: int
    settled: bool
    replicas: np.ndarray = field(repr=False)

    @property
    def betas(self) -> np.ndarray:
        """Inverse temperatures of the last round."""
        return self.history[-1].betas

    @property
    def rejection(self) -> np.ndarray:
        """Share of rejected swaps of each pair."""
        return self.history[-1].rejection

    @property
    def acceptance(self) -> np.ndarray:
        """Acceptance of local moves at each temperature."""
        return self.history[-1].acceptance

    @property
    def barrier(self) -> float:
        """Sum of the rejections."""
        return self.history[-1].barrier

    @property
    def round_trips(self) -> int:
        """How many times a replica went from the reference to the posterior."""
        return self.history[-1].round_trips

    @property
    def log_evidence(self) -> float:
        """Log of the model's evidence, from both directions together."""
        return self.history[-1].evidence.combined

    @property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`."""
        return self.history[-1].evidence.error

    @property
    def log_evidence_forward(self) -> float:
        """Log evidence from the hotter replica of each pair."""
        return self.history[-1].evidence.forward

    @property
    def log_evidence_backward(self) -> float:
        """Log evidence from the colder replica of each pair."""
        return self.history[-1].evidence.backward

    @property
    def rounds(self) -> tuple[dict[str, Any], ...]:
        """Return the table of rounds, a dict of figures for each."""
        return tuple(one.row() for one in self.history)

    def short(self) -> str:
        """Return the main figures in a few words."""
        return (
            f"{len(self.betas)} temperatures, barrier {self.barrier:.1f}, {self.round_trips} round "
            f"trips, log evidence {self.log_evidence:.2f} +- {self.log_evidence_error:.2f}"
        )


@dataclass(frozen=True, eq=False)
class Tempered:
    """Result of tempering.

    Attributes
    ----------
    points : array of shape (n_points, d)
        Points of the posterior, from the last round.
    logp : array of shape (n_points,)
        Their log density.
    report : TemperingReport
        What tempering says of itself.
    """

    points: np.ndarray = field(repr=False)
    logp: np.ndarray = field(repr=False)
    report: TemperingReport


def temper(
    density: BatchedDensity,
    config: TemperingConfig | None = None,
    *,
    prior: PriorSampler | None = None,
    n_points: int = N_POINTS,
    rng: np.random.Generator | None = None,
    progressbar: bool = False,
) -> Tempered:
    """Explore a posterior by non-reversible parallel tempering [1]_.

    Parameters
    ----------
    density : BatchedDensity
        The model's compiled density.
    config : TemperingConfig, optional
        Knobs, all of which have defaults.
    prior : callable, optional
        How to draw from the prior, see `pymc_spectral.exploration.tempered_path.PriorSampler`.
        Without it the reference is a broad normal.
    n_points : int
        Points to return: thinned from the last round, over all copies.
    rng : numpy.random.Generator, optional
        The only source of randomness.
    progressbar : bool
        Show progress.

    Returns
    -------
    Tempered
    """
    check_n_points(n_points)
    config = TemperingConfig() if config is None else config
    rng = np.random.default_rng() if rng is None else rng
    _compile(density, config)
    began, evaluated = time.perf_counter(), density.n_evaluations
    least = -(-n_points // config.n_copies)
    history: list[RoundReport] = []
    scans, settled = config.first_scans, False
    # Far out, densities overflow to -inf and differences to NaN: both mean rejection.
    with np.errstate(all="ignore"), ScanProgress(progressbar) as progress:
        path = choose_path(density, rng, config.reference, config.start, prior)
        ladder = _first_ladder(path, config, rng)
        while True:
            last = settled or len(history) == config.n_rounds - 1
            scans = max(scans, least) if last else scans
            ladder.moves.adapting = not last
            progress.start_round(_announce(history, ladder.betas), scans)
            now = run_round(path, *ladder, scans, least, rng, progress)
            history.append(now.report)
            _log_round(history)
            if last:
                break
            settled = _has_settled(history, config.n_copies)
            scans = _last_scans(now.report, least) if settled else 2 * scans
            walls = _meets_walls(ladder.moves, len(history))
            settled = settled and not walls
            ladder = _next_ladder(path, ladder, now.report, config.max_temperatures, walls)
    report = TemperingReport(
        history=tuple(history),
        n_evaluations=density.n_evaluations - evaluated,
        seconds=time.perf_counter() - began,
        reference=path.name,
        n_copies=config.n_copies,
        settled=settled,
        replicas=now.replicas,
    )
    keep = np.linspace(0, len(now.points) - 1, min(n_points, len(now.points))).round().astype(int)
    return Tempered(now.points[keep], now.logp[keep], report)


def _at_least(name: str, value: Any, least: int, why: str) -> None:
    """Refuse what is not an integer, or too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}: {why}.")


def check_n_points(n_points: Any) -> None:
    """Refuse to explore for no points."""
    _at_least("n_points", n_points, 1, "the partition is learned from them")


def _check_betas(betas: Sequence[float]) -> None:
    """Refuse what is no ladder."""
    ladder = np.asarray(betas, dtype=float)
    if ladder.ndim != 1 or len(ladder) < 2 or not np.isfinite(ladder).all():
        raise ValueError(f"betas must be at least two finite numbers, got {betas}.")
    if (np.diff(ladder) <= 0).any() or ladder[0] != 0.0 or ladder[-1] != 1.0:
        raise ValueError(
            "betas must increase from 0 (the reference) to 1 (the posterior), got "
            f"{ladder.tolist()}. Use for instance np.linspace(0, 1, 12) ** 4."
        )


def _check_start(start: np.ndarray) -> None:
    """Refuse what cannot be points, as far as can be said without the dimension."""
    points = np.asarray(start, dtype=float)
    if points.ndim > 2 or points.size == 0:
        raise ValueError(f"start must have shape (d,) or (m, d); got {points.shape}.")


def _compile(density: BatchedDensity, config: TemperingConfig) -> None:
    """Have the density compiled before the clock starts: compiling is not exploring."""
    if config.gradient and density.has_gradient:
        density.logp_and_grad(density.initial_point[None])
    else:
        density.logp(density.initial_point[None])


class _Ladder(NamedTuple):
    """What is carried from one round to the next."""

    moves: Moves
    replicas: Replicas
    betas: np.ndarray


def _first_ladder(path: Path, config: TemperingConfig, rng: np.random.Generator) -> _Ladder:
    """Begin with draws of the reference at all temperatures."""
    betas = config.first_ladder()
    replicas = _first_replicas(path, rng, len(betas), config.n_copies)
    kind = Hamiltonian if config.gradient and path.density.has_gradient else RandomWalk
    return _Ladder(kind(len(betas) - 1, path.density.d, path.scale), replicas, betas)


def _next_ladder(
    path: Path, ladder: _Ladder, report: RoundReport, max_temperatures: int, walls: bool
) -> _Ladder:
    """Spread temperatures by what was rejected; replicas, and what moves learned, go along."""
    betas, origin = respread(ladder.betas, report.rejection, max_temperatures)
    moves = ladder.moves
    if walls:
        moves = RandomWalk(len(betas) - 1, path.density.d, path.scale)
    else:
        moves.learn(origin[1:] - 1)
    copies = ladder.replicas.value.shape[1]
    ladder.replicas.take(np.repeat(origin[:, None], copies, axis=1))
    return _Ladder(moves, ladder.replicas, betas)


def _first_replicas(path: Path, rng: np.random.Generator, n: int, copies: int) -> Replicas:
    """Start every replica at a draw of the reference inside the model's support."""
    needed = n * copies
    batch = max(needed, START_BATCH)
    found: list[np.ndarray] = []
    total = 0
    for _ in range(START_BATCHES):
        x = path.sample(rng, batch)
        reference, value = path.evaluate(x)
        found.append(x[np.isfinite(reference + value)])
        total += len(found[-1])
        if total >= needed:
            break
    x = np.concatenate(found)
    if len(x) == 0:
        raise ValueError(
            f"The log density is -inf or NaN at all {START_BATCHES * batch} draws of the reference "
            f"({path.name}), so no replica can start. model.debug() shows which term is at fault; "
            'if the support is small, pass `start` inside it and reference="normal".'
        )
    x = x[np.arange(needed) % len(x)].reshape(n, copies, -1)
    reference, value = path.evaluate(x.reshape(needed, -1))
    return Replicas(x, reference.reshape(n, copies), value.reshape(n, copies))


def _has_settled(history: Sequence[RoundReport], n_copies: int) -> bool:
    """Return whether the last two rounds agree on barrier and evidence, with enough round trips."""
    if len(history) < SETTLED_ROUNDS:
        return False
    before, now = history[-2:]
    error = np.hypot(before.evidence.error, now.evidence.error)
    barrier_moved = abs(now.barrier - before.barrier)
    evidence_moved = abs(now.evidence.combined - before.evidence.combined)
    return bool(
        now.round_trips >= SETTLED_TRIPS_PER_COPY * n_copies
        and barrier_moved < SETTLED_BARRIER * now.barrier + SETTLED_BARRIER_LEAST
        and evidence_moved < SETTLED_ERRORS * error + SETTLED_EVIDENCE_LEAST
        and now.acceptance.min() > SETTLED_ACCEPTANCE
    )


def _last_scans(now: RoundReport, least: int) -> int:
    """Choose the length of the last round: for enough arrivals at the posterior, and points."""
    needed = int(np.ceil(ARRIVALS * now.scans / max(now.round_trips, 1)))
    return int(np.clip(needed, max(now.scans, least), max(now.scans, MAX_LAST_ROUND * least)))


def _meets_walls(moves: Moves, n_rounds: int) -> bool:
    """Return whether trajectories run into walls that gradients do not see, or hardly move."""
    if n_rounds < FIRST_ROUND_OF_WALLS or moves.outside <= MAX_OUTSIDE:
        return False
    _log.info("Trajectories leave the support: random walks from here on.")
    return True


def _announce(history: Sequence[RoundReport], betas: np.ndarray) -> str:
    """Say in a few words which round is under way."""
    text = f"Tempering, round {len(history) + 1}: {len(betas)} temperatures"
    return f"{text}, barrier {history[-1].barrier:.1f}" if history else text


def _log_round(history: Sequence[RoundReport]) -> None:
    """Log in one line how the last round went."""
    _log.info(
        "round %(round)d: %(scans)d scans, %(temperatures)d temperatures, barrier %(barrier).2f, "
        "log evidence %(log_evidence).3f +- %(log_evidence_error).3f, %(round_trips)d round trips, "
        "local acceptance >= %(acceptance).2f, swaps >= %(swap).2f, %(seconds).2f s",
        {"round": len(history), **history[-1].row()},
    )
