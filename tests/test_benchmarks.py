"""Benchmarks run: the brief ones in continuous integration, all of them every night."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
BRIEF = {"startup"}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_all_that_it_imports_is_there(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    assert callable(runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))["main"])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in BRIEF else pytest.mark.nightly) for name in BENCHMARKS],
)
def test_a_quick_look_prints_every_table(name):
    done = subprocess.run(
        [sys.executable, f"benchmarks/{name}.py", "--quick"],
        cwd=ROOT, capture_output=True, encoding="utf-8", env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("|-") + done.stdout.count("|:") > 2
    assert "nan" not in done.stdout


def test_make_bench_runs_every_benchmark():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "for file in benchmarks/*.py; do" in makefile
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == {*BENCHMARKS}
