"""All code that executes in a stage is in the key of its artifact: of the core, and of every plugin."""

from __future__ import annotations

import ast
import random
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench_small import plugin
from bench_small.mutation import Drill, try_mutants
from cpu_seconds import UsageClock

from bench_authors.testing.executed_code import TracedExecution, recorded, uncovered_code
from bench_core import registry
from bench_core.planning.code_digests import carrying, code_digests
from bench_core.planning.plan import plan
from bench_core.runs.runner import run
from bench_core.suites.load import load
from code_digests import CodeDigests

FOR_ONE_RELEASE = "bench_core.testing"  # old names of another distribution, which no stage executes
SUITES = sorted((Path(__file__).parent / "traced").glob("*.yaml"))
MUTANTS = 15  #: of each suite
MOST, MOST_OTHERS = 0.18, 0.11  #: shares of needless stages; measured were 0.15 and 0.09

VMAPPED = """
suite: traced/together
tasks:
  words: {name: letters}
models:
  one: {name: bigram, training: {vmap_seeds: true}}
decoders:
  draw: {name: draw}
metrics:
  ended: {name: ended}
  nats: {name: nats}
seeds: 2
training: {updates: 2, batch_size: 8}
limits: {max_tokens: 6}
hardware: {threads: 1, device: cpu}
"""


def executed(suite, folder):
    """Run a suite; return the code that executed in its stages."""
    (folder / "lines.source").write_text("call f with x .\nreturn y .\nadd 1 to z .\n" * 4)
    (folder / "lines.target").write_text("f(x)\nreturn y\nz + 1\n" * 4)
    execution = TracedExecution()
    with recorded(execution):
        found = run(suite, data=folder, store=folder / "store", out=folder / "runs", workers=0)
    assert {(cell.status, cell.reason) for cell in found.cells} == {("done", "")}
    return execution


@pytest.fixture(autouse=True)
def untimed(monkeypatch):
    """Leave out the clock by which the imports of tests are timed: it executes in the midst of stages."""
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, UsageClock)])


@pytest.mark.slow(1)
@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_all_code_that_executes_in_a_stage_is_in_its_key_and_changes_it_when_it_changes(suite, tmp_path):
    execution = executed(suite, tmp_path)
    assert ("probe" in {stage.kind for stage in execution.stages.values()}) == (suite.stem == "recurrent")
    assert execution.uncovered() == {}
    drill = Drill.of(execution)
    rates = try_mutants(drill, drill.functions(), MUTANTS, random.Random(suite.stem))
    print(f"{suite.stem}: {rates}")
    assert rates.missed == []
    assert rates.mutants == MUTANTS


@pytest.mark.slow
def test_so_is_the_code_of_joint_trainings(tmp_path):
    (tmp_path / "suite.yaml").write_text(VMAPPED)
    with registry.extra(plugin):
        execution = executed(tmp_path / "suite.yaml", tmp_path)
        assert "vmapped" in {stage.kind for stage in execution.stages.values()}
        assert execution.uncovered() == {}
        drill = Drill.of(execution)
        rates = try_mutants(drill, drill.functions(), MUTANTS, random.Random(1))
    assert rates.missed == []


@pytest.mark.nightly
def test_no_mutant_of_any_function_that_executes_is_missed_and_few_stages_are_computed_needlessly(tmp_path):
    """Of all suites together; a stage counts as needless if the function did not execute there in these runs."""
    execution = TracedExecution()
    for suite in SUITES:
        (tmp_path / suite.stem).mkdir()
        one = executed(suite, tmp_path / suite.stem)
        execution.stages |= one.stages
        execution.code |= one.code
    drill = Drill.of(execution)
    rates = try_mutants(drill, drill.functions(), None, random.Random(1))
    print(rates)
    assert rates.missed == []
    assert rates.needless / rates.others <= MOST
    others = try_mutants(drill, drill.others(), 300, random.Random(1))
    print("not executed:", others)
    assert others.needless / others.others <= MOST_OTHERS


HIDING = """
from importlib import import_module

from bench_core import Metric, MetricConfig, hookimpl


class HidingConfig(MetricConfig):
    name, target = "hiding", "bench_hiding:Hiding"


class Hiding(Metric):
    better, unit, signature = -1, "", ""

    def measure(self, predictions):
        return [import_module("bench_" + "hidden").number() for _ in predictions]

    def combine(self, parts):
        return sum(parts)


@hookimpl
def bench_metrics():
    return [HidingConfig]
"""


