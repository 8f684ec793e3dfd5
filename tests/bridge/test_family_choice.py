"""The family that foretells held-out points of a cell is chosen, in any units, and reaches far."""

import numpy as np
import pytest

from pymc_spectral import targets
from pymc_spectral.bridge.family_choice import DEFENSE, choose_family
from pymc_spectral.bridge.proposal import fit_proposal


def overlap(density, x, log_density):
    """Mean of 2 p / (p + pi) over draws x of pi: 1 where they agree, 0 where they are apart.

    It is what decides the bridge's error.
    """
    gap = density.logpdf(x) - log_density
    return float(np.mean(2 / (1 + np.exp(-gap))))


def one_ring(rng, n):
    target = targets.rings()
    x = target.sample(rng, 3 * n)
    x = x[target.classify(x) == 0][:n]
    return x, target.logp(x) - target.log_z + np.log(2)


@pytest.mark.parametrize("seed", range(5))
def test_a_bent_cell_gets_a_mixture(seed):
    rng = np.random.default_rng(seed)
    x, _ = one_ring(rng, 800)
    new, log_density = one_ring(rng, 2000)
    choice = choose_family(x, rng)
    assert choice.name == "mixture"
    assert overlap(choice.density, new, log_density) > 0.85
    # Negative control: one ellipsoid does not resemble it.
    assert overlap(fit_proposal(x), new, log_density) < 0.5


@pytest.mark.parametrize("d", [1, 5, 30])
def test_a_normal_cell_stays_one_normal(d):
    names = [
        choose_family(
            np.random.default_rng(s).standard_normal((700, d)), np.random.default_rng(s)
        ).name
        for s in range(8)
    ]
    assert names.count("normal") >= 7


def test_heavy_tails_are_seen():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((1000, 2)) * np.sqrt(3 / rng.chisquare(3, (1000, 1)))
        assert choose_family(x, rng).name == "student"


def test_the_family_follows_the_units(rng):
    x, _ = one_ring(rng, 500)
    scale, shift = np.array([1e-6, 1e6]), np.array([5.0, -1e8])
    a = choose_family(x, np.random.default_rng(1))
    b = choose_family(shift + scale * x, np.random.default_rng(1))
    assert a.name == b.name
    gap = b.density.logpdf(shift + scale * x) - a.density.logpdf(x) + np.log(scale).sum()
    np.testing.assert_allclose(gap, 0, atol=1e-4)


def test_every_choice_reaches_where_no_point_was(rng):
    """The wide component has its share within three of its standard deviations at any point."""
    for x in (rng.standard_normal((400, 2)), one_ring(rng, 400)[0]):
        density = choose_family(x, rng).density
        far = x.mean(axis=0) + 6 * x.std(axis=0)
        normal = fit_proposal(x).logpdf(far)
        assert density.logpdf(far) > normal
        assert density.weights[-1] == pytest.approx(DEFENSE)


def test_few_points_make_a_normal(rng):
    for n in (1, 2, 20):
        choice = choose_family(rng.standard_normal((n, 3)), rng)
        assert choice.name == "normal"
        assert np.isfinite(choice.density.logpdf(np.zeros(3)))


def test_points_that_do_not_vary_make_a_density_all_the_same(rng):
    x = np.column_stack([rng.standard_normal(100), np.ones(100)])
    assert np.isfinite(choose_family(x, rng).density.logpdf(x)).all()
