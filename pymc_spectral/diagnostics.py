"""When to believe the answer: pure functions from a finished result to findings.

Every check reads the groups of a result and returns findings; nothing is sampled or evaluated, so a
result loaded from a file is judged like the one in memory. :func:`report` logs them, once, through
PyMC's logger, and keeps them in the result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_spectral import _idata
from pymc_spectral._ess import rank_rhat
from pymc_spectral.record import STRETCHES
from pymc_spectral.reweight import reweight
from pymc_spectral.strata import columns_of, stat_values, weigh

__all__ = ["CODES", "Finding", "diagnose", "find", "report"]

# A child of PyMC's logger: shown, formatted and silenced together with PyMC's own warnings.
_log = logging.getLogger("pymc.pymc_spectral")

Severity = Literal["info", "warning"]

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
OPINIONS_APART = 4.0  # combined standard errors
OCCUPANCY_GAP = 0.03
EVIDENCE_GAP = 0.1
FEW_STRETCHES = 2
LOCAL_ACCEPTANCE = 0.1
WANDERING = 0.05
LANDMARKS_INFO, LANDMARKS_WARNING = 20, 5
DEEP_PROMINENCE = 2.0
NAN_SHARE = 0.01
DIVERGING_SHARE = 0.005

CODES: dict[str, str] = {
    "r_hat": "chains of one cell, or halves of its only chain, disagree",
    "ess": "a cell has few effective draws",
    "divergences": "true divergences, not due to the boundary",
    "nan_logp": "the model's log density was NaN",
    "several_modes": "a cell holds more than one mode, and its chains do not cross",
    "unvisited": "chains did not reach a part of what exploration saw in their cell",
    "boundary": "transitions often end at the boundary: it cuts through mass",
    "share_inside": "the bridge's proposal misses the cell",
    "pareto_k": "a few terms dominate the bridge",
    "bridge_disagreement": "chains or refits of one cell give different masses",
    "bridge_not_converged": "the bridge's equation was not solved",
    "weight_error": "a weight, or the evidence, is known too poorly",
    "occupancy": "weights differ from the shares of tempering's points",
    "evidence": "the evidence differs from that of tempering",
    "round_trips": "tempering hardly renewed its coldest replicas",
    "not_settled": "tempering was still changing when it stopped",
    "local_moves": "tempering hardly moved at some temperature",
    "one_temperature": "no replica of tempering but cold ones was ever in a cell",
    "rarely_seen": "tempering met a mode in few stretches of its run",
    "wandering": "chains went where exploration had no points",
    "few_landmarks": "a cell was learned from very few landmarks",
    "few_points": "the partition was learned from few points",
    "too_few_cells": "more modes were seen than there are cells",
    "too_many_cells": "there are more cells than modes were seen",
    "one_cell": "one mode was found: nothing to partition",
}
"""Every code that a finding can have, and what it says."""


@dataclass(frozen=True)
class Finding:
    """One thing to know about a result.

    Attributes
    ----------
    code : str
        One of `CODES`.
    severity : {"info", "warning"}
        ``"warning"``: some number in the result should not be believed as it stands.
    cell : int or None
        Cell concerned; None for the whole result.
    value : float
        The figure that gave rise to it.
    message : str
        What was seen.
    advice : str
        What to do.
    """

    code: str
    severity: Severity
    cell: int | None
    value: float
    message: str
    advice: str


Groups = dict[str, xr.Dataset]


def diagnose(idata: Any) -> pd.DataFrame:
    """Tell what should be known before a result is believed.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample(step=SpectralPartitionStep(...))`` returned, also loaded from a file.

    Returns
    -------
    DataFrame
        A row per finding, warnings first: ``code``, ``severity``, ``cell`` (missing where it is
        about the whole), ``value``, ``message`` and ``advice``. Empty if there is nothing to say.
    """
    findings = find(idata)
    columns = ["code", "severity", "cell", "value", "message", "advice"]
    table = pd.DataFrame([asdict(f) for f in findings], columns=columns)
    table["cell"] = table["cell"].astype("Int64")
    table["value"] = table["value"].astype(float)
    return table


def find(idata: Any) -> list[Finding]:
    """Run every check on a result; return the findings, warnings first."""
    groups = _idata.groups(idata)
    if "cells" not in groups:
        groups = _idata.groups(reweight(idata))
    findings = [finding for check in CHECKS for finding in check(groups)]
    return sorted(findings, key=lambda f: f.severity != "warning")


def report(idata: Any, *, log: bool = True) -> Any:
    """Keep the findings in the result, as JSON in the attributes of ``cells``, and log them.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A reweighted and recorded result.
    log : bool
        Say them through PyMC's logger: one line per kind of finding.

    Returns
    -------
    InferenceData or DataTree
        With the attribute ``findings``; `idata` itself is not changed.
    """
    findings = find(idata)
    groups = dict(_idata.groups(idata))
    text = json.dumps([asdict(f) for f in findings])
    groups["cells"] = groups["cells"].assign_attrs(findings=text)
    if log:
        for level, line in log_lines(findings):
            _log.log(level, line)
    return _idata.build(groups, like=idata)


def log_lines(findings: list[Finding]) -> list[tuple[int, str]]:
    """Join findings of one kind into a line; return them with their levels."""
    kinds: dict[tuple[str, str, str], list[Finding]] = {}
    for f in findings:
        kinds.setdefault((f.code, f.severity, f.advice), []).append(f)
    lines = []
    for (code, severity, advice), same in kinds.items():
        others = [str(f.cell) for f in same[1:] if f.cell is not None]
        more = f" Likewise cell{'s' * (len(others) > 1)} {', '.join(others)}." if others else ""
        level = logging.WARNING if severity == "warning" else logging.INFO
        lines.append((level, f"{same[0].message}{more} {advice} [{code}]"))
    return lines


# ---------------------------------------------------------------- within a cell


def check_chains(groups: Groups) -> list[Finding]:
    """Look at r_hat, ESS, divergences and NaNs of each cell's own chains."""
    cells = groups["cells"]
    found = []
    for cell in _cells(cells):
        r_hat, ess = _value(cells, "r_hat", cell), _value(cells, "ess_bulk", cell)
        chains, draws = _value(cells, "n_chains", cell), _value(cells, "n_draws", cell)
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
                    "chains=2 * step.n_cells.",
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
                    "Sample longer, or reparameterize: means within the cell are not reliable.",
                )
            )
        diverging = _value(cells, "n_diverging", cell)
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
        nan = _value(cells, "n_nan_logp", cell)
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


