"""What a model's log density is made of, to notice when it changes under a step.

The cells of a step were learned from the posterior as it was. If the model gets another variable or
potential, or its data are set anew, modes may have moved, come or gone, and the answer would be
wrong in silence. Only what the log density depends on counts: data of a Deterministic, or of a
variable that is predicted later, may be set at will.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs

__all__ = ["ModelFingerprint", "fingerprint"]


@dataclass(frozen=True)
class ModelFingerprint:
    """Names of what makes up a log density, and digests of the data in it.

    Attributes
    ----------
    terms : frozenset of str
        Free and observed variables and potentials, with their kind.
    data : dict of str
        Digest of every shared variable that the log density depends on, by name; those without a
        name, or of the same one, by name and place.
    """

    terms: frozenset[str]
    data: dict[str, str]

    def difference(self, now: ModelFingerprint) -> str | None:
        """Say what differs from a later fingerprint, None if nothing does."""
        added, gone = sorted(now.terms - self.terms), sorted(self.terms - now.terms)
        if added or gone:
            parts = [f"{', '.join(added)} added"] if added else []
            parts += [f"{', '.join(gone)} removed"] if gone else []
            return " and ".join(parts)
        names = sorted(self.data.keys() | now.data.keys())
        changed = [name for name in names if self.data.get(name) != now.data.get(name)]
        return f"new values of {', '.join(changed)}" if changed else None


def fingerprint(model: pm.Model) -> ModelFingerprint:
    """Describe what a model's log density is made of."""
    kinds = {
        "free variable": model.free_RVs,
        "observed variable": model.observed_RVs,
        "potential": model.potentials,
    }
    terms = frozenset(f"{kind} {v.name}" for kind, found in kinds.items() for v in found)
    shared = [v for v in graph_inputs([model.logp()]) if isinstance(v, SharedVariable)]
    data: dict[str, str] = {}
    for place, variable in enumerate(shared):
        name = variable.name or "a shared variable without a name"
        # Names need be neither given nor unique; the order is that of the graph, always the same.
        key = f"{name} (no. {place})" if variable.name is None or name in data else name
        data[key] = _digest(variable.get_value(borrow=True))
    return ModelFingerprint(terms, data)


def _digest(value: object) -> str:
    """Return a digest of an array: its type, shape and bytes."""
    array = np.ascontiguousarray(value)
    head = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()
