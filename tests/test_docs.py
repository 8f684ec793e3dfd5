"""Documentation cannot rot: its code runs, its links lead somewhere, its tables are complete."""

import re
import subprocess
import sys
from pathlib import Path

import pymc as pm
import pytest
from helpers import run_script

from pymc_spectral.bridge.weights import STATS
from pymc_spectral.diagnostics.thresholds import limit_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PAGE_IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


PAGES_WITH_CODE = [page for page in PAGES if code_blocks(page, "python")]


@pytest.fixture
def short_runs(monkeypatch):
    """Let pages say what users type, and run it with few draws in this process."""
    sample = pm.sample

    def short_sample(*args, **kwargs):
        short = {"draws": 200, "tune": 300, "cores": 1, "progressbar": False}
        return sample(*args, **{**short, **kwargs})

    monkeypatch.setattr(pm, "sample", short_sample)


def run_page(page: Path) -> dict:
    namespace: dict = {"__name__": "__docs__"}
    for block in code_blocks(page, "python"):
        exec(compile(block, str(page), "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs(page, short_runs, capsys):
    namespace = run_page(page)
    if "idata" not in namespace:
        assert code_blocks(page, "python")
        return
    # Four signs on the first page, two on the others; every weight is far from zero.
    weights = namespace["idata"]["cells"]["weight"].values
    assert len(weights) == (4 if page.name == "README.md" else 2)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() > 0.05


@pytest.mark.parametrize(
    ("name", "code"), [("r_hat", "r_hat"), ("ess_bulk", "ess"), ("pareto_k", "pareto_k")]
)
def test_result_page_has_the_limits_of_the_findings(name, code):
    [row] = re.findall(rf"^\| `{name}` .*", (ROOT / "docs" / "result.md").read_text(), re.M)
    assert re.search(r"(?:above|below) ([\d.]+)", row)[1] == f"{limit_of(code):g}"


def test_result_page_explains_every_statistic(short_runs, capsys):
    text = (ROOT / "docs" / "result.md").read_text()
    explained = set(re.findall(r"`(\w+)`", text))
    idata = run_page(ROOT / "docs" / "explorers.md")["idata"]
    assert set(idata["cells"].data_vars) <= explained
    learned = {*idata["partition"].data_vars, *idata["exploration"].data_vars}
    assert {name for name in learned if not name.startswith(("rule_", "round_"))} <= explained
    assert set(STATS) <= explained
    ours = {"cell", "source_chain", "source_draw", "boundary_hit"}
    assert ours <= set(idata["sample_stats"].data_vars)
    assert ours <= explained
    groups = {"posterior", "sample_stats", "cells", "cell_posterior", "cell_sample_stats"}
    assert groups <= explained


def test_readme_has_exactly_two_commands():
    lines = [
        line
        for block in code_blocks(ROOT / "README.md", "(?:sh|bash|shell|console)")
        for line in block.splitlines()
        if line.strip() and not line.startswith("#")
    ]
    assert lines == ["python3 dev.py example", "python3 dev.py test"]


def test_readme_example_is_about_ten_lines():
    (block,) = code_blocks(ROOT / "README.md", "python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_links_within_the_repository_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    inside = [link for link in links if not re.match(r"[a-z]+:", link)]
    broken = [link for link in inside if not (page.parent / link).exists()]
    assert not broken


def test_every_page_is_reachable_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if page.name != "index.md" and f"({page.name})" not in index
    ]
    assert not missing


def test_pages_show_the_committed_results(tmp_path):
    script = ROOT / "benchmarks" / "pages.py"
    run_script(script, "--check", cwd=tmp_path)
    assert "<!-- honest_errors -->\n| target" in (ROOT / "docs" / "accuracy.md").read_text()
    assert "<!-- healthy -->\n|  | runs" in (ROOT / "docs" / "limits.md").read_text()


def test_dev_knows_the_commands_that_pages_mention():
    mentioned = {
        command
        for page in PAGES
        for command in re.findall(r"python3 dev\.py ([a-z]+)", page.read_text())
    }
    usage = subprocess.run(
        [sys.executable, str(ROOT / "dev.py"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^  (\w+) ", usage, re.M))
    assert mentioned <= known
    assert known == {"example", "test", "lint", "wheel"}


def test_dev_refuses_an_unknown_command():
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev.py"), "tets"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "'tets'" in done.stdout
