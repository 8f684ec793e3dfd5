"""The log density confined to one cell, as a PyTensor graph.

One shared integer says which cell, so a single compilation serves every chain. Points that must
be rejected get finite codes instead of ``-inf``: far below any log density, they are rejected by
every kernel all the same, and a rejected NUTS trajectory still tells from its energy why it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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

from pymc_spectral._pymc import exact_rounding
from pymc_spectral.partition.rules import DiscriminantRule, NystromRule, Rule, VoronoiRule

__all__ = ["CODES_BELOW", "NAN_LOGP", "OUTSIDE", "CellFunction", "RestrictedTarget", "cell_graph"]

NAN_LOGP = -1e300
"""Code of a point of the cell whose log density is NaN."""
OUTSIDE = -1e303
"""Code of a point outside the cell."""
# Anything below is one of the codes: no log density gets there.
CODES_BELOW = -1e299


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
    score = pt.dot(_data(rule.centres), y) - _data(0.5 * np.sum(rule.centres**2, axis=1))
    return _data(rule.owner)[pt.argmax(score)]


@cell_graph.register
def _(rule: DiscriminantRule, x: TensorVariable) -> TensorVariable:
    n_components, d = rule.means.shape
    if len(np.unique(rule.owner)) == 1:
        return pt.constant(rule.owner[0])
    means = _data(rule.means)
    if rule.factors.ndim == 2:
        y = (x[None, :] - means) * _data(rule.factors)
    elif d <= 8:
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
    if rule.n_neighbours:
        kth = pt.sort(squared)[rule.n_neighbours]
        own_scale = pt.maximum(pt.sqrt(kth), _data(rule.local_scale.min()))
    else:
        own_scale = local_scale[0]
    log_affinity = -squared / (own_scale * local_scale) - _data(rule.half_log_degree)
    weights = pt.exp(log_affinity - pt.max(log_affinity))
    z = pt.dot(weights, _data(rule.vectors))
    norm = pt.sqrt(pt.sum(z**2))
    z = z / pt.switch(norm > 0, norm, 1.0)
    score = pt.dot(_data(rule.centres), z) - _data(0.5 * np.sum(rule.centres**2, axis=1))
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


class CellFunction:
    """Log density, gradient and membership of the cell, compiled as one function.

    Has the attributes that PyMC's Hamiltonian step methods ask of their ``logp_dlogp_func``.
    """

    def __init__(self, function: Any):
        self._pytensor_function = function
        self._raveled_inputs = True
        self._extra_vars_shared: dict[str, Any] = {}
        self.dtype = "float64"


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
        point = self.model.initial_point()
        return sum(int(np.size(point[v.name])) for v in self.model.value_vars)

    def select(self, cell: int) -> None:
        """Confine the target to this cell from now on, in every function made from it."""
        self.cell.set_value(np.asarray(cell, dtype="int64"))

    def logp(self) -> TensorVariable:
        """Log density of the model inside the selected cell, a code below -1e299 outside."""
        logp = pm.Model.logp(self.model)
        # A NaN must not get through a comparison: `y > nan` is false, and slice would accept it.
        usable = pt.switch(pt.isnan(logp), _constant(NAN_LOGP), logp)
        return pt.switch(self.inside(), usable, _constant(OUTSIDE))

    def inside(self) -> TensorVariable:
        """Whether the point of the model's value variables lies in the selected cell."""
        x = pt.concatenate([pt.flatten(v).astype("float64") for v in self.model.value_vars])
        if len(self.model.value_vars) == 1 and self.model.value_vars[0].ndim == 1:
            x = self.model.value_vars[0]
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

        self.model.logp = logp  # type: ignore[method-assign]
        try:
            yield self.model
        finally:
            del self.model.logp

    def compile_logp(self, **compile_kwargs: Any) -> Any:
        """Compile the restricted log density as a function of the raveled point."""
        return self._compile([self.logp()], compile_kwargs, single=True)

    def compile_for_nuts(self, **compile_kwargs: Any) -> CellFunction:
        """Compile the model's own log density and gradient, and whether a point is inside."""
        logp = rewrite_pregrad(pm.Model.logp(self.model))
        gradients = pytensor.grad(logp, self.model.value_vars, disconnected_inputs="ignore")
        gradient = pt.join(0, *[pt.flatten(g) for g in gradients])
        return CellFunction(self._compile([logp, gradient, self.inside()], compile_kwargs))

    def _compile(
        self, outputs: list[TensorVariable], compile_kwargs: dict[str, Any], single: bool = False
    ) -> Any:
        """Compile outputs as a function of the raveled point."""
        point = self.model.initial_point()
        start = {v.name: point[v.name] for v in self.model.value_vars}
        outputs, x = join_nonshared_inputs(
            point=start, outputs=outputs, inputs=self.model.value_vars, shared_inputs={}
        )
        with exact_rounding():
            function = compile_pymc([x], outputs[0] if single else outputs, **compile_kwargs)
            function.trust_input = True
            function(np.concatenate([np.ravel(value) for value in start.values()]).astype(x.dtype))
        return function
