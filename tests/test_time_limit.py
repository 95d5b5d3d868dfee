"""Every start of a run stores something, whatever its time limit, and an interrupt is answered at once."""

from __future__ import annotations

import json
import time

import pytest
from bench_small.suites import SUITE

import bench_core
from bench_core.execution.executor import Executor, InProcess
from bench_core.execution.progress import ProgressDisplay
from bench_core.planning.stages import Stage
from bench_core.runs import runner, time_limit
from bench_core.runs.runner import Runner
from bench_core.storage.checkpoints import last_step
from bench_core.storage.store import Store
from bench_core.suites.load import load


class Ended(ProgressDisplay):
    def __init__(self):
        self.ended = []

    def end(self, stage, seconds, failure):
        self.ended.append((stage.kind, failure))


def limited(path, folder, executor=None, seconds=0.0, progress=None, **more):
    """Return the runner of one start with a time limit, which has run."""
    store = Store(folder / "store")
    made = Runner(
        load(path, "tiny"),
        folder,
        store,
        executor or InProcess(store, folder),
        progress or Ended(),
        time.time() + seconds,
        **more,
    )
    made.result = made.run(folder / "runs")
    return made


def numbers(run):
    return {json.dumps(cell.cell): {name: one.value for name, one in cell.numbers.items()} for cell in run.cells}


def test_a_run_that_never_has_time_ends_after_as_many_starts_as_it_has_stages_and_updates(suite_file, tmp_path):
    path = suite_file(
        **{"training: {epochs: 1}": "training: {updates: 4, epochs: null}", "  two: {name: bigram, scale: 2.0}\n": ""}
    )
    wanted = bench_core.run(path, "tiny", store=tmp_path / "other", out=tmp_path / "others")
    steps, done, starts = [], set(), 0
    while True:
        one = limited(path, tmp_path)
        starts += 1
        steps += one.loop.checkpoints.values()
        assert len(one.loop.computed) + len(one.loop.checkpoints) == 1, "each start gets one thing done, and no more"
        assert not done & {stage.key for stage in one.loop.computed}
        done |= {stage.key for stage in one.loop.computed}
        if not one.loop.stopped:
            break
    assert steps == [1, 2, 3, 4] or steps == [1, 2, 3], "each start of a training does an update"
    assert starts == len(steps) + len(one.plan.stages)
    assert numbers(one.result) == numbers(wanted)


def test_a_first_stage_that_fails_does_not_keep_the_others_from_progress(suite_file, tmp_path):
    path = suite_file(
        **{"one: {name: bigram}": "one: {name: bigram, breaks: training}", "  draw: {name: draw}\n": ""}
    )
    kinds, starts = set(), 0
    while True:
        one = limited(path, tmp_path)
        starts += 1
        kinds |= {stage.kind for stage in one.loop.computed}
        assert one.loop.computed or one.loop.checkpoints or not one.loop.stopped, "no start is for nothing"
        if not one.loop.stopped:
            break
    assert starts < 100
    assert kinds == {"prepare", "train", "decode", "score", "measure"}
    assert {cell.status for cell in one.result.cells if cell.cell["model"] == "one"} == {"failed"}
    assert {cell.status for cell in one.result.cells if cell.cell["model"] == "two"} == {"done"}


class SideBySide(Executor):
    """Takes several stages at a time, and records until when each may run."""

    capacity = 4

    def __init__(self, here):
        self.here, self.untils = here, {}

    def submit(self, request, tell):
        if not request.build:
            self.untils.setdefault(request.stage.kind, []).append(request.until)
        return self.here.submit(request, tell)

    def close(self):
        self.here.close()


@pytest.mark.slow
def test_only_the_first_stage_goes_on_past_the_limit_and_the_others_are_told_of_it(suite_file, tmp_path):
    here = InProcess(Store(tmp_path / "store"), tmp_path)
    path = suite_file(**{"  two: {name: bigram, scale: 2.0}\n": "", "  draw: {name: draw}\n": ""})
    one = limited(path, tmp_path, executor := SideBySide(here), seconds=1000.0)
    assert executor.untils["prepare"] == [None]
    assert not one.loop.stopped
    later = [until for kind, untils in executor.untils.items() if kind != "prepare" for until in untils]
    assert {*later} == {one.until}


def test_past_the_limit_one_stage_at_a_time_begins_until_something_is_stored(suite_file, tmp_path):
    path = suite_file()
    bench_core.run(path, "tiny", store=tmp_path / "store", out=tmp_path / "runs")
    for place in (tmp_path / "store" / "decode").iterdir():
        Store(tmp_path / "store").remove("decode", place.name)
    for place in (tmp_path / "store" / "measure").iterdir():
        Store(tmp_path / "store").remove("measure", place.name)
    executor = SideBySide(InProcess(Store(tmp_path / "store"), tmp_path))
    one = limited(path, tmp_path, executor)
    assert len(one.loop.computed) == 1
    assert sum(map(len, executor.untils.values())) == 1


