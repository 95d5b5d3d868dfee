"""Any number of named test sets is an axis; what they are made of trains nothing again, and each is checked."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter

import pytest
from bench_small.command_line import bench_here
from tried_suite import Tried, records

import bench_core
from bench_core.errors import BenchError, SuiteError
from bench_core.planning.plan import plan
from bench_core.runs.provenance import PARTS, STAGES, RecordedStage, read_stages, write_stages
from bench_core.runs.results import read_run
from bench_core.runs.selecting import cell_name
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_exchange.merge import merge
from bench_exchange.recorded import contradictions
from bench_reports.content.claims import judge


@pytest.fixture
def tried(tmp_path):
    return Tried(tmp_path / "suite", "completion")


def stages_of(tried):
    return plan(load(tried.written()), tried.folder).stages.values()


def test_ten_test_sets_on_one_training_cost_one_training(tried):
    before = {one.key for one in stages_of(tried) if one.kind == "train"}
    names = [f"set{number}" for number in range(10)]
    for name in names:
        tried.texts[f"{name}.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in records("old"))
    tried.task["data"]["tests"] = {name: {"files": f"{name}.jsonl"} for name in names}
    tried.suite["splits"] = names
    found = [*stages_of(tried)]
    assert Counter(one.kind for one in found) == {
        "prepare": 11, "train": 1, "decode": 10, "score": 10, "measure": 20,
    }  # fmt: skip
    assert {one.key for one in found if one.kind == "train"} == before


def ran(tried):
    places = {"store": tried.folder / "store", "out": tried.folder / "runs", "data": tried.folder, "workers": 0}
    return bench_core.run(tried.written(), **places)


def test_test_sets_are_columns_of_tables_sides_of_claims_and_named_in_reports(tried):
    tried.suite["claims"] = [
        {"id": "S1", "text": "The old one is likelier", "assert": "v('nats', split='old') < v('nats', split='new')"}
    ]
    run = ran(tried)
    nats = {row["split"]: row["nats"] for row in run.rows()}
    (claim,) = judge(read_run(run.folder))
    told = [str(one) for one in claim.values]
    assert [f"{nats['old']:.2f}" in told[0], f"{nats['new']:.2f}" in told[1]] == [True, True]
    assert claim.verdict != ("fails" if nats["old"] < nats["new"] else "holds")
    assert {row["split"] for row in run.rows()} == {"old", "new"}
    about = json.loads((run.folder / "run.json").read_text())["tasks"]["own"]
    assert [*about["corpus"]] == ["train", "valid", "old", "new"]
    assert {split: each["examples"] for split, each in about["statistics"].items()} == {
        "train": 40, "valid": 8, "old": 7, "new": 6,
    }  # fmt: skip
    assert {*about["texts"]} == {"old", "new"}


def test_examples_of_a_test_set_that_are_trained_on_are_counted(tried):
    tried.records["new"] = [*tried.records["new"], *tried.records["train"][:3]]
    run = ran(tried)
    about = json.loads((run.folder / "run.json").read_text())["tasks"]["own"]
    assert about["overlap"]["new"] == {"examples": 9, "repeated": 0, "shared": 3}
    assert about["overlap"]["old"]["shared"] == 0


def test_names_are_told_where_a_split_is_none(tried):
    del tried.suite["splits"]
    suite = load(tried.written())
    with pytest.raises(
        SuiteError, match=r"completion has no split 'test'\. Its `splits:` are train, valid, (old, new|new, old)"
    ):
        check_fit(suite, cells_of(suite))


@pytest.mark.parametrize("name", ["train", "valid", "test", "a b", "", "../a", "a/b", ".a"])
def test_a_test_set_cannot_have_every_name(tried, name):
    tried.task["data"]["tests"] = {name: {"files": "old.jsonl"}}
    with pytest.raises(BenchError, match=rf"suite.yaml:\d+:\d+: {re.escape(repr(name))}"):
        load(tried.written())


def test_a_name_that_is_given_twice_is_an_error(tried):
    path = tried.written()
    text = path.read_text()
    assert "new: {files: new.jsonl}" in text
    path.write_text(text.replace("new: {files: new.jsonl}", "old: {files: new.jsonl}"))
    with pytest.raises(BenchError, match="old"):
        load(path)


def test_a_metric_that_selects_knows_the_language_of_its_split(tried):
    for rows in tried.records.values():
        for row in rows:
            row |= {"a": "今天天气很好", "more": ["天气很好"]}
    tried.suite["metrics"] = {"bleu": {"name": "bleu"}}
    tried.suite["training"] |= {"select": {"metric": "bleu", "decoder": "drawn"}}
    tried.suite["tasks"]["own"] |= {"target_language": "zh", "tokenizer": "char"}
    assert {cell.status for cell in ran(tried).cells} == {"done"}


def test_named_sets_that_no_splits_name_are_told_to_be_named(tried):
    del tried.suite["splits"]
    done = bench_here("check", "suite.yaml", folder=tried.written().parent)
    assert "has no split 'test'. Its `splits:` are train, valid, new, old. Set `splits: [new, old]`." in done.stderr
    assert "skip:" not in done.stderr
    tried.suite["splits"] = ["old", "new"]
    assert bench_here("check", "suite.yaml", folder=tried.written().parent).returncode == 0


def test_checkpoints_are_selected_by_the_loss_on_any_split(tried):
    for split in ("valid", "old"):
        tried.suite["training"] |= {"select": {"metric": "loss", "split": split}}
        assert {(cell.status, cell.reason) for cell in ran(tried).cells} == {("done", "")}


@pytest.mark.parametrize("key", ["select", "stop"])
def test_a_split_to_select_on_that_data_lack_is_refused_with_what_helps(tried, key):
    del tried.task["data"]["valid"]
    tried.suite["training"] |= {"select": {"split": "train"}, key: {"metric": "chrf", "decoder": "drawn"}}
    advice = f"no split 'valid', which `{key}` needs. Add it, or set `{key}: {{split: train}}`"
    with pytest.raises(BenchError, match=advice):
        ran(tried)
    tried.suite["training"] |= {key: {"metric": "chrf", "decoder": "drawn", "split": "train"}}
    assert {(cell.status, cell.reason) for cell in ran(tried).cells} == {("done", "")}


def test_where_nothing_is_trained_each_test_set_stands_alone(tried):
    for split in ("train", "valid"):
        del tried.task["data"][split]
    outputs = {split: f"{split}.txt" for split in ("old", "new")}
    tried.suite["models"] = {"model": {"name": "recorded", "outputs": outputs}}
    tried.suite["decoders"] = {"recorded": {"name": "as-recorded"}}
    tried.suite["metrics"] = {"chrf": {"name": "chrf"}}
    del tried.suite["training"]
    tried.texts |= {"old.txt": "a\n" * 7, "new.txt": "a\n" * 6}
    tried.suite["splits"] = ["old"]
    one = {stage.key for stage in stages_of(tried)}
    tried.suite["splits"] = ["old", "new"]
    assert one <= {stage.key for stage in stages_of(tried)}
    assert {cell.status for cell in ran(tried).cells} == {"done"}


#: Edits of what a run records of tasks of which splits are prepared apart.
def _other_split(run):
    cells = [json.loads(line) for line in (run / "cells.jsonl").read_text().splitlines()]
    first, second = cells[0]["artifacts"], cells[-1]["artifacts"]
    first["prepare"], second["prepare"] = second["prepare"], first["prepare"]
    (run / "cells.jsonl").write_text("".join(f"{json.dumps(cell)}\n" for cell in cells))


def _other_base(run):
    cells = [json.loads(line) for line in (run / "cells.jsonl").read_text().splitlines()]
    for cell in cells:
        cell["artifacts"]["prepare/train"] = cell["artifacts"]["prepare"]
    (run / "cells.jsonl").write_text("".join(f"{json.dumps(cell)}\n" for cell in cells))


def _no_base(run):
    cells = [json.loads(line) for line in (run / "cells.jsonl").read_text().splitlines()]
    for cell in cells:
        del cell["artifacts"]["prepare/train"]
    (run / "cells.jsonl").write_text("".join(f"{json.dumps(cell)}\n" for cell in cells))


def _parts(place, change):
    def edit(run):
        parts = json.loads((run / PARTS).read_text())
        change(parts["tasks"]["own"][place])
        (run / PARTS).write_text(json.dumps(parts))

    return edit


def _stage(change):
    def edit(run):
        stages = read_stages(run)
        write_stages(run / STAGES, [change(stage) for stage in stages.values()])

    return edit


def _longer(stage):
    if stage.kind != "prepare" or stage.settings.get("split", "") is not None:
        return stage
    task = {**stage.settings["task"], "longest": 3}
    settings = {**stage.settings, "task": task}
    return RecordedStage(stage.key, {**stage.ingredients, "settings": settings}, stage.scheme, stage.result)


EDITS = {
    "the splits of two cells": _other_split,
    "what was trained on": _other_base,
    "nothing was trained on": _no_base,
    "the settings of a split": _parts("task/old", lambda task: task.update(prefix=3)),
    "the settings of what was trained on": _parts("task/train", lambda task: task.update(prefix=3)),
    "the settings of the task": _parts("task", lambda task: task.update(empty="keep")),
    "the stage of what was trained on": _stage(_longer),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    tried = Tried(tmp_path_factory.mktemp("finished") / "suite", "completion")
    return ran(tried)


@pytest.mark.parametrize("name", EDITS)
def test_what_a_run_records_of_splits_is_compared(finished, name, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "run")
    assert [one.text for one in contradictions(read_run(tmp_path / "run"))] == []
    EDITS[name](tmp_path / "run")
    assert [one for one in contradictions(read_run(tmp_path / "run")) if one.wrong]


def test_tasks_without_training_data_may_have_test_sets_of_different_names(tried):
    for split in ("train", "valid"):
        del tried.task["data"][split]
    other = {"name": "completion", "data": {"tests": {"third": {"files": "old.jsonl"}}}, "fields": {"target": "a"}}
    tried.suite["tasks"]["other"] = other
    tried.suite["models"] = {"model": {"name": "recorded", "outputs": {"old": "old.txt", "third": "old.txt"}}}
    tried.suite["decoders"] = {"recorded": {"name": "as-recorded"}}
    tried.suite["metrics"] = {"chrf": {"name": "chrf"}}
    del tried.suite["training"]
    tried.texts |= {"old.txt": "a\n" * 7}
    tried.suite["splits"] = ["old", "third"]
    tried.suite["skip"] = [{"task": "own", "split": "third"}, {"task": "other", "split": "old"}]
    found = ran(tried)
    assert [(cell.status, cell.reason) for cell in found.cells] == [("done", "")] * 2


def test_runs_of_single_test_sets_are_merged_to_one_of_all(tried, tmp_path):
    suite = tried.written()
    places = {"store": tried.folder / "store", "data": tried.folder, "workers": 0}
    parts = [
        bench_core.run(suite, **places, out=tmp_path / split, only=[f"split={split}"]).folder
        for split in ("old", "new")
    ]
    whole = ran(tried)
    merged = merge(parts, tmp_path / "merged")
    assert [one.text for one in contradictions(merged) if one.wrong] == []
    numbers = [{cell_name(one.cell): one.numbers["nats"].value for one in run.cells} for run in (merged, whole)]
    assert numbers[0] == numbers[1]
    assert merged.info["tasks"] == whole.info["tasks"]
    assert merged.info["read"] == whole.info["read"]


@pytest.mark.parametrize(
    "task",
    [
        {"name": "translation", "pair": "de-en", "corpus": {
            "train": {"source": "none.de", "target": "none.en"}, "test": {"source": "q.txt", "target": "a.txt"},
            "only": ["test"],
        }},
        {"name": "sequence-completion", "prefix": 1, "sentences": "lines", "corpus": {
            "train": "none.txt", "valid": "none.txt", "test": "a.txt", "only": ["test"],
        }},
    ],
    ids=lambda task: task["name"],
)  # fmt: skip
def test_a_split_that_is_left_out_need_not_be_there(tried, task):
    tried.suite["tasks"] = {"own": task}
    tried.suite["models"] = {"model": {"name": "recorded", "outputs": "outputs.txt"}}
    tried.suite["decoders"] = {"recorded": {"name": "as-recorded"}}
    tried.suite["metrics"] = {"chrf": {"name": "chrf"}}
    del tried.suite["training"], tried.suite["splits"]
    tried.texts = dict.fromkeys(("q.txt", "a.txt", "outputs.txt"), "a cat sat\n" * 6)
    if task["name"] == "translation":
        for name in ("none.de", "none.en"):
            tried.texts[name] = ""
    else:
        tried.texts["none.txt"] = ""
    assert [(cell.status, cell.reason) for cell in ran(tried).cells] == [("done", "")]


def test_a_test_set_of_completions_cannot_be_called_like_the_random_prefixes(tried):
    tried.suite["tasks"] = {
        "own": {"name": "sequence-completion", "corpus": {"train": "old.jsonl", "tests": {"random": "new.jsonl"}}}
    }
    with pytest.raises(BenchError, match="cannot be called 'random'"):
        load(tried.written())
