"""Variables chosen by name, as ArviZ does it, and laid side by side."""

import numpy as np
import pytest
import xarray as xr

from pymc_spectral._inference_data import choose_variables, columns_of

DIMS = ("chain", "draw")
GROUP = xr.Dataset(
    {
        "mu": (DIMS, np.arange(6.0).reshape(2, 3)),
        "theta": (("town", *DIMS), np.arange(12).reshape(2, 2, 3)),
        "~odd": (DIMS, np.zeros((2, 3), dtype=bool)),
        "name": (DIMS, np.full((2, 3), "text")),
        "fixed": ("town", np.zeros(2)),
    },
    {"town": ["Ulm", "Rome"]},
)


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (None, ["mu", "theta", "~odd", "name", "fixed"]),
        ("mu", ["mu"]),
        (["theta", "mu"], ["theta", "mu"]),
        ("~mu", ["theta", "~odd", "name", "fixed"]),
        (["~mu", "~theta"], ["~odd", "name", "fixed"]),
        ("~odd", ["~odd"]),  # that is its name
        ([], []),
    ],
)
def test_names_to_keep_or_to_leave_out(asked, chosen):
    assert choose_variables(GROUP, asked) == chosen


def test_names_that_are_unknown_or_mixed_are_refused():
    with pytest.raises(KeyError, match=r"\['nu'\] not found; the posterior has mu, theta"):
        choose_variables(GROUP, ["mu", "nu"])
    with pytest.raises(ValueError, match="mixes names to keep and names to leave out"):
        choose_variables(GROUP, ["mu", "~theta"])


def test_columns_are_the_numbers_of_every_draw():
    names, values = columns_of(GROUP)
    assert names == ["mu", "theta[Ulm]", "theta[Rome]", "~odd"]
    assert values.shape == (2, 3, 4)
    np.testing.assert_array_equal(values[:, :, 2], GROUP["theta"].values[1])
    assert columns_of(GROUP, "name")[1].shape == (2, 3, 0)
