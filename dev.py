"""Set up and run: ``python3 dev.py example | test | lint | wheel``.

Needs nothing but Python 3.11 or newer and pip. What is installed goes into ``.envs/`` beside this
file, one environment per interpreter, and is installed again only when ``pyproject.toml`` changes.
No environment has to be active and nothing outside this folder is touched, so that it also works
where the system's Python is externally managed.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST = (3, 11)
# One thread per process: the tests run in two processes, and a BLAS would start more in each.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def environment_folder():
    """Name the folder of this interpreter's environment."""
    version = "{}.{}".format(*sys.version_info)
    implementation = platform.python_implementation().lower()
    return ROOT / ".envs" / f"{implementation}-{version}-{sys.platform}-{platform.machine()}"


def clean_environ(**extra):
    """Copy the environment without what would lead Python or pip out of our folder."""
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
    return {**environ, "PYTHONNOUSERSITE": "1", "PIP_USER": "0", **extra}


def run(command, remedy=None, **kwargs):
    """Run a command and stop with its exit code if it fails."""
    kwargs.setdefault("env", clean_environ())
    code = subprocess.run([str(part) for part in command], check=False, **kwargs).returncode
    if code != 0:
        if remedy:
            shown = " ".join(str(part) for part in command)
            print(f"\nFailed with exit code {code}: {shown}\n{remedy}", file=sys.stderr)
        sys.exit(code)


def create(folder):
    """Create the environment, with pip in it, and return its interpreter."""
    import venv

    shutil.rmtree(folder, ignore_errors=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if importlib.util.find_spec("ensurepip"):
        # In a child: the builder would otherwise inherit an environment that is active here.
        run(
            [sys.executable, "-m", "venv", folder],
            "This Python cannot make virtual environments. On Debian or Ubuntu: "
            "sudo apt install python3-venv",
        )
    elif importlib.util.find_spec("pip"):
        # Debian without python3-venv: the system's pip installs a pip into a bare environment.
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        run(
            [sys.executable, "-m", "pip", "--python", python, *QUIETLY, "pip"],
            "The system's pip could not install into a new environment (it needs pip 22.3 or "
            "newer). On Debian or Ubuntu: sudo apt install python3-venv",
        )
    else:
        sys.exit(
            f"{sys.executable} has neither ensurepip nor pip, so nothing can be installed. "
            "On Debian or Ubuntu: sudo apt install python3-venv"
        )
    return python


QUIETLY = ("install", "--quiet", "--disable-pip-version-check", "--no-input")


def prepare(extra):
    """Return the interpreter of an environment in which ``.[extra]`` is installed."""
    folder = environment_folder()
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # The path is part of the key: an editable install does not survive moving the folder.
    key = (ROOT / "pyproject.toml").read_bytes() + str((sys.version, ROOT)).encode()
    wanted = hashlib.sha256(key).hexdigest()
    stamp = folder / f"installed-{extra}.txt"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    where = folder.relative_to(ROOT)
    print(f"Installing into {where}: a few minutes the first time ...", flush=True)
    if not python.exists() or not any(folder.glob("installed-*.txt")):
        python = create(folder)
    run(
        [python, "-m", "pip", *QUIETLY, "--editable", f"{ROOT}[{extra}]"],
        f"Look at pip's message above. To start afresh, delete the folder {where}.",
    )
    stamp.write_text(wanted)
    return python


def example(arguments):
    """Run examples/quickstart.py; its picture goes into the folder you are in."""
    run([prepare("plots"), ROOT / "examples" / "quickstart.py", *arguments])


def test(arguments):
    """Run the tests in two processes; arguments go to pytest (``--runslow``, ``-k name``)."""
    workers = [] if "no:xdist" in arguments else ["-n", "2", "--dist", "worksteal"]
    environ = clean_environ(**dict.fromkeys(ONE_THREAD, "1"))
    run([prepare("test"), "-m", "pytest", *workers, *arguments], cwd=ROOT, env=environ)


def lint(arguments):
    """Check style, format and types; ``lint --fix`` mends what can be mended first."""
    python = prepare("lint")
    if "--fix" in arguments:
        run([python, "-m", "ruff", "check", "--fix", "."], cwd=ROOT)
        run([python, "-m", "ruff", "format", "."], cwd=ROOT)
    failed = [
        tool
        for tool in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"])
        if subprocess.run(
            [python, "-m", *tool], cwd=ROOT, env=clean_environ(), check=False
        ).returncode
    ]
    if failed:
        sys.exit("Failed: " + "; ".join(" ".join(tool) for tool in failed))


def wheel(arguments):
    """Build the wheel into dist/, or the folder named, and import the package from it."""
    python = prepare("plots")
    folder = Path(arguments[0] if arguments else ROOT / "dist").resolve()
    with tempfile.TemporaryDirectory() as temporary:
        build = [
            python,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            temporary,
            ROOT,
        ]
        run(build, "The wheel could not be built; look at pip's message above.")
        (built,) = Path(temporary).glob("*.whl")
        unpacked = Path(temporary) / "unpacked"
        with zipfile.ZipFile(built) as archive:
            names = archive.namelist()
            archive.extractall(unpacked)
        missing = {"pymc_spectral/__init__.py", "pymc_spectral/py.typed"} - set(names)
        stray = sorted({name.split("/")[0] for name in names if "pymc_spectral" not in name})
        if missing or stray:
            sys.exit(f"{built.name} lacks {sorted(missing)} and should not hold {stray}.")
        code = (
            "import sys, pymc_spectral as p; print(p.__name__, p.__version__);"
            "sys.exit(not p.__file__.startswith(sys.argv[1]))"
        )
        # Ahead of the editable install: the import must come from the wheel's own files.
        environ = {**clean_environ(), "PYTHONPATH": str(unpacked)}
        run(
            [python, "-c", code, unpacked],
            "The wheel cannot be imported.",
            cwd=temporary,
            env=environ,
        )
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(built, folder)
    print(f"Built {folder / built.name}")


COMMANDS = {"example": example, "test": test, "lint": lint, "wheel": wheel}


def main(arguments):
    """Run the command that is named first."""
    if sys.version_info < OLDEST:
        sys.exit(
            "pymc_spectral needs Python {}.{} or newer and this is {} ({}). "
            "Run this file with a newer one, such as: python3.12 dev.py test".format(
                *OLDEST, platform.python_version(), sys.executable
            )
        )
    if not arguments or arguments[0] not in COMMANDS:
        listing = "\n".join(f"  {name:8} {f.__doc__}" for name, f in COMMANDS.items())
        said = f"Unknown command {arguments[0]!r}.\n" if arguments else ""
        wants_help = bool(arguments) and arguments[0] in ("-h", "--help")
        print(f"{'' if wants_help else said}usage: python3 dev.py COMMAND [arguments]\n\n{listing}")
        return 0 if wants_help else 2
    COMMANDS[arguments[0]](arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
