"""The mass of each cell by bridge sampling, with its error.

For a cell with unnormalized density ``q`` and mass ``c = integral of q``, and a proposal ``p`` that
is normalized and can be sampled, any function ``alpha`` gives (Meng & Wong 1996)::

    c = E_p[q alpha] / E_pi[p alpha],        pi = q / c

The second expectation is over the chain's draws, the first over points proposed independently from
``p``. Each row (one draw, one proposed point) carries its own four numbers: log target and log
proposal at the draw, log target and log proposal at the proposed point. So the rows need not share
one proposal: with ``alpha_t`` belonging to row t's own ``p_t``, ``E[q alpha_t] = c E[p_t alpha_t]``
holds row by row, hence for the sums over rows, and a proposal that was refitted along the way is no
obstacle. The error takes into account that rows of one fit share the level of their terms.

Everything here is NumPy on plain arrays. In names, ``draw`` is the chain's side of the bridge, and
``fresh`` that of the proposed points, as in the sampler stats.

References
----------
Meng & Wong (1996), Simulating ratios of normalizing constants via a simple identity, Statistica
Sinica 6. Fruehwirth-Schnatter (2004), Estimating marginal likelihoods for mixture and Markov
switching models using bridge sampling techniques, doi:10.1111/j.1368-423X.2004.00125.x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import chdtri, log_expit

from pymc_spectral._autocorrelation import variance_left
from pymc_spectral._validate import one_of
from pymc_spectral.bridge.log_sums import log_mean, log_sum, relative_terms
from pymc_spectral.bridge.pareto import pareto_k
from pymc_spectral.bridge.runs_between_refits import Series, draw_series, number_runs, run_means

__all__ = ["BridgeError", "BridgeEstimate", "BridgeKind", "bridge_estimate"]

BridgeKind = Literal["optimal", "geometric"]

# Points to add to those seen outside a cell: half a point, the Jeffreys rule for a share.
_JEFFREYS = 0.5
# The optimal bridge's shares want the effective number of draws, which depends on them, weakly.
# Heuristic: the error is at its minimum in the shares, so that 5 % of their ratio changes it to
# second order only, and few passes are needed.
_TIME_PASSES = 3
_TIME_SETTLED = 0.05
# Reach of the root's bracket beyond the ratios, in logs: there one side's terms are all 1, the
# other's below exp(-50), so that the sign is certain with any number of rows below exp(50).
_BRACKET = 50.0
# Newton's method takes about six steps, and bisection alone about 50: far fewer than these.
_ROOT_STEPS = 200
# Steps of the root finder, and bracket, that count as found: a few times the rounding of log
# densities of size 1e4, and far below any Monte Carlo error.
_STEP_TOLERANCE = 1e-11
_BRACKET_TOLERANCE = 1e-10
# Estimates that disagree more than chance would have it once in 10,000 cells widen the error.
_CHANCE = 1e-4
# Keeps a quotient finite where no term varies.
_TINY = 1e-300


class BridgeError(ValueError):
    """A cell's mass cannot be estimated; the message names the cells and says what to do.

    Attributes
    ----------
    idata : InferenceData, DataTree or None
        The chains that could not be weighed, when there are some, so that they are not lost.
    """

    idata: Any = None


@dataclass(frozen=True)
class BridgeEstimate:
    """The mass of one cell.

    Attributes
    ----------
    kind : {"optimal", "geometric"}
        Bridge used.
    n_draws, n_fresh : int
        Rows used on each side: draws, and proposed points.
    n_nan : int
        Log densities that were NaN (or +inf): a draw's row is left out; a proposed point counts as
        outside, because the chain, which rejects such points, samples a target without them.
    share_inside : float
        Share of proposed points with positive density: inside the cell and the model's support.
    ratio_draw, ratio_fresh : ndarray, shape (chains, draws)
        Log target less log proposal, ``-inf`` outside the cell; NaN where a draw was left out.
    runs : ndarray of int, shape (chains, draws)
        Number of the run (of rows that share chain and fit) that a row belongs to, growing along
        the rows; short runs have joined the next.
    influence_draw : ndarray, shape (chains, draws)
        First-order influence of each draw: `log_c` moves by ``influence_draw.sum() / n_draws``.
        0 where a row was left out.
    term_draw, term_fresh : ndarray, shape (chains, draws)
        Terms of the two sides, ``p alpha`` and ``q alpha``, each divided by its mean; 1 where a
        draw was left out. To first order `log_c` moves by the mean of their difference.
    log_c : float
        Log of the cell's mass; NaN when no proposed point fell inside the cell.
    mcse : float
        Standard error of `log_c`, that is, relative error of the mass; infinite when NaN.
    ess : float
        Effective number of draws behind the chain's side of the bridge.
    iterations : int
        Steps of the root finder; 0 for the geometric bridge, which is explicit.
    converged : bool
        Whether the root was found to 1e-10.
    pareto_k : float
        Tail shape of the bridge's terms, the larger of both sides. Above 0.5 the standard error
        itself should not be trusted; NaN with fewer than 25 terms.
    discrepancy : float
        Scatter of the estimates of the single chains and runs, relative to what the errors below
        explain: about 1 in health.
    excess : float
        Factor that the variances below have been multiplied by: 1, or ``discrepancy ** 2`` where
        that is beyond chance (1 in 10,000): chains of one cell disagree, so it probably holds a
        mode that some of them have not found.
    slow : float
        Factor that `variance_draw` has been multiplied by because the chains mix more slowly than
        their terms show, see :meth:`slowed`; part of `excess`.
    variance_draw, variance_fresh : float
        The two sides' shares of ``mcse ** 2``.
    variance_unseen : float
        The part of `variance_fresh` for points that could have fallen outside and did not.
    """

    kind: BridgeKind
    n_draws: int
    n_fresh: int
    n_nan: int
    share_inside: float
    ratio_draw: np.ndarray
    ratio_fresh: np.ndarray
    runs: np.ndarray
    influence_draw: np.ndarray
    term_draw: np.ndarray
    term_fresh: np.ndarray
    log_c: float = np.nan
    mcse: float = np.inf
    ess: float = np.nan
    iterations: int = 0
    converged: bool = False
    pareto_k: float = np.nan
    discrepancy: float = np.nan
    excess: float = np.nan
    slow: float = 1.0
    variance_draw: float = np.inf
    variance_fresh: float = np.inf
    variance_unseen: float = np.inf

    def slowed(self, ess: float) -> BridgeEstimate:
        """Return the estimate of a cell whose draws are worth no more than `ess`.

        The terms of a good proposal are nearly constant, and tell little of a chain that has not
        been everywhere: where its parameters say that it has not, they decide.
        """
        factor = max(1.0, self.ess / ess) if ess > 0 else np.inf
        variance = self.variance_draw * factor
        return replace(
            self,
            variance_draw=variance,
            mcse=float(np.sqrt(variance + self.variance_fresh)),
            excess=self.excess * factor,
            slow=factor,
        )

    @classmethod
    def impossible(cls, ratios: Ratios, kind: BridgeKind) -> BridgeEstimate:
        """Return the estimate of a cell whose mass is not known: what the rows say without it."""
        shape = ratios.draw.shape
        return cls(
            kind=kind,
            n_draws=ratios.n_draws,
            n_fresh=ratios.n_fresh,
            n_nan=ratios.n_nan,
            share_inside=ratios.share_inside,
            ratio_draw=ratios.draw,
            ratio_fresh=ratios.fresh,
            runs=ratios.runs,
            influence_draw=np.zeros(shape),
            term_draw=np.ones(shape),
            term_fresh=np.ones(shape),
        )


@dataclass(frozen=True)
class Ratios:
    """What the terms of one cell come down to: log target less log proposal, by row.

    Attributes
    ----------
    draw : ndarray, shape (chains, draws)
        At the draws; NaN where one is left out.
    fresh : ndarray, shape (chains, draws)
        At the proposed points; ``-inf`` outside the cell.
    use : ndarray of bool, shape (chains, draws)
        Draws that count.
    runs : ndarray of int, shape (chains, draws)
        Run of each row.
    n_nan : int
        Densities that were no number.
    """

    draw: np.ndarray
    fresh: np.ndarray
    use: np.ndarray
    runs: np.ndarray
    n_nan: int

    @property
    def n_draws(self) -> int:
        """Draws that count."""
        return int(self.use.sum())

    @property
    def n_fresh(self) -> int:
        """Proposed points, all of which count."""
        return self.fresh.size

    @property
    def share_inside(self) -> float:
        """Share of proposed points inside the cell."""
        return float(np.mean(self.fresh > -np.inf))


@dataclass(frozen=True)
class _Solution:
    """The bridge's equation solved: the log mass, and the terms that it leaves."""

    log_c: float
    log_draw: np.ndarray
    log_fresh: np.ndarray
    draw: np.ndarray  # relative to their mean, 0 where a draw is left out
    fresh: np.ndarray  # relative to their mean
    series: Series
    iterations: int
    converged: bool


