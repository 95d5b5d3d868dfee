"""The README shows every public name, and its examples give what it shows; the library knows nothing of bench."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import code_digests

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
SOURCES = sorted(Path(code_digests.__file__).parent.glob("*.py"))


def test_its_examples_give_what_it_shows(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = "".join(re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    prediction = doctest.DocTestRunner().run(example)
    assert prediction.attempted > 10
    assert not prediction.failed


@pytest.mark.parametrize("name", code_digests.__all__)
def test_every_public_name_is_explained(name):
    table = README.partition("## Public names")[2]
    assert f"`{name}" in table
    assert name.isupper() or getattr(code_digests, name).__doc__


def test_the_public_face_is_small():
    assert len(code_digests.__all__) <= 12


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_module_names_bench(path):
    assert "bench" not in path.read_text("utf-8")


def test_importing_it_imports_nothing_but_python():
    code = "import sys; before = {*sys.modules}; import code_digests; print(*{*sys.modules} - before)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    tops = {name.partition(".")[0] for name in loaded}
    assert tops - sys.stdlib_module_names == {"code_digests"}
