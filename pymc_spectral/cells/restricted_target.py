"""The log density confined to one cell, as a PyTensor graph.

One shared integer says which cell, so a single compilation serves every chain. Points that must
be rejected get finite codes instead of ``-inf``: far below any log density, they are rejected by
every kernel all the same, and a rejected trajectory still tells from its energy why it ended. The
codes are written by :meth:`RestrictedTarget.logp` and read by :func:`verdict`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import singledispatch
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import join_nonshared_inputs, rewrite_pregrad
from pytensor.tensor import TensorVariable
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_spectral._pymc import RaveledFunction, exact_rounding, replacing_logp
from pymc_spectral.partition.cell_rules import (
    FULL_MAX_DIM,
    DiscriminantRule,
    NystromRule,
    Rule,
    VoronoiRule,
)

__all__ = [
    "CODES_BELOW",
    "NAN_CODE",
    "OUTSIDE",
    "RestrictedTarget",
    "Verdict",
    "cell_graph",
    "verdict",
]

NAN_CODE = -1e300
"""Code of a point of the cell whose log density is NaN."""
OUTSIDE = -1e303
"""Code of a point outside the cell."""
# The largest double is 1.8e308, and step methods take differences of two log densities: the codes
# leave room for that. A log density this low would need 1e149 standard deviations of a normal.
CODES_BELOW = -1e299
"""Anything finite below is one of the codes."""
# Halfway on a log scale would be -3e301; any number well apart from both serves.
OUTSIDE_BELOW = -1e301
"""Codes below it say outside, those above it NaN."""


class Verdict(Enum):
    """What a value of the restricted log density says about its point."""

    INSIDE = "inside"
    """In the cell: the value is the model's log density, -inf where that is."""
    OUTSIDE = "outside"
    """In another cell."""
    NAN = "nan"
    """In the cell, but the model's log density is NaN there."""


def verdict(value: float) -> Verdict:
    """Read the code in a value of the restricted log density.

    Parameters
    ----------
    value : float
        Log density of a point, or its change from a point with a log density: against the codes,
        any log density is lost in rounding.

    Returns
    -------
    Verdict
        ``INSIDE`` for any value that is not a code; -inf is the model's own wall.
    """
    if not value < CODES_BELOW or value == -np.inf:
        return Verdict.INSIDE
    return Verdict.OUTSIDE if value < OUTSIDE_BELOW else Verdict.NAN


@singledispatch
def cell_graph(rule: Rule, x: TensorVariable) -> TensorVariable:
    """Cell of one point, computed inside a graph.

    Parameters
    ----------
    rule : VoronoiRule, DiscriminantRule or NystromRule
        Frozen rule of a fitted partition, ``partition.rule_``.
    x : TensorVariable, shape (d,)
        Point in the coordinates that the partition was fitted in.

    Returns
    -------
    TensorVariable
        Scalar integer, equal to ``rule.predict(x[None])[0]``.
    """
    raise TypeError(f"No graph is known for a rule of type {type(rule).__name__}.")


@cell_graph.register
def _(rule: VoronoiRule, x: TensorVariable) -> TensorVariable:
    y = (x - _data(rule.shift)) / _data(rule.scale)
    score = pt.dot(_data(rule.centers), y) - _data(0.5 * np.sum(rule.centers**2, axis=1))
    return _data(rule.owner)[pt.argmax(score)]


@cell_graph.register
def _(rule: DiscriminantRule, x: TensorVariable) -> TensorVariable:
    n_components, d = rule.means.shape
    if len(np.unique(rule.owner)) == 1:
        return pt.constant(rule.owner[0])
    means = _data(rule.means)
    if rule.factors.ndim == 2:
        y = (x[None, :] - means) * _data(rule.factors)
    elif d <= FULL_MAX_DIM:
        # Small enough that elementwise work beats the call overhead of many products.
        transposed = _data(np.swapaxes(rule.factors, 1, 2))
        y = pt.sum(transposed * (x[None, :] - means)[:, None, :], axis=2)
    else:
        factors = _data(rule.factors)
        y = pt.stack([pt.dot(factors[c].T, x - means[c]) for c in range(n_components)])
    dof = _data(rule.dof)
    power = 0.5 * (dof + d)
    score = _data(rule.log_constants) - power * pt.log1p(pt.sum(y**2, axis=1) / dof)
    return _data(rule.owner)[pt.argmax(score)]


