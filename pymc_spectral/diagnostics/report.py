"""When to believe the answer: pure functions from a finished result to findings.

Nothing is sampled or evaluated, so a result loaded from a file is judged like the one in memory.
Inside ``pm.sample`` the findings are logged once, through PyMC's logger, and kept in the result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pandas as pd
import xarray as xr

from pymc_spectral.diagnostics.cell_checks import (
    check_boundary,
    check_bridge,
    check_chains,
    check_errors,
    check_modes,
)
from pymc_spectral.diagnostics.exploration_checks import (
    check_coverage,
    check_opinions,
    check_partition,
    check_tempering,
)
from pymc_spectral.diagnostics.failed_cells import check_replaced, mended
from pymc_spectral.diagnostics.findings import Finding, Groups
from pymc_spectral.result.reweighting import weighed_groups

__all__ = ["diagnose", "find", "log_findings", "with_findings"]

# A child of PyMC's logger: shown, formatted and silenced together with PyMC's own warnings.
_log = logging.getLogger("pymc.pymc_spectral")

CHECKS: tuple[Callable[[Groups], list[Finding]], ...] = (
    check_replaced,
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
    findings = find(weighed_groups(idata))
    columns = ["code", "severity", "cell", "value", "message", "advice"]
    table = pd.DataFrame([asdict(f) for f in findings], columns=columns)
    table["cell"] = table["cell"].astype("Int64")
    table["value"] = table["value"].astype(float)
    return table


def find(groups: Groups) -> list[Finding]:
    """Run every check on the groups of a weighed result; return the findings, warnings first."""
    findings = mended(groups, [finding for check in CHECKS for finding in check(groups)])
    return sorted(findings, key=lambda f: f.severity != "warning")


def with_findings(cells: xr.Dataset, findings: list[Finding]) -> xr.Dataset:
    """Keep findings in the group ``cells``, as JSON in its attribute ``findings``."""
    return cells.assign_attrs(findings=json.dumps([asdict(f) for f in findings]))


def log_findings(findings: list[Finding]) -> None:
    """Say findings through PyMC's logger, one line per kind."""
    for level, line in log_lines(findings):
        _log.log(level, line)


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
