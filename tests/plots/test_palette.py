"""A cell looks the same in every picture, and unlike the others."""

import matplotlib

import pymc_spectral as ps
from pymc_spectral.plots.palette import COLORS, color, marker


def test_colors_are_distinct_and_consistent(two):
    assert len(set(COLORS)) == 8
    assert len({(color(k), marker(k)) for k in range(56)}) == 56
    stars = [c for c in ps.plot_partition(two).collections if c.get_zorder() == 5]
    found = [matplotlib.colors.to_hex(c.get_facecolor()[0]).upper() for c in stars]
    assert found == [color(k) for k in range(4)]
    bars = [line for line in ps.plot_weights(two).containers][:4]
    assert [bar[0].get_color() for bar in bars] == found
