"""A model as functions of one unconstrained vector: order, scalar graph, forward transforms.

The vector holds the raveled ``model.value_vars``, in their order. Everything that has to know this
order, or which models have such a vector at all, is here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import rewrite_pregrad
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph

from pymc_spectral._pymc import is_parameter_check

__all__ = [
    "Layout",
    "ScalarGraph",
    "check_model",
    "forward_graphs",
    "forward_transforms",
    "gradient_of",
    "scalar_graph",
]

_log = logging.getLogger(__name__)


def check_model(model: pm.Model) -> None:
    """Refuse a model without free variables, or with discrete ones."""
    if not model.value_vars:
        raise ValueError(
            "This model has no free variables, only observed ones: there is nothing to sample."
        )
    discrete = [
        model.values_to_rvs[value].name
        for value in model.value_vars
        if value.dtype not in continuous_types
    ]
    if discrete:
        quoted = ", ".join(f'"{name}"' for name in discrete)
        raise ValueError(
            f"Free variables that are discrete: {', '.join(discrete)}. Cells are cut from a "
            f"continuous space. Marginalize them, with pymc_extras.marginalize(model, [{quoted}]) "
            "or by hand (pm.Mixture), or sample with pm.sample alone."
        )


@dataclass(frozen=True)
class Layout:
    """Order of a model's value variables in one unconstrained vector.

    Attributes
    ----------
    names : tuple of str
        Names of the value variables, in the order of the columns.
    shapes : tuple of tuple of int
        Their shapes.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def d(self) -> int:
        """Dimension of the unconstrained space."""
        return int(sum(np.prod(shape, dtype=int) for shape in self.shapes))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Columns of each variable."""
        ends = np.cumsum([0, *(np.prod(shape, dtype=int) for shape in self.shapes)]).tolist()
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Lay value variables side by side.

        Parameters
        ----------
        point : dict of array
            Value variables by name, all with the same leading dimensions (none for one point).

        Returns
        -------
        array of shape (..., d)
        """
        missing = [name for name in self.names if name not in point]
        if missing:
            raise ValueError(f"The point has no {missing}; it holds {sorted(point)}.")
        columns = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            value = np.asarray(point[name], dtype=float)
            lead = value.shape[: value.ndim - len(shape)]
            columns.append(value.reshape((*lead, int(np.prod(shape, dtype=int)))))
        return np.concatenate(columns, axis=-1)

    def unravel(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Cut rows of shape (..., d) into a dict of value variables."""
        x = np.asarray(x)
        return {
            name: x[..., columns].reshape(x.shape[:-1] + shape)
            for name, columns, shape in zip(self.names, self.slices, self.shapes, strict=True)
        }


@dataclass(frozen=True, eq=False)
class ScalarGraph:
    """Log prior and log likelihood of a model as scalar graphs of one raveled vector.

    Attributes
    ----------
    vector : Variable
        The unconstrained point, in the order of `layout`.
    prior, likelihood : Variable
        Log prior with Jacobians; log likelihood with Potentials.
    layout : Layout
        What lies where in the vector.
    initial_point : array of shape (d,)
        The model's initial point.
    """

    vector: Variable
    prior: Variable
    likelihood: Variable
    layout: Layout
    initial_point: np.ndarray


def scalar_graph(model: pm.Model) -> ScalarGraph:
    """Express the model's log prior and log likelihood on one vector."""
    check_model(model)
    point = model.initial_point()
    names = tuple(variable.name for variable in model.value_vars)
    layout = Layout(names, tuple(np.shape(point[name]) for name in names))
    vector = pt.vector("unconstrained", shape=(layout.d,), dtype="float64")
    replacements = {}
    for variable, columns, shape in zip(
        model.value_vars, layout.slices, layout.shapes, strict=True
    ):
        piece = vector[columns].reshape(shape) if shape else vector[columns.start]
        replacements[variable] = piece.astype(variable.dtype)
    zero = pt.constant(0.0)
    parts = [pt.as_tensor(part) + zero for part in (model.varlogp, model.datalogp)]
    prior, likelihood = graph_replace(parts, replacements, strict=False)
    # As PyMC does before it differentiates: log-sum-exp, for one, gets a gradient that is right in
    # the far tails.
    prior, likelihood = rewrite_pregrad(_checks_to_neg_inf([prior, likelihood]))
    return ScalarGraph(
        vector=vector,
        prior=prior.astype("float64"),
        likelihood=likelihood.astype("float64"),
        layout=layout,
        initial_point=layout.ravel(point),
    )


def _checks_to_neg_inf(outputs: list[Variable]) -> list[Variable]:
    """Replace checks of parameter values by -inf where they fail, as PyMC's compilation does."""
    graph = FunctionGraph(outputs=outputs, clone=True, copy_inputs=False)
    for node in graph.toposort():
        if is_parameter_check(node):
            value, *conditions = node.inputs
            satisfied = pt.all([pt.all(condition) for condition in conditions])
            replacement = pt.switch(satisfied, value, -np.inf).astype(value.dtype)
            graph.replace(node.outputs[0], replacement, import_missing=True)
    return list(graph.outputs)


def gradient_of(graph: ScalarGraph, weight: Variable) -> Variable:
    """Return the gradient of log prior + weight * log likelihood, on one vector."""
    return pytensor.grad(
        graph.prior + weight * graph.likelihood, graph.vector, disconnected_inputs="ignore"
    )


def forward_graphs(
    model: pm.Model, stand_ins: Mapping[Variable, Variable] | None = None
) -> list[Variable]:
    """Express each value variable, in their order, by its random variable or what stands in for it.

    Bounds that depend on other random variables are left as they are.
    """
    graphs = []
    for value in model.value_vars:
        variable = model.values_to_rvs[value]
        own = variable if stand_ins is None else stand_ins[variable]
        transform = model.rvs_to_transforms.get(variable)
        graphs.append(own if transform is None else transform.forward(own, *variable.owner.inputs))
    return graphs


def forward_transforms(model: pm.Model) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Compile the map from the constrained space to the unconstrained one, for many draws.

    Returns
    -------
    callable
        Takes a dict with an array of shape (n, ...) for each free variable, by name, and returns
        an array of shape (n, d).
    """
    variables = model.free_RVs
    inputs = [variable.type(name=variable.name) for variable in variables]
    stand_ins = dict(zip(variables, inputs, strict=True))
    # Bounds may depend on other variables, so these are replaced there too. Zero is added so that a
    # variable without a transform comes out as an array of its own, not the one passed in.
    outputs = graph_replace(
        [graph + 0.0 for graph in forward_graphs(model, stand_ins)], stand_ins, strict=False
    )
    apply = _for_many_draws(inputs, outputs)

    def forward(draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Map draws to rows of the unconstrained space."""
        mapped = apply([np.asarray(draws[value.name]).astype(value.dtype) for value in inputs])
        return np.concatenate([value.reshape(len(value), -1) for value in mapped], axis=1)

    return forward


def _for_many_draws(
    inputs: list[Variable], outputs: list[Variable]
) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Compile graphs for inputs with a leading axis of draws."""
    try:
        batched = [
            pt.tensor(name=value.name, dtype=value.dtype, shape=(None, *value.type.shape))
            for value in inputs
        ]
        results = vectorize_graph(outputs, dict(zip(inputs, batched, strict=True)))
        function = pytensor.function(batched, results, on_unused_input="ignore")
        return lambda draws: function(*draws)
    except Exception as error:  # An Op without a vectorized form: one draw after another.
        _log.debug("Transforms are applied draw by draw (%s).", error)
        one = pytensor.function(inputs, outputs, on_unused_input="ignore")

        def loop(draws: list[np.ndarray]) -> list[np.ndarray]:
            """Apply the transforms draw by draw."""
            rows = [one(*row) for row in zip(*draws, strict=True)]
            return [np.array(column) for column in zip(*rows, strict=True)]

        return loop
