"""The README shows every name that other plugins may import, and its examples work."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path

import pytest

from bench_authors.testing import TaskCase, check_task
from bench_text import api

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
CLASSES = [name for name in api.__all__ if getattr(getattr(api, name), "__module__", "").startswith("bench_text")]


def test_its_examples_give_what_it_shows():
    text = "".join(block for block in BLOCKS if block.startswith(">>>"))
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    prediction = doctest.DocTestRunner().run(example)
    assert prediction.attempted > 50
    assert not prediction.failed


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_of_the_api_is_in_an_example(name):
    assert any(re.search(rf"\b{name}\b", block) for block in BLOCKS)


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_and_function_of_the_api_has_a_docstring(name):
    doc = getattr(api, name).__doc__
    assert doc
    assert not doc.startswith(f"{name}(")  # what dataclasses write of themselves


def test_its_task_on_json_lines_works_as_it_stands(tmp_path, monkeypatch):
    (tmp_path / "bench_poems").mkdir()
    for block in BLOCKS:
        if block.startswith("# bench_poems/"):
            (tmp_path / re.match(r"# ([\w/.]+)", block)[1]).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    for split in api.SPLITS:
        poems = (f"{split} {number}" for number in range(4))
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps({"poem": poem}) + "\n" for poem in poems))
    files = {split: tmp_path / f"{split}.jsonl" for split in api.SPLITS}
    config = importlib.import_module("bench_poems.plugin").PoemsConfig(**files)
    (tmp_path / "folder").mkdir()
    case = TaskCase.of(config, tmp_path, tmp_path / "folder")
    assert check_task(case)
    assert case.task.references("test")[2] == ["test 2"]