@pytest.mark.slow
def test_code_of_another_package_that_is_found_by_a_computed_name_is_reported(suite_file, tmp_path, monkeypatch):
    (tmp_path / "bench_hiding.py").write_text(HIDING)
    (tmp_path / "bench_hidden.py").write_text("def number():\n    return _one() + 1\n\n\ndef _one():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import bench_hiding

    path = suite_file(**{"nats: {name: nats}": "nats: {name: nats}\n  hidden: {name: hiding}"})
    with registry.extra(bench_hiding):
        found = uncovered_code(path, tmp_path, seeds=1, data=tmp_path)
    assert found == {"bench_hidden:number": {"measure"}, "bench_hidden:_one": {"measure"}}
    for name in ("bench_hiding", "bench_hidden"):
        sys.modules.pop(name)


@pytest.mark.slow
def test_code_that_is_missing_in_a_closure_is_reported(suite_file, tmp_path, monkeypatch):
    closure = CodeDigests.closure
    lost = {"bench_core.metric:_sum", "bench_core.computing.process_state:_seed", "bench_small.parts:_steps"}
    monkeypatch.delitem(vars(code_digests()), "closure", raising=False)  # what is known by now
    monkeypatch.setattr(
        CodeDigests,
        "closure",
        lambda self, roots: frozenset(one for one in closure(self, roots) if str(one) not in lost),
    )
    found = uncovered_code(suite_file(), tmp_path, seeds=1, data=tmp_path)
    assert "bench_core.computing.process_state:_seed" in found
    assert found["bench_core.computing.process_state:_seed"] == {"prepare", "train", "decode", "score", "measure"}
    assert {*found} <= lost


@pytest.fixture(scope="module")
def keys():
    """Return a function that gives the keys of the stages of all suites under changed sources."""
    suites = [load(path) for path in SUITES if path.stem != "code"]  # which needs files
    before = code_digests()
    stages = [stage for suite in suites for stage in plan(suite, Path()).stages.values()]
    roots = {tuple(sorted(stage.roots.items())) for stage in stages}
    drill = Drill(before)
    drill.executed |= {one: set() for one in roots}
    drill.keys = drill._keys(before)
    return drill


def _without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _without_annotations(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
            node.returns = node.returns if "Fault" in ast.unparse(node.returns or node.args) else None
            for one in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]:
                one.annotation = None
    return tree


def _reordered(tree):
    """Put functions, which may name each other, in another order."""
    places = [
        place for place, one in enumerate(tree.body) if isinstance(one, ast.FunctionDef) and not one.decorator_list
    ]
    nodes = [tree.body[place] for place in reversed(places)]
    for place, node in zip(places, nodes, strict=True):
        tree.body[place] = node
    return tree


def _imports_reversed(tree):
    places = [place for place, one in enumerate(tree.body) if isinstance(one, ast.Import | ast.ImportFrom)]
    places = [place for place in places if getattr(tree.body[place], "module", "") != "__future__"]
    for place, node in zip(places, [tree.body[place] for place in reversed(places)], strict=True):
        tree.body[place] = node
    return tree


class _InFunctions(ast.NodeTransformer):
    """Adds `pass` to functions, and annotations to their variables."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = [*map(_annotated, node.body), ast.Pass()]
        return node


def _annotated(one):
    if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
        return ast.AnnAssign(one.targets[0], ast.Name("object", ast.Load()), one.value, simple=1)
    return one


UNUSED = "\n\nimport statistics as nobodys_module\n\nNOBODYS = 3\n\ndef nobodys(x):\n    return NOBODYS + x\n\nclass Nobodys:\n    x = nobodys(3)\n"
HARMLESS = {
    "layout and comments": lambda text: ast.unparse(ast.parse(text)),
    "docstrings": lambda text: ast.unparse(_without_docstrings(ast.parse(text))),
    "annotations of functions": lambda text: ast.unparse(_without_annotations(ast.parse(text))),
    "the order of functions": lambda text: ast.unparse(_reordered(ast.parse(text))),
    "what nobody uses": lambda text: text + UNUSED,
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "comments for type checkers": lambda text: f"#!/usr/bin/env python\n{text}".replace("\n\n", "  # type: ignore\n\n", 1),
    "the order of imports": lambda text: ast.unparse(_imports_reversed(ast.parse(text))),
    "variables with annotations, and passes": lambda text: ast.unparse(_InFunctions().visit(ast.parse(text))),
    "imports for type checkers": lambda text: text + "\n\nimport typing\nif typing.TYPE_CHECKING:\n    from nowhere import T\n",
    "what a program does": lambda text: text + "\n\nif __name__ == '__main__':\n    print(1)\n",
}  # fmt: skip


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("what", HARMLESS)
def test_a_change_that_cannot_matter_in_every_file_leaves_every_key_alone(keys, what):
    changed = keys.changed(lambda path, text: HARMLESS[what](text))
    if "annotations" in what:  # which `inspect.signature` tells of
        changed = {roots for roots in changed if "model hf-causal-lm" not in dict(roots)}
    assert changed == set()


#: Definitions of the core with texts of several words that are in keys: they are warnings, labels, and names of settings.
WITH_WORDS = {
    "evaluate:Examples", "memory_errors:is_out_of_memory", "isolation:apart", "process_state:",
    "checkpoint:Checkpoints", "compilation:CompiledLoss", "vmapped:JointTrainer", "host_copies:cached_on_host",
    "training:TrainingConfig",
}  # fmt: skip


class _OtherWords(ast.NodeTransformer):
    """Changes every text of several words, whether it stands in an error or makes a part of one elsewhere."""

    def visit_Constant(self, node):
        words = isinstance(node.value, str) and " " in node.value.strip()
        return ast.Constant(f"{node.value} indeed") if words else node


def _other_words(path, text):
    if "bench_core" not in path.parts or "testing" in path.parts:
        return text
    tree = ast.parse(text)
    for place, one in enumerate(tree.body):
        names = [
            getattr(one, "name", ""),
            *(target.id for target in getattr(one, "targets", ()) if isinstance(target, ast.Name)),
        ]
        if not any(f"{path.stem}:{name}".startswith(known) for name in names for known in WITH_WORDS):
            tree.body[place] = _OtherWords().visit(one)
    return ast.unparse(tree)


class _OtherMessages(_OtherWords):
    """Changes texts in `raise` alone."""

    def visit_Raise(self, node):
        return _OtherWords().visit(node)

    def visit_Constant(self, node):
        return node


def _other_messages(of_core):
    def change(path, text):
        if ("bench_core" in path.parts) != of_core:
            return text
        return ast.unparse(_OtherMessages().visit(ast.parse(text)))

    return change


def test_no_text_of_an_error_of_the_core_is_in_a_key(keys):
    assert keys.changed(_other_messages(of_core=True)) == set()


def test_no_words_of_the_core_that_become_a_part_of_an_error_are_in_a_key(keys):
    assert keys.changed(_other_words) == set()


@pytest.mark.slow
def test_the_texts_of_the_errors_of_parts_are_in_their_keys(keys):
    changed = keys.changed(_other_messages(of_core=False))
    having = {
        roots for roots in keys.keys
        for place in frozenset().union(*(keys.digests.closure(one) for _, one in roots))
        if not place.module.startswith("bench_core.") and _raises(keys.digests.code.module(place.module), place.name)
    }  # fmt: skip
    assert having
    assert changed == having


def _raises(module, name):
    return any(
        isinstance(node, ast.Raise) and any(isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip() for part in ast.walk(node))
        for one in (module.bound.get(name, ()) if module else ()) for node in ast.walk(one)
    )  # fmt: skip


#: Code that decides by the text of an error.
DECIDING = re.compile(
    r"(?s)re\.\w+\(.*str\(error\)|str\(error\)(\.(startswith|endswith|find|count)\(| (==|!=|in) )|.* in str\(error\)$"
)


@pytest.mark.slow
def test_no_handler_of_the_core_decides_by_the_text_of_an_error_of_the_core():
    """Handlers re-raise, quote and report; one looks at a text, of errors of a class that the core never raises."""
    code = code_digests().code
    reading, raised = set(), set()
    for name in code.modules_of("bench_core"):
        module = code.module(name)
        if module is None or name.startswith("bench_authors.testing"):
            continue
        tree = ast.parse(module.path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare | ast.Call) and DECIDING.match(ast.unparse(node)):
                reading.add(name)
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                raised.add(ast.unparse(node.exc.func))
    assert reading == {"bench_core.computing.memory_errors"}
    assert "RuntimeError" not in raised


def _with_statements(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.insert(ast.get_docstring(node) is not None, ast.parse("not None").body[0])
    return tree


@pytest.mark.slow
def test_a_statement_in_every_function_changes_every_key(keys):
    assert keys.changed(lambda path, text: ast.unparse(_with_statements(ast.parse(text)))) == {*keys.keys}


def test_the_modules_that_only_carry_bytes_exist_and_are_no_others_than_are_listed():
    for module in carrying():
        assert find_spec(module), module


@pytest.mark.slow
def test_names_that_a_module_gives_when_it_is_asked_are_those_that_type_checkers_see():
    """As these are followed."""
    code, faces = code_digests().code, []
    for top in sorted({"bench_core", *(name.partition(".")[0] for name in code.always)}):
        for name in code.modules_of(top):
            module = code.module(name)
            if "__getattr__" in module.bound and name != FOR_ONE_RELEASE:
                faces.append(name)
                for given, (target,) in module.lazy.items():
                    source, _, inner = target.partition(":")
                    assert getattr(import_module(name), given) is getattr(import_module(source), inner), (name, given)
                assert {*import_module(name).__all__} <= {*module.lazy, *module.bound, *module.imports}
    assert {"bench_core", "bench_core.kit", "bench_text.api"} <= {*faces}


def test_which_of_our_distributions_are_installed_is_in_no_key():
    """What a plugin does when it is imported would be: it could change all results."""
    code = code_digests().code
    assert len(code.always) > 15
    assert {name: found for name in code.always if (found := [*code.effective(name)])} == {}
