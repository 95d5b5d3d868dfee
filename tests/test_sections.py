"""A plugin of few lines adds a kind of stages and a section of suites, without a line of the core."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import bench_counts
import pytest
from bench_counts import plugin
from bench_small.suites import SUITE
from click.testing import CliRunner
from pydantic import create_model

import bench_core
from bench_core.commands.main import bench
from bench_core.errors import PluginError, SuiteError
from bench_core.registry import extra
from bench_core.runs.results import read_run
from bench_core.runs.run_suite import suite_of
from bench_core.sections import CellStage
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


def section_of(name, members):
    """Return a plugin with one section."""
    module = ModuleType(f"bench_{name}")
    found = type(name, (bench_core.Section,), members)()
    module.bench_sections = bench_core.hookimpl(specname="bench_sections")(lambda api: [found])
    return module


@pytest.mark.parametrize("key", ["tables", "training", "counts"])
def test_a_key_that_the_core_or_another_plugin_has_is_refused(go, key, monkeypatch):
    fields: dict[str, Any] = {key: (plugin.Counts | None, None)}
    monkeypatch.setattr(plugin, f"Other{key}", create_model("Other", **fields), raising=False)
    other = section_of("Other", {"schema": f"bench_counts.plugin:Other{key}"})
    with (
        extra(other),
        pytest.raises(PluginError, match=f"the section '{key}', which (the core|another plugin) defines"),
    ):
        go()


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (
            CellStage("count", "a", {"letter": "a"}),
            "Section adds the stage count/a, which|Other adds the stage count/a, which",
        ),
        (
            CellStage("count", "b", {"letter": "b"}, "score/nothing"),
            "count/b reads score/nothing, but the cell only has prep",
        ),
        (CellStage("recount", "b", {}), "nothing installed performs stages of the kind 'recount'"),
    ],
)
def test_stages_that_cannot_be_are_refused_by_name(go, stage, told):
    other = section_of("Other", {"stages": lambda self, suite, cell: [stage]})
    with extra(other), pytest.raises(PluginError, match=told):
        go()


def test_a_run_is_written_also_where_a_section_fails_which_is_named(go):
    def keep(self, run, store):
        raise ValueError("no such thing")

    with extra(section_of("Other", {"keep": keep})):
        run = go()
    assert "Other could not add its files to" in (run.folder / "log").read_text()
    assert {cell.status for cell in run.cells} == {"done"}
    assert "no contradictions" in invoke("verify", run.folder, "--store", "store")


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


def test_a_run_that_was_written_without_reports_is_read_with_them(go):
    folder = go().folder
    (folder / "published.json").unlink()
    assert read_run(folder).sections["published"] == {}


def test_the_suite_of_a_run_keeps_what_stages_depend_on(go):
    suite = suite_of(go().folder)
    assert suite.sections["counts"].letter == "a"
    assert suite.sections["tables"] == []
