"""The step method: PyMC's contract, and the wiring of the stages. It contains no maths."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pymc as pm
import xarray as xr
from pymc.blocking import DictToArrayBijection, PointType, RaveledVars, StatsType
from pymc.exceptions import SamplingError
from pymc.model import modelcontext
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

from pymc_spectral._inference_data import close_groups, open_groups, stat_values
from pymc_spectral._progress import ScanProgress
from pymc_spectral._pymc import (
    PyMCCall,
    ShowsKernel,
    all_variables_at,
    chain_index,
    check_route,
    exact_rounding,
    install,
    register,
)
from pymc_spectral._step_options import ROUND_DRAWS, LearningPlan
from pymc_spectral._threads import one_thread, one_thread_if_forked
from pymc_spectral._validate import as_options, check_jumps, check_seed, check_vars, one_of
from pymc_spectral.bridge.estimate import BridgeError, BridgeKind
from pymc_spectral.bridge.streaming_proposal import ProposalKind, StreamingProposal
from pymc_spectral.bridge.weights import (
    BOUNDARY_HIT,
    BRIDGE_STATS,
    CELL,
    FRESH_POINT,
    JUMP_ACCEPTED,
    LOG_TARGET_DRAW,
    MARK,
    N_JUMPS,
    NAN_LOGP,
    PROPOSAL_FIT,
    STATS,
    cell_of_chain,
)
from pymc_spectral.cells.density_walls import AT_WALLS, obstacle
from pymc_spectral.cells.independence_jumps import Jumps
from pymc_spectral.cells.kernel_choice import (
    KernelName,
    check_kernel,
    make_kernel,
    resolve_kernel,
)
from pymc_spectral.cells.kernel_protocol import Kernel
from pymc_spectral.cells.restricted_target import RestrictedTarget, Verdict
from pymc_spectral.density.batched import BatchedDensity, batched_density
from pymc_spectral.density.coordinate_names import coordinate_names
from pymc_spectral.density.fingerprint import ModelFingerprint, fingerprint
from pymc_spectral.density.model_graph import check_model
from pymc_spectral.diagnostics.cell_coverage import MAX_COMPARED, Coverage, coverage
from pymc_spectral.diagnostics.failed_cells import failed_cells
from pymc_spectral.diagnostics.findings import Finding
from pymc_spectral.diagnostics.learned_groups import (
    exploration_group,
    independent_points,
    partition_group,
)
from pymc_spectral.diagnostics.report import find, log_findings, with_findings
from pymc_spectral.exploration.explorers import Exploration, unconstrained_draws
from pymc_spectral.exploration.explorers import explore as explore_model
from pymc_spectral.exploration.tempering import TemperingConfig
from pymc_spectral.partition.config import N_LANDMARKS, as_covariance
from pymc_spectral.result.proposed_values import with_proposed_points
from pymc_spectral.result.reweighting import DRAWS_BY_TEMPERING, reweighted, weighing_of
from pymc_spectral.result.tempering_stands_in import Tempered, masses_of, with_draws_of

__all__ = ["SpectralPartitionStep"]

_log = logging.getLogger("pymc.pymc_spectral")

STRAY_SHARE = 0.01
"""An explored point that is no draw, lower than all but this share of the draws, is a stray one."""


@dataclass_state
class SpectralPartitionStepState(StepMethodState):
    """What changes while a chain runs."""

    tune: bool
    current_cell: int
    kernel_step: DataClassState
    stream: StreamingProposal | None
    jumps: Jumps | None
    pending_start: np.ndarray | None


class BridgeRow(NamedTuple):
    """What the bridge needs of one draw.

    Attributes
    ----------
    terms : tuple of float
        The four bridge terms, in the order of their stats.
    fit : int
        Which fit of the proposal they belong to.
    proposed : ndarray (d,) or NaN
        The proposed point.
    nan_logp : bool
        Whether the log density is NaN there.
    """

    terms: tuple[float, float, float, float]
    fit: int
    proposed: np.ndarray | float
    nan_logp: bool


WHILE_TUNING = BridgeRow((np.nan, np.nan, np.nan, np.nan), -1, np.nan, False)
"""Draws of the tuning are not weighed."""


class SpectralPartitionStep(ShowsKernel, BlockedStep):
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
        gradients, if they vanish, or if the explored points lie between hard walls.
        ``"metropolis"`` moves all coordinates at once by the partition's `Q` if it has one (the
        paper's choice, not tuned), else by a tuned covariance of the cell. Any other PyMC step
        class that takes its density from ``model.logp()`` works too.
    rounds : int
        How often to partition (the paper's ell). After each round but the last, short chains
        run in the cells, and their draws join the points for the next partition.
    n_landmarks : int or sequence of int
        Points used to compute the partition (the paper's N), one number or one per round.
    round_draws : int or sequence of int
        Draws per cell between two partitions (the paper's T), one number or one per further
        round. With ``rounds=1`` there are none, and any number but the default is refused.
    partition : {"spectral", "kmeans"} or estimator
        Or an instance such as ``SpectralPartition(n_cells=4, affinity="gaussian", Q=Q)``, which
        decides about the number of cells and landmarks itself, so that `n_cells` and `n_landmarks`
        beside it are refused. If it is fitted already, nothing is explored, and `explore` and
        `rounds` are refused too.
    bridge : {"optimal", "geometric"}
        Bridge function; ``"geometric"`` is the paper's, with a larger error.
    proposal : {"auto", "normal", "student", "mixture"}
        Density that the bridge compares each cell with, and that jumps are proposed from.
        ``"auto"``, the default, takes the family that foretells held-out points of the cell best,
        and adds a wide component. ``"normal"`` and ``"student"`` are the paper's, one ellipsoid for
        a cell; ``"mixture"`` takes several even where one would do.
    jumps : int or "auto"
        Independent proposals to jump to after each draw of the kernel, so that a chain crosses what
        lies inside its cell. ``"auto"``, the default, decides when tuning ends, by how often they
        succeed. More of them mix better at the price of one evaluation each; 0 is the paper's.
    pool_fresh : bool
        Keep the values of all variables at the bridge's proposed points, in the group
        ``cell_fresh``, so that :func:`pymc_spectral.summary` can use these points beside the draws:
        more accurate means for no further evaluation of the density. False makes the result
        smaller, by as much as ``posterior`` takes, and saves the time to compute the variables
        there.
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
    explore_kwargs : dict or TemperingConfig, optional
        Passed to the explorer: for tempering the fields of
        :class:`pymc_spectral.exploration.tempering.TemperingConfig` and ``n_points``.
    compile_kwargs : dict, optional
        Passed to PyTensor when the model is compiled.

    Attributes
    ----------
    partition : SpectralPartition or KMeansPartition
        Fitted partition of the raveled ``model.value_vars``.
    exploration : Exploration or None
        Points that the partition was learned from: those of the explorer, and the draws of all
        rounds but the last. None if a fitted partition was handed in.
    n_cells : int
        Number of cells found.

    Notes
    -----
    Called by PyMC in this order:

    1. ``__init__`` checks all arguments, explores, partitions and compiles, in the parent process.
    2. ``before_first_draw(n_chains)``, with the columns of the progress bar, in the parent; here a
       run is refused that could not be weighed: too few chains, a model that has changed.
    3. ``set_rng`` (PyMC < 6.3) or ``setup_chain`` begins a chain, in its worker: the generator
       says which chain it is, so which cell. All state of an earlier chain is dropped.
    4. ``step`` makes a draw and its four bridge terms; ``stop_tuning`` ends the tuning.
    5. ``finish``, through the wrapper in :mod:`pymc_spectral._pymc`, weighs the cells.

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
        check_model(modelcontext(kwargs.get("model")))
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        n_cells: int | Literal["auto"] = "auto",
        explore: Any = None,
        kernel: KernelName | type[BlockedStep] | None = None,
        rounds: int = 1,
        n_landmarks: int | Sequence[int] = N_LANDMARKS,
        round_draws: int | Sequence[int] = ROUND_DRAWS,
        partition: Any = "spectral",
        bridge: BridgeKind = "optimal",
        proposal: ProposalKind = "auto",
        jumps: int | Literal["auto"] = "auto",
        pool_fresh: bool = True,
        random_seed: int | None = None,
        progressbar: bool = True,
        model: pm.Model | None = None,
        kernel_kwargs: dict[str, Any] | None = None,
        partition_kwargs: dict[str, Any] | None = None,
        explore_kwargs: dict[str, Any] | TemperingConfig | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        self.model = modelcontext(model)
        self.vars = check_vars(vars, self.model)
        self.bridge = one_of("bridge", bridge, get_args(BridgeKind))
        self.proposal = one_of("proposal", proposal, get_args(ProposalKind))
        self.n_jumps = check_jumps(jumps)
        self.pool_fresh = bool(pool_fresh)
        self._kernel_kwargs = as_options("kernel_kwargs", kernel_kwargs)
        self._compile_kwargs = as_options("compile_kwargs", compile_kwargs)
        check_seed(random_seed)
        check_kernel(kernel, self._kernel_kwargs, self._compile_kwargs)
        plan = LearningPlan.check(
            n_dims=sum(int(np.size(v)) for v in self._value_point().values()),
            explore=explore,
            explore_kwargs=explore_kwargs,
            partition=partition,
            partition_kwargs=partition_kwargs,
            n_cells=n_cells,
            rounds=rounds,
            n_landmarks=n_landmarks,
            round_draws=round_draws,
        )
        density = batched_density(self.model, compile_kwargs=self._compile_kwargs)
        self._resolve_kernel(kernel, density.has_gradient)
        self._learned_from: ModelFingerprint = fingerprint(self.model)
        self.exploration: Exploration | None = None
        *learning_seeds, row_seed = np.random.SeedSequence(random_seed).spawn(4)
        self._row_seed = int(row_seed.generate_state(1)[0])
        if plan.is_fitted:
            self._adopt(plan.partition)
        else:
            self.exploration = self._learn(plan, explore, density, learning_seeds, progressbar)
        install(MARK)

    # ------------------------------------------------------------ construction

    def _resolve_kernel(self, kernel: Any, has_gradient: bool) -> None:
        """Take the kernel that was asked for, or a default that exploration may still change."""
        self._kernel_class, self.kernel_name = resolve_kernel(
            kernel,
            has_gradient,
            kernel_kwargs=self._kernel_kwargs,
            compile_kwargs=self._compile_kwargs,
        )
        # Options of the kernel or of its compilation say that the user counts on NUTS.
        chosen = kernel is not None or self._kernel_kwargs or self._compile_kwargs
        self._kernel_is_free = has_gradient and not chosen

    @one_thread()
    def _learn(
        self,
        plan: LearningPlan,
        explore: Any,
        density: BatchedDensity,
        seeds: list[np.random.SeedSequence],
        progressbar: bool,
    ) -> Exploration:
        """Explore and partition; in further rounds, partition with the draws of the cells so far.

        Returns what the last partition was learned from. `seeds` are those of exploration,
        partitions and rounds.
        """
        explore_seed, partition_seed, round_seed = seeds
        explored = explore_model(
            self.model,
            explore,
            density=density,
            rng=np.random.default_rng(explore_seed),
            progressbar=progressbar,
            **plan.explore_options,
        )
        if self._kernel_is_free:
            self._mind_obstacles(explored.points, density, np.random.default_rng(explore_seed))
        for this_round in range(plan.rounds):
            seed = int(partition_seed.spawn(1)[0].generate_state(1)[0])
            estimator = plan.estimator(this_round, seed)
            gradient = density.logp_and_grad if density.has_gradient else None
            self._adopt(estimator.fit(explored.points, logp=density.logp, gradient=gradient))
            cell = self.partition.predict(explored.points)
            self._known = [explored.points[cell == k] for k in range(self.n_cells)]
            if this_round < plan.rounds - 1:
                rng = np.random.default_rng(round_seed.spawn(1)[0])
                draws = self._round(plan.round_draws[this_round], rng, progressbar)
                explored = explored.with_draws(draws, density.logp(draws))
        return explored

    def _mind_obstacles(
        self, points: np.ndarray, density: BatchedDensity, rng: np.random.Generator
    ) -> None:
        """Take a kernel that copes, where trajectories would run into walls."""
        found = obstacle(points, density.logp, density.logp_and_grad, rng)
        if found is None:
            return
        self._kernel_class, self.kernel_name = resolve_kernel(
            AT_WALLS, True, kernel_kwargs={}, compile_kwargs={}
        )
        _log.info('Kernel "%s" instead of NUTS: %s.', self.kernel_name, found)

    def _adopt(self, partition: Any) -> None:
        """Take a fitted partition and compile the restricted target and its kernel."""
        self.partition = partition
        self.n_cells = int(partition.n_cells_)
        self._compile()
        self._members = [self._usable_members(cell) for cell in range(self.n_cells)]
        # What is known of a cell: landmarks, until all points that the partition learned from are.
        self._known = list(self._members)
        self._forget_chain()

    def _compile(self) -> None:
        """Compile target and kernel, once for all cells; again in each spawned process."""
        self._target = RestrictedTarget(self.model, self.partition.rule_)
        self._logp = self._target.compile_logp(**self._compile_kwargs)
        Q = getattr(self.partition, "Q", None)
        if Q is not None:
            Q = as_covariance(Q, self.partition.n_features_in_)
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

    def _usable_members(self, cell: int) -> np.ndarray:
        """Landmarks of a cell at which a chain can start, the most central first."""
        members = self.partition.members(cell)
        logp, _ = self._logp.in_cell(cell, members)
        usable = members[np.isfinite(logp)]
        if len(usable) == 0:
            raise ValueError(
                f"None of the {len(members)} landmarks of cell {cell} has a finite log density, "
                "so no chain can start there. Drop such points from what `explore` is given."
            )
        return usable

    def _value_point(self) -> PointType:
        """Return the value variables at the model's initial point, in their order."""
        point = self.model.initial_point()
        return {v.name: point[v.name] for v in self.model.value_vars}

    def _forget_chain(self) -> None:
        """Put back the state of before any chain has begun."""
        self.tune = True
        self.rng = np.random.default_rng(0)
        self.current_cell = 0
        self.stream: StreamingProposal | None = None
        self.jumps: Jumps | None = None
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
        chain = chain_index(rng)
        self._begin(chain % self.n_cells, chain, rng, tune, draws)

    def _begin(
        self, cell: int, chain: int, rng: np.random.Generator, tune: int, draws: int
    ) -> None:
        """Reset all per-chain state and enter a cell."""
        one_thread_if_forked()
        kernel_rng, self.rng, fit_rng, jump_rng = rng.spawn(4)
        self._kernel.begin(self._members[cell], kernel_rng, tune, draws)
        self.current_cell = cell
        members = self._members[cell]
        # The first chain of a cell starts at its center; others elsewhere in it, so that their
        # agreement means something.
        first = chain < self.n_cells
        self.pending_start = members[0 if first else self.rng.integers(len(members))]
        self.stream = StreamingProposal(self._known[cell], self.proposal, rng=fit_rng)
        self.jumps = None
        if self.n_jumps != 0:
            self.jumps = Jumps(self.n_jumps, self.stream.choice.density, jump_rng)
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
        self._kernel.admit(state.kernel_step, self._members[state.current_cell])
        WithSamplingState.sampling_state.fset(self, state)  # type: ignore[attr-defined]

    def stop_tuning(self) -> None:
        """End the tuning of the kernel, and fit the bridge's proposal to what it saw."""
        self._tune = False
        self._kernel.step.stop_tuning()
        if self.stream is None:
            return
        self.stream.stop_tuning()
        if self.jumps is not None:
            draws = self.stream.tuning_draws
            self.jumps.settle(self.stream.choice.density, draws, self._logp_here)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make a draw in the cell, and the four terms that its bridge needs."""
        if self.stream is None:
            raise SamplingError("No chain was begun: run this step through pm.sample.")
        if self.pending_start is not None:
            point = self._unravel(self.pending_start)
            self.pending_start = None
            # What Metropolis and slice compile for themselves, Numba finishes at the first call.
            with exact_rounding():
                draw = self._kernel.draw(point)
        else:
            draw = self._kernel.draw(point)
        point, stats, logp = draw.point, draw.stats, draw.logp
        x = self._ravel(point)
        stats[N_JUMPS] = stats[JUMP_ACCEPTED] = 0
        if self.jumps is not None:
            if self._tune:
                self.jumps.observe_work(draw.work)
            level = self._logp_here(x) if logp is None else float(logp)
            x, logp, stats[N_JUMPS], stats[JUMP_ACCEPTED] = self.jumps(x, level, self._logp_here)
            if stats[JUMP_ACCEPTED]:
                point = self._unravel(x)
                if "model_logp" in stats:
                    stats["model_logp"] = logp
        row = WHILE_TUNING if self._tune else self._bridge_row(x, logp)
        self.stream.observe(x, tuning=self._tune)
        stats[CELL] = self._current_cell
        stats.update(zip(BRIDGE_STATS, row.terms, strict=True))
        stats[PROPOSAL_FIT] = row.fit
        stats[BOUNDARY_HIT] = draw.boundary_hit
        stats[NAN_LOGP] = int(draw.nan_logp) + int(row.nan_logp)
        if self.pool_fresh:
            stats[FRESH_POINT] = row.proposed
        return point, [stats]

    def _bridge_row(self, x: np.ndarray, logp: float | None) -> BridgeRow:
        """Return what the bridge needs of a draw, whose log density is known or None."""
        stream: StreamingProposal = self.stream  # type: ignore[assignment]
        proposal = stream.current
        proposed, log_proposal_there = proposal.draw(self.rng)
        log_target_there, found = self._logp.evaluate(proposed)
        log_target = float(self._logp(x) if logp is None else logp)
        return BridgeRow(
            (log_target, float(proposal.logpdf(x)), log_target_there, log_proposal_there),
            stream.n_fits - 1,
            proposed,
            found is Verdict.NAN,
        )

    def _logp_here(self, x: np.ndarray) -> float:
        """Return the log density of a point in the chain's cell, -inf outside.

        An infinite one is no density, and a chain that jumped there would never leave.
        """
        logp = self._logp.evaluate(x)[0]
        return logp if logp < np.inf else -np.inf

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

    def before_first_draw(self, n_chains: int) -> None:
        """Refuse a run that could not be weighed, or whose cells belong to another posterior."""
        self._call = PyMCCall.in_progress(self)
        if self._call.in_compound:
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
        changed = self._learned_from.difference(fingerprint(self.model))
        if changed:
            raise SamplingError(
                f"The model has changed since this step explored it ({changed}), so its cells "
                "belong to another posterior. Construct the step again: "
                "step = SpectralPartitionStep(...)."
            )
        check_route(self._call)
        register(self)

    @one_thread()
    def finish(self, idata: Any, trace: Any) -> Any:
        """Weigh the cells, reweight the draws of all chains, and say what was noticed.

        Parameters
        ----------
        idata : InferenceData or DataTree
            Chains as they ran.
        trace : MultiTrace
            What PyMC made it from; it can evaluate all variables at a point.
        """
        groups = open_groups(idata)
        names, compute = all_variables_at(trace)

        def values_at(x: np.ndarray) -> Sequence[np.ndarray]:
            return compute(*self._unravel(x).values())

        if self.pool_fresh:
            groups = with_proposed_points(
                groups, names, values_at, progressbar=self._call.progressbar
            )
        try:
            groups = reweighted(
                groups, bridge=self.bridge, n_cells=self.n_cells, random_seed=self._row_seed
            )
        except BridgeError as error:
            error.idata = close_groups(groups, like=idata)
            raise
        try:
            groups |= self._what_was_learned(groups)
            groups, findings = self._with_floor(groups, names, values_at)
            groups["cells"] = with_findings(groups["cells"], findings)
            if self._call.log:
                log_findings(findings)
        except Exception:
            # Hours of sampling are worth more than what can be said about them.
            _log.warning(
                "The result could not be checked; draws and weights are complete.", exc_info=True
            )
        return close_groups(groups, like=idata)

    def _with_floor(
        self,
        groups: dict[str, xr.Dataset],
        names: Sequence[str],
        values_at: Callable[[np.ndarray], Sequence[np.ndarray]],
    ) -> tuple[dict[str, xr.Dataset], list[Finding]]:
        """Let tempering's points stand in for cells that failed; return what is to be said."""
        findings = find(groups)
        tempered = self._tempered(groups)
        if tempered is None:
            return groups, findings
        failed = failed_cells(groups, findings, tempered)
        if not failed:
            return groups, findings
        weighing = weighing_of(groups)
        own = weighing.cell_of_chain
        replaced = dict(groups)
        if failed.draws.any():
            replaced["cell_posterior"] = with_draws_of(
                tempered, groups["cell_posterior"], own, failed.draws, names, values_at
            )
        masses = masses_of(tempered, weighing, failed.mass)
        replaced["cells"] = replaced["cells"].assign({DRAWS_BY_TEMPERING: ("cell", failed.draws)})
        replaced = reweighted(replaced, others=masses)
        return replaced, find(replaced)

    def _tempered(self, groups: dict[str, xr.Dataset]) -> Tempered | None:
        """Return what tempering says about the cells, if it was tempering that explored."""
        explored = self.exploration
        if explored is None or explored.tempering is None:
            return None
        report, said = explored.tempering, groups["exploration"]
        own = explored.round == 0
        points = explored.points[own]
        cell = self.partition.predict(points)
        return Tempered(
            [points[cell == k] for k in range(self.n_cells)],
            said["occupancy"].values,
            said["occupancy_error"].values,
            report.log_evidence,
            report.log_evidence_error,
            independent_points(explored.logp[own], report.round_trips),
        )

    def _what_was_learned(self, groups: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
        """Return the groups about partition and exploration, and how well chains covered them."""
        names = coordinate_names(self.model)
        stats = groups["cell_sample_stats"]
        own = cell_of_chain(stats)
        draws = unconstrained_draws(self.model, groups["cell_posterior"], MAX_COMPARED)
        covered = None if draws is None else self._coverage(draws, own, stats)
        found = {
            "partition": partition_group(
                self.partition,
                kernel=self.kernel_name,
                names=names,
                starts=np.array([members[0] for members in self._members]),
                draws=draws,
                cell_of_chain=own,
                coverage=covered,
            )
        }
        if self.exploration is not None:
            found["exploration"] = exploration_group(self.exploration, self.partition, names)
        return found

    def _coverage(self, draws: np.ndarray, own: np.ndarray, stats: xr.Dataset) -> Coverage:
        """Compare what each cell's chains saw with the points that it was learned from."""
        cells = range(self.n_cells)
        # Tempering's points are draws. Among those of another source, what lies lower than nearly
        # all draws is a stray point of the search, not a part of the mode.
        lowest = np.full(self.n_cells, -np.inf)
        if self.exploration is None or self.exploration.tempering is None:
            drawn = stat_values(stats, LOG_TARGET_DRAW)
            lowest = np.array([np.quantile(drawn[own == k], STRAY_SHARE) for k in cells])
        if self.exploration is None:
            points = np.concatenate(self._members)
            cell = np.repeat(cells, [len(members) for members in self._members])
            logp = np.concatenate([self._logp_in_cell(k, self._members[k]) for k in cells])
        else:
            points, logp = self.exploration.points, self.exploration.logp
            cell = self.partition.predict(points)
        return coverage(draws, own, points, logp, cell, lowest, self._logp_in_cell)

    def _logp_in_cell(self, cell: int, points: np.ndarray) -> np.ndarray:
        """Evaluate the log density of points in a cell; +inf where it is not known there."""
        logp, inside = self._logp.in_cell(cell, points)
        return np.where(inside, logp, np.inf)

    # ------------------------------------------------------------ pickling

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is compiled: a spawned process compiles its own."""
        state = self.__dict__.copy()
        for name in ("_target", "_logp", "_kernel", "exploration"):
            state.pop(name, None)
        state["stream"] = state["jumps"] = None
        state["pending_start"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Compile target and kernel again."""
        self.__dict__.update(state)
        self.exploration = None
        self._compile()
        self._forget_chain()


# PyMC's `__new__` takes anything; without this, help() and editors would show just that.
_own = inspect.signature(SpectralPartitionStep.__init__)
SpectralPartitionStep.__signature__ = _own.replace(  # type: ignore[attr-defined]
    parameters=list(_own.parameters.values())[1:]
)
