"""Which two directions of a space of many dimensions a picture shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pymc_spectral.partition.spectrum import standardization

__all__ = ["choose_plane", "discriminant_plane"]

# Singular values of the means below this, in units of spread, are rounding: no direction.
NO_DIRECTION = 1e-9


def choose_plane(
    var_names: str | Sequence[str] | None,
    names: list[str],
    landmarks: np.ndarray,
    labels: np.ndarray,
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[str, str]]:
    """Return a map to the plane of the picture, and the names of its two axes."""
    if var_names is None and len(names) > 2:
        mean, basis = discriminant_plane(landmarks, labels)
        text = ("first direction between cells", "second direction")
        return (lambda x: (x - mean) @ basis), text
    asked = names if var_names is None else np.atleast_1d(var_names).tolist()
    chosen: list[int] = []
    for name in asked:
        exact = [k for k, n in enumerate(names) if n == name]
        of = [k for k, n in enumerate(names) if n.startswith((f"{name}[", f"{name}_"))]
        if not exact and not of:
            raise KeyError(f"{name!r} not found; the coordinates are {', '.join(names)}.")
        chosen.extend(k for k in exact or of if k not in chosen)
    if len(chosen) < 2:
        raise ValueError(f"var_names={var_names!r} is one coordinate: name two, e.g. {names[:2]}.")
    pair = chosen[:2]
    return (lambda x: x[:, pair]), (names[pair[0]], names[pair[1]])


def discriminant_plane(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two orthogonal directions along which cells differ most, in units of spread.

    Directions between the cells' means come first; with fewer than three cells, the rest is filled
    by the directions of largest spread within cells.
    """
    center, scale = standardization(x)
    y = x / scale
    cells = np.unique(labels)
    means = np.array([y[labels == k].mean(axis=0) for k in cells])
    inner = y - means[np.searchsorted(cells, labels)]
    between = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    directions = [v for s, v in zip(between[1], between[2], strict=True) if s > NO_DIRECTION][:2]
    for v in directions:
        inner = inner - np.outer(inner @ v, v)
    spread = np.linalg.svd(inner, full_matrices=False)[2]
    basis = np.array([*directions, *spread])[:2].T
    return center, basis / scale[:, None]
