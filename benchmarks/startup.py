"""Measure start-up times of commands relative to `python -c pass`: `python benchmarks/startup.py [--quick]`.

Times are medians over whole processes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tabulate import tabulate

BENCH = shutil.which("bench", path=str(Path(sys.executable).parent)) or "bench"
ROWS = [
    ("python -c pass", [sys.executable, "-c", "pass"], None),
    ("bench --help", [BENCH, "--help"], 0.15),
    ("bench list", [BENCH, "list"], 0.3),
    ("bench check suites/quickstart.yaml", [BENCH, "check", "suites/quickstart.yaml"], 0.5),
]


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run one process each, to test the script")
    repeats = 1 if parser.parse_args().quick else 11
    rows = []
    for name, command, budget in ROWS:
        seconds(command)  # warms bytecode and file caches
        times = [seconds(command) for _ in range(repeats)]
        rows.append(
            [name, median(times), budget or "", "" if budget is None else "yes" if median(times) <= budget else "no"]
        )
    plain = rows[0][1]
    for row in rows:
        row.insert(2, row[1] / plain)
    print(tabulate(rows, ["command", "seconds", "relative to Python", "budget", "met"], "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
