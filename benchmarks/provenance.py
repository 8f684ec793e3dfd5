"""Where a result comes from: versions, commit and machine."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path

PACKAGES = ["pymc-spectral", "pymc", "pytensor", "arviz", "numpy", "scipy", "scikit-learn"]


def provenance() -> dict:
    """Versions of Python and packages, the commit, and the kind of machine."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "source tree"
    return {
        "python": platform.python_version(),
        "versions": versions,
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": bool(_git("status", "--porcelain", "pymc_spectral")),
        "machine": platform.machine(),
    }


def save(path: Path, result: dict) -> None:
    """Write a result as JSON, with where it comes from, numbers to six digits.

    ``runs`` are many and come last, a line each.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text({**provenance(), **result}))
    print(path)


def as_text(record: dict) -> str:
    """JSON that is read and compared by lines: one for a number, one for a run."""
    record = _short(record)
    runs = record.pop("runs", None)
    text = json.dumps(record, indent=1)
    if runs is not None:
        lines = ",\n  ".join(json.dumps(run) for run in runs)
        text = f'{text[:-2]},\n "runs": [\n  {lines}\n ]\n}}'
    return text + "\n"


def _short(value):
    """Floats of six digits, in lists and dicts of any depth."""
    if isinstance(value, dict):
        return {key: _short(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _git(*args: str) -> str:
    """Output of a git command run in the repository, empty if there is none."""
    folder = Path(__file__).resolve().parent
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip()
