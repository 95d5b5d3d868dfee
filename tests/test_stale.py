"""Numbers are of the files and the code that are there: what changed is read again, or refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import bench_small.listed
import pytest

import bench_core
from bench_core import DataError, registry
from bench_core.execution.executor import InProcess
from bench_core.planning.plan import plan
from bench_core.suites.load import load

FILES = """
suite: files
tasks:
  words: {name: filed, file: train.txt}
models:
  one: {name: weighted, start: start.txt}
decoders:
  cut: {name: cut, length: length.txt}
metrics:
  listed: {name: listed, words: words.txt}
training: {epochs: 2, lr: 0.1, batch_size: 8}
hardware: {threads: 1, device: cpu}
limits: {max_tokens: 6}
"""
CONTENTS = {
    "train.txt": "ab abc abd b ba " * 6,
    "start.txt": "0.5",
    "length.txt": "3",
    "words.txt": "b c",
    "w.txt": "b",
}


@pytest.fixture
def files(suite_file, tmp_path, monkeypatch):
    """Write the suite and its files, and return a function that runs it and returns its only number."""
    monkeypatch.chdir(tmp_path)
    for name, content in CONTENTS.items():
        (tmp_path / name).write_text(content)
    path = suite_file(FILES)

    def value(*settings, store="store"):
        run = bench_core.run(path, settings=settings, data=tmp_path, store=store, out="runs")
        (cell,) = run.cells
        return cell.numbers["listed"].value if cell.status == "done" else cell.reason

    with registry.extra(bench_small.listed):
        yield value


def keys(*settings):
    found = plan(load(Path("suite.yaml"), settings=settings), Path.cwd())
    return {stage.kind: stage.key for stage in found.stages.values()}


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("train.txt", "b c d cc", "prepare"),
        ("start.txt", "-2.5", "train"),
        ("length.txt", "1", "decode"),
        ("words.txt", "x y", "measure"),
    ],
)
def test_a_changed_file_of_any_kind_of_part_ends_with_the_number_of_a_fresh_store(files, name, content, first):
    before, old = files(), {**keys()}
    Path(name).write_text(content)
    kinds = ["prepare", "train", "decode", "measure"]
    changed = {kind for kind, key in keys().items() if key != old[kind]}
    assert changed == {*kinds[kinds.index(first) :]}
    assert files() == files(store="fresh")
    Path(name).write_text(CONTENTS[name])
    assert files() == before


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize(
    "setting",
    [
        "metrics.listed.lists={one: w.txt}",
        "metrics.listed.lists={many: [words.txt, w.txt]}",
        "metrics.listed.lists={named: {a: 3, b: w.txt}}",
        "metrics.listed.pairs=[[a, w.txt]]",
    ],
)
def test_a_path_is_digested_however_deep_it_stands(files, setting):
    before = files(setting)
    Path("w.txt").write_text(" ".join("abcd"[a] + "abcd"[b] for a in range(4) for b in range(4)) + " a b c d")
    assert keys(setting)["measure"] != keys()["measure"]
    assert files(setting) == files(setting, store="fresh")
    assert before <= files(setting)


@pytest.mark.parametrize("name", ["train.txt", "start.txt", "length.txt", "words.txt"])
def test_a_renamed_or_moved_file_makes_no_new_key(files, name, tmp_path):
    before = keys()
    (tmp_path / "elsewhere").mkdir()
    Path(name).rename(tmp_path / "elsewhere" / "other.txt")
    text = Path("suite.yaml").read_text().replace(name, "elsewhere/other.txt")
    Path("suite.yaml").write_text(text)
    assert keys() == before


def test_files_with_the_same_content_keep_their_names(files, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(bench_small.listed.Listed, "__init__", lambda self, config: read.append(config))
    Path("w.txt").write_text(CONTENTS["words.txt"])
    files("metrics.listed.lists={one: w.txt, many: [words.txt]}")
    (config,) = read
    assert [config.words.name, config.lists.one.name, config.lists.many[0].name] == ["words.txt", "w.txt", "w.txt"]


def test_another_suffix_makes_another_key_as_parts_may_read_the_file_otherwise(files):
    before = keys()["measure"]
    Path("words.txt").rename("words.gz")
    assert keys("metrics.listed.words=words.gz")["measure"] != before


def test_a_folder_is_digested_with_all_that_is_in_it(files):
    Path("folder/inner").mkdir(parents=True)
    Path("folder/inner/a").write_text("1")
    setting = "metrics.listed.lists={one: folder}"
    before = keys(setting)["measure"]
    Path("folder/inner/a").rename("folder/inner/b")
    renamed = keys(setting)["measure"]
    Path("folder/inner/b").write_text("2")
    assert len({before, renamed, keys(setting)["measure"]}) == 3


def test_a_stage_whose_files_are_not_known_says_so(files, tmp_path):
    from bench_core.computing.stage_runner import StageRunner
    from bench_core.storage.store import Store

    files()
    found = plan(load(Path("suite.yaml")), tmp_path)
    stage = next(stage for stage in found.stages.values() if stage.kind == "measure")
    elsewhere = replace(stage, places={})  # as a manifest tells of it
    with pytest.raises(DataError, match=r"metric\.words: the path of this file is unknown here"):
        StageRunner(Store(Path("store")), tmp_path).perform(elsewhere, tmp_path)
    StageRunner(Store(Path("store")), tmp_path).perform(stage, tmp_path)


def test_why_names_the_setting_whose_file_changed(files, tmp_path):
    from bench_core.storage.store import Store
    from bench_upkeep.why import of_suite

    files()
    Path("words.txt").write_text("other words")
    suite = load(Path("suite.yaml"))
    (answer,) = of_suite(suite, plan(suite, tmp_path), Store(Path("store")), Path("runs"), "").answers
    assert [one.text for one in answer.differences] == ["metric.words: other content"]


@pytest.mark.parametrize("name", ["start.txt", "length.txt", "words.txt"])
def test_a_missing_file_is_told_with_its_key_before_anything_runs(files, name):
    Path(name).unlink()
    key = {"start.txt": "models.one.start", "length.txt": "decoders.cut.length", "words.txt": "metrics.listed.words"}
    with pytest.raises(DataError, match=rf"{key[name]}: there is no file {name}"):
        files()
    assert not Path("store").exists() or not any(Path("store").glob("prepare/*"))


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize("name", ["train.txt", "start.txt", "length.txt", "words.txt"])
def test_a_file_that_is_edited_between_plan_and_stage_fails_it_and_nothing_is_stored(files, name, monkeypatch):
    submit = InProcess.submit

    def edited(self, order, tell):
        Path(name).write_text("ba dab")
        return submit(self, order, tell)

    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "submit", edited)
        assert "changed since the run was planned" in files()
    Path(name).write_text(CONTENTS[name])
    assert files() == files(store="fresh")


def test_a_file_that_is_edited_while_it_is_read_and_restored_fails_the_stage(files, monkeypatch):
    prepare = bench_small.listed.Filed.prepare

    def edited(self, data):
        Path("train.txt").write_text("ba dab bad")
        found = prepare(self, data)
        Path("train.txt").write_text(CONTENTS["train.txt"])
        os.utime("train.txt", (1e9, 1e9))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(bench_small.listed.Filed, "prepare", edited, raising=False)
        assert "changed while it was read" in files()
    assert files() == files(store="fresh")


@pytest.mark.slow
def test_a_file_that_only_a_hook_tells_of_is_looked_at_again_too(suite_file, tmp_path, monkeypatch):
    (tmp_path / "words.txt").write_text("ab abc b")
    path = suite_file(**{"{name: letters}": "{name: letters, file: words.txt}"})
    submit = InProcess.submit

    def run(store):
        return bench_core.run(path, data=tmp_path, store=tmp_path / store, out=tmp_path / "runs").rows()

    def edited(self, order, tell):
        (tmp_path / "words.txt").write_text("b bb bbb")
        return submit(self, order, tell)

    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "submit", edited)
        assert {row["status"] for row in run("store")} == {"failed"}
    (tmp_path / "words.txt").write_text("ab abc b")
    assert run("store") == run("fresh")


def test_first_weights_that_change_after_the_plan_are_not_trained_from(suite_file, tmp_path, monkeypatch):
    path = suite_file()
    first = bench_core.run(path, seeds=1, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs")
    key = first.cells[0].artifacts["train"]
    weights = tmp_path / "first.safetensors"
    weights.write_bytes((tmp_path / "store" / "train" / key / "weights.safetensors").read_bytes())
    submit = InProcess.submit

    def edited(self, order, tell):
        if order.stage.kind == "train":
            content = bytearray(weights.read_bytes())
            content[-1] ^= 1
            weights.write_bytes(content)
        return submit(self, order, tell)

    monkeypatch.setattr(InProcess, "submit", edited)
    settings = [f"models.one.training.initial={weights}"]
    run = bench_core.run(path, None, settings, 1, data=tmp_path, store=tmp_path / "new", out=tmp_path / "runs")
    assert {(row["model"], row["status"]) for row in run.rows()} == {("one", "failed"), ("two", "done")}


def test_a_run_with_files_of_its_own_is_verified_by_doing_it_again(files, monkeypatch):
    from contextlib import contextmanager

    from click.testing import CliRunner

    from bench_core.commands.main import bench
    from bench_core.execution.executor import InProcess
    from bench_core.storage.store import Store

    @contextmanager
    def here(workers, root, data, **rest):
        yield InProcess(Store(root), data)

    monkeypatch.setattr("bench_exchange.verifying.Workers", here)
    files()
    (run,) = Path("runs").glob("[!.]*")
    verify = ["verify", str(run), "--again", "--data", ".", "--store", "store"]
    done = CliRunner().invoke(bench, verify)
    assert "no contradictions\n" in done.output
    Path("words.txt").write_text("c d")
    done = CliRunner().invoke(bench, verify)
    assert "not repeated: the file of metric.words is unknown here. Run the suite that uses it" in done.output
    assert "no contradictions\n" in done.output
    assert done.exit_code == 0
