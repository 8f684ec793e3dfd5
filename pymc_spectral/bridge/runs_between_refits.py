"""Runs: rows that follow each other in one chain and share one fit of its proposal.

The terms of the bridge have a level of their own in each run, because the proposal has changed
between them. It is the same on both sides of the bridge, so it cancels and is no error; what varies
about it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_spectral._autocorrelation import centered_time

__all__ = ["Series", "draw_series", "number_runs", "run_means"]

# A shorter run joins the next. Heuristic: a mean over so few rows cannot be told from their
# fluctuation. The stream of proposals refits no more often than this either.
_MIN_RUN = 50

# Levels and autocorrelation time of a series depend on each other, but weakly. Heuristic: iterated
# from full levels, a few passes settle both.
_LEVEL_PASSES = 3


@dataclass(frozen=True)
class Series:
    """The draws' relative terms about the level of their run.

    Attributes
    ----------
    centered : ndarray, shape (chains, draws)
        Terms less level, 0 where a draw was left out; the sum is 0.
    time : float
        Autocorrelation time.
    n_means : float
        Number of estimated means that were subtracted: one for all rows, and a part of one for
        each run.
    """

    centered: np.ndarray
    time: float
    n_means: float


def number_runs(shape: tuple[int, ...], proposal_fit: np.ndarray | None) -> np.ndarray:
    """Give a number to each run of (chains, draws) rows, from 0 on; short ones join the next."""
    chains, draws = shape
    fit = np.zeros(shape, dtype=int) if proposal_fit is None else np.atleast_2d(proposal_fit)
    if fit.shape != tuple(shape):
        raise ValueError(f"proposal_fit has shape {fit.shape}; expected {tuple(shape)}.")
    runs = np.empty(shape, dtype=int)
    number = 0
    for k in range(chains):
        edges = [0, *(np.flatnonzero(np.diff(fit[k])) + 1).tolist(), draws]
        kept = [0]
        for edge in edges[1:-1]:
            if edge - kept[-1] >= _MIN_RUN and draws - edge >= _MIN_RUN:
                kept.append(edge)
        for start, stop in zip(kept, [*kept[1:], draws], strict=True):
            runs[k, start:stop] = number
            number += 1
    return runs


def run_means(
    values: np.ndarray, runs: np.ndarray, use: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return each run's mean over used rows and the number of those, at least 1."""
    count = np.maximum(np.bincount(runs.ravel(), weights=use.ravel()), 1.0)
    filled = np.where(use, values, 0.0)
    return np.bincount(runs.ravel(), weights=filled.ravel()) / count, count


def draw_series(
    terms_draw: np.ndarray, terms_fresh: np.ndarray, use: np.ndarray, runs: np.ndarray
) -> Series:
    """Subtract from the draws' terms what is the level of their run, and no more.

    A run's mean over autocorrelated draws holds its level, which is no error, and the draws' slow
    fluctuation, which is. How much levels differ is read off the proposed points, which are
    independent; each run's mean is then subtracted in the proportion that is level.

    Parameters
    ----------
    terms_draw, terms_fresh : ndarray, shape (chains, draws)
        Terms of both sides relative to their means.
    use, runs : ndarray, shape (chains, draws)
        Draws that count, and the number of each row's run.
    """
    means, count = run_means(terms_draw, runs, use)
    spread = _level_variance(terms_fresh, runs)
    part = np.full(means.size, 1.0 if spread > 0 else 0.0)
    for _ in range(_LEVEL_PASSES):
        level = 1.0 + part * (means - 1.0)
        centered = np.where(use, terms_draw - level[runs], 0.0)
        centered -= np.where(use, centered.sum() / use.sum(), 0.0)
        time = centered_time(centered)
        if spread == 0.0:
            break
        noise = np.sum(centered**2) / use.sum() * time / count
        part = spread / (spread + noise)
    return Series(centered, time, 1.0 + float(part.sum()))


def _level_variance(terms_fresh: np.ndarray, runs: np.ndarray) -> float:
    """Estimate how much the runs' levels differ: the spread of their means beyond their noise."""
    n_runs = int(runs.max()) + 1
    if n_runs < 2:
        return 0.0
    every = np.ones(terms_fresh.shape, dtype=bool)
    means, count = run_means(terms_fresh, runs, every)
    within, _ = run_means((terms_fresh - means[runs]) ** 2, runs, every)
    noise = within / np.maximum(count - 1.0, 1.0)
    share = count / count.sum()
    # The mean of all rows, 1, holds a share of each run's noise.
    return max(0.0, float(np.sum(share * ((means - 1.0) ** 2 - noise * (1.0 - share)))))
