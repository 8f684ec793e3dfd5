"""The public names change only when somebody means it."""

import inspect
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import pymc_spectral

ROOT = Path(__file__).resolve().parent.parent

PUBLIC_NAMES = [
    "KMeansPartition",
    "SpectralPartition",
    "SpectralPartitionStep",
    "cell_summary",
    "diagnose",
    "efficiency_ratio",
    "landmark_heuristic",
    "plot_cells",
    "plot_overview",
    "plot_partition",
    "plot_spectrum",
    "plot_tempering",
    "plot_weights",
    "recommended_landmarks",
    "reweight",
    "summary",
]


def parameters_of(thing) -> dict[str, inspect.Parameter]:
    """Parameters that a user may pass, as help() and editors show them."""
    return dict(inspect.signature(thing).parameters)


def test_all_is_frozen():
    assert sorted(pymc_spectral.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_names_are_documented_and_typed(name):
    thing = getattr(pymc_spectral, name)
    assert inspect.getdoc(thing)
    parameters = parameters_of(thing)
    assert parameters
    untyped = [
        name
        for name, parameter in parameters.items()
        if parameter.annotation is inspect.Parameter.empty
    ]
    assert not untyped
    documented = inspect.getdoc(thing)
    undocumented = [name for name in parameters if not re.search(rf"^{name} : ", documented, re.M)]
    assert not undocumented


def test_step_takes_the_agreed_arguments():
    parameters = parameters_of(pymc_spectral.SpectralPartitionStep)
    agreed = ["vars", "n_cells", "explore", "kernel", "rounds", "n_landmarks", "round_draws"]
    agreed += ["partition", "bridge", "proposal", "random_seed", "progressbar", "model"]
    assert set(agreed) <= set(parameters)
    assert parameters["n_cells"].default == "auto"
    keyword_only = [name for name in agreed if name != "vars"]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in keyword_only)


def test_version_is_said_once():
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", pymc_spectral.__version__)
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, re.M).group(1) == pymc_spectral.__version__


def test_types_are_shipped():
    assert (resources.files("pymc_spectral") / "py.typed").is_file()


def test_importing_changes_nothing_in_pymc():
    code = (
        "import warnings; warnings.simplefilter('ignore');"
        "import pymc as pm; from pymc.step_methods import STEP_METHODS;"
        "before = pm.to_inference_data, pm.sample, list(STEP_METHODS);"
        "import pymc_spectral;"
        "assert before == (pm.to_inference_data, pm.sample, list(STEP_METHODS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
