"""Benchmarks run: the brief ones in continuous integration, all of them every night."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
BRIEF = {"startup"}


def script(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))


def resolve(node, names):
    """Return the value of an expression such as `module.name`, given global `names`; None if it is of another kind."""
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        return getattr(owner, node.attr) if isinstance(owner, ModuleType) else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def unresolved(tree, names):
    """Yield the imports anywhere in a script, and the attributes of its modules, that do not exist."""
    for node in ast.walk(tree):
        try:
            if isinstance(node, ast.ImportFrom):
                names = {alias.name: getattr(import_module(node.module), alias.name) for alias in node.names} | names
            resolve(node, names)
        except (AttributeError, ImportError) as error:
            yield f"line {node.lineno}: {error}"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_names_that_it_imports_or_uses_of_modules_exist(name, monkeypatch):
    names = script(name, monkeypatch)
    assert callable(names["main"])
    assert [*unresolved(ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")), names)] == []


@pytest.mark.parametrize("line", ["def f(): from bench_core.execution.executor import observe", "executor.observe"])
def test_a_name_that_has_moved_is_noticed(line):
    names = {"executor": import_module("bench_core.execution.executor")}
    (text,) = unresolved(ast.parse(line), names)
    assert "observe" in text


def test_guards_that_stages_are_measured_without_exist(monkeypatch):
    for way in script("stages", monkeypatch)["WAYS"].values():
        with way():  # patches names, which must exist
            pass


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
