"""`bench check` opens the files of code generation: what it refuses, a run refuses, and the other way round."""

from __future__ import annotations

import json

import pytest
from bench_small.command_line import bench_here

import bench_core
from bench_code_generation.inspecting import inspect
from bench_code_generation.plugin import CodeGenerationConfig
from bench_core import DataError, Inspection, inspection

LINES = {
    "train": (["set x to one", "call f with x", "do nothing"], ["x = 1", "f ( x )", "pass"]),
    "valid": (["call g with x", "if y ,"], ["g ( x )", "if y :"]),
    "test": (["return x", "set x to f"], ["return x", "x = f ( )"]),
}


@pytest.fixture
def found(tmp_path):
    """Inspect files that a function has changed; also say whether the task can be prepared."""

    def looking(change=lambda lines: None, **settings):
        lines = {split: ([*one], [*other]) for split, (one, other) in LINES.items()}
        change(lines)
        corpus = {split: {side: tmp_path / f"{split}.{side}" for side in ("source", "target")} for split in lines}
        for split, both in lines.items():
            for side, texts in zip(("source", "target"), both, strict=True):
                (tmp_path / f"{split}.{side}").write_bytes(b"".join(_bytes(text) + b"\n" for text in texts))
        config = CodeGenerationConfig.model_validate({"corpus": corpus, **settings})
        looked = Inspection(tmp_path)
        with looked.noting():
            inspect(config, looked)
        folder = tmp_path / "task"
        folder.mkdir()
        try:
            config.load()(config, folder).prepare(tmp_path)
        except DataError:
            return looked, False
        return looked, True

    return looking


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def test_files_without_fault_have_no_problem(found):
    looked, is_well = found()
    assert is_well
    assert looked.problems == looked.warnings == looked.skipped == []


@pytest.mark.parametrize("split", LINES)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("fault", ["a line less", "no text", "empty", "blank"])
def test_what_a_run_refuses_is_a_problem_that_names_the_file(found, split, side, fault):
    def change(lines):
        own = lines[split][side]
        if fault == "a line less":
            own.pop()
        else:
            own[0] = {"no text": b"\xff", "empty": "", "blank": "  "}[fault]

    looked, is_well = found(change)
    assert is_well == (not looked.problems)
    assert is_well == (split == "train" and fault in ("empty", "blank"))
    assert is_well or f"{split}." in looked.problems[0]


@pytest.mark.parametrize("longest", [1, 2, 3, 9])
def test_pairs_that_are_all_too_long_are_a_problem(found, longest):
    looked, is_well = found(longest=longest)
    assert is_well == (not looked.problems)


def test_pairs_of_train_in_test_are_warned_of(found):
    looked, _ = found(lambda lines: [lines["test"][side].append(lines["train"][side][1]) for side in (0, 1)])
    assert looked.warnings == ["1 of 3 distinct examples of 'test' is also in 'train'."]


def test_of_large_files_the_first_line_alone_is_read(found, monkeypatch):
    monkeypatch.setattr(inspection, "MAX_BYTES", 1)
    looked, _ = found(lambda lines: lines["test"][0].append("one more"))
    assert not looked.problems
    assert sum("after its first record" in text for text in looked.skipped) == 6


@pytest.mark.parametrize(
    "whole", [{"train": "train"}, {"train": "train", "valid": "valid", "test": "valid"}], ids=len
)
def test_named_test_sets_are_splits_that_are_checked_decoded_and_scored(tmp_path, whole):
    whole = {**whole, "tests": {"march": "test", "june": "valid"}}

    def pair(name):
        for side, texts in zip(("source", "target"), LINES[name], strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts))
        return {side: f"{name}.{side}" for side in ("source", "target")}

    corpus = {
        key: {a: pair(b) for a, b in one.items()} if key == "tests" else pair(one) for key, one in whole.items()
    }
    suite = {
        "suite": "tests/code",
        "tasks": {"code": {"name": "code-generation", "corpus": corpus}},
        "models": {"tiny": {"name": "rnn-seq2seq", "hidden": 4, "layers": 1}},
        "decoders": {"greedy": {"name": "greedy"}},
        "metrics": {"exact": {"name": "code-exact-match"}, "perplexity": {"name": "perplexity"}},
        "training": {"updates": 1, "select": {"split": "train"}},
        "splits": ["march", "june"],
        "limits": {"max_tokens": 3},
        "hardware": {"device": "cpu", "threads": 1},
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    assert bench_here("check", "suite.yaml", folder=tmp_path).returncode == 0
    places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path, "workers": 0}
    run = bench_core.run(tmp_path / "suite.yaml", **places)
    assert [(one.status, one.reason) for one in run.cells] == [("done", "")] * 2
    assert {row["split"] for row in run.rows()} == {"march", "june"}
    (tmp_path / "test.target").write_text("return x\n")
    assert bench_here("check", "suite.yaml", folder=tmp_path).returncode != 0
