"""The mutants of `make mutants`: each changes one thing, tests are tried in a sensible order, survivors are listed."""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import mutants
import pytest
from mutant_tests import LineWatch
from mutants import CAUGHT, COLLECTION, LOOPED, SURVIVED, UNTESTED, Judge, Ranking, Results, RunResult, Scratch, page
from mutations import Mutation, folder, mutations, sample

ROOT = Path(__file__).parent.parent
PATH = "bench_core/sums.py"


def texts(source, operator=None):
    """Return what mutations make of a source, each of them parsed."""
    code = source.encode()
    made = [one for one in mutations(PATH, code) if operator in (None, one.operator)]
    assert all(one.changes(code) for one in made)
    return {one.apply(code).decode() for one in made}


@pytest.mark.parametrize(
    ("operator", "source", "made"),
    [
        ("comparison", "a < b", {"a <= b", "a >= b"}),
        ("comparison", "a is  not b", {"a is b"}),
        ("comparison", "a in b == c", {"a not in b == c", "a in b != c"}),
        ("boolean", "a and b and c", {"a or b and c", "a and b or c"}),
        ("arithmetic", "(a) - (b)", {"(a) + (b)"}),
        ("arithmetic", "a // b", {"a * b"}),
        ("arithmetic", "f'{a}' + b", set()),
        ("sign", "f(-a)", {"f((a))"}),
        ("condition", "not a", {"(a)"}),
        ("condition", "if a.b():\n    c()", {"if not (a.b()):\n    c()"}),
        ("condition", "x = a if b else c", {"x = a if not (b) else c"}),
        ("filter", "[a for a in b if c]", {"[a for a in b if True]"}),
        ("constant", "x = 1", {"x = 2", "x = 0"}),
        ("constant", "x = 0", {"x = 1"}),
        ("constant", "x = 0.0", {"x = 1.0"}),
        ("constant", "x = 0.5", {"x = 1.0"}),
        ("constant", "x = True", {"x = False"}),
        ("return", "def f():\n    return a", {"def f():\n    return None"}),
        ("removal", "a.b = c", {"pass"}),
        ("removal", "if a:\n    raise b", {"if a:\n    pass"}),
        ("removal", "a = b", set()),
        ("jump", "while a:\n    break", {"while a:\n    continue"}),
        ("opposite", "x = a.max(b)", {"x = a.min(b)"}),
        ("arguments", "x = f(a, b, c)", {"x = f(b, a, c)"}),
        ("arguments", "x = max(a, b)", set()),
        ("keyword", "x = f(a, b=c, d=e)", {"x = f(a, d=e)", "x = f(a, b=c)"}),
        ("keyword", "x = f(b=c, d=e)", {"x = f(d=e)", "x = f(b=c)"}),
        ("constant", 'x = "é", 1', {'x = "é", 2', 'x = "é", 0'}),
    ],
)
def test_an_operator_makes_these_changes_and_no_others(operator, source, made):
    assert texts(source, operator) == made


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""\n\ndef f():\n    """Another."""',
        "def f(a: Literal[1] | None) -> tuple[int, 2]: ...",
        "assert a < 1",
        "import a\nfrom b import c",
        "if TYPE_CHECKING:\n    x = 1",
        'if __name__ == "__main__":\n    f(1)',
        "@option(default=1)\ndef f(): ...",
        'x = f"{a + 1}"',
        'say("found", 1)',
        "raise NotImplementedError",
        "__all__ = [1]",
    ],
)
def test_nothing_is_changed_that_tests_should_not_pin_down(source):
    assert texts(source) == set()


def test_the_arguments_of_an_exception_stay_as_they_are():
    assert texts("if a:\n    raise Error(1, b + 2)") == {"if not (a):\n    raise Error(1, b + 2)", "if a:\n    pass"}


