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


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_at_its_own_line(check, name):
    code, lines = check(with_mistakes(name))
    assert code == 2
    told = [line for line in lines if MISTAKES[name][2] in line]
    assert told, lines
    assert {line.split(":")[1] for line in told} == {str(LINES[name])}
    assert Counter(lines).most_common(1)[0][1] == 1


#: Pairs of which one changes what can be known of the other: the part, the split or the name that it is about.
ENTANGLED = {
    frozenset(pair)
    for one, others in {
        "an unknown key": ["a key twice"],
        "an unknown task": ["an unknown split", "a profile"],
        "a part without a name": ["a likelihood that is not there"],
        "a class that is not there": ["a phase", "a model to skip"],
        "a module that is not there": ["a phase", "a model to skip"],
        "parts that do not fit": ["an unknown decoder", "a selection", "a phase", "a model to skip"],
        "a likelihood that is not there": ["a model to skip"],
        "a selection": ["a curve"],
        "an unknown split": ["an axis to skip"],
        "one split": ["a name on an axis"],
        "an axis left out": ["a number for a name"],
    }.items()
    for other in others
    for pair in [(one, other)]
}


def _together(size, number):
    """Return random sets of mistakes that stand in different lines."""
    random, found = Random(21), []
    while len(found) < number:
        names = random.sample(sorted(MISTAKES), size)
        lines = {WHOLE[: WHOLE.index(MISTAKES[name][0])].count("\n") for name in names}
        if len(lines) == size and not ENTANGLED & {*map(frozenset, combinations(names, 2))}:
            found.append(names)
    return found


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("size", "number"),
    [
        (2, 15),
        (3, 15),
        (9, 5),
        (15, 3),
        pytest.param(2, 60, marks=pytest.mark.slow),
        *(pytest.param(*one, marks=pytest.mark.nightly) for one in [(3, 60), (9, 20)]),
    ],
)
def test_mistakes_are_told_together_as_they_are_told_alone(check, size, number):
    alone = {}
    for names in _together(size, number):
        for name in names:
            if name not in alone:
                alone[name] = {*check(with_mistakes(name))[1]}
        _, lines = check(with_mistakes(*names))
        assert {*lines} == set().union(*(alone[name] for name in names)), names
        assert len(lines) == len({*lines})


def test_the_lines_are_in_the_order_of_the_file(check):
    for names in _together(9, 5):
        places = [tuple(map(int, line.split(":")[1:3])) for line in check(with_mistakes(*names))[1]]
        assert places == sorted(places)


NINE = """\
suite: mine
title: {Nine mistakes}: and more
tasks:
  books: {name: sequence-completion, corpus: {name: gutenbreg}, prefix: 2}
models:
  small: {name: rnn-lm, hiden: 64, training: {lr: fast}}
  large: {name: rnn-lm, hidden: 512}
decoders:
  beam: {name: beam, widht: 4}
metrics:
  perplexity: {name: perplexity}
training: {epochs: 2, optimzer: adam}
hardware: {device: cuda}
tables:
  - {id: main, rows: [modle], columns: [decoder], values: [perplexty]}
claims:
  - {id: larger-is-better, text: It is., assert: "v('perplexity', model='lrage') < v('perplexity', model='small')"}
"""


def test_nine_mistakes_that_once_took_three_rounds_are_told_in_one(check):
    _, lines = check(NINE)
    assert len(lines) == 1
    assert lines[0].startswith("suite.yaml:2:")
    code, lines = check(NINE.replace("{Nine mistakes}: and more", "Nine"))
    assert code == 2
    told = {
        (4, "gutenbreg"): 1, (6, "Did you mean 'hidden'"): 1, (6, "'lr' must be a number (found 'fast')"): 1,
        (9, "Did you mean 'width'"): 1, (12, "Did you mean 'optimizer'"): 1, (13, "no CUDA device here"): 1,
        (15, "Did you mean 'model'"): 1, (15, "Did you mean 'perplexity'"): 1, (17, "Did you mean 'large'"): 1,
    }  # fmt: skip
    found = {
        (line, text): sum(one.startswith(f"suite.yaml:{line}:") and text in one for one in lines)
        for line, text in told
    }
    assert found == told
    assert len(lines) == len(told)


def test_data_and_devices_are_not_looked_for_where_the_suite_runs_elsewhere(check):
    text = with_mistakes("a missing corpus", "a device that is not here", "a file that is not there")
    assert len(check(text)[1]) == 3
    assert check(text, "--elsewhere") == (0, [])


def test_checking_a_suite_full_of_mistakes_imports_no_torch(tmp_path):
    (tmp_path / "suite.yaml").write_text(NINE.replace("{Nine mistakes}: and more", "Nine"))
    code = (
        "import sys; sys.argv = ['bench', 'check', 'suite.yaml']\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert stop.code == 2\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.splitlines()[-1] == "False"


def test_a_mistake_of_several_profiles_is_told_once_and_one_of_a_profile_names_it(check):
    text = with_mistakes("an unknown decoder").replace("tiny: {", "small: {seeds: none}\n  tiny: {")
    _, lines = check(text)
    assert len(lines) == 2
    assert "With" not in lines[0]
    assert lines[1].endswith("(With --profile small.)")


def test_an_extra_that_is_not_installed_is_told_with_the_other_mistakes(check, monkeypatch):
    monkeypatch.setattr("bench_small.mistakes.ListedConfig.extras", lambda self: {"more"})
    monkeypatch.setattr("bench_core.suites.extras.missing", lambda owner, extras: ["something"])
    code, lines = check(with_mistakes("an unknown decoder"))
    assert code == 2
    assert any("model 'listed' needs extras not installed: more" in line for line in lines)
    assert any("argmx" in line for line in lines)
