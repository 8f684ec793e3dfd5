"""What a check can find: every kind of finding with its words, and one finding as data.

The limits from which on something is found are in `pymc_spectral.diagnostics.thresholds`. A kind
that is one figure of each cell against its limits needs an entry in either table and no code of its
own: :func:`from_figures` reads both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import xarray as xr

from pymc_spectral.diagnostics.thresholds import THRESHOLDS, Severity

__all__ = [
    "CODES",
    "Finding",
    "Groups",
    "Kind",
    "cells_of",
    "finding",
    "from_figures",
    "value_of",
    "variant",
]

Groups = dict[str, xr.Dataset]
"""Groups of a result by name."""


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


@dataclass(frozen=True)
class Kind:
    """A kind of finding.

    Attributes
    ----------
    says : str
        What it means, in short.
    message, advice : str
        What was seen and what to do, to be formatted with the cell, its figures and the words that
        the check passes.
    figure : str
        For kinds that are one figure of each cell: its variable, as ``"group.variable"``.
    per : str
        Variable of ``cells`` that multiplies the limits of the figure.
    reports : str
        Variable of ``cells`` to report as the value, where that is not the figure itself.
    """

    says: str
    message: str
    advice: str
    figure: str = ""
    per: str = ""
    reports: str = ""


# What helps tempering whatever it lacks; braces are doubled, as in all texts to be formatted.
LONGER = 'Explore longer: explore_kwargs={{"n_rounds": 11}}.'

# Keys are codes; "code:variant" is the same code in other words.
KINDS: dict[str, Kind] = {
    "by_tempering": Kind(
        "a cell failed its checks, and tempering's points stand in for it",
        "Cell {cell}: its {what} {verb} of tempering's points, with their larger error, since "
        "the cell failed its checks.",
        LONGER,
    ),
    "r_hat": Kind(
        "chains of one cell, or halves of its only chain, disagree",
        "Cell {cell}: r_hat is {r_hat:.2f}, {parts} disagree.",
        "Sample longer (tune=, draws=), and run several chains per cell, chains=2 * step.n_cells."
        "{landmarks}",
        figure="cells.r_hat",
    ),
    "ess": Kind(
        "a cell has few effective draws",
        "Cell {cell}: effective sample size {ess_bulk:.0f} of {n_draws:.0f} draws.",
        "Sample longer, or reparameterize: means within the cell are not reliable.{landmarks}",
        figure="cells.ess_bulk",
        per="n_chains",
    ),
    "divergences": Kind(
        "true divergences, not due to the boundary",
        "Cell {cell}: {n_diverging:.0f} divergences, hits of the boundary not counted.",
        'Pass kernel_kwargs={{"target_accept": 0.95}} to the step, or reparameterize.',
        figure="cells.n_diverging",
        per="n_draws",
    ),
    "nan_logp": Kind(
        "the model's log density was NaN",
        "Cell {cell}: the log density was NaN at {n_nan_logp:.0f} points; they were refused.",
        "Find the term with model.debug() at such a point; where the density is NaN, the posterior "
        "has been cut off.",
        figure="cells.n_nan_logp",
        per="n_draws",
    ),
    "several_modes": Kind(
        "a cell holds more than one mode, and its chains do not cross",
        "Cell {cell} holds more than one mode: {seen}.",
        'Its weight counts only what its chains saw. Let n_cells="auto" decide, or give '
        "more cells.",
    ),
    "several_modes:auto": Kind(
        "a cell holds more than one mode, and its chains do not cross",
        "Cell {cell} holds more than one mode: {seen}.",
        "Its weight counts only what its chains saw. Give the partition more to learn from: "
        'n_landmarks=4000, explore_kwargs={{"n_points": 16_000}}.',
    ),
    "unvisited": Kind(
        "chains did not reach a part of what exploration saw in their cell",
        "Cell {cell}: {unvisited:.0%} of its explored points lie where no chain went.",
        "Its weight may be too small. Sample longer, run several chains per cell, or "
        "reparameterize.",
    ),
    "boundary": Kind(
        "transitions often end at the boundary: it cuts through mass",
        "Cell {cell}: {boundary_hit_rate:.0%} of the transitions met its boundary, which cuts "
        "through mass.",
        "The draws stay right but move slowly. Use fewer cells (n_cells=); target_accept has "
        "nothing to do with it.",
        figure="cells.boundary_hit_rate",
    ),
    "boundary:auto": Kind(
        "transitions often end at the boundary: it cuts through mass",
        "Cell {cell}: {boundary_hit_rate:.0%} of the transitions met its boundary, which cuts "
        "through mass.",
        "The draws stay right but move slowly; target_accept has nothing to do with it. More draws "
        "make up for it, and so does a higher threshold for a valley: "
        'partition_kwargs={{"valley": 1.0}}.',
    ),
    "share_inside": Kind(
        "the bridge's proposal misses the cell",
        "Cell {cell}: {share_inside:.0%} of the bridge's proposed points fell inside.",
        "Tune longer (tune=2000), or use fewer cells: the proposal does not fit a cell that is cut "
        "out of a mode.",
        figure="cells.share_inside",
    ),
    "pareto_k": Kind(
        "a few terms dominate the bridge",
        "Cell {cell}: Pareto k of the bridge's terms is {pareto_k:.2f}, so the error of its weight "
        "is not to be trusted.",
        "The proposal does not resemble the cell: tune longer (tune=2000), and explore more points "
        'to learn it from, explore_kwargs={{"n_points": 16_000}}.',
        figure="cells.pareto_k",
    ),
    "bridge_disagreement": Kind(
        "chains or refits of one cell give different masses",
        "Cell {cell}: the masses by single chains and refits scatter {discrepancy:.1f} times as "
        "much as their errors allow.",
        "The reported error was enlarged by this factor. The cell's chains have not seen the same "
        "thing: sample longer, or use more cells.",
        figure="cells.excess",
        reports="discrepancy",
    ),
    "bridge_not_converged": Kind(
        "the bridge's equation was not solved",
        "Cell {cell}: the equation of the optimal bridge was not solved.",
        'Try ps.reweight(idata, bridge="geometric"), and tune longer.',
        figure="cells.bridge_converged",
    ),
    "weight_error": Kind(
        "a weight, or the evidence, is known too poorly",
        "Cell {cell}: its weight is {weight:.2f} ± {weight_mcse:.2f}.",
        "Do not read more digits than that. The error falls as the square root of draws=; see the "
        "other findings for its cause.",
    ),
    "weight_error:evidence": Kind(
        "the evidence is known too poorly",
        "The log marginal likelihood is {total:.1f} ± {error:.1f}.",
        "Bayes factors below e to this power mean nothing; sample longer.",
    ),
    "occupancy": Kind(
        "weights differ from the shares of tempering's points",
        "Cell {cell}: the bridge gives it {weight:.3f}, tempering was there for {share:.3f} of its "
        "time, {value:.0f} standard errors apart.",
        "One of them is wrong. Look for the findings several_modes and round_trips, and construct "
        "the step with another random_seed.",
    ),
    "evidence": Kind(
        "the evidence differs from that of tempering",
        "The log marginal likelihood is {total:.2f} by the cells, {other:.2f} by tempering.",
        'Tempering has not converged: pass explore_kwargs={{"n_rounds": 11}}.',
    ),
    "evidence:missing": Kind(
        "the evidence is below that of tempering",
        "The log marginal likelihood is {total:.2f} by the cells, {other:.2f} by tempering.",
        "Mass is missing from the cells: look for several_modes, and explore with another "
        "random_seed.",
    ),
    "round_trips": Kind(
        "tempering hardly renewed its coldest replicas",
        "Tempering made {trips} trips from the reference to the posterior with {copies} ladders, "
        "so modes may have been missed.",
        LONGER,
    ),
    "not_settled": Kind(
        "tempering was still changing when it stopped",
        "Barrier or evidence of tempering were still changing in its last rounds.",
        LONGER,
    ),
    "local_moves": Kind(
        "tempering hardly moved at some temperature",
        "Tempering's local moves were accepted in {value:.1%} at inverse temperature {beta:.2g}.",
        'Pass explore_kwargs={{"gradient": False}}, or reparameterize the model.',
    ),
    "one_temperature": Kind(
        "no replica of tempering but cold ones was ever in a cell",
        "Cell {cell}, of weight {weight:.2g}, was met by cold replicas only: nothing shows that "
        "they came down the ladder.",
        "Modes like it may have been missed. " + LONGER,
    ),
    "rarely_seen": Kind(
        "tempering met a mode in few stretches of its run",
        "Cell {cell}, of weight {weight:.2g}, was met in {value:.0f} of {stretches} stretches of "
        "the exploration.",
        "It was found by luck, and modes like it may have been missed. " + LONGER,
    ),
    "wandering": Kind(
        "chains went where exploration had no points",
        "Cell {cell}: {value:.0%} of the draws are far from every explored point, so exploration "
        "missed a part of it.",
        "Other cells may lack modes too. Partition again with the draws: rounds=2, or pass this "
        "result, explore=idata.",
        figure="partition.wandering",
    ),
    "few_landmarks": Kind(
        "a cell was learned from very few landmarks",
        "Cell {cell} was learned from {value:.0f} landmarks.",
        "Its shape is hardly known. Raise n_landmarks, or explore more points: "
        'explore_kwargs={{"n_points": 10_000}}.',
        figure="partition.n_landmarks",
    ),
    "few_points": Kind(
        "the partition was learned from few points",
        "The partition was learned from {value} points; for {n_cells} cells in {n_dims} dimensions "
        "use at least {wanted}.",
        "Explore more points, or raise n_landmarks.",
    ),
    "too_few_cells": Kind(
        "more modes were seen than there are cells",
        "Exploration saw {n_modes} modes, but there are {n_cells} cells; the deepest valley inside "
        "a cell is {value:.1f} in log density.",
        "Pass n_cells={n_modes}, or check that chains cross: chains=2 * step.n_cells.",
    ),
    "too_many_cells": Kind(
        "there are more cells than modes were seen",
        "There are {n_cells} cells, but exploration saw {n_modes} {noun}.",
        "Harmless, but boundaries through a mode cost time and precision.",
    ),
    "one_cell": Kind(
        "one mode was found: nothing to partition",
        "Exploration found one mode, so there was nothing to partition.",
        "That is no proof that there is no other. Run two chains at least, chains=2: with one, "
        "nothing but its own halves checks it.",
    ),
}

CODES: dict[str, str] = {code: kind.says for code, kind in KINDS.items() if ":" not in code}
"""Every code that a finding can have, and what it says."""


def finding(
    kind: str, severity: Severity, cell: int | None, value: float, **words: object
) -> Finding:
    """Return a finding in the words of its kind."""
    said = {**words, "cell": cell, "value": value}
    message, advice = (text.format(**said) for text in (KINDS[kind].message, KINDS[kind].advice))
    return Finding(kind.partition(":")[0], severity, cell, value, message, advice)


def from_figures(
    groups: Groups,
    codes: Iterable[str],
    words: Callable[[str, int], dict[str, str]] = lambda code, cell: {},
) -> list[Finding]:
    """Compare figures of each cell with their limits, and return what is beyond them.

    Parameters
    ----------
    groups : dict of Dataset
        The result.
    codes : iterable of str
        Kinds of findings, each with a figure.
    words : callable, optional
        ``words(code, cell)``: what the texts need beside the cell's own figures. Only asked where
        something is found.
    """
    cells = groups["cells"]
    found = []
    for cell in cells_of(cells):
        for code in codes:
            kind = KINDS[code]
            group, _, variable = kind.figure.partition(".")
            figure = value_of(groups.get(group, xr.Dataset()), variable, cell)
            scale = value_of(cells, kind.per, cell) if kind.per else 1.0
            severity = THRESHOLDS[code].severity(figure, scale)
            if severity is not None:
                value = value_of(cells, kind.reports, cell) if kind.reports else figure
                said = {**_figures(cells, cell), **words(code, cell)}
                found.append(finding(variant(code, groups), severity, cell, value, **said))
    return found


def variant(code: str, groups: Groups) -> str:
    """Return the kind whose advice can be followed: other words where the cells were not chosen."""
    asked = groups["partition"].attrs.get("n_cells_asked") if "partition" in groups else None
    automatic = f"{code}:auto"
    return automatic if asked == "auto" and automatic in KINDS else code


def _figures(cells: xr.Dataset, cell: int) -> dict[str, float]:
    """Return every figure that the group ``cells`` has of one cell."""
    names = [str(name) for name, values in cells.data_vars.items() if values.dims == ("cell",)]
    return {name: value_of(cells, name, cell) for name in names}


def cells_of(cells: xr.Dataset) -> range:
    """Return the numbers of the cells."""
    return range(cells.sizes["cell"])


def value_of(group: xr.Dataset, name: str, cell: int) -> float:
    """Return one figure of a cell, NaN where it was not recorded: no comparison with it holds."""
    return float(group[name].values[cell]) if name in group else float("nan")
