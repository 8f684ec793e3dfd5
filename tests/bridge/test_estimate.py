"""Bridge sampling against masses known in closed form, and the honesty of its errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp
from synthetic import ar1, chains_with_bridge_terms

from pymc_spectral.bridge.estimate import BridgeError, bridge_estimate
from pymc_spectral.bridge.pareto import pareto_k
from pymc_spectral.bridge.proposal import Proposal
from pymc_spectral.bridge.runs_between_refits import number_runs

KINDS = ("optimal", "geometric")
PROPOSALS = ("normal", "student")
LOG_MASS = 7.0


def normal_target(x):
    """Return exp(LOG_MASS) times the standard normal density, in logs."""
    return LOG_MASS + stats.norm.logpdf(x).sum(axis=-1)


def half_target(x):
    """Return the same, cut off at x0 = 0 and doubled: half of a proposal at 0 falls outside."""
    return np.where(x[..., 0] > 0, normal_target(x) + np.log(2.0), -np.inf)


def heavy_target(x):
    """Return exp(LOG_MASS) times independent Student densities with 5 degrees, in logs."""
    return LOG_MASS + stats.t(5).logpdf(x).sum(axis=-1)


TARGETS = {
    "normal": (normal_target, lambda x: x),
    "half": (half_target, lambda x: np.column_stack([np.abs(x[:, 0]), x[:, 1:]])),
    "heavy": (heavy_target, lambda x: np.sign(x) * stats.t(5).isf(stats.norm.sf(np.abs(x)))),
}


def run(rng, target="normal", d=2, phi=0.0, draws=1000, tune=500, chains=1, proposal="normal"):
    """Return the four terms and fits of chains that refit their proposal on earlier draws."""
    log_target, transform = TARGETS[target]
    paths = np.array([transform(ar1(rng, phi, (tune + draws, d), axis=0)) for _ in range(chains)])
    made = chains_with_bridge_terms(
        rng, paths, lambda x, _: log_target(x), tune=tune, proposal=proposal
    )
    return made.terms, made.fits


def repeat(n, kinds, seed, **kwargs):
    """Return errors and reported errors, (n,) each, by bridge, all on the same runs."""
    rng = np.random.default_rng(seed)
    bounded = kwargs.get("target") == "half"  # the others reach everywhere
    found = {kind: [] for kind in kinds}
    for _ in range(n):
        terms, fits = run(rng, **kwargs)
        for kind in kinds:
            e = bridge_estimate(*terms, proposal_fit=fits, kind=kind, bounded=bounded)
            assert e.converged
            found[kind].append((e.log_c - LOG_MASS, e.mcse))
    return {kind: np.array(values).T for kind, values in found.items()}


def assert_honest(error, mcse, tolerance):
    """Check that errors are centered, of the size reported, and without wild outliers."""
    n = error.size
    assert np.sqrt(np.mean(error**2)) / mcse.mean() == pytest.approx(1.0, abs=tolerance)
    assert np.sqrt(np.mean((error / mcse) ** 2)) == pytest.approx(1.0, abs=tolerance)
    assert abs(error.mean()) < 4.5 * error.std() / np.sqrt(n)


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(
    "case",
    [
        {"d": 2, "phi": 0.7},
        {"d": 10, "phi": 0.5, "chains": 2},
        {"target": "half", "d": 2, "phi": 0.5},
    ],
    ids=["normal2", "normal10", "half2"],
)
def test_errors_are_as_reported(case, proposal):
    # The rms of 200 standardized errors has a standard error of 5 %.
    for error, mcse in repeat(200, KINDS, 1, proposal=proposal, **case).values():
        assert_honest(error, mcse, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(
    "case",
    [
        {"d": 1},
        {"d": 1, "phi": 0.5},
        {"d": 2, "phi": 0.9, "chains": 2},
        {"d": 10, "phi": 0.5},
        {"d": 30, "chains": 4},
        {"d": 30, "phi": 0.5},
        {"target": "half", "d": 2, "phi": 0.5},
        {"target": "half", "d": 10, "phi": 0.8, "chains": 2},
        {"target": "heavy", "d": 1, "phi": 0.5},
        {"target": "heavy", "d": 3},
        {"d": 3, "phi": 0.3, "draws": 200, "tune": 50},
        {"d": 2, "phi": -0.6},
    ],
    ids=lambda case: "-".join(f"{k}{v}" for k, v in case.items()),
)
def test_errors_are_as_reported_everywhere(case, proposal):
    for error, mcse in repeat(500, KINDS, 2, proposal=proposal, **case).values():
        assert_honest(error, mcse, 0.15)


def test_fitting_to_the_draws_themselves_would_be_noticed():
    # Negative control, and the reason for the stream: bias -d (d + 3) / (4 n).
    d, n, rng = 10, 150, np.random.default_rng(3)
    error = []
    for _ in range(40):
        x = rng.standard_normal((n, d))
        p = Proposal("normal", x.mean(axis=0), np.cov(x.T))
        y = p.sample(rng, n)
        e = bridge_estimate(normal_target(x), p.logpdf(x), normal_target(y), p.logpdf(y))
        error.append(e.log_c - LOG_MASS)
    assert np.mean(error) == pytest.approx(-d * (d + 3) / (4 * n), rel=0.4)
    assert abs(np.mean(error)) > 10 * np.std(error) / np.sqrt(40)


def test_a_perfect_proposal_gives_the_exact_mass():
    rng = np.random.default_rng(4)
    p = Proposal("normal", np.zeros(3), np.eye(3))
    x, y = p.sample(rng, 100), p.sample(rng, 100)
    terms = normal_target(x), p.logpdf(x), normal_target(y), p.logpdf(y)
    for kind in KINDS:
        e = bridge_estimate(*terms, kind=kind)
        assert e.log_c == pytest.approx(LOG_MASS, abs=1e-9)
        # 100 points inside do not show that none can fall outside: half a point stays in doubt.
        assert e.mcse == pytest.approx(np.sqrt(0.5) / 100, rel=1e-6)
        # Unless there is no outside.
        assert bridge_estimate(*terms, kind=kind, bounded=False).mcse < 1e-9


def test_the_error_knows_of_points_that_could_have_fallen_outside():
    # A proposal equal to the target, but for a cell that ends where 1 point in 500 is beyond. One
    # run in three sees no point outside, and all else is exact.
    rng = np.random.default_rng(14)
    n, edge = 500, stats.norm.isf(1 / 500)
    p = Proposal("normal", np.zeros(1), np.eye(1))
    found = []
    for _ in range(400):
        x = stats.norm.isf(rng.uniform(1 / 500, 1.0, size=(n, 1)))
        y = p.sample(rng, n)
        fresh = np.where(y[:, 0] < edge, normal_target(y), -np.inf)
        e = bridge_estimate(normal_target(x), p.logpdf(x), fresh, p.logpdf(y))
        found.append((e.log_c - LOG_MASS - np.log1p(-1 / 500), e.mcse))
    error, mcse = np.array(found).T
    realized = np.sqrt(np.mean(error**2))
    assert 0.75 * realized < np.mean(mcse) < 1.3 * realized
    assert np.abs(error / mcse).max() < 4.5
    # Without the half point a third of the runs would claim to be exact.
    unmended = mcse**2 - 0.5 / n**2
    assert np.mean(unmended < (1e-3 * realized) ** 2) > 0.25


def test_the_root_is_the_fixed_point_of_meng_and_wong():
    terms, _ = run(np.random.default_rng(5), target="half", d=3, draws=400)
    e = bridge_estimate(*terms)
    a, b = (terms[2] - terms[3]).ravel(), (terms[0] - terms[1]).ravel()
    s1 = e.ess / (e.ess + e.n_fresh)
    log_c = 0.0
    for _ in range(500):
        numerator = np.where(
            np.isfinite(a), np.exp(a - np.logaddexp(np.log(s1) + a, np.log1p(-s1) + log_c)), 0.0
        )
        denominator = np.exp(-np.logaddexp(np.log(s1) + b, np.log1p(-s1) + log_c))
        log_c = np.log(numerator.mean()) - np.log(denominator.mean())
    # The shares enter through the previous pass's ESS: equal to second order only.
    assert e.log_c == pytest.approx(log_c, abs=0.1 * e.mcse)
    assert e.iterations < 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [-1e5, 1e5, 3e6])
def test_far_off_log_densities_only_shift_the_answer(kind, offset):
    terms, fits = run(np.random.default_rng(6), target="half")
    near = bridge_estimate(*terms, proposal_fit=fits, kind=kind)
    terms[[0, 2]] += offset
    far = bridge_estimate(*terms, proposal_fit=fits, kind=kind)
    assert far.log_c - offset == pytest.approx(near.log_c, abs=1e-6)
    assert far.mcse == pytest.approx(near.mcse, rel=1e-4)
    assert far.converged


def test_densities_that_hardly_overlap_give_a_large_error_not_a_wrong_answer():
    # A proposal 4 standard deviations off: the answer must be within its own wide error.
    rng, z = np.random.default_rng(7), []
    p = Proposal("normal", np.array([4.0]), np.eye(1))
    for _ in range(50):
        x, y = rng.standard_normal((1000, 1)), p.sample(rng, 1000)
        e = bridge_estimate(normal_target(x), p.logpdf(x), normal_target(y), p.logpdf(y))
        assert e.converged
        assert e.mcse > 0.1
        z.append((e.log_c - LOG_MASS) / e.mcse)
    assert np.abs(z).max() < 5


def test_autocorrelation_counts_once():
    # AR(1) draws with a mean shift in the proposal make the series of terms close to AR(1) too.
    rng, phi, n = np.random.default_rng(8), 0.9, 20_000
    p = Proposal("normal", np.array([0.5]), np.eye(1))
    x, y = ar1(rng, phi, (n, 1), axis=0), p.sample(rng, n)
    fresh = normal_target(y), p.logpdf(y)
    # The geometric bridge: its terms do not depend on the ESS.
    slow = bridge_estimate(normal_target(x), p.logpdf(x), *fresh, kind="geometric")
    x = rng.permutation(x)
    fast = bridge_estimate(normal_target(x), p.logpdf(x), *fresh, kind="geometric")
    tau = (1 + phi) / (1 - phi)
    assert n / slow.ess == pytest.approx(tau, rel=0.25)
    assert fast.ess == pytest.approx(n, rel=0.1)
    assert slow.variance_draw / fast.variance_draw == pytest.approx(tau, rel=0.35)
    assert slow.variance_fresh == fast.variance_fresh


def test_fits_of_different_quality_do_not_pass_for_disagreement():
    # Two good fits that differ: levels of the terms jump between them, in step on both sides.
    rng, z, ratio, widened = np.random.default_rng(9), [], [], 0
    fits = np.repeat([0, 1], 500)
    for _ in range(100):
        terms = np.empty((4, 1, 1000))
        for fit, scale in enumerate((1.0, 9.0)):
            p = Proposal("normal", np.zeros(2), scale * np.eye(2))
            x, y = rng.standard_normal((500, 2)), p.sample(rng, 500)
            rows = slice(500 * fit, 500 * fit + 500)
            terms[0, 0, rows], terms[1, 0, rows] = normal_target(x), p.logpdf(x)
            terms[2, 0, rows], terms[3, 0, rows] = normal_target(y), p.logpdf(y)
        e = bridge_estimate(*terms, proposal_fit=fits[None])
        widened += e.excess > 1
        z.append((e.log_c - LOG_MASS) / e.mcse)
        # Negative control: not knowing of the fits, the jump looks like a slow chain.
        ratio.append(bridge_estimate(*terms).mcse / e.mcse)
    assert widened <= 2
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.3)
    assert np.mean(ratio) > 1.5


def test_chains_in_different_modes_of_one_cell_widen_the_error():
    # Two modes of mass 1 and 9 in one cell; each chain knows only its own.
    rng = np.random.default_rng(10)
    terms = np.empty((4, 2, 500))

    def target(x):
        return logsumexp(
            [
                np.log(0.1) + stats.norm.logpdf(x[:, 0]),
                np.log(0.9) + stats.norm.logpdf(x[:, 0], 99),
            ],
            axis=0,
        )

    for k, center in enumerate((0.0, 99.0)):
        p = Proposal("normal", np.array([center]), 1.2 * np.eye(1))
        x, y = center + rng.standard_normal((500, 1)), p.sample(rng, 500)
        terms[0, k], terms[1, k], terms[2, k], terms[3, k] = (
            target(x),
            p.logpdf(x),
            target(y),
            p.logpdf(y),
        )
    e = bridge_estimate(*terms)
    assert e.discrepancy > 5
    assert e.excess == pytest.approx(e.discrepancy**2)
    assert e.mcse > 0.1


def test_a_chain_that_disagrees_is_noticed_among_the_many_fits_of_others():
    """One of four chains knows a tenth more mass; its ten fits differ from each other by chance."""
    z, widened = {0.0: [], 0.1: []}, {0.0: 0, 0.1: 0}
    fits = np.tile(np.arange(1000) // 100, (4, 1))
    for seed in range(60):
        rng = np.random.default_rng([seed, 11])
        x, y = rng.standard_normal((4, 1000)), 1.5 * rng.standard_normal((4, 1000))
        for more in z:
            shift = np.array([[0.0], [0.0], [0.0], [more]])
            terms = [
                stats.norm.logpdf(x) + shift,
                stats.norm.logpdf(x, scale=1.5),
                stats.norm.logpdf(y) + shift,
                stats.norm.logpdf(y, scale=1.5),
            ]
            e = bridge_estimate(*terms, proposal_fit=fits)
            widened[more] += e.excess > 1
            z[more].append(e.log_c / e.mcse)
    assert widened[0.0] == 0
    assert widened[0.1] > 50
    for errors in z.values():
        # 60 seeds: the root mean square is known to a tenth.
        assert np.sqrt(np.mean(np.square(errors))) < 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_influence_is_what_leaving_a_draw_out_changes(kind):
    terms, _ = run(np.random.default_rng(11), target="half", draws=400, tune=2000)
    e = bridge_estimate(*terms, kind=kind)
    changes = []
    for t in range(0, 400, 10):
        less = terms.copy()
        less[0, 0, t] = np.nan
        changes.append(bridge_estimate(*less, kind=kind).log_c - e.log_c)
    expected = -e.influence_draw[0, ::10] / 400
    if kind == "geometric":
        np.testing.assert_allclose(changes, expected, rtol=0.02, atol=1e-6)
    else:
        # The optimal bridge's shares move a little with the ESS, which any draw may change.
        assert np.polyfit(expected, changes, 1)[0] == pytest.approx(1.0, abs=0.2)
        assert np.corrcoef(expected, changes)[0, 1] > 0.9
    assert abs(e.influence_draw.sum()) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_nan_rows_are_left_out_and_counted(kind):
    terms, fits = run(np.random.default_rng(12), draws=1000)
    holed = terms.copy()
    holed[0, 0, ::50] = np.nan
    e = bridge_estimate(*holed, proposal_fit=fits, kind=kind)
    assert (e.n_nan, e.n_draws, e.n_fresh) == (20, 980, 1000)
    assert abs(e.log_c - LOG_MASS) < 5 * e.mcse
    assert (e.influence_draw[0, ::50] == 0).all()
    # A proposed point whose density is NaN is as good as outside: the chain never goes there.
    holed, outside = terms.copy(), terms.copy()
    holed[2, 0, ::50], outside[2, 0, ::50] = np.nan, -np.inf
    a, b = (bridge_estimate(*t, proposal_fit=fits, kind=kind) for t in (holed, outside))
    assert a.log_c == b.log_c
    assert (a.n_nan, b.n_nan) == (20, 0)
    assert a.share_inside == b.share_inside == 0.98


def test_nothing_inside_is_no_estimate():
    terms, _ = run(np.random.default_rng(13), draws=100)
    terms[2] = -np.inf
    e = bridge_estimate(*terms)
    assert np.isnan(e.log_c)
    assert e.mcse == np.inf
    assert not e.converged
    terms[0] = np.nan
    with pytest.raises(BridgeError, match="None of the 100 draws"):
        bridge_estimate(*terms)


def test_pareto_k_tells_unbounded_terms_from_bounded_ones():
    # A narrow proposal for heavy tails: q / p at proposed points grows like exp(1.5 x^2).
    rng = np.random.default_rng(14)
    p = Proposal("normal", np.zeros(1), np.eye(1) / 3)
    x, y = rng.standard_t(5, (5000, 1)), p.sample(rng, 5000)
    terms = heavy_target(x), p.logpdf(x), heavy_target(y), p.logpdf(y)
    assert bridge_estimate(*terms, kind="geometric").pareto_k > 0.1
    assert bridge_estimate(*terms).pareto_k < 0
    # Nearly constant terms, although with a heavy tail far out, are no reason to worry.
    p = Proposal("student", np.zeros(1), np.eye(1))
    x, y = rng.standard_normal((5000, 1)), p.sample(rng, 5000)
    terms = normal_target(x), p.logpdf(x), normal_target(y), p.logpdf(y)
    for kind in KINDS:
        e = bridge_estimate(*terms, kind=kind)
        assert e.pareto_k < 0.2
        assert e.mcse < 0.005


def test_pareto_k_finds_the_shape_of_a_pareto_tail():
    for shape in (0.3, 0.6, 0.9):
        rng = np.random.default_rng(15)
        found = [pareto_k(shape * rng.exponential(size=4000)) for _ in range(20)]
        assert np.mean(found) == pytest.approx(shape, abs=0.1)


def test_wrong_input_is_named():
    x = np.zeros((1, 5))
    with pytest.raises(ValueError, match="bridge='best' is unknown: use one of optimal, geometric"):
        bridge_estimate(x, x, x, x, kind="best")
    with pytest.raises(ValueError, match=r"\(1, 5\), \(1, 5\), \(1, 5\), \(1, 4\)"):
        bridge_estimate(x, x, x, x[:, 1:])
    with pytest.raises(ValueError, match=r"proposal_fit has shape \(1, 2\)"):
        bridge_estimate(x, x, x, x, proposal_fit=np.zeros((1, 2)))


# ---------------------------------------------------------------- for any chains


def estimates_of(seed, chains, phi, target="half", kind="optimal", draws=300):
    """Return terms, fits and a function that estimates from them."""
    rng = np.random.default_rng(seed)
    terms, fits = run(rng, target=target, phi=phi, chains=chains, draws=draws, tune=100)
    return terms, fits, lambda t, f: bridge_estimate(*t, proposal_fit=f, kind=kind)


SCALARS = ("log_c", "mcse", "ess", "share_inside", "pareto_k", "discrepancy", "excess")
any_chains = {
    "seed": st.integers(0, 10**6),
    "chains": st.integers(1, 4),
    "phi": st.floats(-0.6, 0.9),
    "kind": st.sampled_from(KINDS),
}


@settings(max_examples=12, deadline=None)
@given(shift=st.integers(-1000, 1000), **any_chains)
def test_a_shift_of_the_target_shifts_the_log_mass_and_nothing_else(shift, seed, chains, phi, kind):
    terms, fits, estimate = estimates_of(seed, chains, phi, kind=kind)
    # A grid of 2 ** -20 makes the shift of every log density exact.
    terms[[0, 2]] = np.round(terms[[0, 2]] * 2**20) / 2**20
    terms[[1, 3]] = np.round(terms[[1, 3]] * 2**20) / 2**20
    near = estimate(terms, fits)
    moved = terms.copy()
    moved[[0, 2]] += shift
    far = estimate(moved, fits)
    # The root is found to 1e-11 of its size.
    assert far.log_c - shift == pytest.approx(near.log_c, abs=1e-8)
    for name in SCALARS[1:]:
        assert getattr(far, name) == pytest.approx(getattr(near, name), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(far.influence_draw, near.influence_draw, atol=1e-6)
    np.testing.assert_array_equal(far.ratio_draw, near.ratio_draw + shift)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), **any_chains)
def test_the_order_of_chains_does_not_matter(data, seed, chains, phi, kind):
    terms, fits, estimate = estimates_of(seed, chains, phi, kind=kind)
    order = data.draw(st.permutations(range(chains)))
    e, moved = estimate(terms, fits), estimate(terms[:, order], fits[order])
    for name in SCALARS:
        assert getattr(moved, name) == pytest.approx(getattr(e, name), rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(moved.term_draw, e.term_draw[order], rtol=1e-8)
    np.testing.assert_allclose(moved.influence_draw, e.influence_draw[order], atol=1e-8)


@settings(max_examples=12, deadline=None)
@given(**any_chains)
def test_names_of_fits_do_not_matter_and_merged_fits_leave_the_geometric_mass(
    seed, chains, phi, kind
):
    terms, fits, estimate = estimates_of(seed, chains, phi, kind=kind)
    e = estimate(terms, fits)
    renamed = estimate(terms, 7 - 3 * fits)
    assert [getattr(e, name) for name in SCALARS] == [getattr(renamed, name) for name in SCALARS]
    # Which rows share a fit enters the error, and through the effective number of draws the
    # optimal bridge's shares, in which the mass is stationary; the geometric bridge has none.
    merged = estimate(terms, np.zeros_like(fits))
    assert merged.runs.max() == chains - 1
    if kind == "geometric":
        assert merged.log_c == e.log_c
    else:
        assert merged.log_c == pytest.approx(e.log_c, abs=0.5 * e.mcse)


def test_fits_too_short_to_tell_join_the_next():
    fits = np.repeat([0, 1, 2, 3], [60, 10, 55, 20])[None]
    # 10 rows are too few for a level of their own, and so are the 20 that are left at the end.
    np.testing.assert_array_equal(number_runs(fits.shape, fits)[0], np.repeat([0, 1], [60, 85]))
    np.testing.assert_array_equal(number_runs((2, 3), None), [[0, 0, 0], [1, 1, 1]])


@given(
    lengths=st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=8), min_size=1, max_size=4)
)
def test_runs_are_numbered_along_the_rows_and_never_cut_a_fit(lengths):
    draws = max(map(sum, lengths))
    fits = np.array(
        [np.repeat(range(len(many)), [*many[:-1], draws - sum(many[:-1])]) for many in lengths]
    )
    runs = number_runs(fits.shape, fits)
    assert set(np.diff(runs.ravel())) <= {0, 1}
    assert runs[0, 0] == 0
    assert (np.diff(runs[:, 0]) > 0).all()
    # A run begins only where a fit does.
    assert not (np.diff(runs, axis=1) > np.abs(np.diff(fits, axis=1))).any()
    sizes = np.bincount(runs.ravel())
    assert (sizes >= min(50, draws)).all()