def test_a_mutation_knows_its_line_and_its_function():
    source = b"class A:\n    x = 1\n\n    def f(self):\n        def g():\n            return (\n                2\n            )\n"
    places = {(one.line, one.unit) for one in mutations(PATH, source) if one.operator == "constant"}
    assert places == {(2, "A"), (7, "A.f.<locals>.g")}


def test_a_mutation_of_another_text_is_refused():
    (first, _) = mutations(PATH, b"x = 1")
    with pytest.raises(ValueError, match=r"bench_core/sums.py has changed: '1' is not at byte 4"):
        first.apply(b"x = 3")


SOURCES = {
    "bench_core/a.py": b"x = 1\n" * 40,
    "bench_core/runs/b.py": b"x = 1\n" * 40,
    "plugins/small/bench_small/c.py": b"x = f(1, 2)\n" * 20,
}


def test_a_draw_is_divided_by_lines_and_so_is_each_start_of_it():
    drawn = sample(SOURCES, 50, seed=3)
    folders = [folder(one.path) for one in drawn]
    assert {name: folders.count(name) for name in folders} == {
        "bench_core": 20, "bench_core/runs": 20, "plugins/small": 10
    }  # fmt: skip
    assert all(abs(folders[:k].count("plugins/small") - k / 5) <= 1 for k in range(51))
    assert len({(one.path, one.line) for one in drawn}) == 50


def test_a_small_folder_is_drawn_from_too():
    drawn = sample({**SOURCES, "plugins/tiny/bench_tiny/d.py": b"x = 1"}, 10, seed=3)
    assert "plugins/tiny" in {folder(one.path) for one in drawn}


def test_a_seed_decides_a_draw():
    assert sample(SOURCES, 50, seed=3) == sample(SOURCES, 50, seed=3) != sample(SOURCES, 50, seed=4)


@pytest.mark.slow
def test_the_code_of_this_repository_gives_mutants_that_parse():
    paths = sorted((ROOT / "bench_core" / "computing").glob("*.py"))[::4]
    sources = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    drawn = sample(sources, 40, seed=0)
    assert len(drawn) == 40
    for one in drawn:
        changed = ast.unparse(ast.parse(one.apply(sources[one.path])))
        assert changed != ast.unparse(ast.parse(sources[one.path]))


FILES = {
    "bench_core/__init__.py": "from bench_core.sums import total\n",
    PATH: (
        "def total(numbers):\n    result = 0\n    while numbers:\n        result = result + numbers.pop()\n"
        "    return result\n\n\ndef difference(one, other):\n    return one - other\n"
    ),
    "bench_core/means.py": "from bench_core import total\n\n\ndef mean(numbers):\n    return total(numbers) / 2\n",
    "bench_core/waits.py": "import time\n\nPAUSE = 0.0\n\n\ndef wait():\n    time.sleep(PAUSE)\n",
    "plugins/own/pyproject.toml": "",
    "plugins/own/bench_own/plugin.py": 'TARGET = "bench_own.model:Model"\n',
    "plugins/own/bench_own/model.py": "class Model:\n    size = 1\n",
    "plugins/own/tests/test_parts.py": "import bench_own.plugin\n",
    "tests/test_sums.py": (
        "from bench_core.sums import total\n\n\ndef test_a_sum():\n    assert total([1, 2]) == 3\n"
    ),
    "tests/test_all.py": (
        "from bench_core import means, sums, waits\n\n\ndef test_a_pause():\n    waits.wait()\n\n\n"
        "def test_a_mean():\n    assert means.mean([2, 4]) == 3\n"
    ),
    "tests/test_other.py": "def test_nothing():\n    pass\n",
    "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow: long", "nightly: longer"]\n',
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """Return the folder of a small project in the layout of this one."""
    for name, text in FILES.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def at(path, old, new="", operator="constant"):
    """Return a mutation of the small project."""
    start = FILES[path].index(old)
    return Mutation(path, FILES[path][:start].count("\n") + 1, "total", operator, start, old, new)


