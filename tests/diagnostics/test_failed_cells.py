"""Which cells tempering stands in for: those that were warned of, where it knows better."""

import numpy as np
import pytest
from rigging import RIGGED, at, rigged

from pymc_spectral._inference_data import open_groups
from pymc_spectral.diagnostics.failed_cells import failed_cells
from pymc_spectral.diagnostics.report import find
from pymc_spectral.result.tempering_stands_in import Tempered


def tempered(groups, shift=0.0, error=0.02, n_independent=400.0):
    """Tempering that agrees with the cells, up to `shift` from cell 1 to cell 0."""
    share = groups["cells"]["weight"].values + np.array([shift, -shift, 0.0, 0.0])
    return Tempered(
        [np.zeros((1000, 2))] * 4,
        share,
        np.full(4, error),
        float(groups["cells"]["log_marginal_likelihood"]),
        0.05,
        n_independent,
    )


def failed(idata, **options):
    groups = open_groups(idata)
    found = failed_cells(groups, find(groups), tempered(groups, **options))
    return found.mass.tolist(), found.draws.tolist()


NONE = [False] * 4
CELL_1 = [False, True, False, False]


@pytest.mark.parametrize("code", ["several_modes", "unvisited"])
def test_of_chains_that_are_stuck_nothing_is_believed(healthy, code):
    """Their effective draws are many, and their errors small: they know a part of the cell."""
    sick = rigged(healthy, [*RIGGED[code][2], ("cells", "ess_bulk", at(1, 1e6))])
    assert failed(sick) == (CELL_1, CELL_1)


def test_a_bridge_that_is_warned_of_and_contradicted_fails(healthy):
    sick = rigged(healthy, RIGGED["pareto_k"][2])
    assert failed(sick, shift=0.1) == (CELL_1, NONE)


def test_a_warning_alone_is_no_proof(healthy):
    """The bridge agrees with tempering and is the more accurate."""
    sick = rigged(healthy, RIGGED["pareto_k"][2])
    assert failed(sick)[0] == NONE
    # Tempering that knows the weights better is believed all the same.
    assert failed(sick, error=1e-6)[0] == CELL_1


def test_a_contradiction_alone_is_not_enough(healthy):
    assert failed(healthy, shift=0.1) == (NONE, NONE)


def test_draws_are_replaced_where_tempering_has_many_more(healthy):
    slow = rigged(healthy, [*RIGGED["r_hat"][2], ("cells", "ess_bulk", at(1, 10.0))])
    assert failed(slow)[1] == CELL_1
    assert failed(slow, n_independent=50.0)[1] == NONE
    assert failed(rigged(healthy, RIGGED["r_hat"][2]))[1] == NONE


def test_a_cell_that_tempering_never_met_stays(healthy):
    groups = open_groups(rigged(healthy, RIGGED["several_modes"][2]))
    never = tempered(groups, shift=float(groups["cells"]["weight"][1]))
    assert not failed_cells(groups, find(groups), never)
