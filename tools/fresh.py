"""Simulate a first installation on a fresh machine, and print the time and disk space of each step.

In an empty folder with a space in its name, with an empty home directory and cache, and without Java, a compiler,
`wheel` or `setuptools`: clone the current commit, run `make demo` twice and some tests; then install the wheels with
plain pip in a second environment, and run `bench list` and a smoke suite. Stops at the first command that fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = re.compile(
    r"java.*|jar|jshell|gcc.*|g\+\+.*|cc|c\+\+.*|c89.*|c99.*|clang.*|cpp.*|ld.*|as|pip.*|uv.*|python.*"
)
INHERITED = re.compile(r"(PIP|SSL|REQUESTS|CURL)_.*|(https?|no)_proxy", re.I)  # access to a package index
CACHES = ("PIP_CACHE_DIR", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
TESTS = [
    "tests/test_tensor_rows.py", "tests/test_suite.py", "tests/test_extras.py", "plugins/rnn/tests/test_rnn_cells.py"
]  # fmt: skip
CAPTION = "Share of outputs that do not terminate within the limit"  #: first table of suites/quickstart.yaml
MINIMAL = ("bench-core", "bench-decoders", "bench-language-modeling", "bench-metrics", "bench-rnn", "bench-training")


class NewUser:
    """A user with an empty home directory and few installed commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.commands = folder / "home", folder / "commands"
        self.home.mkdir()
        self.commands.mkdir()
        for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
            for path in sorted(Path(place).glob("*")) if place else ():
                link = self.commands / path.name
                if not HIDDEN.fullmatch(path.name) and not link.is_symlink() and os.access(path, os.X_OK):
                    link.symlink_to(path)
        self.python = Path(getattr(sys, "_base_executable", sys.executable))
        self.measurements: list[tuple[str, str]] = []

    def run(self, what: str, command: list[object], where: Path) -> str:
        """Run a command and record its time; exit with its output if it fails."""
        print(f"-- {what}", flush=True)
        kept = {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name) and name not in CACHES}
        environment = {**kept, "PATH": str(self.commands), "HOME": str(self.home), "LANG": "C.UTF-8"}
        start = time.monotonic()
        result = subprocess.run(
            list(map(str, command)), cwd=where, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if result.returncode:
            sys.exit(f"{result.stdout}\nfresh: {what} failed with exit code {result.returncode}: {command}")
        self.measurements.append((what, f"{time.monotonic() - start:.1f} s"))
        return result.stdout

    def environment(self, place: Path) -> Path:
        """Create a virtual environment without setuptools and wheel; return its Python."""
        python = place / "bin" / "python"
        self.run(f"python -m venv {place.name}", [self.python, "-m", "venv", place], self.folder)
        self.run("remove setuptools", [python, "-m", "pip", "uninstall", "--yes", "setuptools", "wheel"], self.folder)
        return python

    def record_size(self, what: str, folder: Path) -> None:
        """Record the size of a folder."""
        files = (path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        self.measurements.append((what, f"{sum(files) / 2**20:,.0f} MiB"))


def clone(user: NewUser) -> Path:
    """Clone the current commit, and run the two commands of the README; return the clone."""
    place = user.folder / "bench"
    user.run("git clone", ["git", "clone", "--quiet", ROOT, place], user.folder)
    python = user.environment(place / ".venv")
    make = ["make", f"PYTHON={user.python}"]
    user.run("make setup", [*make, "setup"], place)
    user.record_size(".venv", place / ".venv")
    first = user.run("make demo", [*make, "demo"], place)
    if CAPTION not in first:
        sys.exit(f"{first}\nfresh: the demo printed no table.")
    second = user.run("second make demo", [*make, "demo"], place)
    if "nothing computed" not in second:
        sys.exit(f"{second}\nfresh: the second demo was not cached.")
    user.run("some of the tests", [python, "-m", "pytest", "-q", "-m", "not slow and not nightly", *TESTS], place)
    return place


def wheels(user: NewUser, place: Path) -> None:
    """Install wheels with plain pip: the core and a plugin, then a minimal set for training, then bench-all."""
    user.run("make wheels", ["make", f"PYTHON={user.python}", "wheels"], place)
    python = user.environment(user.folder / "other")
    site = user.folder / "other"

    def install(*names: str) -> None:
        pip = [python, "-m", "pip", "install", "--quiet"]
        files = [
            word
            for name in names
            for word in ("-r", place / f"dist/requirements/{name.replace('bench-all', 'all')}.txt")
        ]
        user.run(f"third-party packages of {', '.join(names)}", [*pip, *files, "-c", "constraints.txt"], place)
        user.run(f"wheels of {', '.join(names)}", [*pip, "--no-index", "--find-links", "dist", *names], place)
        user.record_size(f"with {', '.join(names)}", site)

    install("bench-core", "bench-rnn")
    listing = user.run("bench list", [site / "bin" / "bench", "list"], user.home)
    if "rnn-lm" not in listing or "greedy" in listing:
        sys.exit(f"{listing}\nfresh: `bench list` does not show exactly the parts of the installed plugin.")
    install(*MINIMAL)
    suite = place / "suites" / "quickstart.yaml"
    run = [site / "bin" / "bench", "run", suite, "--profile", "smoke"]
    output = user.run("a smoke run without extras", run, user.home)
    if "not written: install bench-reports" not in output:
        sys.exit(f"{output}\nfresh: the run wrote a report without bench-reports.")
    install("bench-all")
    user.run("a report with bench-all", [*run], user.home)
    if not (user.home / "reports/quickstart-smoke/report.md").is_file():
        sys.exit("fresh: the run wrote no report.")


def main() -> None:
    """Run all steps in a temporary folder, and print their measurements."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench fresh ") as folder:
        user = NewUser(Path(folder))
        if shutil.which("java", path=str(user.commands)) or shutil.which("cc", path=str(user.commands)):
            sys.exit("fresh: Java or a compiler is on the PATH.")
        wheels(user, clone(user))
    width = max(len(what) for what, _ in user.measurements)
    for what, amount in user.measurements:
        print(f"{what:<{width}}  {amount:>12}")
    print(f"{'total':<{width}}  {time.monotonic() - start:>10.1f} s")


if __name__ == "__main__":
    main()