@cell_graph.register
def _(rule: NystromRule, x: TensorVariable) -> TensorVariable:
    local_scale = _data(rule.local_scale)
    y = pt.dot(x - _data(rule.shift), _data(rule.whiten))
    squared = pt.sum((y[None, :] - _data(rule.landmarks)) ** 2, axis=1)
    if rule.n_neighbors:
        kth = pt.sort(squared)[rule.n_neighbors]
        own_scale = pt.maximum(pt.sqrt(kth), _data(rule.local_scale.min()))
    else:
        own_scale = local_scale[0]
    log_affinity = -squared / (own_scale * local_scale) - _data(rule.half_log_degree)
    weights = pt.exp(log_affinity - pt.max(log_affinity))
    z = pt.dot(weights, _data(rule.vectors))
    norm = pt.sqrt(pt.sum(z**2))
    z = z / pt.switch(norm > 0, norm, 1.0)
    score = pt.dot(_data(rule.centers), z) - _data(0.5 * np.sum(rule.centers**2, axis=1))
    closest = pt.argmin(squared)
    limit = (_data(rule.far) * local_scale[closest]) ** 2
    far_segment = _data(rule.landmark_segment)[closest]
    segment = pt.switch(squared[closest] > limit, far_segment, pt.argmax(score))
    return _data(rule.owner)[segment]


def _data(value: ArrayLike) -> TensorSharedVariable:
    """Array of a rule as an input of the graph.

    A constant would become part of the code: every new partition of a model would have to be
    compiled, although only its numbers differ. Of a shared variable only type and number of axes
    count, and PyTensor's cache serves the next partition.
    """
    array = np.asarray(value)
    return pytensor.shared(array, shape=(None,) * array.ndim)


def _constant(value: float) -> TensorVariable:
    """Float64 constant: PyTensor would try float32 first, and the codes overflow it."""
    return pt.constant(np.asarray(value, dtype="float64"))


