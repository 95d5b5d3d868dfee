"""Time a cached cell, a plan of 10,000 cells and a report of 1,000 cells: `python benchmarks/store.py [--quick]`."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

import bench_core
from bench_core.planning.plan import plan
from bench_core.suites.load import load
from bench_reports.render.report import write_report

SUITE = """
suite: benchmarks/store
tasks:
  words:
    {{name: sequence-completion, corpus: {{name: english, sentences: 200}}, tokenizer: {{kind: word}}, prefix: 2}}
models:
{models}
decoders:
{decoders}
metrics: {{non-termination: {{name: non-termination}}, length: {{name: length}}}}
training: {{updates: 1, batch_size: 4, select: {{examples: 4}}}}
seeds: {seeds}
limits: {{max_tokens: 4, examples: 4, scored: 4}}
hardware: {{device: cpu, threads: 1}}
tables:
  - {{id: main, rows: [decoder], columns: [model], values: [non-termination, length]}}
"""


def suite(folder: Path, models: int, decoders: int, seeds: int) -> Path:
    """Write a suite of models x decoders x seeds cells."""
    lines = SUITE.format(
        models="\n".join(
            f"  m{n}: {{name: rnn-lm, hidden: 4, layers: 1, dropout: {n / 100}}}" for n in range(models)
        ),
        decoders="\n".join(f"  d{n}: {{name: greedy, max_tokens: {n + 1}}}" for n in range(decoders)),
        seeds=seeds,
    ).replace("limit: ", "limit: ")
    path = folder / f"suite-{models}-{decoders}-{seeds}.yaml"
    path.write_text(lines.replace("{name: non-termination}", "{name: non-termination, limit: 1}"), encoding="utf-8")
    return path


def time_median(action: Callable[[], Any], repeats: int) -> float:
    """Return the median time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return median(times)


def main(folder: Path) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer cells and runs, to test the script")
    models, seeds, reported, repeats = (2, 1, 40, 1) if parser.parse_args().quick else (20, 10, 1000, 5)
    rows = []
    path = suite(folder, models, 25, 20)
    title = f"plan of {models * 25 * 20:,} cells"
    rows.append([title, time_median(lambda: plan(load(path), folder), repeats), "2 s"])
    path = suite(folder, 2, 10, seeds)
    run_suite = lambda: bench_core.run(path, store=folder / "store", out=folder / "runs", data=folder)  # noqa: E731
    result = run_suite()
    cells = len(result.cells)
    seconds = time_median(run_suite, repeats)
    rows.append([f"cached cell (run of {cells})", seconds / cells, "0.003 s"])
    many = bench_core.runs.results.Run(
        result.folder, result.suite, result.info, [*result.cells] * (reported // cells), result.sections
    )
    report = f"report of {reported:,} cells"
    rows.append([report, time_median(lambda: write_report(many, folder / "report"), repeats), "1 s"])
    print(tabulate(rows, ["what", "seconds", "budget"], "pipe", floatfmt=".4f"))


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp(prefix="bench-store-"))
    try:
        main(place)
    finally:
        shutil.rmtree(place)
