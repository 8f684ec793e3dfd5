"""Efficiency ratio and recommended landmarks, on chains whose spectral gaps are known."""

import numpy as np
import pytest
import xarray as xr
from helpers import container
from scipy.stats import norm
from synthetic import ar1

import pymc_spectral as ps
from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.paper_rules import landmark_heuristic

WEIGHTS = np.array([0.7, 0.3])
CENTERS = np.array([-3.0, 3.0])
COEFFICIENTS = np.array([0.9, 0.5])


def make_result(rng, draws=100_000, hits=None, scale=1.0, weights=WEIGHTS, **more_stats):
    """Chains in two cells, normals around their centers, with all that the bridge needs."""
    x = np.stack([CENTERS[k] + ar1(rng, COEFFICIENTS[k], (1, draws))[0] for k in (0, 1)])
    fresh = CENTERS[:, None] + 1.2 * rng.standard_normal((2, draws))
    stats = {"cell": np.tile([[0], [1]], draws)}
    for place, points in (("draw", x), ("fresh", fresh)):
        standard = points - CENTERS[:, None]
        stats[f"log_target_{place}"] = norm.logpdf(standard) + np.log(weights)[:, None]
        stats[f"log_proposal_{place}"] = norm.logpdf(standard, scale=1.2)
    rate = np.zeros(2) if hits is None else np.asarray(hits)
    stats["boundary_hit"] = np.arange(draws) < np.round(rate[:, None] * draws)
    stats |= more_stats
    dims = ("chain", "draw")
    coords = {"chain": [0, 1], "draw": np.arange(draws)}
    posterior = xr.Dataset({"x": (dims, scale * x), "y": (dims, x**2)}, coords)
    return container(
        posterior=posterior,
        sample_stats=xr.Dataset({k: (dims, v) for k, v in stats.items()}, coords),
    )


def exact_ratio(gap):
    """The inequality's left side for h(x) = x minus its mean."""
    mean = WEIGHTS @ CENTERS
    norms = 1 + (CENTERS - mean) ** 2
    total = WEIGHTS @ norms
    return 2 * gap * np.sum(WEIGHTS**2 / (1 - COEFFICIENTS) * norms) / total


def test_ratio_is_the_papers(rng):
    table = ps.efficiency_ratio(make_result(rng), "x", naive=0.01)
    # tau of 100,000 draws with coefficient 0.9 is known to about 3 %.
    assert table.loc["x", "ratio"] == pytest.approx(exact_ratio(0.01), rel=0.25)
    # Of all ways to share |h|^2 = 1 among the cells, the worst is to give it to one.
    shares = np.linspace(0, 1, 101)
    gains = WEIGHTS / (1 - COEFFICIENTS)
    worst = 2 * 0.01 * np.max(shares * gains[0] + (1 - shares) * gains[1])
    assert table.loc["x", "ratio_any"] == pytest.approx(worst, rel=0.25)
    assert table.loc["x", "gap"] == 0.01


def test_ratio_tells_slow_cells_from_fast_ones(rng):
    """Negative control: the answer for gaps that are wrong by 2 would be noticed."""
    found = ps.efficiency_ratio(make_result(rng), "x", naive=0.01).loc["x", "ratio"]
    assert not found == pytest.approx(exact_ratio(0.02), rel=0.25)
    assert not found == pytest.approx(exact_ratio(0.005), rel=0.25)


def test_ratio_is_in_proportion_to_the_gap(rng):
    idata = make_result(rng, draws=2000)
    one, two = (ps.efficiency_ratio(idata, naive=gap) for gap in (0.01, 0.02))
    np.testing.assert_allclose(two[["ratio", "ratio_any"]], 2 * one[["ratio", "ratio_any"]])
    assert list(one.index) == ["x", "y"]


def test_ratio_does_not_depend_on_units(rng):
    state = rng.bit_generator.state
    plain = ps.efficiency_ratio(make_result(rng, draws=2000), "x", naive=0.01)
    rng.bit_generator.state = state
    scaled = ps.efficiency_ratio(make_result(rng, draws=2000, scale=1000.0), "x", naive=0.01)
    np.testing.assert_allclose(plain, scaled)