def bridge_estimate(
    log_target_draw: np.ndarray,
    log_proposal_draw: np.ndarray,
    log_target_fresh: np.ndarray,
    log_proposal_fresh: np.ndarray,
    *,
    proposal_fit: np.ndarray | None = None,
    kind: BridgeKind = "optimal",
    bounded: bool = True,
) -> BridgeEstimate:
    """Estimate the log mass of one cell from its chains' bridge terms.

    Parameters
    ----------
    log_target_draw, log_proposal_draw : ndarray, shape (chains, draws)
        Log unnormalized target and log proposal at each draw, in time order.
    log_target_fresh, log_proposal_fresh : ndarray, shape (chains, draws)
        The same at one proposed point per row; the log target is -inf outside the cell.
    proposal_fit : ndarray of int, shape (chains, draws), optional
        Which fit of its chain's proposal each row used. Default: one fit per chain.
    kind : {"optimal", "geometric"}
        ``"optimal"`` minimizes the error: ``alpha = 1 / (s1 q / c + s2 p)`` with ``s1 : s2`` the
        ratio of the effective number of draws to that of proposed points; c is then the root of a
        monotone equation. ``"geometric"``, the paper's, is ``alpha = (p q) ** -0.5``.
    bounded : bool
        Whether there is anything outside the cell that proposed points could fall on. False for a
        cell that is the whole space: the error then has no part for points that might have.

    Returns
    -------
    BridgeEstimate

    Notes
    -----
    With ``f1 = q alpha`` at proposed points and ``f2 = p alpha`` at draws, the squared error of the
    log mass is ``Var(f1) / (n2 E[f1]^2) + tau Var(f2) / (n1 E[f2]^2)`` (Fruehwirth-Schnatter 2004),
    where ``tau`` is the autocorrelation time of the series ``f2`` itself, entering once. Variances
    are about the mean of each run (of rows that share chain and fit): fits differ in the common
    level of f1 and f2, which cancels.

    The optimal bridge's terms are bounded (by ``1 / s2`` and ``1 / s1``). The geometric bridge's
    are not: its variance is always finite, but ``Var(f2)`` is estimated through ``p / q`` at the
    draws, whose own variance is infinite when p has heavier tails than q, e.g. a Student proposal
    for a normal cell. At 1000 draws this was not seen to matter: in that case, in one dimension,
    over 1000 runs, the largest error was 4.3 of its own standard errors with the geometric bridge
    and 4.1 with the optimal one, and both had the size reported within 4 %.
    """
    one_of("bridge", kind, get_args(BridgeKind))
    terms = _checked(log_target_draw, log_proposal_draw, log_target_fresh, log_proposal_fresh)
    ratios = _ratios(terms, proposal_fit)
    nothing = BridgeEstimate.impossible(ratios, kind)
    if ratios.share_inside == 0.0:
        return nothing
    solution = _solve(ratios, kind)
    unseen = _JEFFREYS if bounded or ratios.share_inside < 1.0 else 0.0
    variances = _variances(solution, ratios, unseen)
    # Only after both variances are known can a disagreement be told from chance.
    discrepancy, excess = _discrepancy(solution, ratios, *variances)
    variance_draw, variance_fresh = (variance * excess for variance in variances)
    tails = pareto_k(solution.log_fresh), pareto_k(solution.log_draw[ratios.use])
    return replace(
        nothing,
        log_c=float(solution.log_c),
        mcse=float(np.sqrt(variance_draw + variance_fresh)),
        ess=ratios.n_draws / solution.series.time,
        iterations=solution.iterations,
        converged=solution.converged,
        pareto_k=float(np.fmax(*tails)),
        discrepancy=discrepancy,
        excess=excess,
        variance_draw=variance_draw,
        variance_fresh=variance_fresh,
        variance_unseen=unseen / ratios.n_fresh**2,
        influence_draw=-solution.series.centered,
        term_draw=np.where(ratios.use, solution.draw, 1.0),
        term_fresh=solution.fresh,
    )


