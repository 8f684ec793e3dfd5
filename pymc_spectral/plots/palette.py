"""Colors and markers: a cell looks the same in every picture."""

from __future__ import annotations

__all__ = ["COLORS", "FAINT", "GRAY", "LABELED_CELLS", "color", "marker"]

# Okabe & Ito (2008), "Color universal design": told apart with any kind of color blindness; yellow
# last but one because it is faint on white.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
# With eight colors and seven markers, the first repetition is that of the 57th cell.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

GRAY = "#666666"
"""What belongs to no cell."""

FAINT = "#BBBBBB"
"""What is there and does not count."""

LABELED_CELLS = 12
"""Labels of more cells than these would cover the picture."""


def color(cell: int) -> str:
    """Return the color of a cell."""
    return COLORS[cell % len(COLORS)]


def marker(cell: int) -> str:
    """Return the marker of a cell."""
    return MARKERS[cell % len(MARKERS)]
