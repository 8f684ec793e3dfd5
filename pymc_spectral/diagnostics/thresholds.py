"""Every limit of the checks, with what set it: where a figure begins to be worth a finding.

``docs/diagnostics.md`` takes its numbers from here; ``benchmarks/pages.py`` writes them there.

Limits are of three kinds. Some are others', and cited. Some are set so that results known to be
right are left alone while results known to be wrong are not: ``benchmarks/limits.py`` counts both,
on twenty seeds of two-, three- and ten-dimensional targets with exact answers. The others are
choices, called heuristic, with their reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pymc_spectral.partition.config import N_LANDMARKS

__all__ = [
    "HEAVY_CELL",
    "LANDMARKS_LEAST",
    "STRETCHES",
    "THRESHOLDS",
    "Severity",
    "Threshold",
    "limit_of",
    "wanted_landmarks",
]

Severity = Literal["info", "warning"]
Side = Literal["above", "below", "at most"]

HEALTHY = "benchmarks/limits.py: no warning in 240 healthy runs"
TWO_MODES = "benchmarks/limits.py: two modes in one cell are seen in 40 of 40 runs"


@dataclass(frozen=True)
class Threshold:
    """From where on a figure is worth a finding.

    Attributes
    ----------
    code : str
        Finding that it belongs to, one of `pymc_spectral.diagnostics.findings.CODES`.
    figure : str
        What is compared, in words.
    source : str
        What set the limits.
    info, warning : float, optional
        Beyond `info` the finding is information, beyond `warning` a warning. None: never that.
    side : {"above", "below", "at most"}
        Which side of a limit is beyond it.
    form : str
        How a limit is written.
    """

    code: str
    figure: str
    source: str
    info: float | None = None
    warning: float | None = None
    side: Side = "above"
    form: str = "{:g}"

    def severity(self, value: float, scale: float = 1.0) -> Severity | None:
        """Return how serious a figure is: None within the limits, and for NaN.

        Parameters
        ----------
        value : float
            The figure.
        scale : float
            What the limits are multiplied by, say the number of draws for a share of them.
        """
        if self.warning is not None and self._beyond(value, self.warning * scale):
            return "warning"
        if self.info is not None and self._beyond(value, self.info * scale):
            return "info"
        return None

    def exceeded(self, value: float, scale: float = 1.0) -> bool:
        """Return whether a figure is beyond any of the limits."""
        return self.severity(value, scale) is not None

    @property
    def worst(self) -> Severity:
        """How serious a figure is that is beyond all limits."""
        return "info" if self.warning is None else "warning"

    def _beyond(self, value: float, limit: float) -> bool:
        """Compare, so that NaN is never beyond."""
        if self.side == "above":
            return value > limit
        return value < limit if self.side == "below" else value <= limit


HEAVY_CELL = 0.05
"""A cell of more weight should have been met often, so that it was not is a warning."""

STRETCHES = 20
"""Stretches of time into which tempering's run is divided.

