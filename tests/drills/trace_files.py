"""Trace a smoke suite of each paper; see that each file it reads is in a key, observed, or of Python or the system.

`python tests/drills/trace_files.py [--suites strlm/samples ...]` needs the program strace, and says so without it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_core.execution.undeclared import _reads
from bench_core.files import data_folder
from bench_core.planning.code_digests import code_digests
from bench_core.planning.plan import plan
from bench_core.runs.results import read_run
from bench_core.suites.load import load
from process_watch.whose_code import PYTHON

ROOT = Path(__file__).parents[2]
SUITES = ("ecoc/parameters", "indigo/table-2", "rnn/characters", "ssm/table-1", "strlm/samples")
SYSTEM = ("/etc/", "/proc/", "/sys/", "/dev/", "/usr/", "/lib", "/opt/", "/run/", "/var/")
CALL = re.compile(
    r'^(?P<who>\d+) +open(?:at)?\((?P<given>.*?)"(?P<name>.*?)"(?:\.\.\.)?, (?P<flags>O_\w+(?:\|O_\w+)*)'
)
END = re.compile(r"= \d+<(?P<path>/[^>]*)>")


def main() -> int:
    """Trace suites, a line each and one for each file that nothing covers; return 1 if there is any."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    words.add_argument("--suites", nargs="+", default=SUITES, help="below suites/")
    given = words.parse_args()
    if shutil.which("strace") is None:
        print("Nothing is traced, as there is no strace here: install it by your system's packages.")
        return 0
    wrong = 0
    for name in given.suites:
        with tempfile.TemporaryDirectory() as folder:
            covered, uncovered = traced(name, Path(folder))
        print(f"{name:20} {covered:4} files are in keys or observed, {len(uncovered)} are not")
        print("".join(f"    {path}\n" for path in sorted(uncovered)), end="")
        wrong += len(uncovered) or not covered
    return 1 if wrong else 0


def traced(name: str, folder: Path) -> tuple[int, set[str]]:
    """Run a suite under strace; return how many files that it read are in keys or observed, and which are not."""
    path, log = ROOT / "suites" / f"{name}.yaml", folder / "log"
    command = [
        *("strace", "-f", "-qq", "-y", "-s", "4096", "-e", "trace=open,openat", "-e", "signal=none", "-o", str(log)),
        *(str(Path(sys.executable).with_name("bench")), "run", str(path), "--profile", "smoke", "--no-strict"),
        *("--workers", "1", "-q"),
        *(word for one in ("store", "runs", "out") for word in (f"--{one}", str(folder / one))),
    ]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    (run,) = (folder / "runs").iterdir()
    known = in_keys(path) | {*read_run(run).info.get("observed", {}).get("file", {})}
    fonts = str(Path.home() / ".cache" / "matplotlib")  # of figures, which no stage draws
    ignored = (*PYTHON, *SYSTEM, f"{sys.prefix}/", f"{sys.base_prefix}/", f"{folder}/", tempfile.gettempdir(), fonts)
    files = {*opened(log)}
    return len(files & known), {
        one for one in files - known if not one.startswith(ignored) and not is_carried(Path(one))
    }


def opened(log: Path) -> Iterator[str]:
    """Yield the paths of the files that were opened to be read; those of compiled modules are those of their sources."""
    begun: dict[str, str] = {}
    for line in log.read_text(errors="replace").splitlines():
        who = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[who] = line.removesuffix("<unfinished ...>")
            continue
        if "resumed>" in line:
            line = begun.pop(who, "") + line.partition("resumed>")[2]
        call, end = CALL.match(line), END.search(line)
        if call and end and "O_DIRECTORY" not in call["flags"] and "O_WRONLY" not in call["flags"]:
            yield re.sub(r"__pycache__/(\w+)\.cpython-\d+\.pyc.*", r"\1.py", end["path"])


def in_keys(path: Path) -> set[str]:
    """Return the files that the keys of a suite cover, and those that the suite is made of."""
    suite, data = load(path, "smoke"), data_folder()
    found = {str(path), *map(str, path.parent.rglob("*.yaml"))}
    for stage in plan(suite, data).stages.values():
        code = code_digests().covered(frozenset(stage.roots.values()))
        found |= {*code.files, *code.data, *map(str, stage.places), *_reads(stage, data)}
    return found


def is_carried(path: Path) -> bool:
    """Return whether a file is read outside of stages: to render, or by git; or a source, which other tests trace."""
    rendered = path.is_relative_to(ROOT / "plugins" / "reports")
    return rendered or any(part.startswith(".git") for part in path.parts) or path.suffix == ".py"


if __name__ == "__main__":
    sys.exit(main())
