"""What a run tells while it works, where nobody looks at a terminal."""

from __future__ import annotations

import pytest

from bench_core.execution.progress import WAITING, ProgressLines, RemainingTime, Work, duration
from bench_core.planning.stages import Stage


def stage(kind="train", key="k", **training):
    return Stage(kind, key, {"training": training}, {}, "words x lstm, seed 0")


@pytest.fixture
def lines(monkeypatch):
    """Return lines, and the clock that they go by."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    return ProgressLines("suite"), now


def test_that_another_run_is_at_work_is_told_at_once(lines, capsys):
    told, now = lines
    told.begin(stage(), 1, 9)
    told.tell(stage(), WAITING, 0.0)
    now[0] += 1
    told.tell(stage(), "step 1 of 100", 0.01)
    assert capsys.readouterr().err.splitlines() == ["[1/9] train words x lstm, seed 0", f"    {WAITING}"]


def test_a_stage_that_takes_moments_is_named_where_it_has_to_wait(lines, capsys):
    told, _ = lines
    told.begin(stage("measure"), 2, 9)
    told.tell(stage("measure"), WAITING, 0.0)
    assert capsys.readouterr().err.splitlines() == [f"[2/9] measure words x lstm, seed 0: {WAITING}"]


def test_a_model_that_is_evaluated_as_it_is_is_set_up_and_not_trained(lines, capsys):
    told, _ = lines
    told.begin(stage("initial"), 1, 9)
    told.begin(stage(key="l"), 2, 9)
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["[1/9] set up words x lstm, seed 0", "[2/9] train words x lstm, seed 0"]


def test_other_news_comes_every_so_often_with_the_time_that_is_left(lines, capsys):
    told, now = lines
    told.begin(stage(), 1, 9)
    for step in range(1, 41):
        now[0] += 1
        told.tell(stage(), f"step {step}", step / 80)
    assert capsys.readouterr().err.splitlines()[1:] == ["    step 15, 1 min 05 s left", "    step 30, 50.0 s left"]


def test_a_length_of_time_is_told_in_two_units_at_most():
    assert [duration(seconds) for seconds in (0.04, 59.96, 61, 3_725)] == [
        "0.0 s",
        "60.0 s",
        "1 min 01 s",
        "1 h 02 min",
    ]


def works(**groups):
    """Return works by key, given the group of each, and its seconds after a slash if they are predicted."""
    parts = {key: group.partition("/") for key, group in groups.items()}
    return {key: Work(group, float(seconds) if seconds else None) for key, (group, _, seconds) in parts.items()}


def test_the_time_left_of_a_run_counts_stages_by_the_pace_of_their_group():
    left = RemainingTime(works(a="train", b="train", c="decode/7"))
    assert left.left(0.0) == (7.0, False)  # of trainings nothing is known
    left.begin("a", "train", 0.0)
    left.tell("a", 0.25)
    assert left.left(10.0) == (30.0 + 40.0 + 7.0, True)  # the rest of one, another, a decoding as predicted
    left.end("a", 44.0)
    left.begin("b", "train", 44.0)
    assert left.left(54.0) == (34.0 + 7.0, True)  # as long as the first took, without news of its own


def test_a_training_of_another_model_says_nothing_about_the_time_left():
    left = RemainingTime(works(a="small", b="large", c="predicted/100"))
    left.begin("a", "train", 0.0)
    left.end("a", 5.0)
    assert left.left(5.0) == (100.0, False)


def test_stages_side_by_side_share_the_time_left_but_none_is_cut_short():
    left = RemainingTime(works(a="train", b="train", c="decode/10", d="decode/10"), side_by_side=2)
    left.begin("a", "train", 0.0)
    left.begin("b", "train", 0.0)
    left.tell("a", 0.5)
    left.tell("b", 0.1)
    assert left.left(10.0) == (90.0, True)  # the slower training; the rest fits beside it
    left.tell("b", 0.5)
    assert left.left(10.0) == ((10 + 10 + 10 + 10) / 2, True)


def test_nothing_is_said_of_the_time_left_once_nothing_waits():
    left = RemainingTime(works(a="train"))
    left.begin("a", "train", 0.0)
    left.tell("a", 0.5)
    assert left.left(10.0) is None


def test_a_stage_that_takes_longer_than_predicted_never_has_less_than_nothing_left():
    left = RemainingTime(works(a="train/5", b="decode/1"))
    left.begin("a", "train", 0.0)
    assert left.left(60.0) == (1.0, True)


def test_lines_tell_the_time_left_of_the_whole_run_from_the_first_news_on(lines, capsys):
    told, now = lines
    told.expect(works(a="train", b="train"), 1)
    told.begin(stage(key="a"), 1, 2)
    now[0] += 20
    told.tell(stage(key="a"), "step 20", 0.5)
    now[0] += 20
    told.end(stage(key="a"), 40.0, None)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "    step 20, 20.0 s left; about 1 min 00 s left in total",
        "    40.0 s; about 40.0 s left in total",
    ]