def check_modes(groups: Groups) -> list[Finding]:
    """Look for cells that hold more than one mode."""
    cells = groups["cells"]
    partition = groups.get("partition", xr.Dataset())
    apart = _chains_apart(groups)
    found = []
    for cell in _cells(cells):
        unvisited = _value(partition, "unvisited", cell)
        valley = _value(partition, "valley_unvisited", cell)
        between = _value(partition, "valley_chains", cell)
        r_hat = _value(cells, "r_hat", cell)
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
    for cell in _cells(cells):
        rate = _value(cells, "boundary_hit_rate", cell)
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
    for cell in _cells(cells):
        inside = _value(cells, "share_inside", cell)
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
        k = _value(cells, "pareto_k", cell)
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
        discrepancy = _value(cells, "discrepancy", cell)
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
        if not bool(_value(cells, "bridge_converged", cell)):
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
    for cell in _cells(cells):
        weight, error = _value(cells, "weight", cell), _value(cells, "weight_mcse", cell)
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


# ---------------------------------------------------------------- second opinions


def check_opinions(groups: Groups) -> list[Finding]:
    """Compare weights and evidence with those of tempering, which come another way."""
    cells, exploration = groups["cells"], groups.get("exploration")
    if exploration is None or "round_trips" not in exploration:
        return []
    found = []
    for cell in _cells(cells):
        weight = _value(cells, "weight", cell)
        share = _value(exploration, "occupancy", cell)
        error = np.hypot(
            _value(cells, "weight_mcse", cell), _value(exploration, "occupancy_error", cell)
        )
        gap = abs(weight - share)
        if gap > max(OPINIONS_APART * error, OCCUPANCY_GAP):
            found.append(
                Finding(
                    "occupancy",
                    "warning",
                    cell,
                    gap / error,
                    f"Cell {cell}: the bridge gives it {weight:.3f}, tempering was there for "
                    f"{share:.3f} of its time, {gap / error:.0f} standard errors apart.",
                    "One of them is wrong. Look for the findings several_modes and round_trips, "
                    "and construct the step with another random_seed.",
                )
            )
    total = float(cells["log_marginal_likelihood"])
    other = float(exploration["log_evidence"])
    error = float(
        np.hypot(cells["log_marginal_likelihood_mcse"], exploration["log_evidence_error"])
    )
    gap = abs(total - other)
    if gap > OPINIONS_APART * error + EVIDENCE_GAP:
        where = (
            "Mass is missing from the cells: look for several_modes, and explore with another "
            "random_seed."
            if other > total
            else 'Tempering has not converged: pass explore_kwargs={"n_rounds": 11}.'
        )
        found.append(
            Finding(
                "evidence",
                "warning",
                None,
                total - other,
                f"The log marginal likelihood is {total:.2f} by the cells, {other:.2f} by "
                "tempering.",
                where,
            )
        )
    return found


