"""The proposal of a chain: it knows the past only, and what it jumps by does not change."""

import pickle

import numpy as np
import pytest

from pymc_spectral.bridge import family_choice
from pymc_spectral.bridge.proposal import fit_proposal
from pymc_spectral.bridge.streaming_proposal import StreamingProposal


def stream_over(draws, tune, seeds, **kwargs):
    """Feed a stream as the step does; return it and the fit that weighed each draw."""
    stream = StreamingProposal(seeds, **{"kind": "normal", **kwargs})
    for x in draws[:tune]:
        stream.observe(x, tuning=True)
    stream.stop_tuning()
    used = []
    for x in draws[tune:]:
        used.append(stream.current)
        stream.observe(x)
    return stream, used


@pytest.mark.parametrize("tune", [0, 7, 1000])
def test_no_draw_is_weighed_by_a_fit_that_saw_it(monkeypatch, tune):
    # The draws are their own time stamps, so a fit's data tell how far it looked.
    draws = np.arange(1.0, tune + 2001.0)[:, None]
    seen = {}

    def recording(data, kind, *, fallback_scale):
        fitted = fit_proposal(data, kind, fallback_scale=fallback_scale)
        seen[id(fitted)] = (data.min(), data.max(), fitted)
        return fitted

    monkeypatch.setattr(family_choice, "fit_proposal", recording)
    stream, used = stream_over(draws, tune, seeds=-np.ones((3, 1)))
    for x, fitted in zip(draws[tune:, 0], used, strict=True):
        assert seen[id(fitted)][1] < x
    assert stream.n_fits == len({id(fitted) for fitted in used})
    # All tuning draws but the first third are behind the last fit, and seeds are not.
    first, last, _ = seen[id(used[-1])]
    assert first == (tune // 3 + 1 if tune else 1)
    assert last > 0.75 * draws[-1, 0]


def test_refits_are_few():
    draws = np.random.default_rng(12).standard_normal((11_000, 2))
    stream, used = stream_over(draws, 1000, seeds=np.zeros((1, 2)))
    assert 8 < stream.n_fits < 16
    assert len({id(p) for p in used}) == stream.n_fits


def test_memory_is_bounded_and_the_whole_past_represented():
    draws = np.arange(10_000.0)[:, None]
    stream, _ = stream_over(draws, 0, seeds=np.zeros((1, 1)), capacity=64)
    kept = stream._store.array()[:, 0]
    assert 32 <= kept.size <= 64
    steps = np.diff(kept)
    assert (steps == steps[0]).all()
    assert kept[0] == 0
    assert kept[-1] > 9_600


def test_seed_points_alone_make_the_first_fit():
    rng = np.random.default_rng(13)
    seeds = rng.normal(5.0, 2.0, (200, 2))
    stream = StreamingProposal(seeds, "student")
    np.testing.assert_allclose(stream.current.mean, seeds.mean(axis=0))
    assert stream.current is stream.current
    assert stream.n_fits == 1


def test_a_chain_that_never_moved_keeps_the_scale_of_its_seeds():
    seeds = np.random.default_rng(14).normal(0.0, 3.0, (50, 2))
    stuck = np.tile([1.0, -1.0], (400, 1))
    stream, _ = stream_over(stuck, 200, seeds)
    spread = np.sqrt(np.diag(stream.current.covariance))
    np.testing.assert_allclose(spread, seeds.std(axis=0, ddof=1), rtol=1e-6)


def test_a_pickled_stream_goes_on_alike():
    draws = np.random.default_rng(15).standard_normal((400, 2))
    stream, _ = stream_over(draws[:300], 100, seeds=np.zeros((1, 2)))
    twin = pickle.loads(pickle.dumps(stream))
    for x in draws[300:]:
        stream.observe(x)
        twin.observe(x)
    assert np.array_equal(stream.current.covariance, twin.current.covariance)
    a, b = (s.current.draw(np.random.default_rng(0)) for s in (stream, twin))
    assert np.array_equal(a[0], b[0])


def two_lumps(rng, n):
    """Points that no ellipsoid resembles: lumps of spread 1 at -10 and 10."""
    return rng.choice([-10.0, 10.0], n)[:, None] + rng.standard_normal((n, 1))


@pytest.mark.parametrize("kind", ["auto", "mixture"])
def test_what_a_chain_jumps_by_changes_when_tuning_ends_and_never_after(kind):
    rng = np.random.default_rng(17)
    stream = StreamingProposal(two_lumps(rng, 300), kind, rng=rng)
    before = stream.choice
    for x in two_lumps(rng, 300):
        stream.observe(x, tuning=True)
    assert stream.choice is before
    stream.stop_tuning()
    after = stream.choice
    assert after is not before
    fits = set()
    for x in two_lumps(rng, 1000):
        assert stream.current is after.density
        fits.add(stream.n_fits)
        stream.observe(x)
    assert stream.choice is after
    assert len(fits) > 3  # stretches are told apart all the same


def test_seed_points_stay_in_a_mixture_that_the_chain_alone_would_not_make():
    """The chain sees one of two lumps; the seeds know both."""
    rng = np.random.default_rng(18)
    stream = StreamingProposal(two_lumps(rng, 400), rng=rng)
    for _ in range(300):
        stream.observe(10.0 + rng.standard_normal(1), tuning=True)
    stream.stop_tuning()
    assert stream.choice.name == "mixture"
    share = np.mean(stream.current.sample(rng, 4000)[:, 0] < 0)
    # 200 of 600 points are on the left.
    assert 0.2 < share < 0.45


def test_one_ellipsoid_is_refitted_with_its_wide_component():
    rng = np.random.default_rng(19)
    draws = rng.standard_normal((3000, 2))
    stream, used = stream_over(draws, 500, seeds=draws[:200], kind="auto")
    assert stream.choice.name == "normal"
    assert len({id(p) for p in used}) == stream.n_fits > 4
    assert all(p.n_components == 2 for p in used)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match=r"shape \(0, 2\)"):
        StreamingProposal(np.empty((0, 2)))
    with pytest.raises(ValueError, match="capacity=3"):
        StreamingProposal(np.zeros((1, 1)), capacity=3)
    with pytest.raises(ValueError, match="'cauchy' is unknown: use one of auto, normal, student"):
        StreamingProposal(np.zeros((1, 1)), "cauchy")
