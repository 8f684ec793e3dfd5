"""Pictures: drawn for few and many parameters, on axes given or new, from memory or from a file."""

import re
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import sample

import pymc_spectral as ps
from pymc_spectral import targets
from pymc_spectral._inference_data import close_groups, open_groups
from pymc_spectral.diagnostics.learned_groups import rule_from

ROOT = Path(__file__).resolve().parents[2]
TARGET = targets.paper2d()
SINGLE = ["plot_partition", "plot_weights"]
SEVERAL = {"plot_spectrum": 2, "plot_tempering": 3, "plot_cells": 2, "plot_overview": 4}


def drawn(axes):
    """Draw the figure, which is when Matplotlib notices most mistakes; say if anything is on it."""
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    axes[0].figure.canvas.draw()
    return all(a.lines or a.collections or a.patches or a.texts or a.images for a in axes)


@pytest.mark.parametrize("name", SINGLE)
def test_one_axes(two, name):
    axes = getattr(ps, name)(two)
    assert isinstance(axes, matplotlib.axes.Axes)
    assert drawn(axes)
    _, mine = plt.subplots()
    assert getattr(ps, name)(two, ax=mine) is mine
    wide = getattr(ps, name)(two, figsize=(9, 2)).figure
    assert wide.get_size_inches().tolist() == [9, 2]


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(two, name):
    n = SEVERAL[name]
    axes = getattr(ps, name)(two)
    assert axes.shape == (n,)
    assert drawn(axes)
    _, mine = plt.subplots(1, n)
    assert all(a is b for a, b in zip(getattr(ps, name)(two, ax=mine), mine, strict=True))
    with pytest.raises(ValueError, match=f"but {n} are needed"):
        getattr(ps, name)(two, ax=plt.subplots(1, n + 1)[1])
    wide = getattr(ps, name)(two, figsize=(9, 2))[0].figure
    assert wide.get_size_inches().tolist() == [9, 2]


@pytest.mark.parametrize("kind", ["eigenvalues", "valleys"])
def test_kinds_of_spectrum(two, kind):
    assert drawn(ps.plot_spectrum(two, kind=kind))


@pytest.mark.parametrize("kind", ["acceptance", "barrier", "rounds"])
def test_kinds_of_tempering(two, kind):
    assert drawn(ps.plot_tempering(two, kind=kind))


def test_many_parameters(thirty):
    for name in ("plot_partition", "plot_weights", "plot_spectrum", "plot_overview"):
        assert drawn(getattr(ps, name)(thirty))
    axes = ps.plot_cells(thirty)
    assert drawn(axes)
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert len(labels) == 12
    assert "sign" in labels  # narrower than the effects, so it tells the cells apart best
    assert "scale" not in labels
    axes = ps.plot_cells(thirty, var_names=["sign", "scale"])
    assert [a.get_xlabel() for a in axes] == ["sign", "scale"]


def test_coordinates_can_be_swapped_with_their_regions(two):
    axes = ps.plot_partition(two, var_names=["x[1]", "x[0]"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x[1]", "x[0]")
    image = axes.images[0].get_array()
    rule = rule_from(open_groups(two)["partition"])
    left, right, low, high = axes.images[0].get_extent()
    for row, column in ((0, 0), (0, 199), (199, 0), (120, 80)):
        x1 = left + (right - left) * column / 199
        x0 = low + (high - low) * row / 199
        assert image[row, column] == rule.predict(np.array([[x0, x1]]))[0]


def test_one_parameter(line):
    assert drawn(ps.plot_partition(line))
    assert drawn(ps.plot_overview(line))
    assert len(ps.plot_cells(line)) == 1


def test_no_tempering_is_said(thirty):
    with pytest.raises(ValueError, match="'array', not by tempering"):
        ps.plot_tempering(thirty)


def test_missing_group_is_said(two):
    groups = dict(open_groups(two))
    del groups["partition"]
    with pytest.raises(ValueError, match="no group partition"):
        ps.plot_partition(close_groups(groups, like=two))


@pytest.mark.parametrize("name", ["plot_spectrum", "plot_tempering", "plot_cells"])
def test_unknown_kind_is_said(two, name):
    with pytest.raises(ValueError, match="kind='pie' is unknown"):
        getattr(ps, name)(two, kind="pie")


def test_from_a_file(two, tmp_path):
    path = str(tmp_path / "run.nc")
    two.to_netcdf(path)
    assert drawn(ps.plot_overview(az.from_netcdf(path).load()))


def test_fitted_kmeans_has_neither_spectrum_nor_exploration():
    points = TARGET.sample(np.random.default_rng(0), 500)
    fitted = ps.KMeansPartition(4, random_state=0).fit(points)
    model = TARGET.build()
    with model:
        step = ps.SpectralPartitionStep(partition=fitted, progressbar=False)
    idata = sample(model, step, draws=60, tune=60)
    assert "exploration" not in open_groups(idata)
    ps.diagnose(idata)
    axes = ps.plot_spectrum(idata)
    assert drawn(axes)
    assert "k-means" in axes[0].texts[0].get_text()
    assert drawn(ps.plot_overview(idata))


def test_matplotlib_is_not_imported_with_the_package():
    """It is an extra: only drawing needs it."""
    for path in (ROOT / "pymc_spectral").rglob("*.py"):
        assert not re.search(r"^(import|from) matplotlib", path.read_text(), re.M), path.name
