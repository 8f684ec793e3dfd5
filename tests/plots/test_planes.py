"""The plane of a picture shows what sets the cells apart, or the coordinates asked for."""

import numpy as np
import pytest

import pymc_spectral as ps
from pymc_spectral._inference_data import open_groups
from pymc_spectral.plots.planes import discriminant_plane


def test_plane_separates_the_cells(thirty):
    """The first direction between cells is the coordinate in which they differ."""
    partition = open_groups(thirty)["partition"]
    x, label = partition["landmarks"].values, partition["label"].values
    mean, basis = discriminant_plane(x, label)
    flat = (x - mean) @ basis
    gap = abs(flat[label == 0, 0].mean() - flat[label == 1, 0].mean())
    assert gap > 5 * flat[label == 0, 0].std()


def test_a_constant_coordinate_has_no_part_in_the_plane():
    """Without a spread there is no unit to measure a difference in."""
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], 50)
    x = np.column_stack([rng.normal(10 * label), rng.normal(size=100), np.full(100, 3.0)])
    _, basis = discriminant_plane(x, label)
    assert np.abs(basis[2]).max() < 1e-12
    assert np.abs(basis[0, 0]) > np.abs(basis[1, 0])


def test_chosen_coordinates(thirty):
    axes = ps.plot_partition(thirty, var_names=["sign", "scale"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sign", "scale_log__")
    axes = ps.plot_partition(thirty, var_names=["effect[3]", "sign"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("effect[3]", "sign")
    axes = ps.plot_partition(thirty, var_names="effect")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("effect[0]", "effect[1]")
    with pytest.raises(ValueError, match="name two"):
        ps.plot_partition(thirty, var_names="sign")
    with pytest.raises(KeyError, match="sgin"):
        ps.plot_partition(thirty, var_names=["sgin", "scale"])
