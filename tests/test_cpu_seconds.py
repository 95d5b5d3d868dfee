"""The table of CPU seconds of tests, and the limit: what counts as a test's own, and what fails a run."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
BUSY = 0.1  # seconds that `work` computes; the limit is half of it
WORK = f"""
import time


def work():
    end = time.process_time() + {BUSY}
    while time.process_time() < end:
        pass
"""
TESTS = """
import subprocess, sys, time
import pytest
from working import work

@pytest.fixture(scope="module")
def shared():
    work()

@pytest.fixture
def own():
    work()

def test_that_computes(): work()
def test_whose_child_computes(): subprocess.run([sys.executable, "-c", "from working import work; work()"], check=True)
def test_whose_fixture_computes(own): pass
@pytest.mark.slow
def test_that_may(): work()
@pytest.mark.quick(2)
@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.slow), 2, 3, 4])
def test_of_cases(case):
    if case in (1, 3, 4): work()
@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("case", [0, 1, 2, 3, 4])
def test_of_more_cases(case): pass
@pytest.mark.slow(2)
@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.nightly), 2, 3, 4])
def test_of_slow_cases(case): pass
def test_that_waits(): time.sleep(0.4)
def test_that_is_first_to_use_what_others_use(shared): pass
def test_that_is_first_to_import(): import imported
"""
ABOVE = {"test_that_computes", "test_whose_child_computes", "test_whose_fixture_computes"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("measured")
    (made / "working.py").write_text(WORK)
    (made / "imported.py").write_text("from working import work\nwork()\n")
    (made / "test_it.py").write_text(TESTS)
    (made / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  quick\n  nightly\n")
    return made


def run(folder, *words):
    """Run pytest with the plugin; return its exit code, what it printed, and its table by kind and name."""
    environment = {**os.environ, "PYTHONPATH": f"{TOOLS}{os.pathsep}{folder}"}
    command = [sys.executable, "-m", "pytest", "-p", "cpu_seconds", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    with (folder / ".pytest_cache" / "cpu-seconds.tsv").open() as file:
        rows = [*csv.DictReader(file, delimiter="\t")]
    return done.returncode, done.stdout, {(row["kind"], row["name"]): float(row["seconds"]) for row in rows}


@pytest.mark.parametrize("processes", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "xdist"])
def test_a_test_above_the_limit_fails_the_run_unless_it_is_slow(folder, processes):
    code, out, seconds = run(folder, *processes, f"--cpu-limit={BUSY / 10}")
    assert code == 1
    assert "failed" not in out.splitlines()[-1], "the tests themselves pass"
    named = {line.split()[0].partition("::")[2] for line in out.splitlines() if "CPU seconds; the limit is" in line}
    assert named == ABOVE
    own = {name.partition("::")[2]: value for (kind, name), value in seconds.items() if kind == "tests"}
    assert {name for name, value in own.items() if value > BUSY / 10} == {
        *ABOVE, "test_that_may", *(f"test_of_cases[{case}]" for case in (1, 3, 4))
    }  # fmt: skip
    assert seconds["shared fixtures", "test_it.py::shared"] >= BUSY
    assert seconds["first imports", "imported"] >= BUSY
    assert seconds["file", "test_it.py"] == pytest.approx(sum(own.values()), abs=0.01)
    assert seconds["total", "all processes"] > 6 * BUSY


@pytest.mark.slow
def test_the_limit_is_an_option_and_a_failed_test_stays_what_is_reported(folder):
    assert run(folder, "--cpu-limit=0")[0] == 0
    code, out, _ = run(folder, "--cpu-limit=0", "-k", "no_such_test")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "CPU seconds" not in out


@pytest.mark.slow
def test_tests_somewhat_above_the_limit_are_listed_and_fail_no_run(folder):
    code, out, seconds = run(folder, f"--cpu-limit={BUSY / 2}", "-m", "not slow")
    assert code == 0
    cases = {name.partition("[")[2] for kind, name in seconds if kind == "tests" and "test_of_cases" in name}
    assert cases == {"0]", "2]"}, "the first two that are not slow anyway"
    assert "test_that_computes took" in out


@pytest.mark.slow
def test_later_cases_are_slow_and_nightly(folder):
    def chosen(marks):
        _, _, seconds = run(folder, "-m", marks, "-k", "more_cases or slow_cases")
        return {name.partition("_of_")[2] for kind, name in seconds if kind == "tests"}

    assert chosen("not slow and not nightly") == {"more_cases[0]"}
    assert chosen("slow and not nightly") == {
        "more_cases[1]", "more_cases[2]", "slow_cases[0]", "slow_cases[2]",
    }  # fmt: skip
    assert chosen("nightly") == {"more_cases[3]", "more_cases[4]", "slow_cases[1]", "slow_cases[3]", "slow_cases[4]"}
