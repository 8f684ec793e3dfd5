"""Synthetic chains whose answers are known, with all that the bridge needs, made without PyMC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from scipy.signal import lfilter
from scipy.stats import norm

from pymc_spectral.bridge.proposal import fit_proposal
from pymc_spectral.bridge.streaming_proposal import StreamingProposal
from pymc_spectral.bridge.weights import BRIDGE_STATS

LOG_NORMAL = 0.4
"""Standard deviation of the logarithm of the coordinates of a skewed cell."""


def ar1(rng, phi, shape, axis=1):
    """Draw stationary AR(1) series along an axis, with standard normal margins."""
    noise = rng.standard_normal(shape) * np.sqrt(1 - phi**2)
    start = list(shape)
    start[axis] = 1
    return lfilter([1.0], [1.0, -phi], noise, axis=axis, zi=phi * rng.standard_normal(start))[0]


@dataclass(frozen=True)
class Chains:
    """Chains with their bridge terms.

    Attributes
    ----------
    x, y : ndarray, shape (chains, draws, d)
        Draws, and the point that was proposed beside each.
    terms : ndarray, shape (4, chains, draws)
        Log target and log proposal at the draws, then at the proposed points.
    fits : ndarray of int, shape (chains, draws)
        Which fit of its proposal each row used.
    cell : ndarray of int, shape (chains,)
        Cell of each chain.
    """

    x: np.ndarray
    y: np.ndarray
    terms: np.ndarray
    fits: np.ndarray
    cell: np.ndarray

    def stats(self, **more: np.ndarray) -> xr.Dataset:
        """Return the sampler stats that the step would have left; `more` are stats to add."""
        values = dict(zip(BRIDGE_STATS, self.terms, strict=True))
        values["cell"] = np.repeat(self.cell[:, None], self.fits.shape[1], axis=1)
        values["proposal_fit"] = self.fits
        return dataset(values | more).copy(deep=True)


def dataset(values: dict[str, Any]) -> xr.Dataset:
    """Return a dataset of (chain, draw) arrays, with both coordinates."""
    chains, draws = next(iter(values.values())).shape[:2]
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return xr.Dataset({name: (("chain", "draw"), v) for name, v in values.items()}, coords)


def chains_with_bridge_terms(
    rng: np.random.Generator,
    paths: np.ndarray,
    log_target: Callable[[np.ndarray, int], np.ndarray],
    *,
    tune: int,
    proposal: str = "normal",
    fixed_fit: int | None = None,
    cell: np.ndarray | None = None,
) -> Chains:
    """Weigh chains as the step does: by proposals that a stream refits to earlier draws.

    Parameters
    ----------
    paths : ndarray, shape (chains, tune + draws, d)
        The chains as they ran.
    log_target : callable
        From points (m, d) and the index of the chain to the log of the restricted target (m,).
    tune : int
        Tuning draws, at least one: the first one stands for the landmarks.
    proposal : {"normal", "student"}
        Family of the proposal.
    fixed_fit : int, optional
        Starve the proposal: one fit to that many of the last tuning draws. Default: the stream.
    cell : ndarray of int, shape (chains,), optional
        Cell of each chain. Default: one cell.
    """
    n_chains, length, d = paths.shape
    draws = length - tune
    x, y = paths[:, tune:], np.empty((n_chains, draws, d))
    terms = np.empty((4, n_chains, draws))
    fits = np.empty((n_chains, draws), dtype=int)
    for k, path in enumerate(paths):
        if fixed_fit is None:
            proposals, fits[k] = _streamed(path, tune, proposal)
        else:
            proposals, fits[k] = [fit_proposal(path[tune - fixed_fit : tune], proposal)], 0
        for number, p in enumerate(proposals):
            rows = np.flatnonzero(fits[k] == number)
            y[k, rows] = p.sample(rng, rows.size)
            for term, points in ((0, x), (2, y)):
                terms[term, k, rows] = log_target(points[k, rows], k)
                terms[term + 1, k, rows] = p.logpdf(points[k, rows])
    return Chains(x, y, terms, fits, np.zeros(n_chains, dtype=int) if cell is None else cell)


def _streamed(path, tune, kind):
    """Return the proposals that weigh one chain's draws, and the number of each draw's."""
    stream = StreamingProposal(path[:1], kind)
    for point in path[:tune]:
        stream.observe(point, tuning=True)
    stream.stop_tuning()
    proposals, number = [], []
    for point in path[tune:]:
        current = stream.current
        if stream.n_fits > len(proposals):
            proposals.append(current)
        number.append(stream.n_fits - 1)
        stream.observe(point)
    return proposals, number


@dataclass(frozen=True)
class Cells:
    """Cells of known weight: every coordinate is its cell's center plus spread times a variate.

    Attributes
    ----------
    weight, center, spread : ndarray, shape (cells,)
        Posterior mass of each cell, and where it is. Cells may overlap: chains know only their own.
    shape : {"normal", "half", "skewed"}
        The variate: normal; normal, but its absolute value in the first coordinate (a wall through
        the peak, so that half of the proposed points fall outside); log-normal.
    d : int
        Coordinates, which are independent.
    log_z : float
        Log of the masses' sum.
    """

    weight: np.ndarray = field(default_factory=lambda: np.array([0.02, 0.2, 0.2, 0.58]))
    center: np.ndarray = field(default_factory=lambda: np.array([3.0, 7.0, 2.0, -5.0]))
    spread: np.ndarray = field(default_factory=lambda: np.array([1.0, 1.4, 1.1, 1.0]))
    shape: str = "normal"
    d: int = 1
    log_z: float = 0.0

    def chains(
        self,
        rng: np.random.Generator,
        *,
        phi: float = 0.0,
        draws: int = 500,
        tune: int = 500,
        chains_per_cell: int = 1,
        proposal: str = "normal",
        fixed_fit: int | None = None,
    ) -> Chains:
        """Draw autoregressive chains, cell after cell, with their bridge terms."""
        cell = np.tile(np.arange(self.weight.size), chains_per_cell)
        z = ar1(rng, phi, (cell.size, tune + draws, self.d))
        if self.shape == "half":
            z[:, :, 0] = np.abs(z[:, :, 0])
        elif self.shape == "skewed":
            z = np.exp(LOG_NORMAL * z)
        paths = self.center[cell, None, None] + self.spread[cell, None, None] * z
        return chains_with_bridge_terms(
            rng,
            paths,
            lambda points, k: self.log_target(points, cell[k]),
            tune=tune,
            proposal=proposal,
            fixed_fit=fixed_fit,
            cell=cell,
        )

    def log_target(self, points: np.ndarray, cell: int) -> np.ndarray:
        """Return the log of the density restricted to one cell, -inf outside, of (m, d) points."""
        z = (points - self.center[cell]) / self.spread[cell]
        scale = self.d * np.log(self.spread[cell])
        outside = np.zeros(len(z), dtype=bool)
        if self.shape == "skewed":
            outside = (z <= 0).any(axis=1)
            z = np.log(np.where(z > 0, z, 1.0))
            value = (norm.logpdf(z / LOG_NORMAL) - np.log(LOG_NORMAL) - z).sum(axis=1)
        else:
            value = norm.logpdf(z).sum(axis=1)
        if self.shape == "half":
            outside, value = z[:, 0] <= 0, value + np.log(2)
        value = value + np.log(self.weight[cell]) + self.log_z - scale
        return np.where(outside, -np.inf, value)

    def mean(self) -> np.ndarray:
        """Return the exact posterior mean of every coordinate."""
        return self.weight @ (self.center[:, None] + self.spread[:, None] * self._moments()[0])

    def sd(self) -> np.ndarray:
        """Return the exact posterior standard deviation of every coordinate."""
        first, second = self._moments()
        center, spread = self.center[:, None], self.spread[:, None]
        squares = center**2 + 2 * center * spread * first + spread**2 * second
        return np.sqrt(self.weight @ squares - self.mean() ** 2)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and mean square of the variate of every coordinate."""
        first, second = np.zeros(self.d), np.ones(self.d)
        if self.shape == "half":
            first[0] = np.sqrt(2 / np.pi)
        elif self.shape == "skewed":
            first[:], second[:] = np.exp(LOG_NORMAL**2 / 2), np.exp(2 * LOG_NORMAL**2)
        return first, second
