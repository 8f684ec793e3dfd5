"""The paper's two rules of thumb, estimated from a finished run.

:func:`efficiency_ratio`: does partitioning beat naive parallel chains?
:func:`recommended_landmarks`: how many landmarks does its heuristic ask for?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from pymc_spectral._autocorrelation import mean_variance
from pymc_spectral._inference_data import columns_of, open_groups
from pymc_spectral.bridge.weights import cell_of_chain
from pymc_spectral.diagnostics.thresholds import LANDMARKS_LEAST
from pymc_spectral.result.reweighting import weighed_groups

__all__ = [
    "LARGEST",
    "efficiency_ratio",
    "landmark_heuristic",
    "landmarks_of_groups",
    "recommended_landmarks",
]

LARGEST = 5000
"""Most landmarks that are recommended: more take minutes, and the heuristic is rough."""

# Pairs of draws from which the mean distance of two cells is taken. Heuristic: it is known to some
# percent, and the rule that it goes into is far rougher than that.
PAIRS = 1000

# Upper 95 % limit of a Poisson mean of which none was seen.
_UNSEEN = 3.0


def landmark_heuristic(weights: ArrayLike, gaps: ArrayLike, distance: float) -> float:
    """Return the paper's N_max from what it asks for.

    Parameters
    ----------
    weights : array-like (n_cells,)
        Mass of each cell.
    gaps : array-like (n_cells,)
        Spectral gap ``1 - lambda_i`` of the chain in each cell.
    distance : float
        Largest mean distance between draws of two cells, in units of the cells' own spread: as
        printed, with a length in it, the formula would change with the units of the parameters.

    Returns
    -------
    float
        ``(distance / min(weights * gaps)) ** 2``.
    """
    product = np.asarray(weights, dtype=float) * np.asarray(gaps, dtype=float)
    if not np.all(product > 0):
        raise ValueError(
            f"weights times gaps are {product.tolist()}: all must be positive. A cell without "
            "weight, or whose chain never moves, has no recommended number of landmarks."
        )
    return float((distance / product.min()) ** 2)


def recommended_landmarks(
    idata: Any, var_names: str | Sequence[str] | None = None, *, largest: int = LARGEST
) -> int:
    """Return the number of landmarks that the paper's heuristic asks for.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables that distances and autocorrelations are taken of. Default: all.
    largest : int
        Upper limit of the answer. The cost of a partition grows with the cube of the number.

    Returns
    -------
    int
        For ``SpectralPartitionStep(n_landmarks=...)``, between 100 and `largest`; `largest` itself
        means that the heuristic asks for so many or more.

    Notes
    -----
    The paper's heuristic, ``(max d_ij / min w_i (1 - lambda_i))^2``, see
    :func:`landmark_heuristic`. Here ``w_i`` are the cells' weights, ``1 / (1 - lambda_i)`` is
    estimated as in :func:`efficiency_ratio`, and ``d_ij`` is the mean distance between draws of
    two cells, each coordinate divided by its standard deviation within the cells, divided by the
    root of the number of coordinates.

    It is rough. On the paper's own example good partitions are met at a small part of it (see the
    page on the paper's results), and the square of the smallest weight makes it explode for rare
    modes. A run with fewer landmarks is not wrong: exactness never depends on the partition. Only
    when cells mix badly (`r_hat`, ESS by cell) and the number used is far below this one, more
    landmarks are worth a try.
    """
    return landmarks_of_groups(weighed_groups(idata), var_names, largest)


def landmarks_of_groups(
    groups: dict[str, xr.Dataset],
    var_names: str | Sequence[str] | None = None,
    largest: int = LARGEST,
) -> int:
    """Compute :func:`recommended_landmarks` from the groups of a weighed result."""
    weights = groups["cells"]["weight"].values
    _, values = columns_of(groups["cell_posterior"], var_names)
    cell = cell_of_chain(groups["cell_sample_stats"])
    inverse_gaps = np.array([_inverse_gap(values[cell == k]) for k in range(weights.size)])
    held = weights > 0
    distance = _largest_distance([values[cell == k] for k in np.flatnonzero(held)], weights[held])
    number = landmark_heuristic(weights[held], 1 / inverse_gaps[held], distance)
    return int(np.clip(np.ceil(number), min(LANDMARKS_LEAST, largest), largest))


def efficiency_ratio(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    naive: float | Any | None = None,
) -> pd.DataFrame:
    """Estimate whether the partition beats as many naive parallel chains: below 1 it does.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned.
    var_names : str or sequence of str, optional
        Variables whose means are of interest. Default: all.
    naive : float, InferenceData or DataTree, optional
        The spectral gap ``1 - lambda`` of the unrestricted kernel if it is known, or the result of
        a plain ``pm.sample`` with the same kernel, from whose autocorrelations it is then taken.
        Such chains must have found all modes and traveled between them; where they did not, the
        gap comes out far too large, and so does the ratio. Default: an upper bound from the run
        itself, see Notes, which makes the ratio larger, several times so where chains come back to
        the boundary again and again.

    Returns
    -------
    DataFrame
        A row per scalar parameter: ``ratio``, the left side of the paper's inequality for the
        function h = parameter minus posterior mean; ``ratio_any``, the same for the least
        favorable h, the same number in every row; ``gap``, the ``1 - lambda`` that was used.

    Notes
    -----
    The inequality is ``sum_i n w_i^2 (1 - lambda) / (1 - lambda_i) |h|_i^2 / |h|^2 < 1`` over n
    cells. Its parts are estimated thus:

    1. ``w_i``: weights of the cells, by the bridge.
    2. ``|h|_i^2`` and ``|h|^2``: mean square of h over a cell's draws, and over the posterior.
       Since h is centered once and not in every cell, this is the paper's bound; the variance that
       is realized is smaller, because differences between cells do not have to be sampled.
    3. ``1 / (1 - lambda_i)``: ``(tau + 1) / 2``, tau being the longest autocorrelation time
       ``1 + 2 sum_k rho_k`` among the parameters asked for, in the cell. Exact when a parameter
       is the slowest function of the chain; otherwise too small.
    4. ``1 - lambda``, by default: any set S bounds the gap of a reversible kernel,
       ``1 - lambda <= P(leave S) / (1 - pi(S))``. Cells are such sets, and a chain that is to
       leave its cell must try to: the bound is the least ``(rate of boundary hits) / (1 - w_i)``.
       No hit in T draws counts as three, the 95 % limit of independent ones; as hits come in
       clusters, and as the least of several counts, the estimate leans low, by a quarter where
       chains come to the boundary some tens of times.
       There is no such bound, and the gap is taken as 1, with one cell, with a kernel that does
       not report hits (slice), and with one other than NUTS that reports none in any cell.

    The shares ``w_i |h|_i^2 / |h|^2`` add up to one, so that the least favorable h lives in one
    cell, and ``ratio_any = max_i n w_i (1 - lambda) / (1 - lambda_i)``. The paper bounds every
    share by one instead and minimizes the sum over cells, which is up to n times as large.
    """
    groups = weighed_groups(idata)
    weights = groups["cells"]["weight"].values
    n = weights.size
    names, values = columns_of(groups["cell_posterior"], var_names)
    if not names:
        raise ValueError("The posterior has no numeric variable to compute a ratio for.")
    cell = cell_of_chain(groups["cell_sample_stats"])
    own = [values[cell == k] for k in range(n)]
    if naive is None:
        gap = _gap_from_hits(groups["cells"], groups["cell_sample_stats"], weights)
    elif isinstance(naive, int | float | np.number):
        gap = float(naive)
        if not 0 < gap <= 2:
            raise ValueError(f"naive={naive} is not a spectral gap: pass a number in (0, 2].")
    else:
        plain = open_groups(naive)
        if "posterior" not in plain:
            raise ValueError(
                f"naive has no group posterior (it has {', '.join(plain)}); pass what a plain "
                "pm.sample returned."
            )
        gap = 1 / _inverse_gap(columns_of(plain["posterior"], var_names)[1])
    inverse_gaps = np.array([_inverse_gap(x) for x in own])
    mean = weights @ np.array([x.mean(axis=(0, 1)) for x in own])
    norms = np.array([((x - mean) ** 2).mean(axis=(0, 1)) for x in own])
    whole = weights @ norms
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = n * gap * ((weights**2 * inverse_gaps) @ norms) / whole
    worst = n * gap * float(np.max(weights * inverse_gaps))
    return pd.DataFrame({"ratio": ratio, "ratio_any": worst, "gap": gap}, index=pd.Index(names))


def _inverse_gap(x: np.ndarray) -> float:
    """Estimate ``1 / (1 - lambda)`` from (chains, draws, p) draws of one kernel."""
    variance = x.var(axis=(0, 1))
    moving = variance > 0
    if not moving.any():
        raise ValueError("A cell's chain never moved: its autocorrelation time is unknown.")
    x = x[:, :, moving]
    times = mean_variance(x) * x.shape[0] * x.shape[1] / variance[moving]
    if not np.isfinite(times).all():
        raise ValueError(f"{x.shape[1]} draws a chain are too few for an autocorrelation time.")
    return max(1.0, (float(times.max()) + 1) / 2)


def _gap_from_hits(cells: xr.Dataset, stats: xr.Dataset, weights: np.ndarray) -> float:
    """Bound the gap of the unrestricted kernel by how often chains try to leave their cells."""
    rate = cells["boundary_hit_rate"].values
    others = 1 - weights
    usable = others > 0
    # NUTS and HMC always tell a hit; of other kernels it is known only once they have.
    reported = "energy" in stats or bool((rate > 0).any())
    if weights.size < 2 or not usable.any() or not reported:
        return 1.0
    rate = np.maximum(rate, _UNSEEN / cells["n_draws"].values)
    return float(min(1.0, (rate[usable] / others[usable]).min()))


def _largest_distance(cells: list[np.ndarray], weights: np.ndarray) -> float:
    """Largest mean distance between draws of two cells, in standard deviations within cells."""
    within = weights @ np.array([x.var(axis=(0, 1)) for x in cells])
    used = within > 0
    scale = np.sqrt(within[used]) * np.sqrt(used.sum())
    rng = np.random.default_rng(0)
    rows = [x.reshape(-1, x.shape[2])[:, used] / scale for x in cells]
    rows = [r[rng.integers(len(r), size=PAIRS)] for r in rows]
    largest = 0.0
    for i in range(len(rows)):
        for j in range(i):
            largest = max(largest, float(np.linalg.norm(rows[i] - rows[j], axis=1).mean()))
    return largest or 1.0
