"""InferenceData and DataTree in and out: all that differs between ArviZ 0.x and 1.x.

The rest of the package works on a dict of xarray datasets, the groups, and on the NumPy arrays in
them. ArviZ itself is not imported here: that takes two seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

__all__ = [
    "choose_variables",
    "close_groups",
    "columns_of",
    "group",
    "has_groups",
    "hdi_names",
    "open_groups",
    "stat_values",
]

LEGACY: bool = int(version("arviz").split(".")[0]) == 0
"""Whether the installed ArviZ is 0.x, whose containers are ``InferenceData``."""


def open_groups(idata: Any) -> dict[str, xr.Dataset]:
    """Return every group, warm-up included, as a dataset; the datasets are not copied."""
    if isinstance(idata, xr.DataTree):
        return {name: child.to_dataset() for name, child in idata.children.items()}
    if is_inference_data(idata):
        return {name: idata[name] for name in idata.groups()}
    raise TypeError(
        f"Expected an arviz.InferenceData or xarray.DataTree, got {type(idata).__name__}; "
        "pass what pm.sample returned."
    )


def close_groups(datasets: dict[str, xr.Dataset], like: Any) -> Any:
    """Return a container of the same type and attributes as `like` that holds `datasets`."""
    if isinstance(like, xr.DataTree):
        tree = xr.DataTree.from_dict(dict(datasets), name=like.name)
        tree.attrs.update(like.attrs)
        return tree
    return type(like)(**datasets, attrs=dict(like.attrs))


def is_inference_data(obj: Any) -> bool:
    """Return whether `obj` is an InferenceData of ArviZ 0.x."""
    return LEGACY and any(
        cls.__name__ == "InferenceData" and cls.__module__.startswith("arviz.")
        for cls in type(obj).__mro__
    )


def has_groups(result: Any) -> bool:
    """Return whether something is an InferenceData, a DataTree or a Dataset."""
    return isinstance(result, xr.Dataset | xr.DataTree) or is_inference_data(result)


def group(result: Any, name: str) -> xr.Dataset | None:
    """Return one group of an InferenceData or DataTree, or None."""
    if isinstance(result, xr.DataTree):
        return result[name].to_dataset() if name in result.children else None
    return getattr(result, name, None)


def hdi_names(hdi_prob: float) -> tuple[str, str]:
    """Return the column names that this ArviZ's summary gives to an interval's two ends."""
    if LEGACY:
        low = 100 * (1 - hdi_prob) / 2
        return f"hdi_{low:g}%", f"hdi_{100 - low:g}%"
    return f"hdi{100 * hdi_prob:g}_lb", f"hdi{100 * hdi_prob:g}_ub"


def stat_values(stats: xr.Dataset, name: str) -> np.ndarray:
    """Return one stat as a (chain, draw) array."""
    values = stats[name]
    extra = [d for d in values.dims if d not in ("chain", "draw")]
    if extra and all(values.sizes[d] == 1 for d in extra):
        values = values.squeeze(extra, drop=True)
        extra = []
    if extra:
        raise ValueError(f"The stat {name} has dimensions {values.dims}; expected chain and draw.")
    return values.transpose("chain", "draw").values


def columns_of(
    group: xr.Dataset, var_names: str | Sequence[str] | None = None
) -> tuple[list[str], np.ndarray]:
    """Lay the numeric variables of a group side by side.

    Parameters
    ----------
    group : Dataset
        With dimensions chain and draw.
    var_names : str or sequence of str, optional
        Variables to keep, or, with a leading ``~``, to leave out. Default: all.

    Returns
    -------
    names : list of str
        ``"mu"``, ``"theta[Chicago]"``, ``"cov[0, 1]"``, as ArviZ writes them.
    values : ndarray, shape (chains, draws, len(names))
        Draws as floats.
    """
    chosen = choose_variables(group, var_names)
    names: list[str] = []
    parts: list[np.ndarray] = []
    for name in chosen:
        values = group[name]
        if not {"chain", "draw"} <= set(values.dims) or values.dtype.kind not in "fiub":
            continue
        values = values.transpose("chain", "draw", ...)
        dims = values.dims[2:]
        labels = [values[d].values if d in values.coords else range(values.sizes[d]) for d in dims]
        for index in np.ndindex(*values.shape[2:]):
            inside = ", ".join(str(labels[k][i]) for k, i in enumerate(index))
            names.append(f"{name}[{inside}]" if dims else name)
        parts.append(values.values.reshape(*values.shape[:2], -1).astype(float))
    shape = (group.sizes["chain"], group.sizes["draw"], 0)
    return names, np.concatenate(parts, axis=2) if parts else np.empty(shape)


def choose_variables(group: xr.Dataset, var_names: str | Sequence[str] | None = None) -> list[str]:
    """Resolve `var_names` as ArviZ does, refusing names that do not exist."""
    known = [str(name) for name in group.data_vars]
    if var_names is None:
        return known
    asked = [var_names] if isinstance(var_names, str) else list(var_names)
    plain = [name.removeprefix("~") if name not in known else name for name in asked]
    unknown = [name for name in plain if name not in known]
    if unknown:
        raise KeyError(f"var_names {unknown} not found; the posterior has {', '.join(known)}.")
    negated = [a != p for a, p in zip(asked, plain, strict=True)]
    if any(negated) and not all(negated):
        raise ValueError(f"var_names={asked} mixes names to keep and names to leave out (~).")
    return [n for n in known if n not in plain] if any(negated) else plain