def _checked(*terms: np.ndarray) -> list[np.ndarray]:
    """Check that the four terms are arrays of one (chains, draws) shape."""
    arrays = [np.atleast_2d(np.asarray(t, dtype=float)) for t in terms]
    shapes = [a.shape for a in arrays]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or arrays[0].size == 0:
        raise ValueError(
            f"The four bridge terms have shapes {', '.join(map(str, shapes))}; "
            "expected one shape (chains, draws), not empty."
        )
    return arrays


def _ratios(terms: list[np.ndarray], proposal_fit: np.ndarray | None) -> Ratios:
    """Form the ratios, decide which rows count, and find the runs."""
    target_draw, proposal_draw, target_fresh, proposal_fresh = terms
    runs = number_runs(target_draw.shape, proposal_fit)
    draw = target_draw - proposal_draw
    fresh = target_fresh - proposal_fresh
    bad_draw = ~np.isfinite(draw)
    # The chain refuses such points, so they are outside of what it samples.
    bad_fresh = np.isnan(fresh) | (fresh == np.inf)
    if bad_draw.all():
        raise BridgeError(
            f"None of the {bad_draw.size} draws of the cell has a finite log density."
        )
    return Ratios(
        draw=np.where(bad_draw, np.nan, draw),
        fresh=np.where(bad_fresh, -np.inf, fresh),
        use=~bad_draw,
        runs=runs,
        n_nan=int(bad_draw.sum() + bad_fresh.sum()),
    )


