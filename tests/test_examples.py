"""Every script in examples/ runs, as a user would run it, and says what it promises."""

import re
from pathlib import Path

import pytest
from helpers import run_script

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def check_quickstart(output: str, folder: Path) -> None:
    assert "4 cells found." in output
    picture = (folder / "quickstart.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def check_stuck_chains_repaired(output: str, folder: Path) -> None:
    accident = float(re.search(r"accident of the starts: ([\d.]+)", output).group(1))
    share = float(re.search(r"Share of draws with ka > ke: ([\d.]+)", output).group(1))
    exact = float(re.search(r"By integration on a grid: +([\d.]+)", output).group(1))
    assert accident == pytest.approx(0.5, abs=0.01)
    assert exact == pytest.approx(0.778, abs=0.001)
    # Ten times the error of the weight at 300 draws, a tenth of the accident's error.
    assert share == pytest.approx(exact, abs=0.03)


def check_label_switching(output: str, folder: Path) -> None:
    assert "6 cells; there are 6 labelings." in output
    estimate, error = map(float, re.search(r"likelihood: (-[\d.]+) ± ([\d.]+)", output).group(1, 2))
    exact = float(re.search(r"on a grid: (-[\d.]+)", output).group(1))
    assert abs(estimate - exact) < 5 * error + 0.001  # printed with three decimals


CHECKS = {
    "quickstart": check_quickstart,
    "stuck_chains_repaired": check_stuck_chains_repaired,
    "label_switching": check_label_switching,
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_runs(script, tmp_path):
    done = run_script(script, "--quick", cwd=tmp_path)
    assert done.stdout.strip()
    if script.stem in CHECKS:
        CHECKS[script.stem](done.stdout, tmp_path)


def test_scripts_say_what_to_observe():
    assert SCRIPTS
    assert set(CHECKS) <= {script.stem for script in SCRIPTS}
    for script in SCRIPTS:
        assert "The main observations to make are" in script.read_text(), script.name
