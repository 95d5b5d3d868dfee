"""`bench check` opens the files of code generation: what it refuses, a run refuses, and the other way round."""

from __future__ import annotations

import pytest

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
    assert looked.warnings == ["1 of 3 different examples of 'test' is also in 'train'."]


def test_of_large_files_the_first_line_alone_is_read(found, monkeypatch):
    monkeypatch.setattr(inspection, "LARGEST", 1)
    looked, _ = found(lambda lines: lines["test"][0].append("one more"))
    assert not looked.problems
    assert sum("after its first record" in text for text in looked.skipped) == 6
