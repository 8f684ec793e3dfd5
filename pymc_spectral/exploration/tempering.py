"""Non-reversible parallel tempering, all replicas in one batch.

Several copies of a ladder of temperatures run side by side. A scan moves every replica locally,
draws the reference afresh, and swaps neighbours on the ladder: even pairs at even scans, odd pairs
at odd ones, so that a replica travels from the reference to the posterior and back instead of
diffusing. Rounds double in length; between them temperatures are spread anew and local moves learn.
In the last round nothing is adapted, and from it come the points, the evidence and every figure of
the report.

References
----------
.. [1] Syed, Bouchard-Cote, Deligiannidis and Doucet. Non-reversible parallel tempering: a scalable
   highly parallel MCMC scheme. JRSS-B 84 (2022). https://arxiv.org/abs/1905.02939
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm

from pymc_spectral._progress import ScanProgress
from pymc_spectral.density.batched import BatchedDensity, batched_density
from pymc_spectral.exploration.ladder import (
    Evidence,
    first_betas,
    next_betas,
    stepping_stone,
    swap_probability,
)
from pymc_spectral.exploration.local_moves import Hamiltonian, Moves, RandomWalk, Replicas
from pymc_spectral.exploration.path import Path, Reference, choose_path

__all__ = ["TEMPERING_OPTIONS", "TemperingReport", "scan", "temper"]

_log = logging.getLogger(__name__)

MAX_KEPT_SCANS = 4096
# Scans of which the replicas at all temperatures are kept, and numbers that they may take up.
SNAPSHOTS = 64
MAX_SNAPSHOT_SIZE = 4_000_000


@dataclass(frozen=True, eq=False)
class TemperingReport:
    """What tempering says of itself; all figures are of the last round unless said otherwise.

    Attributes
    ----------
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
        a fresh start of the cold chain.
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

    betas: np.ndarray
    rejection: np.ndarray
    acceptance: np.ndarray
    barrier: float
    round_trips: int
    log_evidence: float
    log_evidence_error: float
    log_evidence_forward: float
    log_evidence_backward: float
    n_evaluations: int
    seconds: float
    reference: str
    n_copies: int
    settled: bool
    rounds: tuple[dict[str, Any], ...] = field(repr=False)
    replicas: np.ndarray = field(repr=False)

    def short(self) -> str:
        """Say the main figures in a few words."""
        return (
            f"{len(self.betas)} temperatures, barrier {self.barrier:.1f}, {self.round_trips} round "
            f"trips, log evidence {self.log_evidence:.2f} +- {self.log_evidence_error:.2f}"
        )


@dataclass(frozen=True, eq=False)
class _Round:
    """What one round recorded."""

    points: np.ndarray
    logp: np.ndarray
    rejection: np.ndarray
    acceptance: np.ndarray
    round_trips: int
    evidence: Evidence
    seconds: float
    replicas: np.ndarray

    @property
    def barrier(self) -> float:
        """Sum of rejections."""
        return float(self.rejection.sum())


