"""Names of the coordinates of the unconstrained space."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

__all__ = ["coordinate_names"]


def coordinate_names(model: Any) -> list[str]:
    """Name the coordinates of the unconstrained space: ``"x[0]"``, ``"mu[home]"``, ``"s_log__"``.

    The labels of the model's coords are used where the transform keeps the variable's shape, so
    that a coordinate is called what :func:`pymc_spectral.summary` calls it.
    """
    point = model.initial_point()
    names: list[str] = []
    for value in model.value_vars:
        shape = np.shape(point[value.name])
        dims = model.named_vars_to_dims.get(model.values_to_rvs[value].name, ())
        labels: list[Any] = [model.coords.get(dim) for dim in dims]
        labels = [
            range(n) if kept is None else kept for n, kept in zip(shape, labels, strict=False)
        ]
        if tuple(map(len, labels)) != shape:
            labels = [range(n) for n in shape]
        for index in product(*labels):
            inside = ", ".join(map(str, index))
            names.append(f"{value.name}[{inside}]" if shape else value.name)
    return names
