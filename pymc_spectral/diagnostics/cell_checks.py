"""Checks of what happened inside the cells, and of the bridge that weighed them.

Each reads the groups of a result and returns findings; nothing is sampled or evaluated.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_spectral._autocorrelation import rank_rhat
from pymc_spectral._groups import columns_of, stat_values
from pymc_spectral.bridge.weights import weigh
from pymc_spectral.diagnostics.efficiency import LARGEST, landmarks_of_groups
from pymc_spectral.diagnostics.findings import Finding, Groups, cells_of, value_of

__all__ = ["check_boundary", "check_bridge", "check_chains", "check_errors", "check_modes"]

# Thresholds. "Healthy" below are 20 seeds each of two-, three- and ten-dimensional targets with
# exact answers, one chain of 1000 draws per cell.
R_HAT = 1.05  # healthy: at most 1.03, because one chain's halves are all there is to compare
ESS_PER_CHAIN = 100  # PyMC's own
VALLEY = 1.0  # log density; chains cross shallower valleys as if they were not there
UNVISITED, UNVISITED_ANYWAY = 0.03, 0.2
CHAINS_DISAGREE = 1.2
BOUNDARY_INFO, BOUNDARY_WARNING = 0.2, 0.5
INSIDE_INFO, INSIDE_WARNING = 0.5, 0.1
PARETO_K = 0.7
WEIGHT_ERROR = 0.02
EVIDENCE_ERROR = 0.5
FAR_TOO_FEW = 4  # times fewer landmarks than the paper's heuristic, which is generous
NAN_SHARE = 0.01
DIVERGING_SHARE = 0.005


def check_chains(groups: Groups) -> list[Finding]:
    """Look at r_hat, ESS, divergences and NaNs of each cell's own chains."""
    cells = groups["cells"]
    found = []
    slow = (cells["r_hat"] > R_HAT) | (cells["ess_bulk"] < ESS_PER_CHAIN * cells["n_chains"])
    landmarks = _landmark_hint(groups) if bool(slow.any()) else ""
    for cell in cells_of(cells):
        r_hat, ess = value_of(cells, "r_hat", cell), value_of(cells, "ess_bulk", cell)
        chains, draws = value_of(cells, "n_chains", cell), value_of(cells, "n_draws", cell)
        if r_hat > R_HAT:
            what = "its chains disagree" if chains > 1 else "the halves of its chain disagree"
            found.append(
                Finding(
                    "r_hat",
                    "warning",
                    cell,
                    r_hat,
                    f"Cell {cell}: r_hat is {r_hat:.2f}, {what}.",
                    "Sample longer (tune=, draws=), and run several chains per cell, "
                    f"chains=2 * step.n_cells.{landmarks}",
                )
            )
        if ess < ESS_PER_CHAIN * chains:
            found.append(
                Finding(
                    "ess",
                    "warning",
                    cell,
                    ess,
                    f"Cell {cell}: effective sample size {ess:.0f} of {draws:.0f} draws.",
                    "Sample longer, or reparameterize: means within the cell are not reliable."
                    + landmarks,
                )
            )
        diverging = value_of(cells, "n_diverging", cell)
        if diverging > 0:
            found.append(
                Finding(
                    "divergences",
                    "warning" if diverging > DIVERGING_SHARE * draws else "info",
                    cell,
                    diverging,
                    f"Cell {cell}: {diverging:.0f} divergences, hits of the boundary not counted.",
                    'Pass kernel_kwargs={"target_accept": 0.95} to the step, or reparameterize.',
                )
            )
        nan = value_of(cells, "n_nan_logp", cell)
        if nan > 0:
            found.append(
                Finding(
                    "nan_logp",
                    "warning" if nan > NAN_SHARE * draws else "info",
                    cell,
                    nan,
                    f"Cell {cell}: the log density was NaN at {nan:.0f} points; they were refused.",
                    "Find the term with model.debug() at such a point; where the density is NaN, "
                    "the posterior has been cut off.",
                )
            )
    return found


def _landmark_hint(groups: Groups) -> str:
    """Advice to take more landmarks, where N is far below the paper's heuristic."""
    if "partition" not in groups or groups["cells"].sizes["cell"] < 2:
        return ""
    used, wanted = groups["partition"].sizes["landmark"], landmarks_of_groups(groups)
    if FAR_TOO_FEW * used > wanted:
        return ""
    number = f"{wanted} or more" if wanted == LARGEST else str(wanted)
    return (
        f" The cells were learned from {used} landmarks, and the paper's heuristic asks for "
        f"{number}: n_landmarks={wanted} may give cells that mix better."
    )


def check_modes(groups: Groups) -> list[Finding]:
    """Look for cells that hold more than one mode."""
    cells = groups["cells"]
    partition = groups.get("partition", xr.Dataset())
    apart = _chains_apart(groups)
    found = []
    for cell in cells_of(cells):
        unvisited = value_of(partition, "unvisited", cell)
        valley = value_of(partition, "valley_unvisited", cell)
        between = value_of(partition, "valley_chains", cell)
        r_hat = value_of(cells, "r_hat", cell)
        if unvisited > UNVISITED and valley > VALLEY:
            seen = (
                f"{unvisited:.0%} of its explored points lie where no chain went, beyond a valley "
                f"{valley:.1f} deep in log density"
            )
            value = valley
        elif between > VALLEY and r_hat > R_HAT:
            seen = f"its chains stayed on both sides of a valley {between:.1f} deep in log density"
            value = between
        elif apart[cell] > CHAINS_DISAGREE:
            seen = f"each chain looks settled, but in another place (r_hat {apart[cell]:.2f})"
            value = apart[cell]
        elif unvisited > UNVISITED_ANYWAY:
            found.append(
                Finding(
                    "unvisited",
                    "warning",
                    cell,
                    unvisited,
                    f"Cell {cell}: {unvisited:.0%} of its explored points lie where no chain went.",
                    "Its weight may be too small. Sample longer, run several chains per cell, or "
                    "reparameterize.",
                )
            )
            continue
        else:
            continue
        found.append(
            Finding(
                "several_modes",
                "warning",
                cell,
                value,
                f"Cell {cell} holds more than one mode: {seen}.",
                "Its weight counts only what its chains saw. Use more cells (n_cells=), or let "
                'n_cells="auto" decide.',
            )
        )
    return found


