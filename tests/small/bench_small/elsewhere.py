"""The small plugin in other processes, and what two runs of a suite must have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bench_small.plugin
from bench_core import registry
from bench_reports.render.report import write_report
from bench_small.suites import SUITE

ONE_OF_EACH = SUITE.replace("  two: {name: bigram, scale: 2.0}\n", "").replace("  draw: {name: draw}\n", "").replace(
    "seeds: 2", "seeds: 1"
)  # fmt: skip


@contextmanager
def everywhere(folder: Path) -> Iterator[None]:
    """Install the small plugin here, and for all processes that are started meanwhile."""
    about = folder / "bench_small-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: bench_small\nVersion: 0\nRequires-Dist: bench-core\n"
    )
    (about / "entry_points.txt").write_text("[bench]\nsmall = bench_small.plugin\n")
    path = os.pathsep.join([str(folder), str(Path(__file__).parent.parent)])
    with pytest.MonkeyPatch.context() as patch, registry.extra(bench_small.plugin):
        patch.setenv("PYTHONPATH", path)
        yield


def report(folder: Path, run) -> dict[str, bytes]:
    """Return what a run reports, less what it cost."""
    assert [cell.reason for cell in run.cells if cell.status != "done"] == []
    write_report(run, folder)
    return {name: (folder / name).read_bytes() for name in ("report.md", "report.tex", "results.json")}
