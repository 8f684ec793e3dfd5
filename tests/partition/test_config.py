"""Every impossible or contradictory option is refused, without data, and said what to do."""

import re

import numpy as np
import pytest

from pymc_spectral import KMeansPartition, SpectralPartition
from pymc_spectral.partition.clusterers import check_partition, unfitted
from pymc_spectral.partition.config import as_covariance

NEGATIVE = np.diag([1.0, -1.0])

REFUSED = [
    ({"n_cells": -1}, r'positive integer or "auto", got -1'),
    ({"n_cells": 0}, "positive integer"),
    ({"n_cells": 1.5}, "got 1.5"),
    ({"n_cells": "foo"}, "got 'foo'"),
    ({"n_cells": True}, "got True"),
    ({"n_cells": None}, "got None"),
    ({"n_cells": np.nan}, "got nan"),
    ({"affinity": "cosine"}, "affinity='cosine' is unknown: use one of self-tuning, gaussian"),
    ({"extension": "none"}, "extension='none' is unknown: use one of discriminant, nystrom"),
    ({"n_landmarks": 1}, "n_landmarks=1 is too few for 1 cells: .* at least 2"),
    ({"n_landmarks": 0}, "n_landmarks=0 must be an integer of at least 1"),
    ({"n_landmarks": 10.5}, "n_landmarks=10.5 must be an integer"),
    ({"n_cells": 9, "n_landmarks": 8}, "n_landmarks=8 is too few for 9 cells"),
    ({"n_neighbors": 0}, "n_neighbors=0 must be an integer of at least 1"),
    ({"min_landmarks": 0}, "min_landmarks=0 must be an integer of at least 1"),
    ({"valley": 0.0}, "valley=0.0 must be a positive depth"),
    ({"valley": -1}, "valley=-1 must be"),
    ({"valley": np.nan}, "valley=nan must be"),
    ({"valley": "deep"}, "valley='deep' must be"),
    ({"join": False}, "join=False is the paper's .* pass n_cells=4"),
    ({"affinity": "gaussian"}, r"needs Q, e\.g\. Q=0\.8 \* np\.eye\(d\)"),
    ({"Q": 1.0}, 'add affinity="gaussian"'),
    ({"affinity": "gaussian", "Q": -1.0}, "positive definite"),
    ({"affinity": "gaussian", "Q": NEGATIVE}, "positive definite"),
    ({"affinity": "gaussian", "Q": [[1.0, 0.9], [0.0, 1.0]]}, "positive definite"),
    ({"affinity": "gaussian", "Q": np.nan}, "positive definite"),
    ({"affinity": "gaussian", "Q": [1.0, 2.0]}, r"shape \(2,\): pass a number, or a \(d, d\)"),
    ({"random_state": "now"}, "cannot be used to seed"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_spectral_options_are_refused_without_data(options, message):
    with pytest.raises(ValueError, match=message):
        SpectralPartition(**options).validate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_cells": "auto"}, "needs a number of cells"),
        ({"n_cells": 0}, "positive integer"),
        ({"n_cells": 2.5}, "got 2.5"),
        ({"n_cells": 5, "n_landmarks": 4}, "n_landmarks=4 is too few for 5 cells"),
        ({"random_state": -1}, "seed|between"),
    ],
)
def test_kmeans_options_are_refused_without_data(options, message):
    with pytest.raises(ValueError, match=message):
        KMeansPartition(**options).validate() or np.random.RandomState(options["random_state"])


@pytest.mark.parametrize(
    "estimator",
    [
        SpectralPartition(),
        SpectralPartition(4, join=False, affinity="gaussian", Q=0.8),
        SpectralPartition(np.int64(3), valley=np.inf, n_landmarks=np.int32(3)),
        SpectralPartition(affinity="gaussian", Q=[[2.0, 0.5], [0.5, 1.0]]),
        KMeansPartition(3),
        KMeansPartition(random_state=np.random.RandomState(0)),
    ],
    ids=lambda estimator: re.sub(r" at 0x\w+", "", str(estimator)),
)
def test_what_is_possible_is_not_refused(estimator):
    """Negative control."""
    estimator.validate()


def test_options_are_refused_before_points_are_looked_at():
    with pytest.raises(ValueError, match="n_neighbors=0"):
        SpectralPartition(n_neighbors=0).fit("not points")


def test_a_number_is_a_covariance_of_equal_steps():
    np.testing.assert_array_equal(as_covariance(0.8, 3), 0.8 * np.eye(3))
    Q = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_array_equal(as_covariance(Q, 2), Q)
    with pytest.raises(ValueError, match=r"shape \(2, 2\), but X has 3 columns"):
        as_covariance(Q, 3)


@pytest.mark.parametrize(
    ("partition", "n_cells", "options", "landmarks", "error", "message"),
    [
        ("voronoi", 2, {}, (), ValueError, "partition='voronoi' is unknown: .* spectral, kmeans"),
        ("kmeans", "auto", {}, (), ValueError, "pass n_cells=4"),
        ("kmeans", 2, {"valley": 1}, (), TypeError, "unknown names valley: kmeans takes n_cells"),
        ("spectral", -1, {}, (), ValueError, "got -1"),
        ("spectral", 4, {"affinity": "cosine"}, (), ValueError, "affinity='cosine'"),
        ("spectral", 4, {"Q": 1.0}, (), ValueError, 'affinity="gaussian"'),
        ("spectral", 4, {}, (500, 1), ValueError, "n_landmarks=1 is too few"),
        (SpectralPartition, 4, {}, (), TypeError, "neither a name"),
        (SpectralPartition(), "auto", {"valley": 1}, (), TypeError, "given by name"),
        (SpectralPartition(valley=-1), "auto", {}, (), ValueError, "valley=-1"),
    ],
)
def test_partitions_are_refused_by_name_and_by_instance(
    partition, n_cells, options, landmarks, error, message
):
    with pytest.raises(error, match=message):
        check_partition(partition, n_cells, options, landmarks)


def test_partitions_that_can_be_fitted_are_taken():
    """Negative control."""
    check_partition("spectral", "auto", {}, (400, 200))
    check_partition("kmeans", "auto", {"n_cells": 3})
    check_partition(KMeansPartition(3), "auto", {})


def test_a_copy_is_unfitted_keeps_its_options_and_is_seeded_only_if_it_has_no_seed():
    x = np.random.default_rng(0).standard_normal((50, 2))
    given = {"n_cells": 7, "n_landmarks": 9, "options": {}}
    fitted = KMeansPartition(3).fit(x)
    copy = unfitted(fitted, random_state=5, **given)
    assert copy is not fitted
    assert not hasattr(copy, "rule_")
    assert copy.get_params() == {**fitted.get_params(), "random_state": 5}
    assert fitted.random_state is None
    assert unfitted(KMeansPartition(3, random_state=1), random_state=5, **given).random_state == 1


def test_options_of_a_partition_by_name_override_the_others():
    made = unfitted(
        "spectral",
        n_cells=7,
        n_landmarks=99,
        random_state=5,
        options={"n_landmarks": 200, "valley": 1.0},
    )
    assert isinstance(made, SpectralPartition)
    assert (made.n_cells, made.n_landmarks, made.valley, made.random_state) == (7, 200, 1.0, 5)