@pytest.mark.parametrize(
    ("path", "order"),
    [
        (PATH, ["tests/test_sums.py", "tests/test_all.py"]),
        ("bench_core/means.py", ["tests/test_all.py"]),
        ("plugins/own/bench_own/model.py", ["plugins/own/tests/test_parts.py"]),
    ],
)
def test_tests_of_the_name_come_first_then_those_that_import_the_file_then_all_others(project, path, order):
    files = Ranking(project).files(Mutation(path, 1, "total", "constant", 0, "", ""))
    assert files[: len(order)] == order
    assert sorted(files) == sorted(name for name in FILES if "/test_" in name)


@pytest.mark.parametrize(
    ("only", "run"),
    [(None, ["a[1]", "a[2]", "a[3]", "a[4]", "a[beam-6]", "c"]), (["a[5]", "b"], ["a[5]"])],
)
def test_a_few_cases_of_a_test_run_and_those_that_name_what_is_changed(tmp_path, only, run):
    names = ["a[1]", "a[2]", "a[3]", "a[4]", "a[5]", "a[beam-6]", "b", "c"]
    watch = LineWatch({"only": only, "excluded": ["b"], "words": ["beam"], "folder": tmp_path})
    items, deselected = [SimpleNamespace(nodeid=name) for name in names], []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    watch.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
    assert [item.nodeid for item in items] == run
    assert len(deselected) == len(names) - len(run)


class Scripted:
    """A scratch copy in which tests come out as told."""

    def __init__(self, place, *predictions):
        self.place, self.predictions, self.asked = place, list(predictions), []

    def run(self, files, only=None, excluded=(), words=(), budget=1e9):
        self.asked.append((list(files), only, sorted(excluded), budget, (self.place / PATH).read_text()))
        return self.predictions.pop(0)


PASSED = RunResult(1, 1)
LOOP = RunResult(10, 2, running="t::a", running_seconds=9, stopped="budget")


@pytest.mark.parametrize(
    ("predictions", "verdict", "by"),
    [
        ([RunResult(1, 2), RunResult(1, 0, ["t::a"]), PASSED], CAUGHT, "t::a"),
        ([RunResult(1, 2, running="t::a"), PASSED], CAUGHT, "t::a"),  # the process died in a test
        ([RunResult(1, 0, [COLLECTION])], CAUGHT, COLLECTION),
        ([LOOP, PASSED], LOOPED, "t::a"),
        ([RunResult(1, 2, running="t::a", stopped="hang"), PASSED], LOOPED, "t::a"),
        ([RunResult(10, 2, running="t::a", running_seconds=1, stopped="budget")], SURVIVED, ""),
        ([RunResult(9.5, 2)], SURVIVED, ""),
        ([RunResult(1, 2), RunResult(1, 2)], SURVIVED, ""),
        ([RunResult(1), RunResult(1)], UNTESTED, ""),
    ],
)
def test_a_verdict_follows_from_what_came_of_the_tests(project, predictions, verdict, by):
    scratch = Scripted(project, *predictions)
    record = Judge(scratch, Ranking(project), 10).verdict(at(PATH, "0", "1"))
    assert (record["verdict"], record["by"]) == (verdict, by)
    assert record["tests"] == sum(one.passed for one in predictions if one is not PASSED)
    assert not scratch.predictions
    assert all(("result = 1" in asked[-1]) == (asked[1] is None) for asked in scratch.asked)
    assert (project / PATH).read_text() == FILES[PATH]