Heuristic: few enough that each is longer than a visit to a cell, enough that a scatter between them
is known to a sixth.
"""

# Landmarks that describe the shapes of all cells. Heuristic: a spread takes some per cell and per
# dimension; fewer than a hundred make no picture, and a thousand, the default, are never too few.
LANDMARKS_PER_CELL, LANDMARKS_PER_DIMENSION = 25, 5
LANDMARKS_LEAST, LANDMARKS_MOST = 100, N_LANDMARKS


def wanted_landmarks(n_cells: int, n_dims: int) -> int:
    """Return how many landmarks a partition should be learned from at least."""
    by_size = max(LANDMARKS_LEAST, LANDMARKS_PER_CELL * n_cells, LANDMARKS_PER_DIMENSION * n_dims)
    return min(LANDMARKS_MOST, by_size)


# One entry for each comparison that a check makes. Keys are codes of findings; where a code needs
# several figures, the others are called "code.figure".
THRESHOLDS: dict[str, Threshold] = {
    # ------------------------------------------------------------ within a cell
    "several_modes.unvisited": Threshold(
        "several_modes",
        "share of a cell's explored points where no chain went, beyond a valley",
        TWO_MODES,
        warning=0.03,
        form="{:.0%}",
    ),
    "several_modes.valley": Threshold(
        "several_modes",
        "depth of the valley on the way, in log density",
        "heuristic: a chain crosses a valley of e^-1 as if it were not there",
        warning=1.0,
    ),
    "several_modes.apart": Threshold(
        "several_modes",
        "r_hat of chains of which each agrees with itself",
        "heuristic: far above what slow mixing alone gives; " + HEALTHY,
        warning=1.2,
    ),
    "unvisited": Threshold(
        "unvisited",
        "share of a cell's explored points where no chain went",
        HEALTHY,
        warning=0.2,
        form="{:.0%}",
    ),
    "r_hat": Threshold(
        "r_hat",
        "r_hat within a cell",
        "benchmarks/limits.py: at most 1.03 in healthy runs, where one chain's halves are all that "
        "is compared",
        warning=1.05,
    ),
    "ess": Threshold(
        "ess",
        "effective draws per chain",
        "PyMC's own limit (Vehtari et al. 2021)",
        warning=100,
        side="below",
    ),
    "ess.landmarks": Threshold(
        "ess",
        "share of the landmarks that the paper's heuristic asks for, for the hint",
        "heuristic: the paper's number is generous, see the page on its results",
        info=0.25,
        side="at most",
        form="{:.0%}",
    ),
    "divergences": Threshold(
        "divergences",
        "true divergences, as a share of the draws",
        "heuristic: fewer hardly move a mean",
        info=0.0,
        warning=0.005,
        form="{:.1%}",
    ),
    "nan_logp": Threshold(
        "nan_logp",
        "points with a NaN log density, as a share of the draws",
        "heuristic: fewer hardly move a mean",
        info=0.0,
        warning=0.01,
        form="{:.0%}",
    ),
    # ------------------------------------------------------------ boundaries
    "boundary": Threshold(
        "boundary",
        "share of transitions that met the boundary",
        HEALTHY + "; above a half, most of the work is lost",
        info=0.2,
        warning=0.5,
        form="{:.0%}",
    ),
    # ------------------------------------------------------------ the weights
    "share_inside": Threshold(
        "share_inside",
        "share of the bridge's points that fell inside",
        HEALTHY + "; at a tenth, the weight's error is three times what it could be",
        info=0.5,
        warning=0.1,
        side="below",
        form="{:.0%}",
    ),
    "pareto_k": Threshold(
        "pareto_k",
        "Pareto k of the bridge's terms",
        "Vehtari, Simpson, Gelman, Yao & Gabry (2024)",
        warning=0.7,
    ),
    "bridge_disagreement": Threshold(
        "bridge_disagreement",
        "factor by which the variance of a cell's mass was enlarged",
        "bridge/estimate.py: enlarged only where chance would do it once in 10,000 times",
        warning=1.0,
    ),
    "bridge_not_converged": Threshold(
        "bridge_not_converged",
        "1 where the optimal bridge's equation was solved, else 0",
        "by definition",
        warning=1.0,
        side="below",
    ),
    "weight_error": Threshold(
        "weight_error",
        "standard error of a weight",
        "heuristic: the second digit of the weight is uncertain",
        warning=0.02,
    ),
    "weight_error.evidence": Threshold(
        "weight_error",
        "standard error of the log marginal likelihood",
        "heuristic: a Bayes factor is then off by more than half of itself",
        warning=0.5,
    ),
    # ------------------------------------------------------------ second opinions
    "occupancy": Threshold(
        "occupancy",
        "distance of the weight from tempering's share, in standard errors of both",
        "heuristic: by chance once in 16,000 times",
        warning=4.0,
    ),
    "occupancy.gap": Threshold(
        "occupancy",
        "and the distance itself",
        HEALTHY + "; errors of tempering's shares are rough",
        warning=0.03,
    ),
    "evidence": Threshold(
        "evidence",
        "distance of the two log evidences, in standard errors of both",
        "heuristic: by chance once in 16,000 times",
        warning=4.0,
    ),
    "evidence.gap": Threshold(
        "evidence",
        "which is allowed this much more",
        HEALTHY + "; allows for bias of tempering's estimate",
        warning=0.1,
    ),
    # ------------------------------------------------------------ exploration
    "round_trips": Threshold(
        "round_trips",
        "trips from the reference to the posterior, per ladder",
        "heuristic: each cold replica renewed twice",
        warning=2,
        side="below",
    ),
    "local_moves": Threshold(
        "local_moves",
        "share of local moves accepted, at the worst temperature",
        "heuristic: step sizes are adapted for far more, so that has failed there",
        warning=0.1,
        side="below",
        form="{:.0%}",
    ),
    "one_temperature": Threshold(
        "one_temperature",
        "weight of a cell that only cold replicas met",
        "heuristic: such a cell would have been met at other temperatures too",
        info=0.0,
        warning=HEAVY_CELL,
    ),
    "rarely_seen": Threshold(
        "rarely_seen",
        f"stretches of tempering's run, of {STRETCHES}, in which a cell was met",
        "heuristic: more visits than two make luck unlikely",
        info=2,
        side="at most",
    ),
    "rarely_seen.weight": Threshold(
        "rarely_seen",
        "weight of that cell",
        "heuristic: so heavy a cell should have been met in most stretches",
        info=0.0,
        warning=HEAVY_CELL,
    ),
    "wandering": Threshold(
        "wandering",
        "share of a cell's draws beyond all explored points",
        HEALTHY,
        warning=0.05,
        form="{:.0%}",
    ),
    # ------------------------------------------------------------ the partition
    "few_landmarks": Threshold(
        "few_landmarks",
        "landmarks of a cell",
        "heuristic: a spread is known to 16 % from 20 points, to 35 % from 5",
        info=20,
        warning=5,
        side="below",
    ),
    "few_points": Threshold(
        "few_points",
        f"all landmarks, as a share of {LANDMARKS_PER_CELL} per cell and {LANDMARKS_PER_DIMENSION} "
        f"per dimension, at least {LANDMARKS_LEAST} and at most {LANDMARKS_MOST}",
        "heuristic: so many describe the spread of each cell",
        info=1.0,
        warning=0.25,
        side="below",
        form="{:.0%}",
    ),
    "too_few_cells": Threshold(
        "too_few_cells",
        "depth of the deepest valley inside a cell, in log density",
        "heuristic: chains cross shallower ones",
        info=0.0,
        warning=2.0,
    ),
}


def limit_of(name: str) -> float:
    """Return the limit of a threshold that has only one."""
    (limit,) = (v for v in (THRESHOLDS[name].info, THRESHOLDS[name].warning) if v is not None)
    return limit
