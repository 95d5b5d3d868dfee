"""`bench check` reports every mistake of a suite at once, each as if it were the only one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import combinations
from random import Random

import bench_small.mistakes
import pytest
from bench_small.mistakes import MISTAKES, PUBLISHED, WHOLE
from click.testing import CliRunner

from bench_core import registry
from bench_core.commands.main import bench

#: Mistakes that are told of a whole entry, or of the part that would have to be another one.
ELSEWHERE = {
    "parts that do not fit": "argmax: {name",
    "a schedule without warm-up": "training:\n  lr",
    "an axis left out": "- id: main",
    "seeds as rows": "- id: main",
}
LINES = {
    name: 1 + WHOLE[: WHOLE.index(ELSEWHERE.get(name, old))].count("\n") for name, (old, _, _) in MISTAKES.items()
}


@pytest.fixture
def check(tmp_path, small, monkeypatch):
    """Return a function that checks a suite, and returns its exit code and the problems found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.yaml").write_text(PUBLISHED)

    def run(text, *words):
        (tmp_path / "suite.yaml").write_text(text)
        found = CliRunner().invoke(bench, ["check", "suite.yaml", *words], standalone_mode=False)
        assert found.exception is None, found.exc_info
        lines = found.stderr.splitlines()
        return found.return_value, [line for line in lines if not line.endswith(" problems.")]

    with registry.extra(bench_small.mistakes):
        yield run


def with_mistakes(*names):
    text = WHOLE
    for name in names:
        old, new, _ = MISTAKES[name]
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_suite_that_uses_everything_has_no_problems(check):
    assert check(WHOLE) == (0, [])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_at_its_own_line(check, name):
    code, lines = check(with_mistakes(name))
    assert code == 2
    told = [line for line in lines if MISTAKES[name][2] in line]
    assert told, lines
    assert {line.split(":")[1] for line in told} == {str(LINES[name])}
    assert Counter(lines).most_common(1)[0][1] == 1
