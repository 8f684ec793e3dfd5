"""All that differs between ArviZ 0.x ``InferenceData`` and ArviZ 1.x ``xarray.DataTree``."""

from __future__ import annotations

from typing import Any

import arviz as az
import xarray as xr

__all__ = ["LEGACY", "build", "groups", "hdi_names", "is_idata"]

LEGACY: bool = "InferenceData" in vars(az)
"""Whether the installed ArviZ is 0.x. Asking 1.x for the name itself draws a warning."""


def is_idata(obj: Any) -> bool:
    """Tell whether `obj` is a container of groups as this ArviZ knows them."""
    return isinstance(obj, xr.DataTree) or (LEGACY and isinstance(obj, az.InferenceData))


def groups(idata: Any) -> dict[str, xr.Dataset]:
    """Return every group, warm-up included, as a dataset; the datasets are not copied."""
    if isinstance(idata, xr.DataTree):
        return {name: child.to_dataset() for name, child in idata.children.items()}
    if LEGACY and isinstance(idata, az.InferenceData):
        return {name: idata[name] for name in idata.groups()}
    raise TypeError(
        f"Expected an arviz.InferenceData or xarray.DataTree, got {type(idata).__name__}; "
        "pass what pm.sample returned."
    )


def build(datasets: dict[str, xr.Dataset], like: Any) -> Any:
    """Return a container of the same type and attributes as `like` that holds `datasets`."""
    if isinstance(like, xr.DataTree):
        tree = xr.DataTree.from_dict(dict(datasets), name=like.name)
        tree.attrs.update(like.attrs)
        return tree
    return az.InferenceData(**datasets, attrs=dict(like.attrs))


def hdi_names(hdi_prob: float) -> tuple[str, str]:
    """Return the column names that this ArviZ's summary gives to an interval's two ends."""
    if LEGACY:
        low = 100 * (1 - hdi_prob) / 2
        return f"hdi_{low:g}%", f"hdi_{100 - low:g}%"
    return f"hdi{100 * hdi_prob:g}_lb", f"hdi{100 * hdi_prob:g}_ub"
