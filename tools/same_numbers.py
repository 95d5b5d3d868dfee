"""Compares what two versions of the code compute, file by file: for changes that must change no number.

    python tools/same_numbers.py run FOLDER [SUITE ...]    every suite at `smoke`, on a store in FOLDER
    python tools/same_numbers.py compare OLD NEW           what differs between two such folders, if anything

Cells, histories, draws, results and reports are compared to the last digit, except what must differ: keys and other
digests, names of runs, times, dates and the version of bench. Reports that show measured costs are not compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from projects import ROOT
from safetensors.numpy import load

MEASURED = {"costs.csv", "costs.html", "log"}
ABOUT_CODE = {"manifest.json", "stages.jsonl.gz"}  # keys, digests and code, of which nothing else is made
#: Keys of JSON objects whose values are measured, or digests of code.
DROPPED = {
    "artifacts",
    "environments",
    "ms_per_update",
    "observed",
    "read",
    "seconds",
    "cpu_seconds",
    "peak_mib",
    "sample",
}
NAMED = re.compile(r"-\d{8}-\d{6}(-\d+)?|-[0-9a-f]{12}(?=\.jsonl)")  # in the name of a run, and of a history
MASKED = re.compile(
    r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{12,64}\b"  # digests, but not the digits of a number
    r"|-\d{8}-\d{6}(-\d+)?"  # of a run
    r"|\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?"
    r"|\b[\d.,]+ ?(ms|s|min|h|CPU hours?|hours?|MiB|GiB)\b"
    r"|\bbench(-[a-z-]+)? \d+\.\d+\.\d+\w*"
)
SHOWN = 3  # differences of a file


def run(folder: Path, suites: list[str]) -> int:
    """Run suites at `smoke` with the code of this checkout; return how many failed."""
    paths = [path for path in sorted((ROOT / "suites").rglob("*.yaml")) if path.parent.name != "references"]
    failed = 0
    for path in paths:
        name = str(path.relative_to(ROOT / "suites").with_suffix(""))
        if suites and name not in suites:
            continue
        command = [
            *(sys.executable, "-m", "bench_core", "run", str(path), "--profile", "smoke"),
            *("--store", str(folder / "store"), "--runs", str(folder / "runs" / name)),
            *("--out", str(folder / "reports" / name)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed += done.returncode != 0
        print(f"{name}: {'done' if done.returncode == 0 else done.stderr[-500:]}", flush=True)
    return failed


def differences(old: Path, new: Path) -> Iterator[str]:
    """Yield what differs between the files below two folders, each with its place."""
    ours, theirs = _files(old), _files(new)
    yield from (f"{name}: only in {old}" for name in sorted(ours.keys() - theirs.keys()))
    yield from (f"{name}: only in {new}" for name in sorted(theirs.keys() - ours.keys()))
    costly = {name for name, path in ours.items() if path.name == "suite.yaml" and "cost." in path.read_text("utf-8")}
    costly = {name.split("/", 1)[1].rsplit("/", 2)[0] for name in costly}
    for name in sorted(ours.keys() & theirs.keys()):
        kind, suite = name.split("/", 1)
        if kind == "reports" and any(suite.startswith(f"{one}/") for one in costly) and "results.json" not in name:
            continue
        found = [*_of_file(ours[name], theirs[name])]
        yield from (f"{name}: {one}" for one in found[:SHOWN])
        if len(found) > SHOWN:
            yield f"{name}: and {len(found) - SHOWN} more differences"


def _files(folder: Path) -> dict[str, Path]:
    """Return the files to compare, by a name without that of the run."""
    found = {}
    for top in ("runs", "reports"):
        for path in (folder / top).rglob("*"):
            if path.is_file() and path.name not in MEASURED | ABOUT_CODE:
                found[NAMED.sub("", str(path.relative_to(folder)))] = path
    return found


def _of_file(old: Path, new: Path) -> Iterator[str]:
    one, other = _content(old), _content(new)
    if not isinstance(one, bytes):
        yield from _of_values(one, other)
        return
    lines, others = (MASKED.sub("#", text.decode("latin-1")).split("\n") for text in (one, other))
    for number, (line, second) in enumerate(zip(lines, others, strict=False), 1):
        if line != second:
            yield f"line {number}: {line[:100]!r}, and now {second[:100]!r}"
    if len(lines) != len(others):
        yield f"{len(lines)} lines, and now {len(others)}"


def _content(path: Path) -> Any:
    """Return what is in a file: the values of JSON, bytes of anything else."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".safetensors":  # by the keys of stages
        return sorted((list(one.shape), one.tobytes().hex()) for one in load(content).values())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in content.splitlines()]
    return json.loads(content) if path.suffix == ".json" else content


def _of_values(old: Any, new: Any, place: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new} - DROPPED):
            if name not in old or name not in new:
                yield f"{place}.{name}: {'new' if name in new else 'missing'}"
            else:
                yield from _of_values(old[name], new[name], f"{place}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} entries, and now {len(new)}"
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from _of_values(*pair, f"{place}[{number}]")
    elif isinstance(old, str) and isinstance(new, str):
        if MASKED.sub("#", old) != MASKED.sub("#", new):
            yield f"{place}: {old[:100]!r}, and now {new[:100]!r}"
    elif repr(old) != repr(new):
        yield f"{place}: {old!r}, and now {new!r}"


def main() -> int:
    """Run suites, or compare what two versions computed."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = words.add_subparsers(dest="what", required=True)
    running = parts.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("suites", nargs="*", help="below suites/; without any, all")
    comparing = parts.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    given = words.parse_args()
    if given.what == "run":
        return int(run(given.folder.absolute(), given.suites) > 0)
    found = [*differences(given.old, given.new)]
    print("\n".join(found) or "no difference")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
