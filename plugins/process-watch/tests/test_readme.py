"""The README shows every public name, and its examples give what it shows; the library knows nothing of bench."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import process_watch

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
SOURCES = sorted(Path(process_watch.__file__).parent.glob("*.py"))


def test_its_examples_give_what_it_shows(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("process_watch.observed_inputs._readings", {})
    text = "".join(re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    prediction = doctest.DocTestRunner().run(example)
    sys.modules.pop("prices", None)
    assert prediction.attempted > 10
    assert not prediction.failed


@pytest.mark.parametrize("name", process_watch.__all__)
def test_every_public_name_is_explained(name):
    table = README.partition("## Public names")[2]
    assert f"`{name}" in table
    assert name == "unobserved" or getattr(process_watch, name).__doc__


def test_the_public_face_is_small():
    assert len(process_watch.__all__) <= 12


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_module_names_bench(path):
    assert "bench" not in path.read_text("utf-8")


def test_importing_it_imports_nothing_but_python_and_observes_nothing():
    code = (
        "import os, sys; before = {*sys.modules}, os.stat, type(os.environ)\nimport process_watch\n"
        "assert (os.stat, type(os.environ)) == before[1:]\nprint(*{*sys.modules} - before[0])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    tops = {name.partition(".")[0] for name in loaded if not name.startswith("_sysconfigdata")}
    assert tops - sys.stdlib_module_names == {"process_watch"}
