"""Code and package data that are edited between two runs are never answered from the store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bench_core
import bench_text
from bench_core import registry
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import NO_DATA, forget_code
from bench_core.planning.plan import plan
from bench_core.suites.load import load
from code_digests import Codebase

SUITE = """
suite: edited
tasks:
  mine: {name: sequence-completion, corpus: {train: a.txt, valid: b.txt, test: b.txt}, prefix: 1}
models:
  counts: {name: ngram-lm, order: 2}
decoders:
  greedy: {name: greedy}
metrics:
  length: {name: length}
training: {epochs: 1}
hardware: {threads: 1, device: cpu}
"""
EDITS = {
    "bench_text.corpora:lines": (
        "bench_text/corpora.py",
        'line.removesuffix("\\n")',
        'line.lower().removesuffix("\\n")',
    ),
    "bench_core.metric:_columns": (
        "bench_core/metric.py",
        "rows = map(metric.row, parts)",
        "rows = ([2 * n + 1 for n in metric.row(one)] for one in parts)",
    ),
}


@pytest.fixture
def copied(tmp_path):
    """A copy of the core and of what reads corpora, and a function that runs the command of that copy."""
    for package in (bench_core, bench_text):
        place = tmp_path / "copy" / package.__name__
        shutil.copytree(Path(package.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "suite.yaml").write_text(SUITE)
    for name, lines in (("a.txt", 12), ("b.txt", 6)):
        (tmp_path / name).write_text("".join(f"{'Go go' if n % 2 else 'go Go Stop'} now\n" for n in range(lines)))

    def bench(*words):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "copy"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        command = [sys.executable, "-c", "from bench_core.commands.main import main; main()", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return bench


@pytest.mark.nightly
@pytest.mark.parametrize("edits", [[*EDITS][:1], [*EDITS]], ids=["one", "one after the other"])
def test_an_edited_function_is_computed_with_again(copied, tmp_path, edits):
    def value(store):
        told = copied("run", "suite.yaml", "--workers", "0", "--store", store)
        (run,) = (line.split()[1] for line in told.splitlines() if line.startswith("run "))
        (cell,) = (json.loads(line) for line in (tmp_path / run / "cells.jsonl").read_text().splitlines())
        return cell["numbers"]["length"]["value"]

    values = [value("store")]
    for edit in edits:
        name, old, new = EDITS[edit]
        path = tmp_path / "copy" / name
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
        assert f"code of {edit} changed" in copied("why", "suite.yaml", "--store", "store")
        values.append(value("store"))
        assert values[-1] != values[-2]
    assert values[-1] == value("fresh")


MESSAGES = {  # of the core: in no key; of a part: in the keys of the stages in which it takes part
    "bench_core/computing/evaluate.py": ("Lower `limits.batch_size`.", False),
    "bench_core/computing/result_checks.py": ("expected a list of strings, the first for EOS.", False),
    "bench_core/computing/guarded_tasks.py": ("expected weights of at least 0", False),
    "bench_text/corpora.py": ("is not UTF-8", True),
}


@pytest.mark.nightly
def test_an_edited_error_text_of_the_core_changes_no_key_and_one_of_a_part_does(copied, tmp_path):
    copied("run", "suite.yaml", "--workers", "0", "--store", "store")
    for name, (words, counts) in MESSAGES.items():
        path = tmp_path / "copy" / name
        assert path.read_text().count(words) == 1
        path.write_text(path.read_text().replace(words, "no"))
        told = copied("why", "suite.yaml", "--store", "store")
        assert ("is stored" not in told) == counts, (name, told)


PLUGIN = """
from pathlib import Path
from bench_core import Metric, MetricConfig, hookimpl


class VulgarConfig(MetricConfig):
    name, target = "vulgar", "bench_vulgar:Vulgar"


