"""Results made sick on purpose: what each finding needs to fire."""

import numpy as np

from pymc_spectral._inference_data import close_groups, open_groups
from pymc_spectral.diagnostics.report import find


def codes(idata, severity=None) -> set[str]:
    return {f.code for f in find(idata) if severity in (None, f.severity)}


def rigged(idata, edits):
    """The result with some arrays of some groups changed."""
    groups = dict(open_groups(idata))
    for group, name, change in edits:
        dataset = groups[group].copy(deep=True)
        if name.startswith("@"):
            dataset.attrs[name[1:]] = change
        else:
            values = np.array(dataset[name].values, dtype=float)
            dims, changed = dataset[name].dims, np.asarray(change(values))
            # A list that has grown needs its own dimension anew.
            dataset = dataset.drop_vars(name).assign({name: (dims, changed)})
        groups[group] = dataset
    return close_groups(groups, like=idata)


def at(index, value):
    """A change that sets some elements."""

    def change(values):
        values[index] = value
        return values

    return change


def always(value):
    """A change that sets a scalar, or everything."""
    return lambda values: np.full_like(values, value)


def followed_by(value):
    """A change that adds an element to a list."""
    return lambda values: np.append(values, value)


# Severity, cell and edits that make each finding fire.
RIGGED = {
    "r_hat": ("warning", 1, [("cells", "r_hat", at(1, 1.1))]),
    "ess": ("warning", 2, [("cells", "ess_bulk", at(2, 150.0))]),
    "divergences": ("warning", 0, [("cells", "n_diverging", at(0, 30))]),
    "nan_logp": ("info", 3, [("cells", "n_nan_logp", at(3, 2))]),
    "several_modes": (
        "warning",
        1,
        [("partition", "unvisited", at(1, 0.3)), ("partition", "valley_unvisited", at(1, 7.0))],
    ),
    "unvisited": ("warning", 1, [("partition", "unvisited", at(1, 0.4))]),
    "boundary": ("warning", 0, [("cells", "boundary_hit_rate", at(0, 0.7))]),
    "share_inside": ("warning", 3, [("cells", "share_inside", at(3, 0.03))]),
    "pareto_k": ("warning", 1, [("cells", "pareto_k", at(1, 0.9))]),
    "bridge_disagreement": (
        "warning",
        0,
        [("cells", "excess", at(0, 4.0)), ("cells", "discrepancy", at(0, 2.0))],
    ),
    "by_tempering": ("warning", 1, [("cells", "mass_by_tempering", at(1, 1.0))]),
    "bridge_not_converged": ("warning", 2, [("cells", "bridge_converged", at(2, 0))]),
    "weight_error": ("warning", 1, [("cells", "weight_mcse", at(1, 0.06))]),
    "occupancy": ("warning", 0, [("exploration", "occupancy", at(0, 0.2))]),
    "evidence": ("warning", None, [("exploration", "log_evidence", always(1.5))]),
    "round_trips": ("warning", None, [("exploration", "round_trips", always(0))]),
    "not_settled": ("info", None, [("exploration", "@settled", 0)]),
    "local_moves": ("warning", None, [("exploration", "acceptance", at(2, 0.02))]),
    "one_temperature": (
        "warning",
        1,
        [("exploration", "temperature_occupancy", at((slice(0, -1), 1), 0.0))],
    ),
    "rarely_seen": ("warning", 0, [("exploration", "stretches_seen", at(0, 1))]),
    "wandering": ("warning", 2, [("partition", "wandering", at(2, 0.4))]),
    "few_landmarks": ("warning", 3, [("partition", "n_landmarks", at(3, 3))]),
    "few_points": ("info", None, "few points"),
    "too_few_cells": ("warning", None, [("partition", "prominences", followed_by(5.0))]),
    "too_many_cells": ("info", None, [("partition", "prominences", at(2, 0.0))]),
    "one_cell": ("info", None, "one cell"),
}