def temper(
    model: pm.Model | None = None,
    *,
    density: BatchedDensity | None = None,
    n_points: int = 4000,
    n_rounds: int = 9,
    n_copies: int = 8,
    first_scans: int = 8,
    betas: Sequence[float] | None = None,
    max_temperatures: int = 128,
    reference: Reference = "auto",
    start: np.ndarray | None = None,
    gradient: bool = True,
    rng: np.random.Generator | None = None,
    progressbar: bool = False,
) -> tuple[np.ndarray, np.ndarray, TemperingReport]:
    """Explore a posterior by non-reversible parallel tempering.

    Parameters
    ----------
    model : pymc.Model, optional
        Model, by default the one in context.
    density : BatchedDensity, optional
        Its compiled density, if it exists already.
    n_points : int
        Points to return: thinned from the last round, over all copies.
    n_rounds : int
        Rounds at most, each twice as long as the one before. Fewer are run if the ladder has
        settled. With 1, nothing is learnt before the points are taken.
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
    rng : numpy.random.Generator, optional
        The only source of randomness.
    progressbar : bool
        Show progress.

    Returns
    -------
    points : array of shape (n_points, d)
    logp : array of shape (n_points,)
    report : TemperingReport
    """
    if n_rounds < 1:
        raise ValueError(f"n_rounds must be at least 1, got {n_rounds}: nothing would be sampled.")
    if n_copies < 2:
        raise ValueError(
            f"n_copies must be at least 2, got {n_copies}: errors come from comparing them."
        )
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, got {n_points}.")
    model = pm.modelcontext(model)
    rng = np.random.default_rng() if rng is None else rng
    ladder = first_betas(12) if betas is None else _check_betas(betas)
    density = batched_density(model) if density is None else density
    use_gradient = gradient and density.has_gradient
    if use_gradient:  # Compiling is not exploring: have it done before the clock starts.
        density.logp_and_grad(density.initial_point[None])
    else:
        density.logp(density.initial_point[None])
    began, evaluated = time.perf_counter(), density.n_evaluations

    with np.errstate(all="ignore"):
        path = choose_path(model, density, rng, reference, start)
        state = _first_replicas(path, rng, len(ladder), n_copies)
    kernel = Hamiltonian if use_gradient else RandomWalk
    moves: Moves = kernel(len(ladder) - 1, density.d, path.scale)

    table: list[dict[str, Any]] = []
    scans, settled = first_scans, False
    least = -(-n_points // n_copies)
    # Far out, densities overflow to -inf and differences to NaN: both mean rejection.
    with np.errstate(all="ignore"), ScanProgress(progressbar) as progress:
        for index in range(n_rounds):
            last = settled or index == n_rounds - 1
            scans = max(scans, least) if last else scans
            progress.start_round(_announce(index, ladder, table), scans)
            result = _run_round(path, moves, state, ladder, scans, rng, not last, least, progress)
            table.append(_row(result, scans, ladder))
            _log_round(index, table[-1])
            if last:
                break
            settled = _has_settled(table, n_copies)
            scans = _last_scans(scans, result.round_trips, least) if settled else 2 * scans
            ladder, origin = _next_ladder(ladder, result, max_temperatures)
            if isinstance(moves, Hamiltonian) and index >= 2 and moves.outside > 0.05:
                # Gradients do not see a hard wall: trajectories run into it, or hardly move.
                _log.info("Trajectories leave the support: random walks from here on.")
                moves = RandomWalk(len(origin) - 1, density.d, path.scale)
                settled = False
            else:
                moves.learn(origin[1:] - 1)
            state.take(np.repeat(origin[:, None], n_copies, axis=1))

    report = TemperingReport(
        betas=ladder,
        rejection=result.rejection,
        acceptance=result.acceptance,
        barrier=result.barrier,
        round_trips=result.round_trips,
        log_evidence=result.evidence.combined,
        log_evidence_error=result.evidence.error,
        log_evidence_forward=result.evidence.forward,
        log_evidence_backward=result.evidence.backward,
        n_evaluations=density.n_evaluations - evaluated,
        seconds=time.perf_counter() - began,
        reference=path.name,
        n_copies=n_copies,
        settled=settled,
        rounds=tuple(table),
        replicas=result.replicas,
    )
    keep = np.linspace(0, len(result.points) - 1, min(n_points, len(result.points)))
    keep = keep.round().astype(int)
    return result.points[keep], result.logp[keep], report


_GIVEN = {"model", "density", "rng", "progressbar"}
TEMPERING_OPTIONS = [name for name in inspect.signature(temper).parameters if name not in _GIVEN]
"""What users may set, besides what the step sets itself."""


def _check_betas(betas: Sequence[float]) -> np.ndarray:
    """Check a ladder given by the user."""
    ladder = np.asarray(betas, dtype=float)
    if ladder.ndim != 1 or len(ladder) < 2 or not np.isfinite(ladder).all():
        raise ValueError(f"betas must be at least two finite numbers, got {betas}.")
    if (np.diff(ladder) <= 0).any() or ladder[0] != 0.0 or ladder[-1] != 1.0:
        raise ValueError(
            "betas must increase from 0 (the reference) to 1 (the posterior), got "
            f"{ladder.tolist()}. Use for instance np.linspace(0, 1, 12) ** 4."
        )
    return ladder


def _first_replicas(path: Path, rng: np.random.Generator, n: int, copies: int) -> Replicas:
    """Start every replica at a draw of the reference inside the model's support."""
    needed = n * copies
    found: list[np.ndarray] = []
    total = 0
    for _ in range(50):
        x = path.sample(rng, max(needed, 256))
        reference, value = path.evaluate(x)
        found.append(x[np.isfinite(reference + value)])
        total += len(found[-1])
        if total >= needed:
            break
    x = np.concatenate(found)
    if len(x) == 0:
        raise ValueError(
            f"The log density is -inf or NaN at all {50 * max(needed, 256)} draws of the reference "
            f"({path.name}), so no replica can start. model.debug() shows which term is at fault; "
            'if the support is small, pass `start` inside it and reference="normal".'
        )
    x = x[np.arange(needed) % len(x)].reshape(n, copies, -1)
    reference, value = path.evaluate(x.reshape(needed, -1))
    return Replicas(x, reference.reshape(n, copies), value.reshape(n, copies))


def scan(
    path: Path,
    moves: Moves,
    state: Replicas,
    betas: np.ndarray,
    parity: int,
    rng: np.random.Generator,
    adapt: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Do one scan in place: local moves, a fresh draw of the reference, swaps of one parity.

    Returns
    -------
    acceptance : array of shape (k - 1,)
        Of local moves above the reference.
    values : array of shape (k, copies)
        V after the local moves, before the swaps.
    probability : array of shape (k - 1, copies)
        Of swapping each pair, also those whose turn it is not.
    index : array of shape (k, copies)
        From which temperature each replica came.
    """
    copies = state.value.shape[1]
    acceptance = moves.move(path, state, betas, rng, adapt)
    state.x[0] = path.sample(rng, copies)
    state.reference[0], state.value[0] = path.evaluate(state.x[0])
    values = state.value.copy()
    probability = swap_probability(values, betas)
    swap = rng.random(probability.shape) < probability
    swap[1 - parity :: 2] = False
    index = np.repeat(np.arange(len(betas))[:, None], copies, axis=1)
    index[:-1] += swap
    index[1:] -= swap
    return acceptance, values, probability, index


def _run_round(
    path: Path,
    moves: Moves,
    state: Replicas,
    betas: np.ndarray,
    scans: int,
    rng: np.random.Generator,
    adapt: bool,
    thin: int,
    progress: ScanProgress,
) -> _Round:
    """Run the scans of one round."""
    began = time.perf_counter()
    n, copies = state.value.shape
    every = max(1, scans // thin)
    # However long the round, no more than this many scans are kept: memory stays flat.
    stride = -(-scans // MAX_KEPT_SCANS)
    values = np.empty((-(-scans // stride), n, copies))
    n_snapshots = int(np.clip(MAX_SNAPSHOT_SIZE // state.x.size, 1, SNAPSHOTS))
    look = max(1, scans // n_snapshots)
    points, logps = [], []
    snapshots: list[np.ndarray] = []
    rejection, acceptance = np.zeros(n - 1), np.zeros(n)
    fresh = np.zeros((n, copies), dtype=bool)
    trips = 0
    for t in range(scans):
        accepted, value, probability, index = scan(path, moves, state, betas, t % 2, rng, adapt)
        if t % stride == 0:
            values[t // stride] = value
        acceptance[1:] += accepted
        rejection += 1.0 - probability.mean(axis=1)
        if t % every == 0:
            points.append(state.x[-1].copy())
            logps.append(state.reference[-1] + state.value[-1])
        if t % look == 0 and len(snapshots) < n_snapshots:
            snapshots.append(state.x.copy())
        fresh[0] = True
        fresh = fresh[index, np.arange(copies)]
        state.take(index)
        trips += int(fresh[-1].sum())
        fresh[-1] = False
        progress.advance()
    acceptance[0] = scans
    return _Round(
        points=np.concatenate(points),
        logp=np.concatenate(logps),
        rejection=rejection / scans,
        acceptance=acceptance / scans,
        round_trips=trips,
        evidence=stepping_stone(values, betas),
        seconds=time.perf_counter() - began,
        replicas=np.concatenate(snapshots, axis=1),
    )


def _next_ladder(
    betas: np.ndarray, result: _Round, max_temperatures: int
) -> tuple[np.ndarray, np.ndarray]:
    """Spread the temperatures anew, two per unit of the barrier; tell where each comes from."""
    wanted = int(np.ceil(2.0 * result.barrier)) + 2
    n = int(np.clip(wanted, 3, max_temperatures))
    fresh = next_betas(betas, result.rejection, n)
    cumulative = np.concatenate([[0.0], np.cumsum(np.maximum(result.rejection, 1e-4))])
    place = np.interp(np.sqrt(fresh), np.sqrt(betas), cumulative)
    origin = np.abs(place[:, None] - cumulative[None, :]).argmin(axis=1)
    # A replica of the reference may be where the density is zero: not a start for a warmer one.
    origin[1:] = np.maximum(origin[1:], 1)
    return fresh, origin


def _has_settled(table: list[dict[str, Any]], n_copies: int) -> bool:
    """Whether barrier and evidence agree between the last two rounds, with enough round trips."""
    if len(table) < 4:
        return False
    before, now = table[-2], table[-1]
    error = np.hypot(before["log_evidence_error"], now["log_evidence_error"])
    return bool(
        now["round_trips"] >= 2 * n_copies
        and abs(now["barrier"] - before["barrier"]) < 0.15 * now["barrier"] + 0.2
        and abs(now["log_evidence"] - before["log_evidence"]) < 4 * error + 0.1
        and now["acceptance"] > 0.1
    )


def _last_scans(scans: int, round_trips: int, least: int, wanted: int = 800) -> int:
    """Choose the length of the last round: enough fresh starts of the cold chain, and of points."""
    needed = int(np.ceil(wanted * scans / max(round_trips, 1)))
    return int(np.clip(needed, max(scans, least), max(scans, 2 * least)))


def _row(result: _Round, scans: int, betas: np.ndarray) -> dict[str, Any]:
    """One line of the table of rounds."""
    return {
        "scans": scans,
        "temperatures": len(betas),
        "barrier": result.barrier,
        "log_evidence": result.evidence.combined,
        "log_evidence_error": result.evidence.error,
        "round_trips": result.round_trips,
        "acceptance": float(result.acceptance.min()),
        "swap": float(1.0 - result.rejection.max()),
        "seconds": result.seconds,
    }


def _announce(index: int, betas: np.ndarray, table: list[dict[str, Any]]) -> str:
    """Say in a few words which round is under way."""
    text = f"Tempering, round {index + 1}: {len(betas)} temperatures"
    return f"{text}, barrier {table[-1]['barrier']:.1f}" if table else text


def _log_round(index: int, row: dict[str, Any]) -> None:
    """Say in one line how a round went."""
    _log.info(
        "round %d: %d scans, %d temperatures, barrier %.2f, log evidence %.3f +- %.3f, "
        "%d round trips, local acceptance >= %.2f, swaps >= %.2f, %.2f s",
        index + 1,
        *(row[key] for key in ("scans", "temperatures", "barrier", "log_evidence")),
        *(
            row[key]
            for key in ("log_evidence_error", "round_trips", "acceptance", "swap", "seconds")
        ),
    )
