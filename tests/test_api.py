"""The reference of public names is whole, and its examples are run."""

from __future__ import annotations

import doctest
import re
import sys

import api_reference
import pytest
from cpu_seconds import UsageClock

PAGE = api_reference.page()
SECTIONS = {text.partition("\n")[0]: text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
NAMES = [(face, name) for face in api_reference.MODULES for name in api_reference.names(face)]
README = "bench_text.api"  # the face whose examples are in the README of its plugin, where they are tested


def examples(text):
    """Return the examples of a part of the page."""
    return "\n".join(re.findall(r"^```python\n(>>> .*?)^```$", text, re.DOTALL | re.MULTILINE))


EXAMPLES = {title: shown for title, text in SECTIONS.items() if (shown := examples(text))}


@pytest.mark.quick(4)
@pytest.mark.parametrize("title", EXAMPLES)
def test_the_examples_of_a_section_give_what_it_shows(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # the clock by which the imports of tests are timed executes in the midst of stages
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, UsageClock)])
    test = doctest.DocTestParser().get_doctest(EXAMPLES[title], {"__name__": "api"}, title, "docs/api.md", 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_a_wrong_example_would_be_seen():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1


@pytest.mark.parametrize(("face", "name"), [one for one in NAMES if one[0] != README])
def test_a_public_name_is_in_an_example(face, name):
    lines = [line for shown in EXAMPLES.values() for line in shown.splitlines() if line.startswith((">>>", "..."))]
    assert any(re.search(rf"\b{name}\b", line) for line in lines), "write one in tools/templates/api.md.j2"


@pytest.mark.parametrize(("face", "name"), NAMES)
def test_a_public_name_has_a_meaning_of_its_own(face, name):
    assert api_reference.meaning(api_reference.public()[name]), "write a docstring, or a comment with `#:`"


def test_every_public_name_has_one_place_on_the_page():
    headings = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert sorted(headings) == sorted(name for _, name in NAMES)
    anchors = [heading.lower() for heading in [*headings, *SECTIONS]]
    assert len({*anchors}) == len(anchors)  # or links would lead elsewhere


def test_the_meaning_of_a_constant_is_the_comment_beside_or_above_it():
    assert api_reference.meaning(api_reference.public()["STOP"]).startswith("EOS, the only token id")
    assert api_reference.meaning(api_reference.public()["MODEL_CONTRACTS"]).startswith(
        "The contracts of `check_model`"
    )


def test_shapes_and_defaults_are_shown_as_in_the_source():
    entry = api_reference.entry("Batch")
    assert "| `gold` | `Tensor` | | `[N, T]` target, then EOS" in entry
    assert "| `extras` | `Mapping[str, Tensor]` | `{}` |" in entry
    assert "- `mask: Tensor`: Return the mask of non-padding tokens in `gold` `[N, T]`." in entry
    assert (
        "- `step(state: S, actions: Tensor) -> tuple[Tensor, S]`, abstract: Apply nonzero `actions`"
        in api_reference.entry("Stepper")
    )
