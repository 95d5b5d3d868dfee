"""The checker of words finds what STYLE names and leaves plain English alone; this repository has no finding."""

from __future__ import annotations

import ast
import random
import re
from functools import cache

import pytest
import words

AVOIDED = {
    "is told": "The user is told of errors.",
    "been said": "As has been said, it fails.",
    "tell apart": "Settings tell apart two cells.",
    "what it was made of": "What it was made of is unknown.",
    "those of one": "those of one name are joined",
    "as they are": "Models are used as they are.",
    "likewise": "Likewise for decoders.",
    "by itself": "It stops by itself.",
    "if so wished": "It is written, if so wished.",
    "is to be had": "The list is to be had from the server.",
    "is held to": "An interval is held to its level.",
    "is none": "An empty line is none.",
    "but for": "All rows but for the first are read.",
    "heeds": "It heeds the limit.",
    "by so many": "It grows by so many rows.",
    "numbered anew": "Rows are numbered anew.",
    "therein": "the files therein",
    "none is better than every": "None is better than every other.",
    "learnt": "Merges are learnt from the text.",
    "answers are kept": "Answers are kept on disk.",
    "such one": "No such one exists.",
    "has no say": "The prefix has no say.",
    "open actions": "the open actions of a step",
    "chain of actions": "a chain of actions",
    "is nothing": "Its effect is nothing.",
}
PLAIN = [
    "The default is None.",
    "Return the cause, or why there is none.",
    "Rows stay as they are read.",
    "The value that it was given last is used.",
    "Decode all but the last token.",
    "The list of itself-referencing objects",
    "a chain of functions",
    "It keeps its own copy of the results.",
    "results of one seed",
    "Nothing is written if it fails.",
]


def english(text):
    return [problem for _, problem in words.bad_english([words.Text(1, text)])]


@pytest.mark.parametrize("form", AVOIDED)
def test_a_form_to_avoid_is_found_once_with_its_line_and_an_advice(form):
    ((line, problem),) = words.bad_english([words.Text(7, f'"""Do it.\n\n    {AVOIDED[form]}\n    """')])
    assert line == 9
    assert ": write " in problem


@pytest.mark.parametrize("text", PLAIN)
def test_plain_english_is_left_alone(text):
    assert english(text) == []


def test_every_form_has_an_example():
    for form in words.ENGLISH:
        assert any(form.search(text) for text in AVOIDED.values()), form.pattern


def names(text):
    return [problem for _, problem in words.bad_names(ast.parse(text), text)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("def told(text): ...", "function told"),
        ("class A:\n    def _kept(self): ...", "function _kept"),
        ("async def given(): ...", "function given"),
        ("def f(one): ...", "parameter one of f"),
        ("def f(*, found=None): ...", "parameter found of f"),
        ("own = 1", "variable own"),
        ("for one in (): pass", "variable one"),
        ("x = [found for found in ()]", "variable found"),
        ("if (one := 1): pass", "variable one"),
        ("with open('') as found: pass", "variable found"),
        ("LONGEST = 3", "constant LONGEST"),
        ("def f(opening): ...", "is called prompt"),
        ("outcomes = []", "is called predictions"),
        ("A, _MOST = 1, 2", "constant _MOST"),
        ("class A:\n    id: int = 0  # of the example", "the comment only continues"),
    ],
)
def test_a_name_to_avoid_is_found(text, named):
    (problem,) = names(text)
    assert named in problem


@pytest.mark.parametrize(
    "text",
    [
        "def find(rows): ...",
        "def is_known(rows): ...",
        "MAX_ROWS = 3",
        "one_row = found_rows = 1",
        "x.found = 1",
        "class A:\n    id: int = 0  # unique within the split",
        "class A:\n    steps: int  # per epoch",
    ],
)
def test_a_plain_name_is_left_alone(text):
    assert names(text) == []


def test_code_blocks_and_names_of_pages_are_no_english():
    page = "Text.\n```\nis told\n```\n`heeds` and\nit is told\n"
    assert [line for line, _ in words.bad_english(words.texts("a.md", page))] == [6]
    suite = "a: &learnt 1\nb: *learnt\nc: learnt\n"
    assert [line for line, _ in words.bad_english(words.texts("a.yaml", suite))] == [3]


def test_a_class_name_that_stands_twice_is_found(tmp_path, monkeypatch):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Twice: ...\nclass _Private: ...\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert [*words.check(["a.py", "b.py"])] == ["b.py:1: the class name Twice is also at a.py:1"]


SEED = 42  #: of the samples that readers judge; those of 40 and 41 were judged before, and the texts edited
SAMPLES = {"docstrings": 100, "messages": 50, "passages": 50}


@cache
def pool():
    """Return all texts by kind, each with its place: docstrings, messages of errors, paragraphs of pages."""
    found = {kind: [] for kind in SAMPLES}
    for name in words.tracked(("*.py", "*.md")):
        content = (words.ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".md"):
            found["passages"] += [(name, text) for text in passages(content)]
            continue
        for node in ast.walk(ast.parse(content)):
            documented = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
            if documented and (text := ast.get_docstring(node)):
                found["docstrings"].append((f"{name}:{getattr(node, 'lineno', 1)}", text))
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = filter(is_text, node.exc.args[:1])
                found["messages"] += [(f"{name}:{node.lineno}", ast.unparse(text)) for text in texts]
    return found


def passages(page):
    """Return the paragraphs of a page, without code, tables and headings."""
    texts = re.split(r"\n\s*\n", re.sub(r"(?ms)^ *```.*?^ *```|<!--.*?-->", "", page))
    return [text.strip() for text in texts if len(text.split()) >= 15 and not text.lstrip().startswith(("|", "#"))]


def is_text(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def sample(kind):
    """Return the texts of a kind that readers judge, drawn with SEED."""
    return random.Random(f"{SEED} {kind}").sample(pool()[kind], SAMPLES[kind])


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_of_texts_are_drawn_from_all_distributions(kind):
    drawn = sample(kind)
    assert len({*drawn}) == SAMPLES[kind]
    assert drawn == sample(kind)
    assert len({place.partition("/")[0] for place, _ in drawn}) > 1


def test_this_repository_has_no_finding():
    assert [*words.check(words.tracked(()))] == []


if __name__ == "__main__":  # for readers: PYTHONPATH=tools python tests/test_words.py
    for kind in SAMPLES:
        print(f"# {kind}", *(f"## {place}\n{text}" for place, text in sample(kind)), sep="\n\n")