def _solve(ratios: Ratios, kind: BridgeKind) -> _Solution:
    """Solve the bridge's equation; for the optimal one, settle its shares on the way."""
    if kind == "geometric":
        log_draw, log_fresh = -0.5 * ratios.draw, 0.5 * ratios.fresh
        log_c = log_mean(log_fresh) - log_mean(log_draw[ratios.use])
        return _solution(ratios, log_c, log_draw, log_fresh, 0, True)
    time, iterations = 1.0, 0
    for _ in range(_TIME_PASSES):
        # Log odds of draws to proposed points in the mixture that alpha stands for.
        odds = np.log(ratios.n_draws / time / ratios.n_fresh)
        log_c, steps, found = _optimal_root(ratios.fresh, ratios.draw[ratios.use], odds)
        iterations += steps
        log_draw = log_expit(log_c - odds - ratios.draw)
        log_fresh = log_expit(ratios.fresh - log_c + odds)
        solution = _solution(ratios, log_c, log_draw, log_fresh, iterations, found)
        previous, time = time, solution.series.time
        if abs(np.log(time / previous)) < _TIME_SETTLED:
            break
    return solution


def _solution(
    ratios: Ratios,
    log_c: float,
    log_draw: np.ndarray,
    log_fresh: np.ndarray,
    iterations: int,
    converged: bool,
) -> _Solution:
    """Divide the terms by their means, and subtract the levels of the runs."""
    draw, fresh = relative_terms(log_draw, ratios.use), relative_terms(log_fresh)
    series = draw_series(draw, fresh, ratios.use, ratios.runs)
    return _Solution(log_c, log_draw, log_fresh, draw, fresh, series, iterations, converged)


def _optimal_root(
    ratio_fresh: np.ndarray, ratio_draw: np.ndarray, odds: float
) -> tuple[float, int, bool]:
    """Solve the optimal bridge's equation for log c; return it, the steps, and success.

    With a = log q/p at proposed points and b the same at draws, the fixed point of Meng & Wong's
    iteration is the root of ``log mean expit(a - x + odds) - odds - log mean expit(x - b - odds)``
    in x, which falls strictly from +inf to -inf. Newton's step, halved into the bracket when it
    leaves it, needs about six evaluations where the raw iteration may need thousands.
    """
    fresh = ratio_fresh[ratio_fresh > -np.inf]
    # Points outside have terms of 0: they only divide the mean, and drop out of the slope.
    outside = np.log(fresh.size / ratio_fresh.size)
    low = min(fresh.min(), ratio_draw.min()) - abs(odds) - _BRACKET
    high = max(fresh.max(), ratio_draw.max()) + abs(odds) + _BRACKET
    x = float(np.median(ratio_draw))
    for step in range(1, _ROOT_STEPS):
        log_fresh = log_expit(fresh - x + odds)
        log_draw = log_expit(x - ratio_draw - odds)
        sum_fresh, sum_draw = log_sum(log_fresh), log_sum(log_draw)
        value = (
            (sum_fresh - np.log(fresh.size) + outside) - odds - (sum_draw - np.log(ratio_draw.size))
        )
        # The function falls: a positive value puts the root to the right.
        if value > 0:
            low = x
        else:
            high = x
        # Minus the derivative: each side's mean of 1 - expit, weighted by its terms.
        slope = np.sum(np.exp(log_fresh - sum_fresh) * -np.expm1(log_fresh)) + np.sum(
            np.exp(log_draw - sum_draw) * -np.expm1(log_draw)
        )
        new = x + value / slope if slope > 0 else np.nan
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - x) < _STEP_TOLERANCE * max(1.0, abs(new)):
            return float(new), step, True
        x = float(new)
    return x, _ROOT_STEPS, high - low < _BRACKET_TOLERANCE * max(1.0, abs(x))