@pytest.mark.parametrize(
    ("first", "without"),
    [
        (RunResult(1, 0, ["t::a"]), RunResult(1, 0, ["t::a"])),
        (LOOP, RunResult(4.6, running="t::a", stopped="budget")),
        (RunResult(1, 0, ["tests/test_sums.py"]), RunResult(1, 0, ["tests/test_sums.py"])),
    ],
)
def test_a_test_that_fails_or_takes_as_long_without_a_mutant_does_not_count(project, first, without):
    scratch = Scripted(project, first, without, RunResult(1, 3), RunResult(1, 3), RunResult(1, 0, ["t::b"]), PASSED)
    judge = Judge(scratch, Ranking(project), 10)
    assert judge.verdict(at(PATH, "0", "1"))["verdict"] == SURVIVED
    test = without.running or without.failed[0]
    files, only, _, budget, _ = scratch.asked[1]
    assert (files, only) == ([test.partition("::")[0]], [test])
    assert budget == (4.5 if without.stopped else 1e9)
    assert scratch.asked[2][2] == [test]
    assert test not in scratch.asked[2][0]
    assert judge.verdict(at(PATH, "0", "1"))["by"] == "t::b"


def test_a_test_is_looked_at_without_a_mutant_once(project):
    scratch = Scripted(project, RunResult(1, 0, ["t::a"]), PASSED, RunResult(1, 0, ["t::a"]))
    judge = Judge(scratch, Ranking(project), 10)
    assert [judge.verdict(at(PATH, "0", "1"))["verdict"] for _ in range(2)] == [CAUGHT, CAUGHT]


def test_a_file_is_as_it_was_after_an_error(project):
    with pytest.raises(IndexError):
        Judge(Scripted(project), Ranking(project), 10).verdict(at(PATH, "0", "1"))
    assert (project / PATH).read_text() == FILES[PATH]


ABOUT = {"commit": "abc", "code": "1", "tests": "1", "seed": 3, "drawn": 5, "seconds": 10.0}
RECORD = {"path": PATH, "line": 2, "unit": "total", "operator": "constant", "start": 1, "old": "0", "new": "1",
          "key": "k", "verdict": CAUGHT, "by": "t", "tests": 4, "seconds": 30.0, "date": "2026-01-01"}  # fmt: skip


def test_results_go_on_where_they_ended_and_begin_anew_for_other_code(tmp_path):
    path = tmp_path / "quality.jsonl"
    Results.resume(path, ABOUT).add({**RECORD, "verdict": SURVIVED}, path)
    Results.resume(path, ABOUT).add(RECORD, path)
    again = Results.resume(path, {**ABOUT, "commit": "def"})  # another commit of the same code
    assert again.records == {"k": RECORD}
    assert Results.resume(path, {**ABOUT, "code": "2"}).records == {}
    assert Results.read(path) == Results({**ABOUT, "code": "2"})


def test_the_page_counts_what_was_caught_and_lists_each_survivor_with_its_change():
    records = [
        RECORD,
        {**RECORD, "verdict": LOOPED},
        {**RECORD, "path": "plugins/own/bench_own/model.py", "verdict": SURVIVED, "old": "a |\n  b", "new": "a"},
        {**RECORD, "line": 7, "verdict": UNTESTED, "tests": 0, "old": "x" * 200, "new": ""},
    ]
    text = page(Results(ABOUT, {str(number): record for number, record in enumerate(records)}))
    assert "Of 5 mutants (seed 3), 4 were tried on commit `abc` until 2026-01-01, in 2 CPU minutes." in text
    assert "**2 of 4 were caught: 50 % [15, 85].**" in text
    assert "| `bench_core` | 3 | 2 | - |" in text
    assert "| `plugins/own` | 1 | 0 | - |" in text
    assert "| `plugins/own/bench_own/model.py:2` | `total` | `a \\| b` → `a` | 4 |" in text
    assert f"`{'x' * 69}…` removed | 0 |" in text
    assert f"`{PATH}:2`" not in text


def test_the_page_in_docs_is_written_from_the_recorded_results():
    assert mutants.PAGE.read_text("utf-8") == page(Results.read(mutants.RECORDS))


def committed(project):
    """Commit all files of a project; return the commit."""
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "all"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    return mutants.git(project, "rev-parse", "HEAD").strip()


