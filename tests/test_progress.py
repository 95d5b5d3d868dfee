"""What a run tells while it works, where nobody looks at a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bench_core.execution import executor
from bench_core.execution.progress import WAITING, Lines, duration


@dataclass(frozen=True)
class Stage:
    kind: str = "train"
    label: str = "words x lstm, seed 0"
    key: str = "k"


@pytest.fixture
def lines(monkeypatch):
    """Return lines, and the clock that they go by."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    return Lines("suite"), now


def test_that_another_run_is_at_work_is_told_at_once(lines, capsys):
    told, now = lines
    told.begin(Stage(), 1, 9)
    told.tell(Stage(), WAITING, 0.0)
    now[0] += 1
    told.tell(Stage(), "step 1 of 100", 0.01)
    assert capsys.readouterr().err.splitlines() == ["[1/9] train words x lstm, seed 0", f"    {WAITING}"]


def test_a_stage_that_takes_moments_is_named_where_it_has_to_wait(lines, capsys):
    told, _ = lines
    told.begin(Stage("measure"), 2, 9)
    told.tell(Stage("measure"), WAITING, 0.0)
    assert capsys.readouterr().err.splitlines() == [f"[2/9] measure words x lstm, seed 0: {WAITING}"]


def test_other_news_comes_every_so_often_with_the_time_that_is_left(lines, capsys):
    told, now = lines
    told.begin(Stage(), 1, 9)
    for step in range(1, 41):
        now[0] += 1
        told.tell(Stage(), f"step {step}", step / 80)
    assert capsys.readouterr().err.splitlines()[1:] == ["    step 15, 1 min 05 s left", "    step 30, 50.0 s left"]


def test_what_stages_say_when_they_wait_is_what_lines_look_for():
    assert f'"{WAITING}"' in Path(executor.__file__).read_text()


def test_a_length_of_time_is_told_in_two_units_at_most():
    assert [duration(seconds) for seconds in (0.04, 59.96, 61, 3_725)] == [
        "0.0 s",
        "60.0 s",
        "1 min 01 s",
        "1 h 02 min",
    ]
