"""A model's log density on many points at once: the PyTensor edge, on the way in.

Everything after this module is NumPy on an ``(m, d)`` array whose rows are points of the
unconstrained space, the raveled ``model.value_vars`` in their order. `batched_density` turns a
model into functions of such arrays: one compiled call for all rows, with the prior and the
likelihood apart, and the gradient where the model has one.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.math import Sum
from pytensor.tensor.rewriting.ofg import inline_ofg_node

from pymc_spectral._pymc import exact_rounding
from pymc_spectral.density.model_graph import Layout, ScalarGraph, gradient_of, scalar_graph
from pymc_spectral.density.parallel_rows import RowProcesses, available_cores

__all__ = ["BatchedDensity", "batched_density"]

_log = logging.getLogger(__name__)

# From this many terms on, a call of BLAS costs less than adding them one by one (heuristic: with
# fewer terms, the call itself costs as much as it saves).
LONG_SUM = 32
# Characters that a message quotes of an error and of a point (heuristic: a line or two).
QUOTED_ERROR = 120
QUOTED_POINT = 200
# So many points, and half of all, may overflow to +inf before the model is refused: far out in
# the tails some do of healthy models, of a Cholesky factor say whose scales have overflowed.
FEW_INFINITE, INFINITE_SHARE = 10, 0.5


@dataclass(frozen=True, eq=False)
class _Compilation:
    """How scalar graphs become functions of many rows."""

    kwargs: dict[str, Any]
    cores: int
    vectorized: bool

    def of_rows(
        self, vector: Variable, outputs: Sequence[Variable], per_row: Sequence[Variable]
    ) -> Callable[..., list[np.ndarray]]:
        """Compile outputs as a function of (m, d) rows and of a number per row for each `per_row`.

        Parameters
        ----------
        vector : Variable
            The point that the outputs depend on.
        outputs : sequence of Variable
        per_row : sequence of Variable
            Scalars that differ from row to row.
        """
        if not self.vectorized:
            one = _compile([vector, *per_row], list(outputs), self.kwargs, None)
            return RowProcesses(one, self.cores)
        inputs, results = _vectorize(vector, outputs, per_row)
        if not per_row:  # A gradient passes over the terms anyway, and sums them on its way.
            results = _long_sums_to_products(results)
        return _compile(inputs, results, self.kwargs, np.zeros((2, vector.type.shape[0])))


@dataclass(frozen=True, eq=False)
class BatchedDensity:
    """Log density of a model on the rows of an ``(m, d)`` array.

    Build one with `batched_density`. Functions are compiled when first called and kept.

    Attributes
    ----------
    layout : Layout
        Names and shapes of the value variables, in the order of the columns.
    names : tuple of str
        Their names alone.
    d : int
        Number of columns.
    initial_point : array of shape (d,)
        The model's initial point.
    has_gradient : bool
        Whether `logp_and_grad` and `parts_and_grad` can be called.
    vectorized : bool
        False if the rows are evaluated one after another, because the graph refused.
    n_nan, n_infinite : int
        Rows so far whose log density was NaN, or overflowed to ``+inf`` as it may far out in the
        tails; each was answered with ``-inf``.
    """

    layout: Layout
    has_gradient: bool
    vectorized: bool
    _graph: ScalarGraph = field(repr=False)
    _compilation: _Compilation = field(repr=False)
    _counts: dict[str, int] = field(
        repr=False, default_factory=lambda: {"nan": 0, "infinite": 0, "rows": 0}
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the value variables, in the order of the columns."""
        return self.layout.names

    @property
    def d(self) -> int:
        """Dimension of the unconstrained space."""
        return self.layout.d

    @property
    def initial_point(self) -> np.ndarray:
        """Initial point of the model, of shape (d,)."""
        return self._graph.initial_point

    @property
    def n_nan(self) -> int:
        """Rows so far whose log density was NaN."""
        return self._counts["nan"]

    @property
    def n_infinite(self) -> int:
        """Rows so far whose log density was +inf."""
        return self._counts["infinite"]

    @property
    def n_evaluations(self) -> int:
        """Rows evaluated so far."""
        return self._counts["rows"]

    @cached_property
    def _parts(self) -> Callable[..., list[np.ndarray]]:
        """Compile prior and likelihood."""
        outputs = [self._graph.prior, self._graph.likelihood]
        return self._compilation.of_rows(self._graph.vector, outputs, [])

    @cached_property
    def _parts_and_grad(self) -> Callable[..., list[np.ndarray]]:
        """Compile prior, likelihood, and gradient of prior + weight * likelihood."""
        graph = self._graph
        weight = pt.scalar("likelihood_weight", dtype="float64")
        outputs = [graph.prior, graph.likelihood, gradient_of(graph, weight)]
        return self._compilation.of_rows(graph.vector, outputs, [weight])

    def parts(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate log prior (with Jacobians) and log likelihood (with Potentials), apart.

        Parameters
        ----------
        x : array of shape (m, d)
            Unconstrained points.

        Returns
        -------
        log_prior, log_likelihood : arrays of shape (m,)
            Where their sum is NaN, both are ``-inf``.
        """
        x = self._rows(x)
        if "_parts" not in self.__dict__ and "_parts_and_grad" in self.__dict__:
            # Compiling takes seconds, the gradient that is not needed here microseconds.
            log_prior, log_likelihood, _ = self._parts_and_grad(x, np.ones(len(x)))
        else:
            log_prior, log_likelihood = self._parts(x)
        self._clean(x, log_prior, log_likelihood)
        return log_prior, log_likelihood

    def parts_and_grad(
        self, x: np.ndarray, weight: np.ndarray | float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate `parts`, and the gradient of log prior + weight * log likelihood.

        Parameters
        ----------
        x : array of shape (m, d)
            Unconstrained points.
        weight : array of shape (m,) or float
            What the likelihood is multiplied by in the gradient, for instance an inverse
            temperature per row.

        Returns
        -------
        log_prior, log_likelihood : arrays of shape (m,)
        gradient : array of shape (m, d)
            Zero where it is not finite.
        """
        if not self.has_gradient:
            raise ValueError(
                "This model has no gradient: call `parts` instead of `parts_and_grad`."
            )
        x = self._rows(x)
        weights = np.ascontiguousarray(np.broadcast_to(np.asarray(weight, float), (len(x),)))
        log_prior, log_likelihood, gradient = self._parts_and_grad(x, weights)
        self._clean(x, log_prior, log_likelihood)
        flat = gradient.ravel()
        if not _all_finite(flat, flat):
            gradient[~np.isfinite(gradient)] = 0.0
        return log_prior, log_likelihood, gradient

    def logp(self, x: np.ndarray) -> np.ndarray:
        """Evaluate the log density of each row of an (m, d) array."""
        return np.add(*self.parts(x))

    def logp_and_grad(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate the log density and its gradient for each row of an (m, d) array."""
        log_prior, log_likelihood, gradient = self.parts_and_grad(x)
        return log_prior + log_likelihood, gradient

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Lay value variables, a dict of (..., *shape) arrays, side by side as (..., d) rows."""
        return self.layout.ravel(point)

    def unravel(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Cut rows of shape (..., d) into a dict of value variables."""
        return self.layout.unravel(x)

    def _rows(self, x: np.ndarray) -> np.ndarray:
        """Check the shape, and lay rows out as the compiled functions take them."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.d:
            raise ValueError(
                f"Points must have shape (m, {self.d}), one row per point in the order of "
                f"{list(self.names)}; got shape {x.shape}."
            )
        return x

    def _clean(self, x: np.ndarray, log_prior: np.ndarray, log_likelihood: np.ndarray) -> None:
        """Turn NaN and +inf rows into -inf, count them, and refuse a density that is often +inf."""
        self._counts["rows"] += len(x)
        if _all_finite(log_prior, log_likelihood):
            return
        with np.errstate(invalid="ignore"):
            total = log_prior + log_likelihood
        nan = np.isnan(total)
        # -inf + inf is NaN: hard constraints rule the point out whatever the other part says.
        excluded = nan & (np.isneginf(log_prior) | np.isneginf(log_likelihood))
        self._counts["nan"] += int((nan & ~excluded).sum())
        log_prior[nan] = log_likelihood[nan] = -np.inf
        infinite = np.isposinf(total)
        if infinite.any():
            log_prior[infinite] = log_likelihood[infinite] = -np.inf
            self._counts["infinite"] += int(infinite.sum())
            if self.n_infinite > FEW_INFINITE + INFINITE_SHARE * self.n_evaluations:
                point = {k: v.tolist() for k, v in self.unravel(x[infinite][0]).items()}
                raise ValueError(
                    f"The log density is +inf at {self.n_infinite} of {self.n_evaluations} points, "
                    f"at {_shorten(point)} for instance: it is not a probability density. Look for "
                    "a scale that can reach zero, or a Potential that divides by zero, and bound "
                    "it away from there."
                )


def batched_density(
    model: pm.Model | None = None,
    *,
    gradient: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    cores: int | None = None,
) -> BatchedDensity:
    """Compile a model's log density for many unconstrained points at once.

    Parameters
    ----------
    model : pymc.Model, optional
        Model, by default the one in context. Its free variables must be continuous.
    gradient : bool
        False to do without gradients even where the model has them.
    compile_kwargs : dict, optional
        Passed on to ``pytensor.function``. Without a ``mode``, Numba is used where it is installed:
        on batches it is several times faster than the C linker.
    cores : int, optional
        Processes that share the rows where the graph cannot be vectorized and a row takes longer
        than a millisecond. Default: those there are, at most 4. No result depends on it.

    Returns
    -------
    BatchedDensity

    Notes
    -----
    1. The value variables become slices of one vector, and the log prior (with Jacobians) and the
       log likelihood (with Potentials) scalar functions of it.
    2. Checks of parameter values become ``-inf`` at that point. Left as they are, one bad row would
       raise for the whole batch.
    3. ``vectorize_graph`` makes the vector a matrix. Where an Op refuses, rows are evaluated one
       by one, on several cores where that pays, and a log line says so.
    """
    graph = scalar_graph(pm.modelcontext(model))
    cores = available_cores() if cores is None else cores
    has_gradient = gradient
    weight = pt.scalar("likelihood_weight", dtype="float64")
    outputs = [graph.prior, graph.likelihood]
    if gradient:
        try:
            outputs.append(gradient_of(graph, weight))
        except Exception as error:
            _log.info(
                "No gradient for this model (%s): moves without gradients are used.", _first(error)
            )
            has_gradient = False
    vectorized = True
    try:
        _refuse_black_boxes(outputs)
        _vectorize(graph.vector, outputs, [weight] if has_gradient else [])
    except Exception as error:
        _log.warning(
            "The model's graph cannot be vectorized (%s): points are evaluated one by one, on up "
            "to %d cores where that pays, which is slower.",
            _first(error),
            cores,
        )
        vectorized = False
    return BatchedDensity(
        layout=graph.layout,
        has_gradient=has_gradient,
        vectorized=vectorized,
        _graph=graph,
        _compilation=_Compilation(dict(compile_kwargs or {}), cores, vectorized),
    )


def _vectorize(
    vector: Variable, outputs: Sequence[Variable], per_row: Sequence[Variable]
) -> tuple[list[Variable], list[Variable]]:
    """Build graphs with a leading axis of rows; raise where an Op refuses."""
    matrix = pt.matrix("points", shape=(None, vector.type.shape[0]), dtype="float64")
    batched = [pt.vector(scalar.name, dtype="float64") for scalar in per_row]
    replace = {vector: matrix, **dict(zip(per_row, batched, strict=True))}
    rows = matrix.shape[0]
    results = []
    inlined = _inline(list(outputs))
    for output, result in zip(inlined, vectorize_graph(inlined, replace), strict=True):
        if result.type.ndim == output.type.ndim:  # A part that does not depend on the point.
            result = pt.alloc(result, rows, *(result.shape[i] for i in range(result.type.ndim)))
        results.append(result)
    return [matrix, *batched], results


def _long_sums_to_products(outputs: list[Variable]) -> list[Variable]:
    """Sum long rows, such as those of the observations, as products with a vector of ones.

    Rounding as written, Numba adds one number after the other; BLAS adds several at once, and
    always in the same order.
    """
    graph = FunctionGraph(outputs=outputs, clone=True, copy_inputs=False)
    for node in graph.toposort():
        if not isinstance(node.op, Sum) or node.inputs[0].type.ndim != 2:
            continue
        (terms,) = node.inputs
        length = terms.type.shape[1]
        if node.op.axis == (1,) and terms.type.dtype == "float64" and (length or 0) >= LONG_SUM:
            graph.replace(node.outputs[0], pt.dot(terms, np.ones(length)), import_missing=True)
    return list(graph.outputs)


def _refuse_black_boxes(outputs: Sequence[Variable]) -> None:
    """Raise if a user's own Op is in the graph: vectorized, it would be called row by row anyway.

    So it is better called on several cores, each with its share of the rows.
    """
    for node in FunctionGraph(outputs=list(outputs), clone=True, copy_inputs=False).toposort():
        kind = type(node.op)
        own = not kind.__module__.startswith(("pytensor.", "pymc."))
        if own or isinstance(node.op, FromFunctionOp):
            raise NotImplementedError(f"{node.op} is a black box")


def _inline(outputs: list[Variable]) -> list[Variable]:
    """Open Ops that are graphs themselves: as a whole they would be called row by row."""
    graph = FunctionGraph(outputs=outputs, clone=True, copy_inputs=False)
    while nodes := [node for node in graph.toposort() if isinstance(node.op, OpFromGraph)]:
        for node in nodes:
            pairs = list(zip(node.outputs, inline_ofg_node(node), strict=True))
            graph.replace_all(pairs, import_missing=True)
    return list(graph.outputs)


def _compile(
    inputs: list[Variable],
    outputs: list[Variable],
    kwargs: dict[str, Any],
    trial: np.ndarray | None,
) -> Callable[..., list[np.ndarray]]:
    """Compile with Numba if it can, else with PyTensor's default."""
    options: dict[str, Any] = {"trust_input": True, "on_unused_input": "ignore", **kwargs}
    if "mode" in options or trial is None:
        with exact_rounding():
            return pytensor.function(inputs, outputs, **options)
    with warnings.catch_warnings(), exact_rounding():
        # Numba warns of BLAS and of object mode: users cannot act on either.
        warnings.simplefilter("ignore")
        try:
            function = pytensor.function(inputs, outputs, mode="NUMBA", **options)
            function(trial, *[np.ones(len(trial)) for _ in inputs[1:]])
            return function
        except Exception as error:
            _log.debug(
                "Numba refused the graph (%s): PyTensor's default mode is used.", _first(error)
            )
    return pytensor.function(inputs, outputs, **options)


def _all_finite(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether all of two vectors is finite, by their product: far cheaper than masks.

    An overflow says no although all is finite; then the masks are computed after all.
    """
    with np.errstate(all="ignore"):
        return math.isfinite(a.dot(b))


def _first(error: Exception) -> str:
    """Return the first line of an error, to put into a log line."""
    kind, text = type(error).__name__, str(error).strip()
    return f"{kind}: {text.splitlines()[0][:QUOTED_ERROR]}" if text else kind


def _shorten(value: object, length: int = QUOTED_POINT) -> str:
    """Return the text of a value, cut to a length."""
    text = str(value)
    return text if len(text) <= length else text[:length] + "..."