def _chains_apart(groups: Groups) -> np.ndarray:
    """Return r_hat of cells whose chains disagree though each agrees with itself, else 1."""
    cells = groups["cells"]
    out = np.ones(cells.sizes["cell"])
    if float(cells["n_chains"].max()) < 2:
        return out
    _, values = columns_of(groups["cell_posterior"])
    own = stat_values(groups["cell_sample_stats"], "cell")[:, 0].astype(int)
    for cell in np.flatnonzero(cells["n_chains"].values > 1):
        if not cells["r_hat"].values[cell] > CHAINS_DISAGREE:
            continue
        mine = values[own == cell]
        within = np.array([rank_rhat(chain[None]) for chain in mine])
        between = rank_rhat(mine)
        calm = np.nan_to_num(within, nan=1.0).max(axis=0) < CHAINS_DISAGREE
        out[cell] = max(out[cell], np.nanmax(np.where(calm, between, 1.0), initial=1.0))
    return out


def check_boundary(groups: Groups) -> list[Finding]:
    """Look at how often transitions met the boundary of their cell."""
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        rate = value_of(cells, "boundary_hit_rate", cell)
        if rate > BOUNDARY_INFO:
            found.append(
                Finding(
                    "boundary",
                    "warning" if rate > BOUNDARY_WARNING else "info",
                    cell,
                    rate,
                    f"Cell {cell}: {rate:.0%} of the transitions met its boundary, which cuts "
                    "through mass.",
                    "The draws stay right but move slowly. Use fewer cells (n_cells=); "
                    "target_accept has nothing to do with it.",
                )
            )
    return found


# ---------------------------------------------------------------- the bridge


def check_bridge(groups: Groups) -> list[Finding]:
    """Look at what the weights are estimated from."""
    cells = groups["cells"]
    try:
        weighing = weigh(groups["cell_sample_stats"], cells.attrs.get("bridge", "optimal"))
        excess = [e.excess for e in weighing.estimates]
    except ValueError:  # stats without the bridge's terms: nothing to recompute
        excess = [1.0] * cells.sizes["cell"]
    found = []
    for cell in cells_of(cells):
        inside = value_of(cells, "share_inside", cell)
        if inside < INSIDE_INFO:
            found.append(
                Finding(
                    "share_inside",
                    "warning" if inside < INSIDE_WARNING else "info",
                    cell,
                    inside,
                    f"Cell {cell}: {inside:.0%} of the bridge's fresh points fell inside.",
                    "Tune longer (tune=2000), or use fewer cells: the proposal does not fit a "
                    "cell that is cut out of a mode.",
                )
            )
        k = value_of(cells, "pareto_k", cell)
        if k > PARETO_K:
            found.append(
                Finding(
                    "pareto_k",
                    "warning",
                    cell,
                    k,
                    f"Cell {cell}: Pareto k of the bridge's terms is {k:.2f}, so the error of its "
                    "weight is not to be trusted.",
                    'Pass proposal="student" for heavy tails, or sample longer.',
                )
            )
        discrepancy = value_of(cells, "discrepancy", cell)
        if excess[cell] > 1.0:
            found.append(
                Finding(
                    "bridge_disagreement",
                    "warning",
                    cell,
                    discrepancy,
                    f"Cell {cell}: the masses by single chains and refits scatter "
                    f"{discrepancy:.1f} times as much as their errors allow.",
                    "The reported error was enlarged by this factor. The cell's chains have not "
                    "seen the same thing: sample longer, or use more cells.",
                )
            )
        if not bool(value_of(cells, "bridge_converged", cell)):
            found.append(
                Finding(
                    "bridge_not_converged",
                    "warning",
                    cell,
                    0.0,
                    f"Cell {cell}: the equation of the optimal bridge was not solved.",
                    'Try ps.reweight(idata, bridge="geometric"), and tune longer.',
                )
            )
    return found


def check_errors(groups: Groups) -> list[Finding]:
    """Look at the sizes of the reported errors."""
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        weight, error = value_of(cells, "weight", cell), value_of(cells, "weight_mcse", cell)
        if error > WEIGHT_ERROR or np.isnan(error):
            found.append(
                Finding(
                    "weight_error",
                    "warning",
                    cell,
                    error,
                    f"Cell {cell}: its weight is {weight:.2f} ± {error:.2f}.",
                    "Do not read more digits than that. The error falls as the square root of "
                    "draws=; see the other findings for its cause.",
                )
            )
    error = float(cells["log_marginal_likelihood_mcse"])
    if error > EVIDENCE_ERROR or np.isnan(error):
        total = float(cells["log_marginal_likelihood"])
        found.append(
            Finding(
                "weight_error",
                "warning",
                None,
                error,
                f"The log marginal likelihood is {total:.1f} ± {error:.1f}.",
                "Bayes factors below e to this power mean nothing; sample longer.",
            )
        )
    return found
