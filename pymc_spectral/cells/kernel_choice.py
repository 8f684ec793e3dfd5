"""Which kernel moves inside the cells: names, the kind of each step class, refusals.

A kernel is a PyMC step method on the restricted target, made once for all cells and begun anew for
each chain. What is ours is only how a chain begins (scales from the cell's landmarks) and how a
rejection at the boundary is told from a true divergence. There are four kinds, in `KINDS`; a step
method of a further kind gets a class with the methods of
:class:`pymc_spectral.cells.kernel_protocol.Kernel`, and a line there.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep
from pymc.step_methods.hmc.base_hmc import BaseHMC

from pymc_spectral._validate import one_of
from pymc_spectral.cells.gradient_free_kernels import AnyStep, JointMetropolis, JointWalk
from pymc_spectral.cells.hamiltonian_kernels import CellTrajectories, WalledTrajectories
from pymc_spectral.cells.kernel_protocol import Kernel, Order
from pymc_spectral.cells.restricted_target import RestrictedTarget
from pymc_spectral.cells.wall_crossing_nuts import CellNUTS

__all__ = ["NUTS_OPTIONS", "KernelName", "make_kernel", "resolve_kernel"]

KernelName = Literal["nuts", "metropolis", "slice"]
# What users may set; PyMC swallows other names once it is handed a compiled function.
NUTS_OPTIONS = sorted(
    {
        name
        for cls in (pm.NUTS, BaseHMC)
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    - {"self", "vars", "model", "blocked", "rng", "initial_point"}
)
NAMED: dict[str, type[BlockedStep]] = {
    "nuts": CellNUTS,
    "metropolis": JointMetropolis,
    "slice": pm.Slice,
}
KINDS: dict[type, type[Kernel]] = {
    CellNUTS: CellTrajectories,
    BaseHMC: WalledTrajectories,
    JointMetropolis: JointWalk,
    BlockedStep: AnyStep,
}
"""Kind of kernel for each class of step methods; the closest base class counts."""


def resolve_kernel(
    kernel: str | type[BlockedStep] | None,
    gradients: bool,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> tuple[type[BlockedStep], str]:
    """Return class and name of the kernel asked for; NUTS by default where there are gradients.

    Parameters
    ----------
    kernel : str, step class or None
    gradients : bool
        Whether the model has them.
    compile_kwargs : dict, optional
        Refused if the kernel would not look at them.
    """
    names = get_args(KernelName)
    if kernel is None:
        kernel = "nuts" if gradients else "slice"
    if isinstance(kernel, str):
        cls = NAMED[one_of("kernel", kernel, names)]
    elif isinstance(kernel, type) and issubclass(kernel, BlockedStep):
        cls = kernel
    else:
        raise TypeError(
            f"kernel={kernel!r} is neither a name ({', '.join(names)}) nor a PyMC "
            "step class. Pass the class, not an instance: kernel=pm.HamiltonianMC."
        )
    if issubclass(cls, BaseHMC) and not gradients:
        raise ValueError(
            f"kernel {cls.__name__} needs gradients, which this model's logp does not have: "
            'pass kernel="slice" or kernel="metropolis".'
        )
    if compile_kwargs and not _takes(cls, "compile_kwargs"):
        raise TypeError(
            f"kernel {cls.__name__} takes no compile_kwargs, so its own functions would be "
            f"compiled without {', '.join(compile_kwargs)}: leave compile_kwargs out, or give its "
            "__init__ that argument."
        )
    return cls, getattr(cls, "name", cls.__name__)


def make_kernel(
    target: RestrictedTarget,
    cls: type[BlockedStep],
    *,
    Q: np.ndarray | None,
    kernel_kwargs: Mapping[str, Any],
    compile_kwargs: Mapping[str, Any],
) -> Kernel:
    """Make the kernel of a step class on a restricted target.

    Parameters
    ----------
    target : RestrictedTarget
    cls : step class
        As `resolve_kernel` returns it.
    Q : array (d, d) or None
        Covariance of a random walk that must not be tuned: the paper's.
    kernel_kwargs, compile_kwargs : dict
        Passed to the step class.
    """
    kind = next(KINDS[base] for base in cls.__mro__ if base in KINDS)
    return kind.on(Order(target, cls, Q, kernel_kwargs, compile_kwargs))


def _takes(cls: type, option: str) -> bool:
    """Return whether the constructor of a class has an option, or hands it to a base that has."""
    for base in cls.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        parameters = inspect.signature(constructor).parameters
        if option in parameters:
            return True
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return False
    return False
