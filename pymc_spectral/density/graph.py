"""A model as a scalar PyTensor graph of one unconstrained vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pymc.pytensorf import rewrite_pregrad
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace

__all__ = ["ScalarGraph", "gradient_of", "scalar_graph"]


@dataclass(frozen=True, eq=False)
class ScalarGraph:
    """The scalar graph of a model on one raveled vector, and how to compile it."""

    vector: Variable
    prior: Variable
    likelihood: Variable
    compile_kwargs: dict[str, Any]
    cores: int


def scalar_graph(
    model: pm.Model, compile_kwargs: dict[str, Any], cores: int
) -> tuple[ScalarGraph, tuple[str, ...], tuple[tuple[int, ...], ...], np.ndarray]:
    """Express the model's log prior and log likelihood on one vector."""
    if not model.value_vars:
        raise ValueError("The model has no free variables: there is nothing to explore.")
    discrete = [variable.name for variable in model.discrete_value_vars]
    if discrete:
        raise ValueError(
            f"Discrete free variables are not supported: {discrete}. Sum them out of the model, "
            "for instance with pm.Mixture or pymc_extras.marginalize."
        )
    point = model.initial_point()
    names = tuple(variable.name for variable in model.value_vars)
    shapes = tuple(np.shape(point[name]) for name in names)
    initial = np.concatenate([np.ravel(point[name]) for name in names]).astype(float)
    vector = pt.vector("unconstrained", shape=(initial.size,), dtype="float64")
    replacements, start = {}, 0
    for variable, shape in zip(model.value_vars, shapes, strict=True):
        size = int(np.prod(shape, dtype=int))
        piece = vector[start : start + size].reshape(shape) if shape else vector[start]
        replacements[variable] = piece.astype(variable.dtype)
        start += size
    zero = pt.constant(0.0)
    parts = [pt.as_tensor(part) + zero for part in (model.varlogp, model.datalogp)]
    prior, likelihood = graph_replace(parts, replacements, strict=False)
    # As PyMC does before it differentiates: log-sum-exp, for one, gets a gradient that is right in
    # the far tails.
    prior, likelihood = rewrite_pregrad(_checks_to_neg_inf([prior, likelihood]))
    graph = ScalarGraph(
        vector, prior.astype("float64"), likelihood.astype("float64"), compile_kwargs, cores
    )
    return graph, names, shapes, initial


def _checks_to_neg_inf(outputs: list[Variable]) -> list[Variable]:
    """Replace checks of parameter values by -inf where they fail, as PyMC's compilation does."""
    graph = FunctionGraph(outputs=outputs, clone=True, copy_inputs=False)
    for node in graph.toposort():
        if isinstance(node.op, CheckParameterValue) and node.op.can_be_replaced_by_ninf:
            value, *conditions = node.inputs
            satisfied = pt.all([pt.all(condition) for condition in conditions])
            replacement = pt.switch(satisfied, value, -np.inf).astype(value.dtype)
            graph.replace(node.outputs[0], replacement, import_missing=True)
    return list(graph.outputs)


def gradient_of(graph: ScalarGraph, weight: Variable) -> Variable:
    """Gradient of log prior + weight * log likelihood, on one vector."""
    return pytensor.grad(
        graph.prior + weight * graph.likelihood, graph.vector, disconnected_inputs="ignore"
    )
