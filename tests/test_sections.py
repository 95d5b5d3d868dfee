"""A plugin of few lines adds a kind of stages and a section of suites, without a line of the core."""

from __future__ import annotations

import json
from pathlib import Path

import bench_counts
import pytest
from bench_counts import plugin
from bench_small.suites import SUITE
from click.testing import CliRunner

import bench_core
from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.registry import extra
from bench_core.runs.results import read_run
from bench_core.storage.store import Store

LINES = 60


def invoke(*words):
    done = CliRunner().invoke(bench, [*map(str, words)])
    assert done.exception is None, done.output
    return done.output


@pytest.fixture
def go(small, tmp_path, monkeypatch):
    """Return a function that runs the small suite with `counts:`."""
    monkeypatch.chdir(tmp_path)

    def run(counts="{letter: a}", store="store", **changes):
        text = f"{SUITE.strip()}\ncounts: {counts}\n"
        for old, new in changes.items():
            text = text.replace(old, new)
        Path("suite.yaml").write_text(text)
        return bench_core.run("suite.yaml", store=store, out="runs", workers=0)

    with extra(plugin):
        yield run


def test_the_plugin_is_small():
    files = Path(bench_counts.__file__).parent.glob("*.py")
    code = [line for path in files for line in path.read_text().splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= LINES


def counts(run):
    return json.loads((run.folder / "counts.json").read_text())


def test_its_stages_are_planned_performed_and_reused(go):
    run = go()
    assert {cell.status for cell in run.cells} == {"done"}
    assert all("count/a" in cell.artifacts for cell in run.cells)
    assert all(0 <= one["number"] <= one["examples"] for one in counts(run).values())
    assert "count" in invoke("plan", "suite.yaml", "--store", "store")
    assert counts(go()) == counts(run)
    assert counts(go("{letter: b}")).keys().isdisjoint(counts(run))


def test_its_part_of_a_suite_is_checked(go):
    with pytest.raises(SuiteError, match=r"suite.yaml:\d+:\d+: .*letter"):
        go("{leter: a}")
    Path("suite.yaml").write_text(f"{SUITE.strip()}\ncount: {{letter: a}}\n")
    assert "count" in invoke("check", "suite.yaml")


def test_its_files_are_verified_exported_imported_and_merged(go):
    run = go()
    assert "no contradictions" in invoke("verify", run.folder, "--store", "store")
    invoke("export", run.folder, "--store", "store", "-o", "run.zip")
    invoke("import", "run.zip", "--store", "away", "--runs", "imported")
    (folder,) = Path("imported").iterdir()
    assert counts(read_run(folder)) == counts(run)
    assert "no contradictions" in invoke("verify", folder, "--store", "away")
    assert all(Store(Path("away")).has("counted", key) for key in counts(run))
    other = go(**{"seeds: 2": "seeds: [7]"})
    invoke("merge", run.folder, other.folder, "--runs", "merged", "--out", "reports")
    (merged,) = Path("merged").iterdir()
    assert counts(read_run(merged)) == counts(run) | counts(other)
    assert "no contradictions" in invoke("verify", merged, "--store", "store")


def test_an_edited_file_of_it_is_seen(go):
    run = go()
    edited = {key: {**one, "number": one["number"] + 1} for key, one in counts(run).items()}
    (run.folder / "counts.json").write_text(json.dumps(edited))
    assert "is not as in the store" in invoke("verify", run.folder, "--store", "store")


def test_a_run_is_read_where_the_plugin_is_not_installed(go):
    folder = go().folder
    with extra():
        pass
    module = plugin
    bench_core.registry.installed().manager.unregister(module)
    try:
        bench_core.registry._forget_caches()
        assert {cell.status for cell in read_run(folder).cells} == {"done"}
    finally:
        bench_core.registry.installed().manager.register(module, module.__name__)