def _variances(solution: _Solution, ratios: Ratios, unseen: float) -> tuple[float, float]:
    """Return the squared errors of the log mass that come from the draws and the proposed points.

    To the points outside the cell that were seen, `unseen` are added. Where the proposal fits so
    well that nothing else is left, the points that could have fallen outside, and by chance did
    not, are what remains of the error.
    """
    series, n = solution.series, ratios.n_draws
    spread = float(np.sum(series.centered**2)) / n
    left = variance_left(series.time, n, series.n_means)
    variance_draw = float(spread * series.time / n / left)

    # Independent points: each run's mean goes in full, for one degree of freedom.
    every = np.ones(solution.fresh.shape, dtype=bool)
    levels, _ = run_means(solution.fresh, ratios.runs, every)
    centered = solution.fresh - levels[ratios.runs]
    n = ratios.n_fresh
    spread = float(np.sum(centered**2) / max(n - levels.size, 1) + unseen / n)
    return variance_draw, spread / n


def _discrepancy(
    solution: _Solution, ratios: Ratios, variance_draw: float, variance_fresh: float
) -> tuple[float, float]:
    """Compare estimates of parts of the rows: return sqrt(chi2 / dof), the factor on the variance.

    By run, and by chain alone: the runs of a chain that is stuck agree with each other, and among
    many of them a disagreement between chains would be lost.
    """
    shape = ratios.use.shape
    chains = np.broadcast_to(np.arange(shape[0])[:, None], shape)
    units = variance_draw * ratios.n_draws, variance_fresh * ratios.n_fresh
    found = [_disagreement(solution, ratios.use, by, *units) for by in (ratios.runs, chains)]
    return max(found, key=lambda pair: pair[1])


def _disagreement(
    solution: _Solution, use: np.ndarray, by: np.ndarray, unit_draw: float, unit_fresh: float
) -> tuple[float, float]:
    """Compare the estimates of the parts that `by` numbers; units are variances for one row."""
    if by.max() < 1:
        return 1.0, 1.0
    every = np.ones(use.shape, dtype=bool)
    mean_draw, n_draw = run_means(solution.draw, by, use)
    mean_fresh, n_fresh = run_means(solution.fresh, by, every)
    # An early fit is worse than later ones, and its terms scatter more than those of all parts
    # together: the larger of the two is a part's error.
    squares = np.where(use, (solution.draw - mean_draw[by]) ** 2, 0.0)
    own_draw, _ = run_means(squares, by, use)
    own_fresh, _ = run_means((solution.fresh - mean_fresh[by]) ** 2, by, every)
    time = unit_draw * use.sum() / max(float(squares.sum()), _TINY)
    variance_draw = np.maximum(unit_draw, own_draw * time) / n_draw
    variance = np.maximum(unit_fresh, own_fresh) / n_fresh + variance_draw
    # A part of which no draw counts has no estimate.
    usable = np.bincount(by.ravel(), weights=use.ravel()) > 0
    dof = int(usable.sum()) - 1
    if dof < 1 or not np.all(variance > 0):
        return 1.0, 1.0
    chi2 = float(np.sum(((mean_fresh - mean_draw) ** 2 / variance)[usable]))
    ratio = chi2 / dof
    return float(np.sqrt(ratio)), ratio if chi2 > chdtri(dof, _CHANCE) else 1.0