# ---------------------------------------------------------------- exploration


def check_tempering(groups: Groups) -> list[Finding]:
    """Look at what tempering says of itself."""
    exploration = groups.get("exploration")
    if exploration is None or "round_trips" not in exploration:
        return []
    found = []
    longer = 'Explore longer: explore_kwargs={"n_rounds": 11}.'
    trips, copies = int(exploration["round_trips"]), int(exploration.attrs["n_copies"])
    if trips < 2 * copies:
        found.append(
            Finding(
                "round_trips",
                "warning",
                None,
                trips,
                f"Tempering made {trips} trips from the reference to the posterior with {copies} "
                "ladders, so modes may have been missed.",
                longer,
            )
        )
    if not exploration.attrs["settled"]:
        found.append(
            Finding(
                "not_settled",
                "info",
                None,
                float(exploration["barrier"]),
                "Barrier or evidence of tempering were still changing in its last rounds.",
                longer,
            )
        )
    acceptance = float(exploration["acceptance"].min())
    if acceptance < LOCAL_ACCEPTANCE:
        beta = float(exploration["betas"].values[exploration["acceptance"].values.argmin()])
        found.append(
            Finding(
                "local_moves",
                "warning",
                None,
                acceptance,
                f"Tempering's local moves were accepted in {acceptance:.1%} at inverse "
                f"temperature {beta:.2g}.",
                'Pass explore_kwargs={"gradient": False}, or reparameterize the model.',
            )
        )
    shares = exploration.get("temperature_occupancy", xr.DataArray(np.ones((1, 0)))).values
    for cell in np.flatnonzero((shares[:-1] == 0).all(axis=0) & (len(shares) > 1)):
        weight = _value(groups["cells"], "weight", cell)
        found.append(
            Finding(
                "one_temperature",
                "warning" if weight > 0.05 else "info",
                int(cell),
                float(shares[-1, cell]),
                f"Cell {cell}, of weight {weight:.2g}, was met by cold replicas only: nothing "
                "shows that they came down the ladder.",
                "Modes like it may have been missed. " + longer,
            )
        )
    for cell in _cells(groups["cells"]):
        seen = _value(exploration, "stretches_seen", cell)
        if seen <= FEW_STRETCHES:
            weight = _value(groups["cells"], "weight", cell)
            found.append(
                Finding(
                    "rarely_seen",
                    "warning" if weight > 0.05 else "info",
                    cell,
                    seen,
                    f"Cell {cell}, of weight {weight:.2g}, was met in {seen:.0f} of {STRETCHES} "
                    "stretches of the exploration.",
                    "It was found by luck, and modes like it may have been missed. " + longer,
                )
            )
    return found


