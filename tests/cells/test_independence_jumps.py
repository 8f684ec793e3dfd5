"""Jumps leave the target as it is, whatever they are proposed from; a wrong ratio would be seen."""

import numpy as np
import pytest
from scipy import stats

from pymc_spectral.bridge.mixture import MixtureProposal
from pymc_spectral.cells import independence_jumps
from pymc_spectral.cells.independence_jumps import Jumps

# Half a skewed target: a gamma cut at 4, and a proposal that fits neither its shape nor its wall.
WALL = 4.0
GAMMA = stats.gamma(2.0)


def logp(x):
    return float(GAMMA.logpdf(x[0])) if 0 < x[0] < WALL else -np.inf


def wide(mean=1.0, scale=2.0):
    return MixtureProposal(np.ones(1), np.array([[mean]]), np.array([[[scale]]]), np.array([10.0]))


def exact(rng, n):
    """Independent draws of the target."""
    return GAMMA.ppf(rng.uniform(0, GAMMA.cdf(WALL), n))


def after_one_draw(rng, n, wanted=2):
    """Where n exact draws are after their jumps."""
    out = []
    for start in exact(rng, n):
        jumps = Jumps(wanted, wide(), rng)
        x = np.array([start])
        out.append(jumps(x, logp(x), logp).x[0])
    return np.array(out)


def uniform(x):
    """Probability transform: uniform if x follows the target."""
    return GAMMA.cdf(x) / GAMMA.cdf(WALL)


@pytest.mark.parametrize("wanted", [1, 3])
def test_the_target_is_left_invariant(rng, wanted):
    x = after_one_draw(rng, 4000, wanted)
    assert stats.kstest(uniform(x), "uniform").pvalue > 1e-4


def test_a_jump_without_its_proposal_density_would_be_seen(rng, monkeypatch):
    """Negative control: accepted as if proposals were symmetric."""
    monkeypatch.setattr(MixtureProposal, "logpdf", lambda self, x: 0.0)
    monkeypatch.setattr(
        MixtureProposal, "draw", lambda self, rng: (self.sample_plain(rng), 0.0), raising=False
    )
    monkeypatch.setattr(
        MixtureProposal,
        "sample_plain",
        lambda self, rng: self.means[0] + self.factors[0, 0] * rng.standard_t(10.0),
        raising=False,
    )
    x = after_one_draw(rng, 4000, 3)
    assert stats.kstest(uniform(x), "uniform").pvalue < 1e-6


def test_chains_of_jumps_alone_reach_the_target(rng):
    jumps = Jumps(1, wide(), rng)
    x, level, found = np.array([3.9]), logp(np.array([3.9])), []
    for _ in range(6000):
        x, level, _, _ = jumps(x, level, logp)
        found.append(x[0])
    u = uniform(np.array(found[100:]))
    # Acceptance above a half: fewer than five draws are worth one.
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / (len(u) / 5))


def test_points_outside_are_never_taken(rng):
    jumps = Jumps(5, wide(mean=-3.0), rng)
    x, level = np.array([1.0]), logp(np.array([1.0]))
    for _ in range(500):
        x, level, _, _ = jumps(x, level, logp)
        assert 0 < x[0] < WALL
        assert level == logp(x)


def settled(density, rng, *, work=1.0, draws=200):
    jumps = Jumps("auto", wide(), rng)
    for _ in range(50):
        jumps.observe_work(work)
    jumps.settle(density, exact(rng, draws)[:, None], logp)
    return jumps


def test_acceptance_is_foretold(rng):
    jumps = settled(wide(), rng)
    draws = exact(rng, 400)[:, None]
    foretold = np.mean([jumps.foretold_acceptance(draws, logp) for _ in range(20)])
    tried = [Jumps(1, wide(), rng)(x, logp(x), logp).accepted for x in exact(rng, 4000)[:, None]]
    assert abs(foretold - np.mean(tried)) < 0.05


def test_good_jumps_are_few_and_poor_ones_as_many_as_can_be_afforded(rng):
    """Successes for a quarter to a half of the draws, by what the kernel's draws cost."""
    good, success = settled(wide(), rng), 0.6
    assert 0.25 / success < good.per_draw * 1.2 and good.per_draw < 0.6
    assert 1.5 < settled(wide(), rng, work=5.0).per_draw / good.per_draw < 2.7
    poor = wide(scale=40.0)
    assert settled(poor, rng, work=8.0).per_draw == pytest.approx(4)
    assert settled(poor, rng, work=1.0).per_draw == 1


def test_a_fraction_of_a_jump_is_left_to_chance(rng):
    jumps = Jumps("auto", wide(), rng)
    jumps.per_draw = 1.3
    x = np.array([1.0])
    tried = [jumps(x, logp(x), logp).tried for _ in range(2000)]
    assert set(tried) == {1, 2}
    assert abs(np.mean(tried) - 1.3) < 4 * np.sqrt(0.3 * 0.7 / 2000)


def test_what_succeeded_while_tuning_is_not_left_out(rng):
    """Not even if the density that is kept looks hopeless: it was seen to work."""
    jumps = Jumps("auto", wide(), rng)
    x = np.array([1.0])
    for _ in range(100):
        jumps.observe_work(1.0)
        x = jumps(x, logp(x), logp).x
    jumps.settle(wide(mean=-50.0, scale=0.1), exact(rng, 50)[:, None], logp)
    assert 0 < jumps.per_draw <= 1


def test_jumps_that_never_succeed_are_left_out(rng):
    assert settled(wide(mean=-50.0, scale=0.1), rng).per_draw == 0


def test_a_number_that_was_asked_for_is_kept(rng):
    jumps = Jumps(3, wide(), rng)
    jumps.settle(wide(mean=-50.0, scale=0.1), exact(rng, 50)[:, None], logp)
    assert jumps.per_draw == 3
    none = Jumps(0, wide(), rng)
    x = np.array([1.0])
    assert none(x, logp(x), logp) == (x, logp(x), 0, 0)


def test_without_tuning_one_jump_is_made(rng):
    jumps = Jumps("auto", wide(), rng)
    jumps.settle(wide(), np.empty((0, 1)), logp)
    assert jumps.per_draw == independence_jumps.WHILE_TUNING