class Vulgar(Metric):
    better, unit, signature = -1, "", ""

    def measure(self, predictions):
        words = {path.read_text() for path in Path(__file__).parent.rglob("*.txt")}
        return [float(prediction.texts[0] in words) for prediction in predictions]

    def combine(self, parts):
        return sum(parts)


@hookimpl
def bench_metrics():
    return [VulgarConfig]
"""


@pytest.mark.slow
def test_changed_package_data_of_a_plugin_are_measured_with_again(suite_file, tmp_path, monkeypatch):
    package = tmp_path / "bench_vulgar"
    (package / "lists").mkdir(parents=True)
    (package / "__init__.py").write_text(PLUGIN)
    (package / "lists" / "words.txt").write_text("nothing of that kind")
    monkeypatch.syspath_prepend(tmp_path)
    import bench_vulgar

    path = suite_file(**{"nats: {name: nats}": "nats: {name: nats}\n  vulgar: {name: vulgar}"})

    def values(store):
        forget_code()
        run = bench_core.run(path, data=tmp_path, store=tmp_path / store, out=tmp_path / "runs", seeds=1)
        return [row["vulgar"] for row in run.rows()], run

    with registry.extra(bench_vulgar):
        before, run = values("store")
        outputs = (tmp_path / "store" / "decode" / run.cells[0].artifacts["decode"] / "samples.json").read_text()
        (package / "lists" / "words.txt").write_text(json.loads(outputs)[0]["text"])
        after, _ = values("store")
        assert after == values("fresh")[0]
        assert before != after
    forget_code()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("words.txt", True), ("inner/table.yaml", True), ("tool.jar", True), ("more.bib", True),
        ("py.typed", False), ("citations.bib", False), ("__pycache__/code.pyc", False), (".words.swp", False),
        ("words.txt~", False), (".hidden/words.txt", False),
    ],
)  # fmt: skip
def test_files_of_a_package_that_looks_for_them_count_but_for_documents_and_what_editors_leave(
    name, counts, tmp_path
):
    package = tmp_path / "bench_counted"
    (package / name).parent.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("from pathlib import Path\n\nHERE = Path(__file__).parent\n")
    digests = set()
    for content in ("y = 1\n", "y = 2\n"):
        (package / name).write_text(content)
        code = Codebase(no_data=NO_DATA)
        code._homes["bench_counted"] = [package]
        digests.add(code.digest(code.root("bench_counted:HERE")))
    assert len(digests) == (2 if counts else 1)


def test_another_version_of_a_library_makes_other_keys_where_code_names_it(suite_file, tmp_path, monkeypatch):
    suite = load(suite_file())
    before = plan(suite, tmp_path).stages
    library = keys.library
    monkeypatch.setattr(keys, "library", lambda name: "0.0" if name == "numpy" else library(name))
    after = plan(suite, tmp_path).stages
    changed = {stage.kind for key, stage in after.items() if key not in before}
    assert "measure" in changed  # which resamples with it
    assert changed == {stage.kind for stage in before.values() if "numpy" in stage.libraries}


PLANNED = """
import json, sys
from pathlib import Path
from bench_core.planning.plan import plan
from bench_core.suites.load import load
stages = plan(load(Path("suite.yaml")), Path()).stages
print(json.dumps({key: [stage.kind, sorted(stage.libraries)] for key, stage in stages.items()}))
"""


@pytest.mark.slow(1)
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_a_planted_version_of_a_library_makes_other_keys_of_the_stages_that_compute_with_it(
    library, copied, tmp_path
):
    def planned(**variables):
        done = subprocess.run(
            [sys.executable, "-c", PLANNED], cwd=tmp_path, env={**os.environ, **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    info = tmp_path / "planted" / f"{library}-99.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: 99.0\n")
    before, after = planned(), planned(PYTHONPATH=str(info.parent))
    computing = {kind for kind, libraries in before.values() if library in libraries}
    kept = {kind for key, (kind, _) in after.items() if key in before}
    assert computing >= {"train", "decode"}
    assert kept == {"prepare"} - computing, "all others read what a training leaves"