def check_coverage(groups: Groups) -> list[Finding]:
    """Look for chains that left the region that exploration knew."""
    partition = groups.get("partition", xr.Dataset())
    found = []
    for cell in _cells(groups["cells"]):
        share = _value(partition, "wandering", cell)
        if share > WANDERING:
            found.append(
                Finding(
                    "wandering",
                    "warning",
                    cell,
                    share,
                    f"Cell {cell}: {share:.0%} of the draws are far from every explored point, so "
                    "exploration missed a part of it.",
                    "Other cells may lack modes too. Partition again with the draws: rounds=2, or "
                    "pass this result, explore=idata.",
                )
            )
    return found


# ---------------------------------------------------------------- the partition


def check_partition(groups: Groups) -> list[Finding]:
    """Look at the number of cells and of landmarks."""
    cells, partition = groups["cells"], groups.get("partition")
    n_cells = cells.sizes["cell"]
    found = []
    if n_cells == 1:
        found.append(
            Finding(
                "one_cell",
                "info",
                None,
                1.0,
                "Exploration found one mode, so there was nothing to partition.",
                "pm.sample() alone does as well, and several chains would check it.",
            )
        )
    if partition is None:
        return found
    for cell in _cells(cells):
        n = _value(partition, "n_landmarks", cell)
        if n < LANDMARKS_INFO:
            found.append(
                Finding(
                    "few_landmarks",
                    "warning" if n < LANDMARKS_WARNING else "info",
                    cell,
                    n,
                    f"Cell {cell} was learned from {n:.0f} landmarks.",
                    "Its shape is hardly known. Raise n_landmarks, or explore more points: "
                    'explore_kwargs={"n_points": 10_000}.',
                )
            )
    n, d = partition.sizes["landmark"], partition.sizes["dim"]
    wanted = min(1000, max(100, 25 * n_cells, 5 * d))
    if n < wanted:
        found.append(
            Finding(
                "few_points",
                "warning" if n < wanted / 4 else "info",
                None,
                n,
                f"The partition was learned from {n} points; for {n_cells} cells in {d} "
                f"dimensions use at least {wanted}.",
                "Explore more points, or raise n_landmarks.",
            )
        )
    prominences = partition["prominences"].values
    prominences = prominences[~np.isnan(prominences)]
    if prominences.size == 0:
        return found
    n_modes = 1 + int(np.sum(prominences >= float(partition.attrs["valley"])))
    if n_modes > n_cells:
        depth = float(prominences[n_cells - 1])
        found.append(
            Finding(
                "too_few_cells",
                "warning" if depth > DEEP_PROMINENCE else "info",
                None,
                depth,
                f"Exploration saw {n_modes} modes, but there are {n_cells} cells; the deepest "
                f"valley inside a cell is {depth:.1f} in log density.",
                f"Pass n_cells={n_modes}, or check that chains cross: chains=2 * step.n_cells.",
            )
        )
    if n_modes < n_cells:
        found.append(
            Finding(
                "too_many_cells",
                "info",
                None,
                n_cells,
                f"There are {n_cells} cells, but exploration saw {n_modes} "
                f"{'mode' if n_modes == 1 else 'modes'}.",
                "Harmless, but boundaries through a mode cost time and precision.",
            )
        )
    return found


CHECKS: tuple[Callable[[Groups], list[Finding]], ...] = (
    check_modes,
    check_chains,
    check_boundary,
    check_bridge,
    check_errors,
    check_opinions,
    check_tempering,
    check_coverage,
    check_partition,
)
"""Every check, in the order in which findings are said."""


def _cells(cells: xr.Dataset) -> range:
    """Numbers of the cells."""
    return range(cells.sizes["cell"])


def _value(group: xr.Dataset, name: str, cell: int) -> float:
    """One figure of a cell, NaN where it was not recorded: no comparison with it holds."""
    return float(group[name].values[cell]) if name in group else float("nan")
