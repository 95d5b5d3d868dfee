"""Set up .venv: every distribution of this repository, editable, with what it needs. Needs nothing but CPython.

`python tools/install.py` installs what a user of this repository needs, all of it from wheels; `--ci` adds what only
continuous integration needs: executors of other machines, trackers of experiments, readers of data sets, and a
dictionary that exists as source alone. Does nothing where nothing has changed.
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
        f"bench needs CPython {OLDEST[0]}.{OLDEST[1]} or newer, and {sys.executable} is {sys.version.split()[0]}. "
        "Name another: make PYTHON=/path/to/python3.11"
    )

from projects import META, ROOT, Project, projects, third_parties  # noqa: E402  (it needs that version)

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "bench-setup"
BUILD = ["hatchling>=1.26", "editables>=0.5"]
WHEELS = ["--only-binary", ":all:"]
CONSTRAINTS = ["--constraint", "constraints.txt"]
NEEDS = 4 * 2**30  # bytes on disk, with torch for the CPU
OF_CI = {"bench-ray", "bench-slurm"}  # which users of clusters install by themselves
FROM_SOURCE = {"japanese", "korean"}  # extras with dictionaries that are no wheels
BY_USERS = {"tensorboard", "wandb", "frames", "datasets", "parquet"}  # extras that users install by themselves, too
# the same, with their distributions
OF_USERS = ["bench-trackers[tensorboard,wandb]", "bench-notebook[frames]", "bench-data[datasets,parquet]"]


class SetupError(Exception):
    """What went wrong, and what to do."""


def main(ci: bool) -> None:
    """Install what is missing."""
    os.chdir(ROOT)
    wanted = stamp(ci)
    if STAMP.is_file() and STAMP.read_text("utf-8") in (wanted, stamp(True)) and PYTHON.exists():
        return
    _make_environment()
    ours = [one for one in projects().values() if ci or one.name not in OF_CI]
    _install([*WHEELS, *CONSTRAINTS, *BUILD, *third_parties(map(asked, ours))])
    if ci:  # the dictionary is built from source, by pip in an environment of its own
        _install([*WHEELS, *CONSTRAINTS, *third_parties(OF_USERS)])
        _install([*CONSTRAINTS, *third_parties(["bench-metrics[japanese]"])])
    places = (f"./{one.folder.relative_to(ROOT).as_posix()}" for one in ours)
    _install(["--no-index", "--no-deps", "--no-build-isolation", *(word for one in places for word in ("-e", one))])
    STAMP.write_text(wanted, "utf-8")


def stamp(ci: bool) -> str:
    """Return what an installation depends on: this folder, this Python, all that the projects declare."""
    files = [
        *(one.folder / "pyproject.toml" for one in projects().values()),
        ROOT / "constraints.txt",
        Path(__file__),
    ]
    content = b"\0".join(path.read_bytes() for path in files)
    return f"{ROOT} {sys.version} {ci} {hashlib.sha256(content).hexdigest()}"


def _make_environment() -> None:
    """Make a virtual environment with pip, unless there is one that works here."""
    if works():
        return
    if VENV.exists():
        shutil.rmtree(VENV)  # half made, moved, or of a Python that is gone
    free = shutil.disk_usage(ROOT).free
    if free < NEEDS:
        raise SetupError(f"{free / 2**30:.1f} GiB are free in {ROOT}, and the set-up takes {NEEDS / 2**30:.0f}.")
    made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True)
    if made.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            f"{sys.executable} cannot make a virtual environment: {(made.stdout + made.stderr).strip()}\n"
            "On Debian and Ubuntu: apt install python3-venv. Elsewhere, name a CPython that has `venv` and "
            "`ensurepip`: make PYTHON=/path/to/python3"
        )


def works() -> bool:
    """Return whether the environment's Python starts, is of this version, is here, and has pip."""
    code = "import pip, sys; print(sys.prefix, *sys.version_info[:2])"
    try:
        found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return found.stdout.strip() == f"{VENV} {sys.version_info[0]} {sys.version_info[1]}"


def asked(project: Project) -> str:
    """Return a distribution with all of its extras that are wheels, but for those that are BY_USERS."""
    extras = [] if project.name == META else sorted(set(project.extras) - FROM_SOURCE - BY_USERS)
    return f"{project.name}[{','.join(extras)}]"


def _install(arguments: list[str]) -> None:
    """Have pip install something."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
    if subprocess.run(command).returncode:
        raise SetupError(
            f"pip ended with an error, above; it was asked: {shlex.join(command)}\n"
            "Where nothing can be downloaded: see that a package index is reached (`pip config list`, proxies, "
            "PIP_INDEX_URL). Where no release is found: torch has wheels for CPython on Linux (glibc), macOS on "
            "arm64 and Windows. Then run the same command again; what was installed stays."
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
