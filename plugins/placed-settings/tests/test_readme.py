"""The README shows every public name, and its examples give what it shows; the library knows nothing of bench."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import placed_settings

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
SOURCES = sorted(Path(placed_settings.__file__).parent.glob("*.py"))


def test_its_examples_give_what_it_shows():
    text = "".join(re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    prediction = doctest.DocTestRunner().run(example)
    assert prediction.attempted > 10
    assert not prediction.failed


@pytest.mark.parametrize("name", placed_settings.__all__)
def test_every_public_name_is_explained(name):
    assert f"`{name}" in README.partition("## Public names")[2]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_module_names_bench_or_suites(path):
    assert not re.search("bench|suite", path.read_text("utf-8"), re.IGNORECASE)
