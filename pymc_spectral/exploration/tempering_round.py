"""One round of tempering: its scans, and what is kept of them.

A scan moves every replica locally, draws the reference anew, and swaps neighbors on the ladder:
even pairs at even scans, odd pairs at odd ones, so that a replica travels from the reference to the
posterior and back instead of diffusing [1]_.

References
----------
.. [1] Syed, Bouchard-Cote, Deligiannidis and Doucet. Non-reversible parallel tempering: a scalable
   highly parallel MCMC scheme. JRSS-B 84 (2022). https://arxiv.org/abs/1905.02939
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pymc_spectral._progress import ScanProgress
from pymc_spectral.exploration.ladder import Evidence, stepping_stone, swap_probability
from pymc_spectral.exploration.local_moves import Moves, Replicas
from pymc_spectral.exploration.tempered_path import Path

__all__ = ["Round", "RoundReport", "run_round", "scan"]

# Memory of a round stays flat however long it is (heuristic: V of 4096 scans of 32 temperatures and
# 8 copies is 8 MB, and gives the evidence to far better than anybody needs).
MAX_KEPT_SCANS = 4096
# Scans of which the replicas at all temperatures are kept, and floats that these take up at most:
# 32 MB. They are for pictures and for the shares of cells along the ladder.
SNAPSHOTS = 64
MAX_SNAPSHOT_SIZE = 4_000_000


class Scan(NamedTuple):
    """What one scan did.

    Attributes
    ----------
    acceptance : array of shape (k - 1,)
        Of local moves above the reference.
    values : array of shape (k, copies)
        V after the local moves, before the swaps.
    probability : array of shape (k - 1, copies)
        Of swapping each pair, also those whose turn it is not.
    origin : array of shape (k, copies)
        From which temperature each replica is to come: the swaps, not yet made.
    """

    acceptance: np.ndarray
    values: np.ndarray
    probability: np.ndarray
    origin: np.ndarray


@dataclass(frozen=True, eq=False)
class RoundReport:
    """Figures of one round.

    Attributes
    ----------
    betas : array of shape (k,)
        Inverse temperatures, from 0 (the reference) to 1 (the posterior).
    scans : int
        Length of the round.
    rejection : array of shape (k - 1,)
        Share of rejected swaps of each pair.
    acceptance : array of shape (k,)
        Acceptance of local moves at each temperature; 1 at the reference, which is sampled.
    round_trips : int
        How many times a replica went from the reference to the posterior, over all copies.
    evidence : Evidence
        Log evidence, in three ways, and its error.
    seconds : float
        Time taken.
    """

    betas: np.ndarray
    scans: int
    rejection: np.ndarray
    acceptance: np.ndarray
    round_trips: int
    evidence: Evidence
    seconds: float

    @property
    def barrier(self) -> float:
        """Sum of the rejections: how hard it is to travel the ladder."""
        return float(self.rejection.sum())

    def row(self) -> dict[str, Any]:
        """Return one line of the table of rounds."""
        return {
            "scans": self.scans,
            "temperatures": len(self.betas),
            "barrier": self.barrier,
            "log_evidence": self.evidence.combined,
            "log_evidence_error": self.evidence.error,
            "round_trips": self.round_trips,
            "acceptance": float(self.acceptance.min()),
            "swap": float(1.0 - self.rejection.max()),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Round:
    """What one round left behind.

    Attributes
    ----------
    report : RoundReport
        Its figures.
    points : array of shape (N, d)
        Points of the posterior, from scans at equal distances, all copies of each.
    logp : array of shape (N,)
        Their log density.
    replicas : array of shape (k, m, d)
        Where replicas were at each temperature, at some moments.
    """

    report: RoundReport
    points: np.ndarray = field(repr=False)
    logp: np.ndarray = field(repr=False)
    replicas: np.ndarray = field(repr=False)


def scan(
    path: Path,
    moves: Moves,
    replicas: Replicas,
    betas: np.ndarray,
    parity: int,
    rng: np.random.Generator,
) -> Scan:
    """Move all replicas in place, draw the reference anew, and choose swaps of one parity."""
    copies = replicas.value.shape[1]
    acceptance = moves.move(path, replicas, betas, rng)
    replicas.x[0] = path.sample(rng, copies)
    replicas.reference[0], replicas.value[0] = path.evaluate(replicas.x[0])
    values = replicas.value.copy()
    probability = swap_probability(values, betas)
    swap = rng.random(probability.shape) < probability
    swap[1 - parity :: 2] = False
    origin = np.repeat(np.arange(len(betas))[:, None], copies, axis=1)
    origin[:-1] += swap
    origin[1:] -= swap
    return Scan(acceptance, values, probability, origin)


def run_round(
    path: Path,
    moves: Moves,
    replicas: Replicas,
    betas: np.ndarray,
    scans: int,
    wanted: int,
    rng: np.random.Generator,
    progress: ScanProgress,
) -> Round:
    """Run the scans of one round.

    Parameters
    ----------
    path : Path
        From the reference to the posterior.
    moves : Moves
        Local moves, which learn as they go if they are `adapting`.
    replicas : Replicas
        Where to begin; changed in place.
    betas : array of shape (k,)
        Ladder.
    scans : int
        Length of the round.
    wanted : int
        Scans at least whose points of the posterior are kept, if there are as many.
    rng : numpy.random.Generator
        The only source of randomness.
    progress : ScanProgress
        Told of every scan.
    """
    began = time.perf_counter()
    recorder = _Recorder(replicas, scans, wanted)
    for t in range(scans):
        done = scan(path, moves, replicas, betas, t % 2, rng)
        recorder.observe(t, done, replicas)
        replicas.take(done.origin)
        progress.advance()
    return recorder.finish(betas, began)


class _Recorder:
    """What is kept of a round's scans.

    Parameters
    ----------
    replicas : Replicas
        For the shapes.
    scans : int
        Length of the round.
    wanted : int
        Scans at least whose points of the posterior are kept.
    """

    def __init__(self, replicas: Replicas, scans: int, wanted: int):
        n, copies = replicas.value.shape
        self.scans = scans
        self.every = max(1, scans // wanted)
        self.stride = -(-scans // MAX_KEPT_SCANS)
        self.values = np.empty((-(-scans // self.stride), n, copies))
        self.n_snapshots = int(np.clip(MAX_SNAPSHOT_SIZE // replicas.x.size, 1, SNAPSHOTS))
        self.snapshot_every = max(1, scans // self.n_snapshots)
        self.points: list[np.ndarray] = []
        self.logps: list[np.ndarray] = []
        self.snapshots: list[np.ndarray] = []
        self.rejection, self.acceptance = np.zeros(n - 1), np.zeros(n)
        # Whether a replica was at the reference since it was last at the posterior.
        self.renewed = np.zeros((n, copies), dtype=bool)
        self.round_trips = 0

    def observe(self, t: int, done: Scan, replicas: Replicas) -> None:
        """Record scan t, whose swaps have been chosen but not made."""
        if t % self.stride == 0:
            self.values[t // self.stride] = done.values
        self.acceptance[1:] += done.acceptance
        self.rejection += 1.0 - done.probability.mean(axis=1)
        if t % self.every == 0:
            self.points.append(replicas.x[-1].copy())
            self.logps.append(replicas.reference[-1] + replicas.value[-1])
        if t % self.snapshot_every == 0 and len(self.snapshots) < self.n_snapshots:
            self.snapshots.append(replicas.x.copy())
        self._count_trips(done.origin)

    def _count_trips(self, origin: np.ndarray) -> None:
        """Count replicas that reach the posterior from the reference by these swaps."""
        self.renewed[0] = True
        self.renewed = self.renewed[origin, np.arange(origin.shape[1])]
        self.round_trips += int(self.renewed[-1].sum())
        self.renewed[-1] = False

    def finish(self, betas: np.ndarray, began: float) -> Round:
        """Sum up the round."""
        self.acceptance[0] = self.scans
        evidence = stepping_stone(self.values, betas)
        report = RoundReport(
            betas=betas,
            scans=self.scans,
            rejection=self.rejection / self.scans,
            acceptance=self.acceptance / self.scans,
            round_trips=self.round_trips,
            evidence=evidence,
            seconds=time.perf_counter() - began,
        )
        return Round(
            report=report,
            points=np.concatenate(self.points),
            logp=np.concatenate(self.logps),
            replicas=np.concatenate(self.snapshots, axis=1),
        )
