"""All code that executes in a stage is in its key, but for what only carries bytes and orders."""

from __future__ import annotations

import ast
import sys
import threading
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import bench_core
from bench_core.computing import stage_runner
from bench_core.planning import cache_keys as keys

#: Modules that execute in stages and decide no number, and what they do there.
CARRYING = {
    "bench_core": "imports what is asked of it",
    "bench_core.errors": "names of errors",
    "bench_core.files": "digests of files",
    "bench_core.registry": "finds parts by their names",
    "bench_core.execution.executor": "orders, and clocks",
    "bench_core.planning.stages": "the dataclasses of a stage and of an order",
    "bench_core.planning": "is empty",
    "bench_core.execution.progress": "progress",
    "bench_core.storage.file_formats": "refuses damaged files",
    "bench_core.storage.artifact": "reads and writes artifacts",
    "bench_core.storage.contents": "which files artifacts have",
    "bench_core.planning.path_settings": "puts places for digests",
    "bench_core.planning.cache_keys": "makes keys",
    "bench_core.storage.locks": "locks",
    "bench_core.storage.store": "reads and writes artifacts",
    "bench_core.storage.garbage": "finds artifacts",
    "bench_core.suites": "is empty",
    "bench_core.execution": "is empty",
    "bench_core.runs": "is empty",
    "bench_core.storage": "is empty",
}

LETTERS = """
suite: traced
tasks:
  sentences: {name: sequence-completion, corpus: {name: english, sentences: 60}, prefix: 2}
models:
  st: {name: self-terminating-rnn-lm, hidden: 8, embedding: 8}
  rnn: {name: rnn-lm, hidden: 8, training: {select: {metric: ended, decoder: greedy}}}
decoders:
  greedy: {name: greedy}
  nucleus: {name: nucleus, mass: 0.5}
metrics:
  ended: {name: non-termination}
  fit: {name: perplexity}
  bleu: {name: bleu}
training:
  batch_size: 8
  evaluate_every: 2
  schedule: linear
  clip: 1.0
  phases: [{updates: 2}, {updates: 2, lr: 0.5}]
  select: {metric: fit}
limits: {max_tokens: 6, examples: 8, scored: 8}
hardware: {threads: 1, device: cpu}
"""
PAIRS = """
suite: traced
tasks:
  art: {name: translation, corpus: {name: invented, sentences: 40}, tokenizer: {kind: word}}
models:
  rnn: {name: rnn-seq2seq, hidden: 8}
decoders:
  beam: {name: beam, width: 2}
metrics:
  chrf: {name: chrf}
training: {updates: 2, batch_size: 8}
limits: {max_tokens: 6, examples: 8, scored: 8}
hardware: {threads: 1, device: cpu}
"""
TOGETHER = """
suite: traced
tasks:
  words: {name: letters, file: words.txt}
models:
  one: {name: bigram, training: {together: true}}
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


@pytest.fixture(scope="module")
def executed():
    """The modules that execute in every stage of some suites, by the kind of stage, and the stages."""
    from bench_small import plugin

    from bench_core import registry

    found = defaultdict(set)

    def traced(work):
        def perform(self, stage, folder):
            def note(frame, event, arg):
                found[stage.kind, stage.key].add(frame.f_globals.get("__name__", ""))

            self.kept.clear()  # as in a process of its own
            sys.setprofile(note)
            threading.setprofile(note)
            try:
                return work(self, stage, folder)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

        return perform

    with pytest.MonkeyPatch.context() as patch, registry.extra(plugin):
        work_of = stage_runner.work_of
        patch.setattr(stage_runner, "work_of", lambda kind: traced(work_of(kind)))
        # what defines the state of the process is not part of the work
        patch.setattr("bench_core.computing.building.unchanged_state", nullcontext)
        yield found, {}


@pytest.fixture(scope="module")
def stages(executed, tmp_path_factory):
    from bench_core.planning.plan import plan
    from bench_core.suites.load import load

    found, planned = executed
    for number, text in enumerate((LETTERS, PAIRS, TOGETHER)):
        folder = tmp_path_factory.mktemp(f"traced-{number}")
        (folder / "suite.yaml").write_text(text)
        (folder / "words.txt").write_text("ab abc b ba")
        run = bench_core.run(folder / "suite.yaml", data=folder, store=folder / "store", out=folder / "runs")
        assert {(cell.status, cell.reason) for cell in run.cells} == {("done", "")}
        planned |= plan(load(folder / "suite.yaml"), folder).stages
    assert {kind for kind, _ in found} == {
        "prepare", "together", "train", "decode", "score", "measure", "probe",
    }  # fmt: skip
    return {key: (planned[key], modules) for (_, key), modules in found.items()}


def in_core_key(module):
    path = "/".join(module.split(".")[1:])
    return path.startswith(("computing", "kit")) or f"{path}.py" in keys.COMPUTING


def test_every_module_of_the_core_that_executes_in_a_stage_is_in_its_key_or_only_carries(stages):
    executed = {name for _, modules in stages.values() for name in modules if name.partition(".")[0] == "bench_core"}
    assert {"bench_core.metric", "bench_core.data", "bench_core.task"} <= executed
    assert {name for name in executed if not in_core_key(name)} <= {*CARRYING}


def test_every_distribution_whose_code_executes_in_a_stage_is_in_its_key(stages):
    owners = {package: name for name, package in keys._plugin_packages().items()}
    for stage, modules in stages.values():
        packages = {name.partition(".")[0] for name in modules if name.startswith("bench_")} - {"bench_core"}
        named = {owners[package] for package in packages}
        assert named <= {canonicalize_name(name) for name in stage.ingredients["code"]}, stage.label


def test_numpy_and_torch_are_in_the_key_of_every_stage_in_which_they_execute(stages):
    for stage, modules in stages.values():
        used = {name.partition(".")[0] for name in modules} & {"numpy", "torch"}
        assert used <= {*stage.ingredients["libraries"]}, stage.label


def test_what_is_in_the_key_of_the_core_builds_on_nothing_of_the_core_that_is_not():
    home = Path(bench_core.__file__).parent
    inside = [
        *(home / name for name in keys.COMPUTING if name.endswith(".py")),
        *(home / "computing").glob("*.py"),
        *(home / "kit").glob("*.py"),
    ]
    outside = {
        f"{path.name}: {name}"
        for path in inside
        for name in imported(path)
        if name.partition(".")[0] == "bench_core" and not in_core_key(name) and name not in CARRYING
    }
    assert not outside


def imported(path):
    """Yield the modules that a file imports, but for those that only type checkers see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) not in unseen and isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{one.name}" for one in node.names]
            folder = Path(bench_core.__file__).parent.parent.joinpath(*node.module.split("."))
            modules = [name for name in inner if (folder / f"{name.rpartition('.')[2]}.py").is_file()]
            yield from modules or [node.module]
