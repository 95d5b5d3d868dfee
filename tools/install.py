"""Set up .venv with an editable installation of the distributions in this repository. Requires only CPython.

`python tools/install.py` installs what a user of this repository needs, from wheels only; `--ci` adds what only
continuous integration needs: executors for clusters, experiment trackers, dataset readers, and a dictionary that
must be built from source. Does nothing if nothing has changed.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
if sys.version_info < OLDEST:
    sys.exit(
        f"bench needs CPython {OLDEST[0]}.{OLDEST[1]} or newer; {sys.executable} is {sys.version.split()[0]}. "
        "Use another Python: make PYTHON=/path/to/python3.11"
    )

from projects import META, ROOT, Project, projects, third_parties  # noqa: E402  (requires this version)

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "bench-setup"
BUILD = ["hatchling>=1.26", "editables>=0.5"]
WHEELS = ["--only-binary", ":all:"]
CONSTRAINTS = ["--constraint", "constraints.txt"]
DISK_BYTES = 4 * 2**30  # required disk space, with the CPU build of torch
CI_ONLY = {"bench-ray", "bench-slurm"}  # users of clusters install these themselves
FROM_SOURCE = {"japanese", "korean"}  # extras with dictionaries that have no wheels
OPTIONAL = {"tensorboard", "wandb", "frames", "datasets", "parquet"}  # extras that users install themselves
# `OPTIONAL` extras with their distributions
WITH_OPTIONAL = ["bench-trackers[tensorboard,wandb]", "bench-notebook[frames]", "bench-data[datasets,parquet]"]


class SetupError(Exception):
    """Set-up failed; the message says what to do."""


def main(ci: bool) -> None:
    """Install everything, unless the stamp of the last installation is still valid."""
    os.chdir(ROOT)
    wanted = stamp(ci)
    if STAMP.is_file() and STAMP.read_text("utf-8") in (wanted, stamp(True)) and PYTHON.exists():
        return
    _make_environment()
    ours = [project for project in projects().values() if ci or project.name not in CI_ONLY]
    _install([*WHEELS, *CONSTRAINTS, *BUILD, *third_parties(map(with_extras, ours))])
    if ci:  # pip builds the dictionary from source, in an isolated environment
        _install([*WHEELS, *CONSTRAINTS, *third_parties(WITH_OPTIONAL)])
        _install([*CONSTRAINTS, *third_parties(["bench-metrics[japanese]"])])
    paths = (f"./{project.folder.relative_to(ROOT).as_posix()}" for project in ours)
    _install(["--no-index", "--no-deps", "--no-build-isolation", *(word for path in paths for word in ("-e", path))])
    _compile()
    STAMP.write_text(wanted, "utf-8")


def stamp(ci: bool) -> str:
    """Return a stamp of an installation's dependencies: this folder, this Python and the project files."""
    files = [
        *(project.folder / "pyproject.toml" for project in projects().values()),
        ROOT / "constraints.txt",
        Path(__file__),
    ]
    content = b"\0".join(path.read_bytes() for path in files)
    return f"{ROOT} {sys.version} {ci} {hashlib.sha256(content).hexdigest()}"


def _make_environment() -> None:
    """Create a virtual environment with pip, unless there is a working one."""
    if works():
        return
    if VENV.exists():
        shutil.rmtree(VENV)  # incomplete, moved, or its Python was removed
    free = shutil.disk_usage(ROOT).free
    if free < DISK_BYTES:
        raise SetupError(f"{ROOT} has {free / 2**30:.1f} GiB free; set-up needs {DISK_BYTES / 2**30:.0f} GiB.")
    result = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True)
    if result.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            f"{sys.executable} cannot create a virtual environment: {(result.stdout + result.stderr).strip()}\n"
            "On Debian and Ubuntu: apt install python3-venv. Elsewhere, use a CPython with `venv` and `ensurepip`: "
            "make PYTHON=/path/to/python3"
        )


def works() -> bool:
    """Return whether the environment's Python starts, has this version, is in this folder and has pip."""
    code = "import pip, sys; print(sys.prefix, *sys.version_info[:2])"
    try:
        result = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return result.stdout.strip() == f"{VENV} {sys.version_info[0]} {sys.version_info[1]}"


def with_extras(project: Project) -> str:
    """Return a distribution with its extras, except `OPTIONAL` extras and extras without wheels."""
    extras = [] if project.name == META else sorted(set(project.extras) - FROM_SOURCE - OPTIONAL)
    return f"{project.name}[{','.join(extras)}]"


def _compile() -> None:
    """Write the bytecode of our modules, so that first starts are not slower than later ones."""
    subprocess.run([PYTHON, "-m", "compileall", "-q", "bench_core", "plugins"])


def _install(arguments: list[str]) -> None:
    """Run `pip install`."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
    if subprocess.run(command).returncode:
        raise SetupError(
            f"pip failed with the error above. The command was: {shlex.join(command)}\n"
            "If nothing can be downloaded, check the access to a package index (`pip config list`, proxies, "
            "PIP_INDEX_URL). If no release is found: torch has wheels for CPython on Linux (glibc), macOS on "
            "arm64 and Windows. Then run the same command again; installed packages are kept."
        )


if __name__ == "__main__":
    try:
        main("--ci" in sys.argv[1:])
    except SetupError as error:
        sys.exit(f"set-up: {error}")
    except OSError as error:
        sys.exit(
            f"set-up: {error.filename or ROOT}: {error.strerror or error}. Make it writable, or clone elsewhere."
        )
