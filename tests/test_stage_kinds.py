"""Plugins add kinds of stages; modules that perform stages can move to another package without a change of keys."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import sys
import types
from pathlib import Path

import pytest

import bench_core
import bench_training
from bench_core import hookimpl
from bench_core.computing.stage_runner import StageRunner
from bench_core.errors import PluginError
from bench_core.execution.performing import perform
from bench_core.planning.code_digests import code_digests, is_followed, roots_of_stage
from bench_core.planning.plan import plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.registry import extra, stage_kind, stage_kinds
from bench_core.stage_kinds import StageKind
from bench_core.storage.contents import records, reported_files
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_exchange.artifact_files import carried
from code_digests import Codebase, CodeDigests, Definition

HERE = bench_training.__name__
AUDIT = StageKind(
    "audit", "bench_audit:audit", needs_torch=False, files=("audit.json",), record="audited", action="bench_audit:action",
    stored="bench_audit:stored",
)  # fmt: skip


@pytest.fixture
def audits(monkeypatch):
    """A plugin with a kind of stages of its own; what it heard once an artifact was safe."""
    module, heard = types.ModuleType("bench_audit"), []

    def audit(context, stage, folder):
        (folder / "audit.json").write_text(f"{stage.settings['words']}")
        (folder / "large.txt").write_text("aaa")
        return {"words": 3}

    @hookimpl
    def bench_stage_kinds(known):
        assert {"prepare", "initial", "measure"} <= {*known}
        return [AUDIT]

    module.audit, module.action, module.bench_stage_kinds = audit, lambda stage: "audit with care", bench_stage_kinds
    module.stored = lambda store, stage: heard.append((stage.key, store.has("audit", stage.key)))
    monkeypatch.setitem(sys.modules, "bench_audit", module)
    with extra(module):
        yield heard


def test_a_kind_of_a_plugin_is_performed_stored_and_carried_like_those_of_the_core(audits, tmp_path):
    stage = Stage("audit", "a" * 64, {"words": 7}, {}, "words", {}, {}, {})
    store = Store(tmp_path / "store")
    perform(StageRunner(store, tmp_path), StageRequest(stage))
    assert store.get("audit", stage.key).file("audit.json").read_text() == "7"
    assert store.get("audit", stage.key).manifest["cost"]["words"] == 3
    assert audits == [(stage.key, True)]
    assert (stage.action, stage.about, stage.is_extracted) == ("audit with care", AUDIT, False)
    assert carried()["audited"] == reported_files("audit") == ("audit.json",)
    assert records()["audit"] == "audited"
    assert [*stage_kinds()] == [
        "prepare",
        "vmapped",
        "initial",
        "train",
        "decode",
        "score",
        "measure",
        "probe",
        "audit",
    ]


def test_stages_of_a_plugin_that_is_not_installed_are_refused_with_the_reason():
    with pytest.raises(PluginError, match=r"no installed distribution provides the stage kind 'trian'. .*'train'"):
        stage_kind("trian")


def test_two_plugins_with_a_kind_of_the_same_name_are_refused(audits):
    module = types.ModuleType("bench_other")
    module.bench_stage_kinds = hookimpl(specname="bench_stage_kinds")(lambda known: [AUDIT])
    with extra(module), pytest.raises(PluginError, match="two plugins add the stage kind 'audit'"):
        stage_kinds()


def test_a_stage_that_takes_its_artifact_from_a_joint_one_costs_nothing_itself(suite_file, tmp_path):
    found = plan(
        load(suite_file(**{"training: {": "training: {vmap_seeds: true, ", "seeds: 1": "seeds: 2"})), tmp_path
    )
    taken = {kind: {one.is_extracted for one in found.stages.values() if one.kind == kind} for kind in stage_kinds()}
    assert taken["vmapped"] == taken["decode"] == {False}
    assert taken["train"] == {True}


def test_no_key_changes_when_modules_of_training_move_to_a_package_of_their_own(tmp_path, monkeypatch):
    def moved(name):
        return name.replace(HERE, "bench_moved")

    shutil.copytree(
        Path(bench_training.__file__).parent, tmp_path / "bench_moved", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path in (tmp_path / "bench_moved").glob("*.py"):
        path.write_text(moved(path.read_text()))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    before = code_digests()
    code = before.code
    after = CodeDigests(Codebase(
        lambda module: is_followed(module.replace("bench_moved", HERE)),
        code.installed | {"bench_moved"}, code.silent | {"bench_moved"}, content=code.content, no_data=code.no_data,
        lookups=frozenset(Definition(moved(one.module), one.name) for one in code.lookups), always=code.always,
    ))  # fmt: skip
    for kind in ("train", "vmapped"):
        old = roots_of_stage(kind)
        new = tuple(map(moved, old))
        assert old != new
        assert before.of_parts({kind: old}) == after.of_parts({kind: new})


def compared(tree):
    """Yield the comparisons of something that is called a kind with the name of a kind of stages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            texts = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
            if texts & {*stage_kinds()} and re.search(r"\bkinds?\b", ast.unparse(node)):
                yield ast.unparse(node)


#: What the files of runs call stages, which are read also where nothing installed performs these.
FORMATS = {"provenance.py", "cell_predictions.py"}


@pytest.mark.parametrize("path", sorted(Path(bench_core.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_of_the_core_compares_kinds_of_stages_with_their_names(path):
    found = [*compared(ast.parse(path.read_text()))]
    assert found == [] or path.name in FORMATS


def test_a_comparison_with_the_name_of_a_kind_is_seen():
    text = "if stage.kind == 'train': pass\nif kind in ('score', 'x'): pass\nif split == 'train': pass"
    assert [*compared(ast.parse(text))] == ["stage.kind == 'train'", "kind in ('score', 'x')"]
