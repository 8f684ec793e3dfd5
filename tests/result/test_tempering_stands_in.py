"""Tempering's points stand in for cells that failed: their masses, their errors, their draws."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from helpers import group, sample
from rigging import codes
from synthetic import Cells

import pymc_spectral as ps
from pymc_spectral.bridge.weights import OtherMass, weigh_arrays
from pymc_spectral.result.tempering_stands_in import Tempered, masses_of, with_draws_of


def weighing(rng, cells=None):
    chains = (cells or Cells()).chains(rng)
    return weigh_arrays(chains.cell, chains.terms, chains.fits, "optimal")


def tempered(share, error=0.01, log_evidence=0.0, log_evidence_error=0.1, points=None):
    share = np.asarray(share, dtype=float)
    points = points or [np.zeros((int(1000 * s), 1)) for s in share]
    return Tempered(
        points, share, np.full(len(share), error), log_evidence, log_evidence_error, 400.0
    )


def failed(*cells, n=4):
    return np.isin(np.arange(n), cells)


def test_a_mass_follows_from_the_share_and_the_healthy_masses(rng):
    truth = Cells()
    found = masses_of(tempered(truth.weight), weighing(rng), failed(1))
    assert set(found) == {1}
    # Shares are exact here, so that what is left is the error of the healthy bridges.
    assert abs(found[1].log_c - np.log(0.2)) < 4 * 0.02
    # Relative errors of the share, and of the share of the others.
    assert found[1].mcse == pytest.approx(np.hypot(0.01 / 0.2, 0.01 / 0.8), rel=0.2)


def test_with_no_healthy_cell_the_evidence_of_tempering_decides(rng):
    said = tempered([0.1, 0.2, 0.3, 0.4], log_evidence=-5.0)
    found = masses_of(said, weighing(rng), failed(0, 1, 2, 3))
    log_c = np.array([found[k].log_c for k in range(4)])
    np.testing.assert_allclose(log_c, -5.0 + np.log([0.1, 0.2, 0.3, 0.4]))
    assert found[3].mcse == pytest.approx(np.hypot(0.1, 0.01 / 0.4))


def test_a_cell_that_tempering_never_met_keeps_its_bridge(rng):
    said = tempered([0.0, 0.2, 0.2, 0.6])
    assert set(masses_of(said, weighing(rng), failed(0, 1))) == {1}


def test_another_mass_brings_its_own_error_into_weights_and_means(rng):
    chains = Cells().chains(rng)
    other = {3: OtherMass(np.log(0.58), 0.2)}
    found = weigh_arrays(chains.cell, chains.terms, chains.fits, "optimal", other)
    weights = found.weights
    assert weights.log_evidence[3] == np.log(0.58)
    # A relative error of .2 in .58: that of the weight is .2 * .58 * .42.
    assert weights.weight_mcse[3] == pytest.approx(0.2 * 0.58 * 0.42, rel=0.1)
    assert np.all(found.estimates[3].influence_draw == 0)


def test_replaced_draws_are_those_of_tempering_for_every_variable(rng):
    points = [rng.standard_normal((300, 2)), 5 + rng.standard_normal((100, 2))]
    said = tempered([0.75, 0.25], points=points)
    chains = xr.Dataset(
        {
            "x": (("chain", "draw", "k"), np.full((3, 50, 2), -99.0)),
            "total": (("chain", "draw"), np.full((3, 50), -99.0)),
        }
    )
    own = np.array([0, 1, 1])
    new = with_draws_of(said, chains, own, failed(1, n=2), ["x", "total"], lambda x: [x, x.sum()])
    assert (chains["x"].values == -99).all()
    assert (new["x"].values[0] == -99).all()
    drawn = new["x"].values[1:].reshape(-1, 2)
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in points[1]}
    np.testing.assert_allclose(new["total"].values[1:].ravel(), drawn.sum(axis=1))
    # 400 independent points, of which a quarter is in this cell; each is repeated in a row.
    assert len({tuple(row) for row in drawn}) == 100


def curved():
    """Sixteen narrow, curved dimensions, that no proposal resembles, in two modes of .7 and .3."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=8)
        pm.Normal("b", a**2, 0.1, shape=8)
        s = pm.Normal("s", 0, 3)
        near = -0.5 * ((s - 4) / 0.5) ** 2
        far = -0.5 * ((s + 4) / 0.5) ** 2
        pm.Potential("modes", pt.logaddexp(np.log(0.7) + near, np.log(0.3) + far))
    return model


# N(4; 0, 3) convolved with the width of .5, times its integral, for either mode alike.
CURVED_LOG_Z = float(
    np.log(0.5 * np.sqrt(2 * np.pi)) - 0.5 * np.log(2 * np.pi * 9.25) - 0.5 * 4**2 / 9.25
)


def test_cells_that_no_proposal_resembles_get_their_weights_from_tempering():
    """The bridge is wrong by orders of magnitude there; tempering is right within its error."""
    with curved() as model:
        step = ps.SpectralPartitionStep(random_seed=1, progressbar=False)
    idata = sample(model, step, draws=300, tune=300)
    cells = group(idata, "cells")
    assert cells["mass_by_tempering"].values.all()
    assert "by_tempering" in codes(idata, "warning")
    assert "pareto_k" not in codes(idata, "warning")
    weight, error = cells["weight"].values, cells["weight_mcse"].values
    s = step.partition.landmarks_[:, -1]
    upper = int(np.bincount(step.partition.labels_[s > 0]).argmax())
    assert abs(weight[upper] - 0.7) < 4 * error[upper]
    assert 0.005 < error[upper] < 0.1
    gap = float(cells["log_marginal_likelihood"]) - CURVED_LOG_Z
    assert abs(gap) < 4 * float(cells["log_marginal_likelihood_mcse"])
    # A file knows it as well.
    again = group(ps.reweight(idata), "cells")
    np.testing.assert_allclose(again["weight"].values, weight)
    table = ps.summary(idata, var_names="s", round_to=None)
    assert np.isfinite(table["mcse_mean"]).all()