def test_a_stage_that_outlasts_the_limit_is_given_up_once_another_is_stored():
    stage = {kind: _stage(kind) for kind in ("decode", "measure", "train")}
    limit = time_limit.TimeLimit(time.time() + 1000)
    limit.begin(stage["decode"])
    limit.begin(stage["measure"])
    assert limit.of(stage["decode"]) is None
    assert limit.of(stage["measure"]) == limit.until
    limit.until = time.time() - 1
    assert limit.patience() is None, "nothing is stored yet"
    assert not limit.gives_up(stage["decode"])
    limit.end(stage["measure"], stored=True)
    assert limit.gives_up(stage["decode"])
    assert not limit.gives_up(stage["train"]), "which stops at a checkpoint by itself"


def test_a_stage_that_stored_nothing_leaves_its_turn_to_another():
    first, second = _stage("train"), _stage("decode")
    limit = time_limit.TimeLimit(time.time() - 1)
    limit.begin(first)
    assert limit.must_wait()
    limit.end(first, stored=False)
    assert not limit.must_wait()
    assert not limit.has_ended()
    limit.begin(second)
    assert limit.of(second) is None
    limit.end(second, stored=True)
    assert limit.has_ended()


def test_a_run_without_a_limit_never_ends_by_time():
    limit = time_limit.TimeLimit()
    limit.begin(stage := _stage("decode"))
    limit.end(stage, stored=True)
    assert (limit.of(stage), limit.patience(), limit.has_ended(), limit.gives_up(stage)) == (None, None, False, False)


def _stage(kind):
    return Stage(kind, f"key of {kind}", {}, {}, kind)


class Interrupting(InProcess):
    """Performs stages, and is interrupted in the first one of a kind."""

    def __init__(self, store, data, kind, events):
        super().__init__(store, data)
        self.kind, self.events = kind, events

    def submit(self, request, tell):
        if request.stage.kind == self.kind and not request.build:
            raise KeyboardInterrupt
        return super().submit(request, tell)


class Told(ProgressDisplay):
    def __init__(self, events):
        self.events = events

    def stop(self, text):
        self.events.append(text)


@pytest.mark.parametrize("updates", [0, 2])
def test_an_interrupt_is_answered_before_anything_is_written_and_names_the_checkpoint(
    suite_file, tmp_path, monkeypatch, updates
):
    path, store, events = suite_file(), Store(tmp_path / "store"), []
    for _ in range(bool(updates) + updates):  # the task, and so many updates
        limited(path, tmp_path)
    monkeypatch.setattr(runner, "write_run", lambda *words: events.append("written"))
    interrupted = Runner(
        load(path, "tiny"), tmp_path, store, Interrupting(store, tmp_path, "train", events), Told(events)
    )
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(tmp_path / "runs")
    said, last = events
    assert last == "written"
    (training,) = interrupted.loop.under_way.values()
    assert last_step(store, training.key) == (updates or None)
    where = f"continues from its checkpoint at step {updates}" if updates else "has no checkpoint yet"
    assert f"train {training.label} {where}. Run the suite again to continue." in said
    assert said.startswith("0 stages computed" if updates else "1 stage computed")


def test_the_last_checkpoint_is_the_one_of_the_highest_step_that_can_be_read(suite_file, tmp_path):
    path = suite_file(**{"training: {epochs: 1}": "training: {updates: 9, epochs: null}"})
    for _ in range(4):
        one = limited(path, tmp_path)
    ((label, step),) = one.loop.checkpoints.items()
    (training,) = [stage for stage in one.plan.stages.values() if f"{stage.kind} {stage.label}" == label]
    assert step == last_step(one.store, training.key) == 3
    for place in (tmp_path / "store" / "checkpoint").glob("*/manifest.json"):
        if json.loads(place.read_text())["step"] == 3:
            place.write_text("{")
    assert last_step(one.store, training.key) == 2
    assert last_step(one.store, "another") is None


@pytest.mark.nightly
def test_a_start_with_a_limit_below_the_time_of_loading_gets_something_done_in_workers(tmp_path):
    """The suite of a report: fifteen starts of two seconds each ended without an update."""
    from bench_small.elsewhere import everywhere

    path = tmp_path / "suite.yaml"
    path.write_text(SUITE.replace("seeds: 2", "seeds: 1").replace("epochs: 3", "updates: 30"))
    with everywhere(tmp_path / "packages"):
        for start in range(3):
            run = bench_core.run(
                path, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs", workers=1, stop_after=0.0
            )
            stored = list((tmp_path / "store").glob("*/*/manifest.json"))
            assert len(stored) > start
    assert {cell.status for cell in run.cells} == {"not run"}
    assert last_step(Store(tmp_path / "store"), run.cells[0].artifacts["train"])
