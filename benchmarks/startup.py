"""Measure the start-up of commands relative to `python -c pass`: `python benchmarks/startup.py [--quick]`.

Every row is the median CPU time, user and system, of whole processes. All commands run once per round, because the
speed of a machine drifts; the ratio is the median over rounds.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from tabulate import tabulate

BENCH = shutil.which("bench", path=str(Path(sys.executable).parent)) or "bench"
#: Bytecode is read from files as after the first start, whatever this shell is set to.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
SUITES = ["suites/quickstart.yaml", "suites/ecoc/table-1.yaml", "suites/strlm/table-1.yaml"]
#: The commands, and their largest allowed ratios.
ROWS: list[tuple[str, list[str], int | None]] = [
    ("python -c pass", [sys.executable, "-c", "pass"], None),
    ("bench --help", [BENCH, "--help"], 10),
    ("bench list", [BENCH, "list"], 25),
    *((f"bench check {suite}", [BENCH, "check", suite], 40) for suite in SUITES),
]


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=ENVIRONMENT)
    if done.returncode not in (0, 2):  # 2: `check` ended, and data that the suite needs are missing on this machine
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run one process each, to test the script")
    rounds = 1 if parser.parse_args().quick else 15
    for _, command, _ in ROWS:
        cpu_seconds(command)  # warms bytecode and file caches
    times = [[cpu_seconds(command) for _, command, _ in ROWS] for _ in range(rounds)]
    rows = []
    for (name, _, limit), column in zip(ROWS, zip(*times, strict=True), strict=True):
        ratio = median(seconds / plain for seconds, (plain, *_) in zip(column, times, strict=True))
        rows.append(
            [name, median(column), ratio, limit or "", "" if limit is None else "yes" if ratio <= limit else "no"]
        )
    print(
        tabulate(
            rows,
            ["command", "CPU seconds", "relative to Python", "limit", "met"],
            "pipe",
            floatfmt=(".2f", ".3f", ".1f"),
        )
    )


if __name__ == "__main__":
    main()
