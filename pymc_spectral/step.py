"""The step method: PyMC's contract, and the wiring of the stages. It contains no maths."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.blocking import DictToArrayBijection, PointType, RaveledVars, StatsType
from pymc.exceptions import SamplingError
from pymc.model import modelcontext
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

from pymc_spectral import _pymc
from pymc_spectral._progress import ScanProgress
from pymc_spectral._pymc import calling_pm_sample, chain_index, exact_rounding, in_compound
from pymc_spectral._validate import (
    PARTITIONS,
    as_options,
    check_model,
    check_names,
    check_partition,
    check_rounds,
    check_seed,
    check_vars,
    one_of,
)
from pymc_spectral.bridge.estimate import BridgeKind
from pymc_spectral.bridge.proposal import ProposalKind, StreamingProposal
from pymc_spectral.cells.kernels import (
    NUTS_OPTIONS,
    Kernel,
    KernelName,
    make_kernel,
    resolve_kernel,
)
from pymc_spectral.cells.target import CODES_BELOW, RestrictedTarget
from pymc_spectral.density.batched import batched_density
from pymc_spectral.diagnostics.report import report
from pymc_spectral.diagnostics.snapshot import record
from pymc_spectral.exploration.explorers import Exploration, explore
from pymc_spectral.exploration.tempering import TEMPERING_OPTIONS
from pymc_spectral.result.proposed_points import FRESH_POINT, evaluate_fresh
from pymc_spectral.result.reweighting import reweight

__all__ = ["SpectralPartitionStep"]

_log = logging.getLogger(__name__)

STATS: dict[str, tuple[Any, list]] = {
    "cell": (np.int64, []),
    "log_target_draw": (np.float64, []),
    "log_proposal_draw": (np.float64, []),
    "log_target_fresh": (np.float64, []),
    "log_proposal_fresh": (np.float64, []),
    "proposal_fit": (np.int64, []),
    "boundary_hit": (bool, []),
    "nan_logp": (np.int64, []),
}
"""Sampler stats of every draw, beside those of the kernel; see ``docs/result.md``."""


@dataclass_state
class SpectralPartitionStepState(StepMethodState):
    """What changes while a chain runs."""

    tune: bool
    current_cell: int
    kernel_step: DataClassState
    stream: Any
    pending_start: Any


class SpectralPartitionStep(BlockedStep):
    """Sample a multimodal posterior with one restricted chain per mode.

    Constructing the step, inside a model, explores the posterior and partitions its space into
    cells; :attr:`partition`, :attr:`exploration` and :attr:`n_cells` can be looked at. Then
    ``pm.sample(step=step, chains=step.n_cells)`` runs chain k in cell k mod ``n_cells``, estimates
    the mass of each cell by bridge sampling, and returns equal-weight draws of the whole
    posterior, with the cells' weights and the log marginal likelihood, each with its error.

    Parameters
    ----------
    vars : list of variables, optional
        All free variables of the model, the default. A part of them is refused: a partition of
        some coordinates is not a partition of the space.
    n_cells : int or "auto"
        Number of cells. ``"auto"``, the default, gives each mode its own.
    explore : str, array, InferenceData, DataTree or callable, optional
        Where the points come from that the partition is learned from. Default: parallel
        tempering, which finds the modes by itself. An (n, d) array of unconstrained points, the
        result of an earlier ``pm.sample`` whose chains got stuck in different modes, ``"smc"``,
        or a function ``f(model, rng)`` that returns an array. Modes without points here are
        missed.
    kernel : {"nuts", "metropolis", "slice"} or step class, optional
        What moves inside a cell. Default ``"nuts"``, or ``"slice"`` if the model has no
        gradients. ``"metropolis"`` moves all coordinates at once by the partition's `Q` if it
        has one (the paper's choice, not tuned), else by a tuned covariance of the cell. Any
        other PyMC step class that takes its density from ``model.logp()`` works too.
    rounds : int
        How often to partition (the paper's ell). After each round but the last, short chains
        run in the cells, and their draws join the points for the next partition.
    n_landmarks : int or sequence of int
        Points used to compute the partition (the paper's N), one number or one per round.
    round_draws : int or sequence of int
        Draws per cell between two partitions (the paper's T), one number or one per further
        round. Ignored when ``rounds=1``.
    partition : {"spectral", "kmeans"} or estimator
        Or an instance such as ``SpectralPartition(n_cells=4, affinity="gaussian", Q=Q)``, which
        then decides about `n_cells` and `n_landmarks` itself. If it is fitted already, nothing is
        explored.
    bridge : {"optimal", "geometric"}
        Bridge function; ``"geometric"`` is the paper's, with a larger error.
    proposal : {"normal", "student"}
        Density that the bridge compares each cell with. ``"student"`` for heavy tails.
    pool_fresh : bool
        Keep the values of all variables at the bridge's fresh points, in the group ``cell_fresh``,
        so that :func:`pymc_spectral.summary` can use these points beside the draws: more accurate
        means for no further evaluation of the density. False makes the result smaller, by as much
        as ``posterior`` takes, and saves the time to compute the variables there.
    random_seed : int, optional
        Seeds exploration and partition. The chains are seeded by ``pm.sample``.
    progressbar : bool
        Show the progress of exploration and rounds.
    model : pymc.Model, optional
        Taken from the context if not given.
    kernel_kwargs : dict, optional
        Passed to the kernel, e.g. ``{"target_accept": 0.9}``.
    partition_kwargs : dict, optional
        Passed to the partition when it is given by name.
    explore_kwargs : dict, optional
        Passed to the explorer, see :func:`pymc_spectral.explore`.
    compile_kwargs : dict, optional
        Passed to PyTensor when the model is compiled.

    Attributes
    ----------
    partition : SpectralPartition or KMeansPartition
        Fitted partition of the raveled ``model.value_vars``.
    exploration : Exploration or None
        Points that it was learned from.
    n_cells : int
        Number of cells found.

    Notes
    -----
    Called by PyMC in this order:

    1. ``__init__`` explores, partitions and compiles, in the parent process.
    2. ``_progressbar_config(n_chains)`` comes before the first draw, in the parent; here a number
       of chains that leaves a cell empty is refused.
    3. ``set_rng`` (PyMC < 6.3) or ``setup_chain`` begins a chain, in its worker: the generator
       says which chain it is, so which cell. All state of an earlier chain is dropped.
    4. ``step`` makes a draw and its four bridge terms; ``stop_tuning`` ends the tuning.
    5. ``finish``, through the wrapper of :mod:`pymc_spectral._pymc`, weighs the cells.

    References
    ----------
    .. [1] G. Basse, N. Pillai, A. Smith. Parallel Markov Chain Monte Carlo via Spectral
       Clustering. AISTATS 2016.
    """

    name = "spectral_partition"
    default_blocked = True
    stats_dtypes_shapes = STATS  # type: ignore[assignment]
    _state_class = SpectralPartitionStepState

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse models that cannot be sampled before PyMC's own bookkeeping starts."""
        model = modelcontext(kwargs.get("model"))
        check_model(model)
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        n_cells: int | Literal["auto"] = "auto",
        explore: Any = None,
        kernel: KernelName | type[BlockedStep] | None = None,
        rounds: int = 1,
        n_landmarks: int | Sequence[int] = 1000,
        round_draws: int | Sequence[int] = 500,
        partition: Any = "spectral",
        bridge: BridgeKind = "optimal",
        proposal: ProposalKind = "normal",
        pool_fresh: bool = True,
        random_seed: int | None = None,
        progressbar: bool = True,
        model: pm.Model | None = None,
        kernel_kwargs: dict[str, Any] | None = None,
        partition_kwargs: dict[str, Any] | None = None,
        explore_kwargs: dict[str, Any] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        self.model = modelcontext(model)
        self.vars = check_vars(vars, self.model)
        self.bridge = one_of("bridge", bridge, get_args(BridgeKind))
        self.proposal = one_of("proposal", proposal, get_args(ProposalKind))
        self.pool_fresh = bool(pool_fresh)
        self._kernel_kwargs = as_options("kernel_kwargs", kernel_kwargs)
        self._compile_kwargs = as_options("compile_kwargs", compile_kwargs)
        partition_options = as_options("partition_kwargs", partition_kwargs)
        explore_options = as_options("explore_kwargs", explore_kwargs)
        if explore is None or (isinstance(explore, str) and explore == "tempering"):
            check_names("explore_kwargs", explore_options, "tempering", TEMPERING_OPTIONS)
        check_seed(random_seed)
        n_rounds, landmarks, draws = check_rounds(rounds, n_landmarks, round_draws)

        density = batched_density(self.model, compile_kwargs=self._compile_kwargs)
        self._kernel_class, self.kernel_name = resolve_kernel(kernel, density.has_gradient)
        if self.kernel_name == "nuts":
            check_names("kernel_kwargs", self._kernel_kwargs, "pm.NUTS", NUTS_OPTIONS)
        template = check_partition(partition, n_cells, partition_options)

        seeds = np.random.SeedSequence(random_seed)
        explore_seed, partition_seed, round_seed, row_seed = seeds.spawn(4)
        self._row_seed = int(row_seed.generate_state(1)[0])
        self.exploration: Exploration | None = None
        if template is not None and hasattr(template, "rule_"):
            self._adopt(template)
        else:
            self.exploration = _explore(
                self.model,
                explore,
                density=density,
                rng=np.random.default_rng(explore_seed),
                progressbar=progressbar,
                **explore_options,
            )
            points = self.exploration.points
            for this_round in range(n_rounds):
                fitted = _fit(
                    template or PARTITIONS[partition],
                    points,
                    density.logp,
                    n_cells=n_cells,
                    n_landmarks=landmarks[this_round],
                    random_state=int(partition_seed.spawn(1)[0].generate_state(1)[0]),
                    options=partition_options,
                )
                self._adopt(fitted)
                if this_round < n_rounds - 1:
                    rng = np.random.default_rng(round_seed.spawn(1)[0])
                    new = self._round(draws[this_round], rng, progressbar)
                    points = np.concatenate([points, new])
        _pymc.install()

    # ------------------------------------------------------------ construction

    def _adopt(self, partition: Any) -> None:
        """Take a fitted partition and compile the restricted target and its kernel."""
        self.partition = partition
        self.n_cells = int(partition.n_cells_)
        d = sum(int(np.prod(np.shape(v))) for v in self._value_point().values())
        if partition.n_features_in_ != d:
            raise ValueError(
                f"The partition was fitted on {partition.n_features_in_} coordinates, but the "
                f"model's unconstrained space has {d}."
            )
        self._compile()
        self._members = [self._usable_members(cell) for cell in range(self.n_cells)]
        self._snapshot_chain()

    def _compile(self) -> None:
        """Compile target and kernel, once for all cells; again in each spawned process."""
        self._target = RestrictedTarget(self.model, self.partition.rule_)
        self._logp = self._target.compile_logp(**self._compile_kwargs)
        Q = getattr(self.partition, "Q", None)
        if Q is not None:
            Q = np.asarray(Q, dtype=float)
            Q = Q * np.eye(self.partition.n_features_in_) if Q.ndim == 0 else Q
        self._kernel: Kernel = make_kernel(
            self._target,
            self._kernel_class,
            Q=Q,
            kernel_kwargs=self._kernel_kwargs,
            compile_kwargs=self._compile_kwargs,
        )
        sds = {**self._kernel.step.stats_dtypes_shapes, **STATS}
        self.stats_dtypes_shapes = sds
        self.stats_dtypes = [{name: dtype for name, (dtype, _) in sds.items()}]
        if self.pool_fresh:
            # A vector for each draw: PyMC allocates by dtype alone, and NumPy's may have a shape.
            shape = (self._target.dim,)
            sds[FRESH_POINT] = (np.float64, list(shape))
            self.stats_dtypes[0][FRESH_POINT] = np.dtype((np.float64, shape))
        self._has_model_logp = isinstance(self._kernel.step, pm.NUTS)

    def _usable_members(self, cell: int) -> np.ndarray:
        """Landmarks of a cell at which a chain can start, the most central first."""
        self._target.select(cell)
        members = self.partition.members(cell)
        logp = np.array([float(self._logp(x)) for x in members])
        usable = members[np.isfinite(logp) & (logp > CODES_BELOW)]
        if len(usable) == 0:
            raise ValueError(
                f"None of the {len(members)} landmarks of cell {cell} has a finite log density, "
                "so no chain can start there. Drop such points from what `explore` is given."
            )
        return usable

    def _value_point(self) -> PointType:
        """Values of the value variables at the model's initial point, in their order."""
        point = self.model.initial_point()
        return {v.name: point[v.name] for v in self.model.value_vars}

    def _snapshot_chain(self) -> None:
        """State before any chain has begun."""
        self.tune = True
        self.rng = np.random.default_rng(0)
        self.current_cell = 0
        self.stream: StreamingProposal | None = None
        self.pending_start: np.ndarray | None = None
        self._point_map = DictToArrayBijection.map(self._value_point()).point_map_info

    def _round(self, draws: int, rng: np.random.Generator, progressbar: bool) -> np.ndarray:
        """Run a short chain in every cell; return its later three quarters, all cells together."""
        found = []
        with ScanProgress(progressbar) as progress:
            for cell in range(self.n_cells):
                progress.start_round(f"Chain in cell {cell} of {self.n_cells}", draws)
                self._begin(cell, cell, rng.spawn(1)[0], draws, 0)
                self.tune = True
                point: PointType = self._value_point()
                for i in range(draws):
                    point, _ = self.step(point)
                    if i >= draws // 4:
                        found.append(self._ravel(point))
                    progress.advance()
        return np.array(found)

    # ------------------------------------------------------------ a chain

    def set_rng(self, rng: np.random.Generator) -> None:
        """Begin a chain (PyMC before 6.3)."""
        self.setup_chain(rng, 0, 0)

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Begin a chain: its generator says which one it is, so which cell."""
        if in_compound(self):
            raise SamplingError(
                "SpectralPartitionStep samples all variables by itself and cannot be one of "
                "several steps: pass it alone, pm.sample(step=step, chains=step.n_cells)."
            )
        chain = chain_index(rng)
        self._begin(chain % self.n_cells, chain, rng, tune, draws)

    def _begin(
        self, cell: int, chain: int, rng: np.random.Generator, tune: int, draws: int
    ) -> None:
        """Reset all per-chain state and enter a cell."""
        kernel_rng, self.rng = rng.spawn(2)
        self._kernel.begin(self._members[cell], kernel_rng, tune, draws)
        self.current_cell = cell
        members = self._members[cell]
        # The first chain of a cell starts at its centre; others elsewhere in it, so that their
        # agreement means something.
        first = chain < self.n_cells
        self.pending_start = members[0 if first else self.rng.integers(len(members))]
        self.stream = StreamingProposal(members, self.proposal)
        self.tune = True

    @property
    def current_cell(self) -> int:
        """Cell that the chain is confined to."""
        return self._current_cell

    @current_cell.setter
    def current_cell(self, cell: int) -> None:
        self._current_cell = int(cell)
        self._target.select(cell)

    @property
    def kernel_step(self) -> BlockedStep:
        """PyMC step method that moves inside the cell."""
        return self._kernel.step

    @kernel_step.setter
    def kernel_step(self, step: BlockedStep) -> None:
        self._kernel.step = step

    @property
    def tune(self) -> bool:
        """Whether the chain is tuning."""
        return self._tune

    @tune.setter
    def tune(self, tune: bool) -> None:
        self._tune = bool(tune)
        self._kernel.step.tune = bool(tune)

    @property
    def sampling_state(self) -> DataClassState:
        """What changes while a chain runs, as PyMC saves and restores it."""
        return super().sampling_state

    @sampling_state.setter
    def sampling_state(self, state: SpectralPartitionStepState) -> None:
        self._kernel.match(state.kernel_step)
        WithSamplingState.sampling_state.fset(self, state)  # type: ignore[attr-defined]

    def stop_tuning(self) -> None:
        """End the tuning of the kernel, and fit the bridge's proposal to what it saw."""
        self._tune = False
        self._kernel.step.stop_tuning()
        if self.stream is not None:
            self.stream.stop_tuning()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make a draw in the cell, and the four terms that its bridge needs."""
        if self.stream is None:
            raise SamplingError("No chain was begun: run this step through pm.sample.")
        if self.pending_start is not None:
            point = self._unravel(self.pending_start)
            self.pending_start = None
            # What Metropolis and slice compile for themselves, Numba finishes at the first call.
            with exact_rounding():
                point, [stats] = self._kernel.step.step(point)
        else:
            point, [stats] = self._kernel.step.step(point)
        boundary_hit, was_nan = self._kernel.classify(stats)
        if boundary_hit or was_nan:
            self._kernel.forgive(stats, boundary_hit, was_nan)
        x = self._ravel(point)
        if self._tune:
            terms = (np.nan, np.nan, np.nan, np.nan)
            fit = -1
        else:
            terms = self._bridge_terms(x, stats)
            fit = self.stream.n_fits - 1
        self.stream.observe(x, tuning=self._tune)
        stats["cell"] = self._current_cell
        (
            stats["log_target_draw"],
            stats["log_proposal_draw"],
            stats["log_target_fresh"],
            stats["log_proposal_fresh"],
        ) = terms
        if self.pool_fresh:
            stats[FRESH_POINT] = np.nan if self._tune else self._fresh
        stats["proposal_fit"] = fit
        stats["boundary_hit"] = boundary_hit
        stats["nan_logp"] = int(was_nan) + int(terms[2] == -np.inf and self._fresh_was_nan)
        return point, [stats]

    def _bridge_terms(self, x: np.ndarray, stats: dict) -> tuple[float, float, float, float]:
        """Log target and log proposal at the draw, and at a fresh point of the proposal."""
        proposal = self.stream.current  # type: ignore[union-attr]
        fresh, log_proposal_fresh = proposal.draw(self.rng)
        self._fresh = fresh
        log_target_fresh = float(self._logp(fresh))
        self._fresh_was_nan = False
        if log_target_fresh < CODES_BELOW:
            self._fresh_was_nan = log_target_fresh > 1e2 * CODES_BELOW
            log_target_fresh = -np.inf
        at_draw = stats["model_logp"] if self._has_model_logp else self._logp(x)
        return float(at_draw), float(proposal.logpdf(x)), log_target_fresh, log_proposal_fresh

    def _ravel(self, point: PointType) -> np.ndarray:
        """Flatten a point into one vector, in the order of the model's value variables."""
        if len(self._point_map) == 1:
            return np.asarray(point[self._point_map[0][0]], dtype=float).ravel().copy()
        return np.concatenate([np.ravel(point[name]) for name, *_ in self._point_map])

    def _unravel(self, x: np.ndarray) -> PointType:
        """Turn a vector back into a point."""
        return DictToArrayBijection.rmap(RaveledVars(x.copy(), self._point_map))

    # ------------------------------------------------------------ PyMC around the chains

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen by PyMC itself: the step is used by passing it to ``step=``."""
        return Competence.INCOMPATIBLE

    def _progressbar_config(self, n_chains: int = 1) -> Any:  # type: ignore[override]
        """Columns of the progress bar; PyMC asks before the first draw, so checks happen here."""
        if in_compound(self):
            raise SamplingError(
                "SpectralPartitionStep samples all variables by itself and cannot be one of "
                "several steps: pass it alone, pm.sample(step=step, chains=step.n_cells)."
            )
        if n_chains < self.n_cells:
            raise SamplingError(
                f"{n_chains} chains cannot cover {self.n_cells} cells: every cell needs a chain. "
                f"Type pm.sample(step=step, chains={self.n_cells}), or a multiple of it for "
                "several chains per cell."
            )
        _pymc.check_route()
        _pymc.register(self)
        return self._kernel.step._progressbar_config(n_chains)

    def _make_progressbar_update_functions(self) -> Any:  # type: ignore[override]
        return self._kernel.step._make_progressbar_update_functions()

    def finish(self, idata: Any, trace: Any) -> Any:
        """Weigh the cells, reweight the draws of all chains, and say what was noticed.

        Parameters
        ----------
        idata : InferenceData or DataTree
            Chains as they ran.
        trace : MultiTrace
            What PyMC made it from; it can evaluate all variables at a point.
        """
        call = calling_pm_sample() or {}
        if self.pool_fresh:
            visible = bool(call.get("progressbar", True)) and not call.get("quiet", False)
            idata = evaluate_fresh(idata, trace, self._unravel, progressbar=visible)
        result = reweight(
            idata, bridge=self.bridge, n_cells=self.n_cells, random_seed=self._row_seed
        )
        log = call.get("compute_convergence_checks", True) and not call.get("quiet", False)
        try:
            return report(record(result, self), log=log)
        except Exception:
            # Hours of sampling are worth more than what can be said about them.
            logging.getLogger("pymc.pymc_spectral").warning(
                "The result could not be checked; draws and weights are complete.", exc_info=True
            )
            return result

    # ------------------------------------------------------------ pickling

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is compiled: a spawned process compiles its own."""
        state = self.__dict__.copy()
        for name in ("_target", "_logp", "_kernel", "exploration"):
            state.pop(name, None)
        state["stream"] = None
        state["pending_start"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Compile target and kernel again."""
        self.__dict__.update(state)
        self.exploration = None
        self._compile()
        self._snapshot_chain()


# ---------------------------------------------------------------- checks before work starts


# PyMC's `__new__` takes anything; without this, help() and editors would show just that.
_own = inspect.signature(SpectralPartitionStep.__init__)
SpectralPartitionStep.__signature__ = _own.replace(  # type: ignore[attr-defined]
    parameters=list(_own.parameters.values())[1:]
)


def _fit(
    partition: Any,
    points: ArrayLike,
    logp: Any,
    *,
    n_cells: Any,
    n_landmarks: int,
    random_state: int,
    options: dict[str, Any],
) -> Any:
    """Fit a copy of the partition passed, or a new one of the class named."""
    if isinstance(partition, type):
        options = {"n_cells": n_cells, "n_landmarks": n_landmarks, **options}
        options.setdefault("random_state", random_state)
        return partition(**options).fit(points, logp=logp)
    parameters = partition.get_params()
    if parameters.get("random_state") is None:
        parameters["random_state"] = random_state
    return type(partition)(**parameters).fit(points, logp=logp)


_explore = explore  # the argument of the constructor hides the function
