"""The folders tell the algorithm: data flows one way, and each outside library has its place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pymc_spectral
from pymc_spectral._pymc import PRIVATE_NAMES

PACKAGE = Path(pymc_spectral.__file__).resolve().parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
FOLDERS = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__")

# Folders that each folder may import from; private top-level modules are open to all.
ALLOWED = {
    "density": set(),
    "exploration": {"density"},
    "partition": set(),
    "cells": {"partition"},
    "bridge": set(),
    "result": {"bridge"},
    "diagnostics": {"bridge", "result", "partition"},
    "plots": {"bridge", "result", "diagnostics", "partition"},
    "targets": set(),
}
# They join the stages: the step, and what it checks before any stage works.
JOINS = {"pymc_spectral", "pymc_spectral.step", "pymc_spectral._step_options"}
PYMC = {
    "pymc_spectral._pymc",
    "pymc_spectral._validate",
    "pymc_spectral.step",
    "pymc_spectral.exploration.explorers",
    "pymc_spectral.exploration.tempered_path",
}
PYMC_FOLDERS = {"density", "cells", "targets"}
# A Student or logistic function is a library's; a container or a picture is the edge's.
EDGES = {
    "matplotlib": {"plots"},
    "arviz": set(),
    "rich": {"_progress"},
}


def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def imports(name: str) -> list[tuple[str, str]]:
    """(module, name imported from it) of all imports of a module, inside functions too."""
    found = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def folder(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def own(name: str) -> list[tuple[str, str]]:
    return [(m, what) for m, what in imports(name) if m.split(".")[0] == "pymc_spectral"]


def test_folders_are_those_of_the_table():
    assert FOLDERS == sorted(ALLOWED)
    assert not [
        p for p in PACKAGE.rglob("*") if len(p.relative_to(PACKAGE).parts) > 2 and p.suffix == ".py"
    ]


@pytest.mark.parametrize("name", sorted(set(MODULES) - JOINS))
def test_data_flows_one_way(name):
    mine = folder(name)
    for module, _ in own(name):
        other = folder(module)
        if other in ALLOWED and other != mine:
            assert other in ALLOWED.get(mine, set()), f"{name} imports {module}"
        assert module not in JOINS, f"{name} imports {module}, which joins the stages"


def test_no_cycles():
    graph = {name: {m for m, _ in own(name) if m in MODULES} for name in MODULES}
    done: set[str] = set()
    while len(done) < len(graph):
        ready = {name for name in graph if name not in done and graph[name] <= done}
        assert ready, f"a cycle among {sorted(set(graph) - done)}"
        done |= ready


@pytest.mark.parametrize("name", sorted(MODULES))
def test_names_that_cross_modules_are_public_and_listed(name):
    for module, what in own(name):
        assert not what.startswith("_") or what == "__version__", f"{name} takes {what}"
        if module.count(".") > 0 and what and module in MODULES and what != "__version__":
            listed = [
                ast.literal_eval(node.value)
                for node in tree(module).body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
            ]
            assert listed and what in listed[0], f"{module} does not list {what}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_pymc_is_met_only_at_the_edges(name):
    met = {m.split(".")[0] for m, _ in imports(name)} & {"pymc", "pytensor"}
    if met:
        assert name in PYMC or folder(name) in PYMC_FOLDERS, f"{name} imports {met}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_private_names_of_pymc_are_met_in_one_module(name):
    if name == "pymc_spectral._pymc":
        return
    for module, what in imports(name):
        if module.split(".")[0] == "pymc":
            assert not any(part.startswith("_") for part in (*module.split("."), what)), (
                f"{name} imports {module}.{what}"
            )


def defined(name: str) -> set[str]:
    """Names with a leading underscore that a module gives to something of its own."""
    found = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {n for n in found if n.startswith("_")}


OURS = set().union(*(defined(name) for name in MODULES if name != "pymc_spectral._pymc"))
LISTED = {name for entry in PRIVATE_NAMES for name in entry.names if name.startswith("_")}
# Of named tuples, and for step methods to set, by PyMC's own documentation.
PUBLIC = {"_replace", "_state_class"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"pymc_spectral._pymc"}))
def test_private_attributes_are_our_own(name):
    """A name of PyMC's is neither asked for nor overridden outside of the one module."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            known = node.attr.startswith("__") or node.attr in OURS | PUBLIC
            assert known, f"{name}, line {node.lineno}: {node.attr}"
    assert not defined(name) & LISTED


def test_a_private_attribute_of_another_would_be_seen(monkeypatch):
    """The negative control."""
    source = ast.parse("step._progressbar_config(4)")
    monkeypatch.setitem(globals(), "tree", lambda name: source)
    with pytest.raises(AssertionError, match="_progressbar_config"):
        test_private_attributes_are_our_own("pymc_spectral.step")


@pytest.mark.parametrize("library", EDGES)
def test_heavy_libraries_have_one_place(library):
    for name in MODULES:
        if any(m.split(".")[0] == library for m, _ in imports(name)):
            assert folder(name) in EDGES[library], f"{name} imports {library}"


def test_no_module_is_named_like_a_public_function():
    files = {path.stem for path in MODULES.values()}
    assert not files & set(pymc_spectral.__all__)
    assert not set(FOLDERS) & set(pymc_spectral.__all__)


def test_no_import_is_lazy_but_for_pictures():
    for name in MODULES:
        module = tree(name)
        top = {id(node) for node in module.body}
        lazy = [
            node
            for node in ast.walk(module)
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in top
        ]
        if folder(name) != "plots":
            assert not lazy, f"{name}, line {lazy[0].lineno}"


def test_functions_stay_below_sixty_lines():
    """Pictures may be longer: a panel is a list of what is drawn."""
    long = []
    for name in MODULES:
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                text = first.end_lineno - first.lineno + 1 if documented else 0
                length = node.end_lineno - node.lineno + 1 - text
                if length > 60 and folder(name) != "plots":
                    long.append(f"{name}.{node.name}: {length}")
    assert not long


def test_importing_the_package_imports_neither_arviz_nor_matplotlib():
    """On top of what PyMC imports by itself."""
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import pymc;"
        "before = set(sys.modules); import pymc_spectral;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(m for m in new if m.startswith(('arviz', 'matplotlib'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
