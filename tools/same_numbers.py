"""Compare the results of two versions of the code, to check that a change affects no number.

    python tools/same_numbers.py run FOLDER [SUITE ...]    run suites with the profile smoke, with a store in FOLDER
    python tools/same_numbers.py compare OLD NEW           print the differences between two such folders

Cells, histories, bootstrap replicates, results and reports must be equal to the last digit. Cache keys and other
digests, names of runs, times, dates and the version of bench may differ. Reports of measured costs are not compared.
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
CODE_FILES = {"manifest.json", "stages.jsonl.gz"}  # cache keys and code digests, on which no other file depends
#: JSON keys with measured values, or digests of code.
UNCOMPARED_KEYS = {
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
RUN_NAME = re.compile(r"-\d{8}-\d{6}(-\d+)?|-[0-9a-f]{12}(?=\.jsonl)")  # the variable part of run and history names
VARIABLE = re.compile(
    r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{12,64}\b"  # digests, but not digits of numbers
    r"|-\d{8}-\d{6}(-\d+)?"  # names of runs
    r"|\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?"
    r"|\b[\d.,]+ ?(ms|s|min|h|CPU hours?|hours?|MiB|GiB)\b"
    r"|\bbench(-[a-z-]+)? \d+\.\d+\.\d+\w*"
)
MAX_DIFFERENCES = 3  # maximum number of differences printed per file


def run(folder: Path, suites: list[str]) -> int:
    """Run suites with the profile smoke and the code of this checkout; return the number of failures."""
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
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        failed += result.returncode != 0
        print(f"{name}: {'result' if result.returncode == 0 else result.stderr[-500:]}", flush=True)
    return failed


def differences(old: Path, new: Path) -> Iterator[str]:
    """Yield the differences between the files of two folders, with their locations."""
    left, right = _files(old), _files(new)
    yield from (f"{name}: only in {old}" for name in sorted(left.keys() - right.keys()))
    yield from (f"{name}: only in {new}" for name in sorted(right.keys() - left.keys()))
    costs = {name for name, path in left.items() if path.name == "suite.yaml" and "cost." in path.read_text("utf-8")}
    costs = {name.split("/", 1)[1].rsplit("/", 2)[0] for name in costs}
    for name in sorted(left.keys() & right.keys()):
        kind, suite = name.split("/", 1)
        if kind == "reports" and any(suite.startswith(f"{each}/") for each in costs) and "results.json" not in name:
            continue
        file_differences = [*_file_differences(left[name], right[name])]
        yield from (f"{name}: {suite_name}" for suite_name in file_differences[:MAX_DIFFERENCES])
        if len(file_differences) > MAX_DIFFERENCES:
            yield f"{name}: and {len(file_differences) - MAX_DIFFERENCES} more differences"


def _files(folder: Path) -> dict[str, Path]:
    """Return the files to compare, by path without the variable parts of run names."""
    files = {}
    for top in ("runs", "reports"):
        for path in (folder / top).rglob("*"):
            if path.is_file() and path.name not in MEASURED | CODE_FILES:
                files[RUN_NAME.sub("", str(path.relative_to(folder)))] = path
    return files


def _file_differences(old: Path, new: Path) -> Iterator[str]:
    before, after = _content(old), _content(new)
    if not isinstance(before, bytes):
        yield from _value_differences(before, after)
        return
    old_lines, new_lines = (VARIABLE.sub("#", data.decode("latin-1")).split("\n") for data in (before, after))
    for number, (old_line, new_line) in enumerate(zip(old_lines, new_lines, strict=False), 1):
        if old_line != new_line:
            yield f"line {number}: {old_line[:100]!r}, now {new_line[:100]!r}"
    if len(old_lines) != len(new_lines):
        yield f"{len(old_lines)} lines, now {len(new_lines)}"


def _content(path: Path) -> Any:
    """Return the content of a file: JSON values, tensors, or bytes."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".safetensors":  # tensor names are cache keys
        return sorted((list(tensor.shape), tensor.tobytes().hex()) for tensor in load(content).values())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in content.splitlines()]
    return json.loads(content) if path.suffix == ".json" else content


def _value_differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new} - UNCOMPARED_KEYS):
            if name not in old or name not in new:
                yield f"{place}.{name}: {'new' if name in new else 'missing'}"
            else:
                yield from _value_differences(old[name], new[name], f"{place}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} entries, now {len(new)}"
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from _value_differences(*pair, f"{place}[{number}]")
    elif isinstance(old, str) and isinstance(new, str):
        if VARIABLE.sub("#", old) != VARIABLE.sub("#", new):
            yield f"{place}: {old[:100]!r}, now {new[:100]!r}"
    elif repr(old) != repr(new):
        yield f"{place}: {old!r}, now {new!r}"


def main() -> int:
    """Run suites, or compare the results of two versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("suites", nargs="*", help="paths below suites/ without .yaml; by default all")
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.what == "run":
        return int(run(options.folder.absolute(), options.suites) > 0)
    results = [*differences(options.old, options.new)]
    print("\n".join(results) or "no differences")
    return int(bool(results))


if __name__ == "__main__":
    sys.exit(main())
