"""Which kernel moves inside the cells: names, the kind of each step class, refusals.

A kernel is a PyMC step method on the restricted target, made once for all cells and begun anew for
each chain. What is ours is only how a chain begins (scales from the cell's landmarks) and how a
rejection at the boundary is told from a true divergence. There are four kinds, in `KINDS`; a step
method of a further kind gets a class with the methods of
:class:`pymc_spectral.cells.kernel_protocol.Kernel`, and a line there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep
from pymc.step_methods.hmc.base_hmc import BaseHMC

from pymc_spectral._validate import check_names, one_of, options_of
from pymc_spectral.cells.gradient_free_kernels import AnyStep, JointMetropolis, JointWalk
from pymc_spectral.cells.hamiltonian_kernels import CellTrajectories, WalledTrajectories
from pymc_spectral.cells.kernel_protocol import Kernel, Order
from pymc_spectral.cells.restricted_target import RestrictedTarget
from pymc_spectral.cells.wall_crossing_nuts import CellNUTS

__all__ = ["NAMED", "KernelName", "check_kernel", "make_kernel", "resolve_kernel"]

KernelName = Literal["nuts", "metropolis", "slice"]
# What a step method is handed by us, or by PyMC's own classes: not for users to set.
NOT_OPTIONS = {
    *("vars", "model", "blocked", "rng", "initial_point", "compile_kwargs", "logp_dlogp_func"),
    *("shared", "fs", "allvars"),
}
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
# The kernel where none is asked for: with gradients, and without.
WITH_GRADIENTS, WITHOUT = "nuts", "slice"


def check_kernel(
    kernel: str | type[BlockedStep] | None,
    kernel_kwargs: Mapping[str, Any],
    compile_kwargs: Mapping[str, Any],
) -> None:
    """Refuse what no model could make right: no kernel, or options that it would not look at.

    Parameters
    ----------
    kernel : str, step class or None
    kernel_kwargs, compile_kwargs : dict
        Options of the step class, and of PyTensor.
    """
    if kernel is None:
        # Which of the two it will be, only the model can tell.
        known = {o for name in (WITH_GRADIENTS, WITHOUT) for o in _known(NAMED[name], ())}
        check_names("kernel_kwargs", kernel_kwargs, "the kernel", sorted(known))
    else:
        _check_options(_class_of(kernel), kernel, kernel_kwargs, compile_kwargs)


def resolve_kernel(
    kernel: str | type[BlockedStep] | None,
    gradients: bool,
    *,
    kernel_kwargs: Mapping[str, Any] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> tuple[type[BlockedStep], str]:
    """Return class and name of the kernel asked for; NUTS by default where there are gradients.

    Parameters
    ----------
    kernel : str, step class or None
    gradients : bool
        Whether the model has them.
    kernel_kwargs, compile_kwargs : dict, optional
        Refused if the kernel would not look at them.
    """
    if kernel is None:
        kernel = WITH_GRADIENTS if gradients else WITHOUT
    cls = _class_of(kernel)
    if issubclass(cls, BaseHMC) and not gradients:
        raise ValueError(
            f"kernel {cls.__name__} needs gradients, which this model's logp does not have: "
            'pass kernel="slice" or kernel="metropolis".'
        )
    _check_options(cls, kernel, kernel_kwargs or {}, compile_kwargs or {})
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


def _class_of(kernel: str | type[BlockedStep]) -> type[BlockedStep]:
    """Return the step class of a kernel, refused if there is none."""
    names = get_args(KernelName)
    if isinstance(kernel, str):
        return NAMED[one_of("kernel", kernel, names)]
    if isinstance(kernel, type) and issubclass(kernel, BlockedStep):
        return kernel
    raise TypeError(
        f"kernel={kernel!r} is neither a name ({', '.join(names)}) nor a PyMC "
        "step class. Pass the class, not an instance: kernel=pm.HamiltonianMC."
    )


def _check_options(
    cls: type[BlockedStep],
    kernel: str | type[BlockedStep],
    kernel_kwargs: Mapping[str, Any],
    compile_kwargs: Mapping[str, Any],
) -> None:
    """Refuse options that a step class would not look at."""
    taker = f'kernel="{kernel}"' if isinstance(kernel, str) else f"kernel {cls.__name__}"
    check_names("kernel_kwargs", kernel_kwargs, taker, _known(cls, kernel_kwargs))
    if compile_kwargs and "compile_kwargs" not in (options_of(cls) or ()):
        raise TypeError(
            f"kernel {cls.__name__} takes no compile_kwargs, so its own functions would be "
            f"compiled without {', '.join(compile_kwargs)}: leave compile_kwargs out, or give its "
            "__init__ that argument."
        )


def _known(cls: type[BlockedStep], otherwise: Iterable[str]) -> list[str]:
    """Return the options that users may set; of a class that takes any, `otherwise`."""
    names = options_of(cls)
    return sorted(set(otherwise if names is None else names) - NOT_OPTIONS)
