"""What every picture begins with: its axes, the groups it needs, and the parameters all share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import xarray as xr

__all__ = ["make_axes", "needed_group", "with_shared_parameters"]

Function = TypeVar("Function", bound=Callable[..., Any])

# What each of these parameters means is the same in all pictures, and said once.
SHARED = {
    "idata": """idata : InferenceData or DataTree
    What ``pm.sample(step=SpectralPartitionStep(...))`` returned.""",
    "figsize": """figsize : tuple of float, optional
    Size in inches. Ignored if `ax` is given.""",
}


def with_shared_parameters(function: Function) -> Function:
    """Fill ``{idata}`` and ``{figsize}`` in a docstring with what they mean in every picture."""
    if function.__doc__ is not None:  # as it is under python -OO
        doc = inspect.cleandoc(function.__doc__)
        for name, text in SHARED.items():
            doc = doc.replace(f"{{{name}}}", text)
        function.__doc__ = doc
    return function


def make_axes(ax: Any, figsize: tuple[float, float], rows: int = 1, columns: int = 1) -> Any:
    """Return the axes passed, checked, or those of a new figure."""
    n = rows * columns
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(given) != n:
            raise ValueError(f"ax holds {len(given)} axes, but {n} are needed.")
        return given if n > 1 else given[0]
    try:
        # Here and not above: Matplotlib is an extra, and only drawing needs it.
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need Matplotlib: python3 -m pip install 'pymc_spectral[plots]'."
        ) from error
    return plt.subplots(rows, columns, figsize=figsize, layout="constrained")[1]


def needed_group(groups: dict[str, xr.Dataset], name: str) -> xr.Dataset:
    """Return a group, or say where it would come from."""
    if name not in groups:
        raise ValueError(
            f"The result has no group {name} (it has {', '.join(groups)}). pm.sample adds it; "
            "a partition that was fitted before and handed in has no exploration."
        )
    return groups[name]