@pytest.mark.slow
@pytest.mark.parametrize("changed", [["tests/test_sums.py", PATH, "bench_core/new.py"], ["tests/test_sums.py"]])
def test_code_of_a_commit_is_joined_with_tests_of_another(project, tmp_path, monkeypatch, changed):
    monkeypatch.setattr(mutants, "ROOT", project)
    first = committed(project)
    for name in changed:
        (project / name).write_text("x = 1\n")
    scratch = Scratch(tmp_path / "scratch")
    scratch.make(first, committed(project))
    assert (scratch.place / "tests/test_sums.py").read_text() == "x = 1\n"
    assert scratch.sources() == {name: text.encode() for name, text in FILES.items() if name.startswith("bench_core")}
    assert mutants.git(scratch.place, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.nightly
def test_mutants_of_a_small_project_are_caught_by_its_tests_or_listed(project, tmp_path, monkeypatch):
    committed(project)
    monkeypatch.setattr(mutants, "ROOT", project)
    monkeypatch.setattr(mutants, "LOOP_SECONDS", 1)
    monkeypatch.setattr(mutants, "HANG_SECONDS", 2)
    scratch = Scratch(tmp_path / "scratch")
    scratch.make("HEAD", "HEAD")
    judge = Judge(scratch, Ranking(scratch.place), 4)

    def verdict(*change):
        record = judge.verdict(at(*change))
        return record["verdict"], record["by"]

    try:
        assert verdict(PATH, "0", "1") == (CAUGHT, "tests/test_sums.py::test_a_sum")
        assert verdict(PATH, "numbers.pop()", "1") == (LOOPED, "tests/test_sums.py::test_a_sum")
        assert verdict(PATH, "one - other", "one + other") == (SURVIVED, "")
        assert verdict(PATH, "return result", "return result +") == (CAUGHT, "tests/test_sums.py")
        assert verdict("bench_core/means.py", "2", "3") == (CAUGHT, "tests/test_all.py::test_a_mean")
        assert verdict("bench_core/waits.py", "0.0", "90.0") == (LOOPED, "tests/test_all.py::test_a_pause")
        assert verdict("bench_core/waits.py", "time.sleep(PAUSE)", "import os; os._exit(3)") == (
            CAUGHT, "tests/test_all.py::test_a_pause"
        )  # fmt: skip
        judge = Judge(scratch, judge.ranking, 4)  # has confirmed no test yet
        (scratch.place / "tests/test_sums.py").write_text("def test_a_sum():\n    assert False\n")
        assert verdict(PATH, "result = 0", "result = 2") == (CAUGHT, "tests/test_all.py::test_a_mean")
    finally:
        scratch.close()
    assert subprocess.run(["git", "-C", scratch.place, "diff", "--quiet", "--", "bench_core"]).returncode == 0


@pytest.mark.nightly
def test_all_is_measured_from_a_commit_and_then_nothing_is_left_to_do(project, tmp_path, monkeypatch, capsys):
    committed(project)
    monkeypatch.setattr(mutants, "ROOT", project)
    options = argparse.Namespace(
        count=12,
        first=6,
        seed=1,
        seconds=4,
        jobs=2,
        commit="HEAD",
        tests_of=None,
        again=False,
        records=tmp_path / "records",
    )
    results = mutants.measure(options, tmp_path / "one")
    assert len(results.records) == 6
    assert len(options.records.read_text().splitlines()) == 7
    capsys.readouterr()
    assert mutants.measure(options, tmp_path / "two").records == results.records
    assert capsys.readouterr().out == ""
    options.again = True
    mutants.measure(options, tmp_path / "three")
    again = capsys.readouterr().out.splitlines()
    assert len(again) == sum(record["verdict"] == SURVIVED for record in results.records.values()) > 0
    assert json.loads(options.records.read_text().splitlines()[0])["drawn"] == 12
