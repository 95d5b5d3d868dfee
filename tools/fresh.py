"""Do what a newcomer does, on a machine that never saw this project, and print what it took.

In an empty folder whose name has a space, with an empty home and cache, without Java, a compiler, `wheel` or
`setuptools`: clone what is committed, `make demo` twice, some tests; then the wheels with plain pip in a second
environment, `bench list`, and a smoke run. The first command that fails ends it, with its output.
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
KEPT = re.compile(r"(PIP|SSL|REQUESTS|CURL)_.*|(https?|no)_proxy", re.I)  # how a package index is reached
CACHES = ("PIP_CACHE_DIR", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
TESTS = [
    "tests/test_tensor_rows.py", "tests/test_suite.py", "tests/test_extras.py", "plugins/rnn/tests/test_rnn_cells.py"
]  # fmt: skip
LEAN = ("bench-core", "bench-decoders", "bench-language-modeling", "bench-metrics", "bench-rnn", "bench-training")


class Newcomer:
    """Somebody with an empty home, who types commands."""

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
        self.took: list[tuple[str, str]] = []

    def types(self, what: str, command: list[object], where: Path) -> str:
        """Run a command and note how long it took; exit with its output if it fails."""
        print(f"-- {what}", flush=True)
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name) and name not in CACHES}
        environment = {**kept, "PATH": str(self.commands), "HOME": str(self.home), "LANG": "C.UTF-8"}
        begun = time.monotonic()
        done = subprocess.run(
            list(map(str, command)), cwd=where, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{done.stdout}\nfresh: {what} ended with exit code {done.returncode}: {command}")
        self.took.append((what, f"{time.monotonic() - begun:.1f} s"))
        return done.stdout

    def environment(self, place: Path) -> Path:
        """Make a virtual environment without setuptools and wheel; return its Python."""
        python = place / "bin" / "python"
        self.types(f"python -m venv {place.name}", [self.python, "-m", "venv", place], self.folder)
        self.types(
            "remove setuptools", [python, "-m", "pip", "uninstall", "--yes", "setuptools", "wheel"], self.folder
        )
        return python

    def weighs(self, what: str, folder: Path) -> None:
        """Note the size of a folder."""
        files = (path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        self.took.append((what, f"{sum(files) / 2**20:,.0f} MiB"))


def clone(newcomer: Newcomer) -> Path:
    """Clone what is committed, and go through the two commands of the README."""
    place = newcomer.folder / "bench"
    newcomer.types("git clone", ["git", "clone", "--quiet", ROOT, place], newcomer.folder)
    python = newcomer.environment(place / ".venv")
    make = ["make", f"PYTHON={newcomer.python}"]
    newcomer.types("make setup", [*make, "setup"], place)
    newcomer.weighs(".venv", place / ".venv")
    first = newcomer.types("make demo", [*make, "demo"], place)
    if "Share of outputs that do not end" not in first:
        sys.exit(f"{first}\nfresh: the demo shows no table.")
    second = newcomer.types("make demo, again", [*make, "demo"], place)
    if "nothing computed" not in second:
        sys.exit(f"{second}\nfresh: a second demo computes something.")
    newcomer.types(
        "some of the tests", [python, "-m", "pytest", "-q", "-m", "not slow and not nightly", *TESTS], place
    )
    return place


def wheels(newcomer: Newcomer, place: Path) -> None:
    """Install wheels with plain pip: the core and one plugin, then what a light user takes, then bench-all."""
    newcomer.types("make wheels", ["make", f"PYTHON={newcomer.python}", "wheels"], place)
    python = newcomer.environment(newcomer.folder / "other")
    site = newcomer.folder / "other"

    def install(*names: str) -> None:
        pip = [python, "-m", "pip", "install", "--quiet"]
        files = [
            word
            for name in names
            for word in ("-r", place / f"dist/requirements/{name.replace('bench-all', 'all')}.txt")
        ]
        newcomer.types(f"third parties of {', '.join(names)}", [*pip, *files, "-c", "constraints.txt"], place)
        newcomer.types(f"wheels of {', '.join(names)}", [*pip, "--no-index", "--find-links", "dist", *names], place)
        newcomer.weighs(f"with {', '.join(names)}", site)

    install("bench-core", "bench-rnn")
    listed = newcomer.types("bench list", [site / "bin" / "bench", "list"], newcomer.home)
    if "rnn-lm" not in listed or "greedy" in listed:
        sys.exit(f"{listed}\nfresh: core and one plugin list other parts than this plugin's.")
    install(*LEAN)
    suite = place / "suites" / "quickstart.yaml"
    run = [site / "bin" / "bench", "run", suite, "--profile", "smoke"]
    lean = newcomer.types("a smoke run without extras", run, newcomer.home)
    if "not written: install bench-reports" not in lean:
        sys.exit(f"{lean}\nfresh: without bench-reports there is a report.")
    install("bench-all")
    newcomer.types("its report, with bench-all", [*run], newcomer.home)
    if not (newcomer.home / "reports/quickstart-smoke/report.md").is_file():
        sys.exit("fresh: the run has no report.")


def main() -> None:
    """Do it all in a folder that is removed afterwards."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench fresh ") as folder:
        newcomer = Newcomer(Path(folder))
        if shutil.which("java", path=str(newcomer.commands)) or shutil.which("cc", path=str(newcomer.commands)):
            sys.exit("fresh: Java or a compiler is in sight.")
        wheels(newcomer, clone(newcomer))
    width = max(len(what) for what, _ in newcomer.took)
    for what, amount in newcomer.took:
        print(f"{what:<{width}}  {amount:>12}")
    print(f"{'all of it':<{width}}  {time.monotonic() - begun:>10.1f} s")


if __name__ == "__main__":
    main()