class CellLogp:
    """Compiled log density of the selected cell, and what its values mean.

    Parameters
    ----------
    target : RestrictedTarget
        Where the cell is selected.
    function : compiled function
        Restricted log density of a raveled point, with codes.
    """

    def __init__(self, target: RestrictedTarget, function: Any):
        self._target = target
        self._function = function

    def __call__(self, x: np.ndarray) -> float:
        """Return the value that kernels see at a point: the log density, or a code."""
        return float(self._function(x))

    def evaluate(self, x: np.ndarray) -> tuple[float, Verdict]:
        """Return the log density of a point in the selected cell, and the verdict on it.

        Parameters
        ----------
        x : array (d,)
            Raveled point.

        Returns
        -------
        logp : float
            -inf unless the verdict is ``INSIDE``.
        verdict : Verdict
        """
        value = float(self._function(x))
        found = verdict(value)
        return (value if found is Verdict.INSIDE else -np.inf), found

    def in_cell(self, cell: int, points: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate points in a cell; the one selected before is selected again.

        Parameters
        ----------
        cell : int
        points : array (n, d)
            Raveled points.

        Returns
        -------
        logp : array (n,)
            Log densities, -inf outside the cell and where they are NaN.
        inside : array (n,) of bool
            Where the verdict is ``INSIDE``: a point outside tells from one of no density.
        """
        selected = self._target.selected
        self._target.select(cell)
        try:
            found = [self.evaluate(x) for x in np.asarray(points, dtype=float)]
        finally:
            self._target.select(selected)
        logp = np.array([value for value, _ in found], dtype=float)
        return logp, np.array([v is Verdict.INSIDE for _, v in found], dtype=bool)


class RestrictedTarget:
    """A model's log density confined to whichever cell is selected.

    Parameters
    ----------
    model : pymc.Model
    rule : Rule
        Frozen rule of a fitted partition of the raveled ``model.value_vars``.

    Attributes
    ----------
    cell : shared variable
        The selected cell.
    """

    def __init__(self, model: pm.Model, rule: Rule):
        self.model = model
        self.rule = rule
        self.cell = pytensor.shared(np.asarray(0, dtype="int64"), name="spectral_cell")

    @property
    def dim(self) -> int:
        """Length of the raveled point."""
        return sum(int(np.size(value)) for value in self._start().values())

    @property
    def selected(self) -> int:
        """The cell that the target is confined to."""
        return int(self.cell.get_value())

    def select(self, cell: int) -> None:
        """Confine the target to this cell from now on, in every function made from it."""
        self.cell.set_value(np.asarray(cell, dtype="int64"))

    def logp(self) -> TensorVariable:
        """Build the log density of the model in the selected cell, a code outside and at NaN."""
        logp = pm.Model.logp(self.model)
        # A NaN must not get through a comparison: `y > nan` is false, and slice would accept it.
        usable = pt.switch(pt.isnan(logp), _constant(NAN_CODE), logp)
        return pt.switch(self.inside(), usable, _constant(OUTSIDE))

    def inside(self) -> TensorVariable:
        """Build whether the point of the model's value variables lies in the selected cell."""
        variables = self.model.value_vars
        if len(variables) == 1 and variables[0].ndim == 1:
            x = variables[0]  # raveled already
        else:
            x = pt.concatenate([pt.flatten(v).astype("float64") for v in variables])
        return pt.eq(cell_graph(self.rule, x), self.cell)

    @contextmanager
    def confining_model(self) -> Iterator[pm.Model]:
        """Make ``model.logp()`` the restricted one, for step methods built inside the context.

        PyMC's step methods take the density from ``model.logp()`` when they are constructed. This
        replaces that one method on this one model, and puts it back.
        """

        def logp(vars: Any = None, jacobian: bool = True, sum: bool = True) -> Any:
            if vars is not None or not jacobian or not sum:
                return pm.Model.logp(self.model, vars=vars, jacobian=jacobian, sum=sum)
            return self.logp()

        with replacing_logp(self.model, logp):
            yield self.model

    def compile_logp(self, **compile_kwargs: Any) -> CellLogp:
        """Compile the restricted log density as a function of the raveled point."""
        [logp], x = self._of_raveled([self.logp()])
        return CellLogp(self, self._compile(x, logp, compile_kwargs))

    def compile_for_nuts(self, **compile_kwargs: Any) -> RaveledFunction:
        """Compile the model's own log density and gradient, and whether a point is inside."""
        logp = rewrite_pregrad(pm.Model.logp(self.model))
        gradients = pytensor.grad(logp, self.model.value_vars, disconnected_inputs="ignore")
        gradient = pt.join(0, *[pt.flatten(g) for g in gradients])
        outputs, x = self._of_raveled([logp, gradient, self.inside()])
        return RaveledFunction(self._compile(x, outputs, compile_kwargs))

    def _start(self) -> dict[str, np.ndarray]:
        """Values of the value variables at the model's initial point."""
        point = self.model.initial_point()
        return {v.name: point[v.name] for v in self.model.value_vars}

    def _of_raveled(
        self, outputs: list[TensorVariable]
    ) -> tuple[list[TensorVariable], TensorVariable]:
        """Write outputs in terms of one vector; return them and the vector."""
        return join_nonshared_inputs(
            point=self._start(), outputs=outputs, inputs=self.model.value_vars, shared_inputs={}
        )

    def _compile(
        self,
        x: TensorVariable,
        outputs: TensorVariable | list[TensorVariable],
        compile_kwargs: dict[str, Any],
    ) -> Any:
        """Compile outputs as a function of the raveled point, and call it once."""
        start = np.concatenate([np.ravel(value) for value in self._start().values()])
        with exact_rounding():
            function = compile_pymc([x], outputs, **compile_kwargs)
            function.trust_input = True
            function(start.astype(x.dtype))  # Numba finishes compiling at the first call
        return function
