"""The README shows every public name, and its examples give what it shows; the library knows nothing of bench."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import input_digests

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
SOURCES = sorted(Path(input_digests.__file__).parent.glob("*.py"))


def test_its_examples_give_what_it_shows(monkeypatch):
    monkeypatch.setenv("FACTOR_OF_PRICES", "1")  # its example sets it, and other tests have such a variable
    text = "".join(re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    prediction = doctest.DocTestRunner().run(example)
    assert prediction.attempted > 8
    assert not prediction.failed


@pytest.mark.parametrize("name", input_digests.__all__)
def test_every_public_name_is_explained(name):
    assert f"`{name}" in README.partition("## Public names")[2]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_module_names_bench(path):
    assert "bench" not in path.read_text("utf-8").lower()
