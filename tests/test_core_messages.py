"""No error message of the core is in a digest of its code; those of parts are, even if the core raises the error."""

from __future__ import annotations

import ast
from pathlib import Path

import bench_core
import bench_training
from bench_core.planning.code_digests import is_followed
from code_digests import Codebase, CodeDigests
from code_digests.canonical_form import Writer

#: Texts of the core of four words or more that are no messages: names of settings, and a label.
NO_MESSAGES = {"the number of threads", " at step ", "tensors fixed before training are copied once"}


def test_no_message_of_the_core_counts():
    found = []
    core, training = (Path(one.__file__).parent for one in (bench_core, bench_training))
    files = [*core.glob("*.py"), *core.glob("computing/**/*.py"), *core.glob("kit/**/*.py"), *training.glob("*.py")]
    for path in sorted(files):
        home = training.parent if path.is_relative_to(training) else core.parent
        if is_followed(".".join(path.relative_to(home).with_suffix("").parts)):
            found += [f"{path.name}: {text}" for text in counted_texts(ast.parse(path.read_text(encoding="utf-8")))]
    assert found == []


def counted_texts(tree):
    """Yield the texts of four words or more that a digest of the core depends on, but for docstrings."""

    def form():
        writer = Writer("bench_core.x", silent=True)
        writer.statements(tree.body, documented=True)
        return writer.text.form

    blocks = [one.body for one in ast.walk(tree) if isinstance(one, ast.Module | ast.ClassDef | ast.FunctionDef)]
    documented = {id(body[0].value) for body in blocks if body and isinstance(body[0], ast.Expr)}
    before = form()
    for one in ast.walk(tree):
        text = one.value if isinstance(one, ast.Constant) and id(one) not in documented else None
        if isinstance(text, str) and text.count(" ") >= 3 and text not in NO_MESSAGES:
            one.value = f"another {text}"
            if form() != before:
                yield text
            one.value = text


def test_a_text_that_a_part_gives_to_a_function_of_the_core_counts(tmp_path):
    found = set()
    for text in ("one", "two"):
        package = tmp_path / text / "a"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "model.py").write_text(
            f"from bench_core.errors import gave\ndef f(): raise gave('{text}')\nclass Model:\n    x = f\n"
        )
        code = Codebase(silent=frozenset({"bench_core"}))
        code._homes["a"] = [package]
        found |= {*CodeDigests(code).of_parts({"part": ("a.model:Model",)}).values()}
    assert len(found) == 2