def test_gap_is_bounded_by_boundary_hits(rng):
    table = ps.efficiency_ratio(make_result(rng, draws=5000, hits=[0.03, 0.02]))
    # Rates over the mass of the other cell: 0.03 / 0.3 and 0.02 / 0.7; weights to about 1 %.
    assert table.loc["x", "gap"] == pytest.approx(0.02 / 0.7, rel=0.1)


def test_no_hit_counts_as_three(rng):
    idata = make_result(rng, draws=5000, hits=[0.03, 0])
    assert ps.efficiency_ratio(idata).loc["x", "gap"] == pytest.approx(3 / 5000 / 0.7, rel=0.1)
    energy = np.zeros((2, 5000))
    idata = make_result(rng, draws=5000, energy=energy)
    assert ps.efficiency_ratio(idata).loc["x", "gap"] == pytest.approx(3 / 5000 / 0.7, rel=0.1)


def test_kernel_that_reports_no_hits_gives_no_bound(rng):
    assert ps.efficiency_ratio(make_result(rng, draws=2000)).loc["x", "gap"] == 1.0


def test_gap_from_a_plain_run(rng):
    x = ar1(rng, 0.95, (4, 20_000))
    dims, coords = ("chain", "draw"), {"chain": range(4), "draw": range(20_000)}
    plain = container(posterior=xr.Dataset({"x": (dims, x)}, coords))
    table = ps.efficiency_ratio(make_result(rng, draws=2000), "x", naive=plain)
    assert table.loc["x", "gap"] == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize("naive", [0.0, -1.0, 3])
def test_impossible_gap_is_refused(rng, naive):
    with pytest.raises(ValueError, match=f"naive={naive} is not a spectral gap"):
        ps.efficiency_ratio(make_result(rng, draws=200), naive=naive)


def test_result_without_posterior_is_refused(rng):
    idata = make_result(rng, draws=200)
    empty = container(prior=xr.Dataset({"x": 1.0}))
    with pytest.raises(ValueError, match="no group posterior"):
        ps.efficiency_ratio(idata, naive=empty)


def test_weighed_result_gives_the_same(rng):
    idata = make_result(rng, draws=1000, hits=[0.1, 0.1])
    raw, weighed = ps.efficiency_ratio(idata), ps.efficiency_ratio(ps.reweight(idata))
    np.testing.assert_allclose(raw, weighed)


def test_heuristic_is_the_papers():
    assert landmark_heuristic([0.5, 0.5], [0.1, 0.2], 4.0) == pytest.approx((4 / 0.05) ** 2)
    with pytest.raises(ValueError, match="all must be positive"):
        landmark_heuristic([1.0, 0.0], [0.1, 0.1], 1.0)


def test_recommended_landmarks(rng):
    idata = make_result(rng)
    # Cells are 6 standard deviations apart; smallest weight times gap is 0.7 x 0.1.
    expected = (6 / 0.07) ** 2
    number = ps.recommended_landmarks(idata, "x", largest=10**6)
    assert isinstance(number, int)
    assert number == pytest.approx(expected, rel=0.5)
    assert ps.recommended_landmarks(idata, "x") == 5000
    rare = make_result(rng, weights=np.array([0.99, 0.01]))
    assert ps.recommended_landmarks(rare, "x", largest=10**9) > 3 * number


def test_recommended_landmarks_do_not_depend_on_units(rng):
    state = rng.bit_generator.state
    plain = ps.recommended_landmarks(make_result(rng, draws=2000), "x", largest=10**9)
    rng.bit_generator.state = state
    scaled = make_result(rng, draws=2000, scale=1e4)
    assert ps.recommended_landmarks(scaled, "x", largest=10**9) == pytest.approx(plain, abs=1)


def test_chain_that_never_moved_is_told(rng):
    idata = make_result(rng, draws=500)
    groups = open_groups(idata)
    still = groups["posterior"].copy(deep=True)
    still["x"].values[0] = -3.0
    still["y"].values[0] = 9.0
    frozen = container(posterior=still, sample_stats=groups["sample_stats"])
    with pytest.raises(ValueError, match="never moved"):
        ps.efficiency_ratio(frozen, naive=0.1)
