"""Every private name of PyMC that the package relies on is there, on the PyMC installed."""

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_spectral import _pymc
from pymc_spectral.cells.gradient_free_kernels import JointMetropolis

SOURCE = Path(_pymc.__file__).read_text()


def owner_of(path: str):
    """Module or class of a dotted path."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        return found
    raise ImportError(path)


INSTALLED = tuple(int(part) for part in pm.__version__.split(".")[:2])
THERE = [entry for entry in _pymc.PRIVATE_NAMES if entry.since <= INSTALLED]


@pytest.mark.parametrize("entry", THERE, ids=lambda entry: entry.owner)
def test_listed_names_exist(entry):
    owner = owner_of(entry.owner)
    if inspect.isfunction(owner):
        missing = set(entry.names) - set(owner.__code__.co_varnames)
        assert not missing, f"{entry.owner} has no local variables {missing}"
        return
    classes = inspect.getmro(owner) if inspect.isclass(owner) else ()
    sources = [inspect.getsource(cls) for cls in classes if cls.__module__.startswith("pymc")]
    for name in entry.names:
        of_instances = any(re.search(rf"self\.{name}\b", source) for source in sources)
        of_fields = any(name in getattr(cls, "__annotations__", {}) for cls in classes)
        assert hasattr(owner, name) or of_instances or of_fields, f"{entry.owner} has no {name}"


def test_a_name_that_is_gone_would_be_noticed():
    for owner in ("pymc.backends.base.MultiTrace", "pymc.sampling.mcmc.sample"):
        gone = _pymc.PrivateName(owner, ("_no_such_thing",), "", ())
        with pytest.raises(AssertionError, match="_no_such_thing"):
            test_listed_names_exist(gone)


def test_every_local_variable_of_sample_that_is_read_is_listed():
    listed = {entry.owner: entry.names for entry in _pymc.PRIVATE_NAMES}
    assert set(re.findall(r'asked\.get\("(\w+)"', SOURCE)) == set(
        listed["pymc.sampling.mcmc.sample"]
    )


def test_every_attribute_that_our_metropolis_sets_is_listed():
    listed = {entry.owner: entry.names for entry in _pymc.PRIVATE_NAMES}
    source = inspect.getsource(JointMetropolis.__init__)
    assert set(re.findall(r"self\.(\w+) =", source)) <= set(
        listed["pymc.step_methods.metropolis.Metropolis"]
    )


def test_every_private_name_that_is_used_is_listed():
    """Attributes with a leading underscore in the module, but those of its own classes."""
    code = SOURCE[SOURCE.index("def exact_rounding") :]
    used = set(re.findall(r"\.(_[a-z][a-z_]*)\b", code)) | set(re.findall(r'"(_[a-z_]+)"', code))
    own = {"_reweights_spectral_draws", "_replace", "_getframe"}
    listed = {name for entry in _pymc.PRIVATE_NAMES for name in entry.names}
    assert used - own <= listed


@pytest.mark.parametrize("entry", THERE, ids=lambda entry: entry.owner)
def test_the_installed_series_is_one_that_was_checked(entry):
    assert pm.__version__.split(".")[0] in {version.split(".")[0] for version in entry.checked}


@pytest.mark.parametrize("seed", [0, [1, 2]])
def test_a_generator_tells_which_chain_it_is_for(seed):
    """Those of a run are spawned from one, in order; of them others may be spawned."""
    generators = np.random.default_rng(seed).spawn(3)
    assert [_pymc.chain_index(rng) for rng in generators] == [0, 1, 2]
    generators[2].random()
    assert _pymc.chain_index(generators[2]) == 2
    assert _pymc.chain_index(generators[2].spawn(2)[1]) == 1
    assert _pymc.chain_index(np.random.default_rng(seed)) == 0
