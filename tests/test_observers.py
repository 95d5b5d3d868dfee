"""Observers hear of all that happens in a run, in order, and change nothing of it."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest
from bench_small.elsewhere import ONE_OF_EACH, everywhere
from click.testing import CliRunner

import bench_core
from bench_core import Observer, ObserverConfig, registry
from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.execution.progress import ProgressDisplay
from bench_core.execution.watching import install
from bench_core.observer import (
    EVENTS,
    Evaluation,
    Number,
    RunEnded,
    RunStarted,
    StageEnded,
    StageStarted,
    TrainingEvent,
    TrainingName,
    TrainingStarted,
    Update,
    event_from_json,
    event_to_json,
)
from bench_core.runs import observing as hosts
from bench_core.runs.observing import observing
from bench_training.checkpoint import Checkpoints
from process_watch import observe

VMAPPED = {"training: {epochs: 3,": "training: {vmap_seeds: true, epochs: 3,"}


class Warned(ProgressDisplay):
    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


def observer(label="listener", hear=lambda event: None, build=lambda: None, close=lambda: None):
    """Return the Config of an observer that calls these functions, and the events that it heard."""
    events = []

    class Listener(Observer):
        def __init__(self, config):
            build()

        def hear(self, event):
            events.append(event)
            hear(event)

        def close(self):
            close()

    class ListenerConfig(ObserverConfig):
        """Listens."""

        name, target = label, "nowhere:Listener"
        loudness: int = 1

        @classmethod
        def load(cls):
            return Listener

    return ListenerConfig, events


def refuse(*_):
    raise ValueError("no space left")


@pytest.fixture
def go(tmp_path):
    """Return a function that runs a suite, and returns the run, what an observer heard, and the warnings."""

    def run(path, place="a", configs=None, **options):
        config, events = observer()
        heard, folder = Warned(), tmp_path / place
        found = bench_core.run(
            path, store=folder / "store", out=folder / "runs", data=tmp_path, progress=heard,
            observers=[config()] if configs is None else configs, **options,
        )  # fmt: skip
        return found, events, heard.warnings

    return run


def of(events, *kinds):
    return [event for event in events if isinstance(event, kinds)]


def histories(run):
    """Return the evaluations of every training as the run stored them, in order."""
    found = [[json.loads(line) for line in path.read_text().splitlines()] for path in run.folder.glob("history/*")]
    return sorted(found, key=json.dumps)


def heard_histories(events):
    """Return the same from events."""
    found = {}
    updates = of(events, Update)
    for one in of(events, Evaluation):
        (last,) = [each for each in updates if (each.training, each.step) == (one.training, one.step)]
        norm = {} if last.gradient_norm is None else {"gradient_norm": last.gradient_norm}
        own = {"step": one.step, "epoch": last.epoch, "lr": last.lr, one.metric: one.value, "best": one.best}
        found.setdefault(one.training, []).append({**own, **last.losses, **norm})
    return sorted(found.values(), key=json.dumps)


def plain(value):
    """Return whether data is made of what JSON knows."""
    if isinstance(value, dict):
        return all(map(plain, value.values()))
    return type(value) in (str, int, float, bool, type(None))


def check_order(events):
    """Check that a run, its stages and its trainings begin before they end, each once."""
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert len(of(events, RunStarted, RunEnded)) == 2
    begun, ended = set(), set()
    for event in events:
        if isinstance(event, StageStarted):
            assert event.key not in begun
            begun.add(event.key)
        elif isinstance(event, StageEnded):
            assert event.key in begun - ended
            ended.add(event.key)
        elif isinstance(event, TrainingEvent):
            assert event.training.key in begun - ended
    assert begun == ended
    return begun


def check_complete(run, events):
    """Check that what was heard is what the run stored."""
    assert histories(run) == heard_histories(events)
    assert histories(run)
    numbers = {(*one.cell.values(), one.metric): one.value for one in of(events, Number)}
    stored = {(*cell.cell.values(), name): one.value for cell in run.cells for name, one in cell.numbers.items()}
    assert numbers == stored
    assert len(numbers) == len(of(events, Number))


def test_what_is_heard_of_a_run_is_what_it_stores(go, suite_file):
    run, events, warnings = go(suite_file())
    assert warnings == []
    keys = check_order(events)
    check_complete(run, events)
    assert len(keys) == events[0].stages
    assert events[-1].folder == str(run.folder)
    assert {one.training.label for one in of(events, Update)} == {
        f"words x {model}, seed {seed}" for model in ("one", "two") for seed in (0, 1)
    }


def test_events_are_plain_data_also_where_no_process_is_between(go, suite_file):
    _, events, _ = go(suite_file())
    assert {type(event) for event in events} == {*EVENTS.values()}
    assert all(plain(asdict(event)) for event in events)


@pytest.mark.nightly
def test_workers_report_the_same_as_this_process(go, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(ONE_OF_EACH.replace("seeds: 1", "seeds: 3"))
    with everywhere(tmp_path / "site"):
        _, here, _ = go(path, "here")
        run, there, _ = go(path, "there", workers=2)
    check_order(there)
    check_complete(run, there)
    by_training = [
        {one: [event for event in of(events, TrainingEvent) if event.training == one] for one in names}
        for events in (here, there)
        for names in [{event.training for event in of(events, TrainingEvent)}]
    ]
    assert by_training[0] == by_training[1]
    assert len(by_training[0]) == 3


@pytest.mark.slow
def test_seeds_that_are_trained_together_are_heard_of_one_by_one(go, suite_file):
    run, events, _ = go(suite_file(**VMAPPED))
    assert {one.training.label for one in of(events, TrainingStarted)} == {
        f"words x {model}, seed {seed}" for model in ("one", "two") for seed in (0, 1)
    }
    check_order(events)
    check_complete(run, events)


@pytest.mark.slow
def test_a_run_that_computes_nothing_has_numbers_alone(go, suite_file):
    path = suite_file()
    first, events, _ = go(path)
    same, again, _ = go(path)
    assert same.folder == first.folder
    assert {type(event) for event in again} == {RunStarted, Number, RunEnded}
    assert again[0].stages == 0

    def as_set(events):
        return {(*one.cell.values(), one.metric, one.value) for one in of(events, Number)}

    assert as_set(again) == as_set(events)


def test_the_failure_of_a_stage_is_heard(go, suite_file):
    run, events, _ = go(suite_file(**{"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: training}"}))
    check_order(events)
    failed = {event.label for event in of(events, StageEnded) if event.failure}
    assert failed == {"words x two, seed 0", "words x two, seed 1"}
    reasons = {cell.reason for cell in run.cells if cell.status == "failed"}
    assert reasons == {event.failure for event in of(events, StageEnded) if event.failure}


def results(run):
    """Return the content of all files of a run and its store, but for times and what was said."""
    times = {"costs.csv", "log", "manifest.json", "stages.jsonl.gz"}
    store = run.folder.parent.parent / "store"
    artifacts = {path.relative_to(store): path for path in store.glob("*/*/*") if path.name != "manifest.json"}
    files = {path.relative_to(run.folder): path for path in run.folder.rglob("*") if path.name not in times}
    return {name: path.read_bytes() for name, path in {**artifacts, **files}.items() if path.is_file()}


@pytest.mark.slow
def test_a_run_that_is_observed_is_byte_by_byte_the_run_that_is_not(go, suite_file):
    failing, _ = observer("failing", hear=refuse)
    watching, _ = observer()
    for changes in ({}, VMAPPED):
        path = suite_file(**changes)
        run, _, _ = go(path, f"alone {len(changes)}", configs=[])
        observed, _, _ = go(path, f"observed {len(changes)}", configs=[watching(), failing()])
        assert results(run) == results(observed)
        assert [path for path in results(run) if path.name == "weights.safetensors"]


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("ends", ["stopped", "killed"])
@pytest.mark.parametrize("changes", [{}, VMAPPED], ids=["alone", "vmapped"])
def test_a_resumed_training_continues_its_curves(go, suite_file, monkeypatch, ends, changes):
    """Up to the checkpoint from the first run, and from there on from the second, they are those of one run."""
    path = suite_file(**changes)
    _, whole, _ = go(path, "whole")
    asked = []

    def due(self):
        asked.append(self)
        if ends == "killed" and len(asked) == 12:
            raise RuntimeError("killed, as it were")
        return len(asked) % 5 == 0

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "due", due)
        patch.setattr(Checkpoints, "over", lambda self: ends == "stopped" and len(asked) >= 8)
        _, first, _ = go(path)
    _, second, _ = go(path)
    resumed = [one for one in of(second, TrainingStarted) if one.step]
    assert (8 if ends == "stopped" else 10) in {one.step for one in resumed}
    begins = {one.training: one.step for one in of(second, TrainingStarted)}
    before = [one for one in of(first, Update, Evaluation) if one.step <= begins.get(one.training, math.inf)]
    curves = [*before, *of(second, Update, Evaluation)]
    for training in {one.training for one in resumed}:
        expected = [one for one in of(whole, Update, Evaluation) if one.training == training]
        assert [one for one in curves if one.training == training] == expected
    assert {one.training for one in before} & {one.training for one in resumed}, "some of a curve was before"


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("where", ["build", "hear", "close"])
def test_an_observer_that_fails_is_named_once_and_takes_down_nothing(go, suite_file, where):
    broken, events = observer("broken", **{where: refuse})
    other, heard = observer("other")
    run, _, warnings = go(suite_file(), configs=[broken(), other()])
    assert [cell.status for cell in run.cells] == ["done"] * 8
    assert warnings == ["observer 'broken' is switched off: ValueError: no space left. The run is not affected."]
    check_complete(run, heard)
    assert len(events) == {"build": 0, "hear": 1, "close": len(heard)}[where]
    assert "switched off" not in (run.folder / "log").read_text()


def test_an_observer_that_hangs_is_given_up_after_the_run(go, suite_file, monkeypatch):
    monkeypatch.setattr(hosts, "FINISH_SECONDS", 2.0)  # which suffices for the other one
    freed = threading.Event()
    hanging, events = observer("hanging", hear=lambda event: freed.wait())
    other, heard = observer("other")
    try:
        run, _, warnings = go(suite_file(), configs=[hanging(), other()])
    finally:
        freed.set()
    assert len(events) == 1
    assert len(warnings) == 1
    assert "observer 'hanging' is switched off: it did not finish in time" in warnings[0]
    check_complete(run, heard)


def test_no_more_events_wait_for_a_slow_observer_than_it_may_have(monkeypatch):
    monkeypatch.setattr(hosts, "MAX_WAITING_EVENTS", 10)
    freed, warnings = threading.Event(), []
    slow, events = observer("slow", hear=lambda event: freed.wait())
    with observing([slow()], warnings.append) as hear:
        for number in range(1000):
            hear(RunStarted(str(number), "suite", 0))
        freed.set()
    assert warnings == [
        "observer 'slow' is switched off: it is too slow: 10 events are waiting for it. The run is not affected."
    ]
    assert len(events) <= 11


def test_a_slow_observer_hears_everything_after_the_run(go, suite_file):
    pause = threading.Event()
    slow, events = observer("slow", hear=lambda event: pause.wait(0.002))
    run, _, warnings = go(suite_file(), configs=[slow()])
    assert warnings == []
    check_order(events)
    check_complete(run, events)


def test_an_interrupted_run_ends_for_its_observers(suite_file, tmp_path):
    class Interrupting(ProgressDisplay):
        def begin(self, stage, number, total):
            if stage.kind == "train":
                raise KeyboardInterrupt

    config, events = observer()
    with pytest.raises(KeyboardInterrupt):
        bench_core.run(
            suite_file(), store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path, observers=[config()],
            progress=Interrupting(),
        )  # fmt: skip
    assert isinstance(events[-1], RunEnded)


def test_nothing_is_reported_where_nobody_listens(go, suite_file, monkeypatch):
    from bench_core.computing.context import StageContext

    seen = []
    report = StageContext.report
    monkeypatch.setattr(
        StageContext, "report", lambda self, event: (seen.append(self.request.observed), report(self, event))
    )
    go(suite_file(), configs=[])
    assert seen
    assert not any(seen)


@pytest.mark.parametrize(
    "event",
    [
        RunStarted("a-1", "a", 3),
        RunEnded("a-1", None),
        StageStarted("train", "words x one, seed 0", "ab"),
        StageEnded("train", "words x one, seed 0", "ab", 0.5, "it failed"),
        TrainingStarted(3, 10, copy=1),
        Update(3, 0, 0.1, {"loss": math.inf, "words": 2.0}, 0.25, training=TrainingName("words", "ab", 4)),
        Evaluation(3, "valid nats", -math.inf, True),
        Number({"task": "words", "decoder": None, "seed": 0}, "nats", 1.5),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_survives_json(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    assert event_to_json(event)["event"] in EVENTS


@pytest.fixture
def installed(suite_file):
    """Install an observer; return what it heard."""
    config, events = observer()
    module = ModuleType("listening")
    module.bench_observers = bench_core.hookimpl(specname="bench_observers")(lambda: [config])
    module.bench_observers.__module__ = "listening"
    with registry.extra(module):
        yield events


def command(*words):
    return CliRunner().invoke(bench, ["run", *words, "--profile", "tiny", "--workers", "0"], standalone_mode=False)


def test_observers_are_chosen_on_the_command_line(installed, suite_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = command(str(suite_file()), "--observe", "listener:loudness=3")
    assert found.exception is None, found.exc_info
    check_order(installed)
    assert Path(installed[-1].folder).parent == Path("runs")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("listner", "no observer is called 'listner'. Did you mean 'listener'?"),
        (
            "listener:loud=3",
            "--observe listener:loud: observer 'listener' has no setting 'loud'. Did you mean 'loudness'?",
        ),
        ("listener:loudness=high", "--observe listener:loudness=high: "),
    ],
)
def test_a_mistake_in_the_choice_is_told_before_anything_runs(
    installed, suite_file, tmp_path, monkeypatch, words, told
):
    monkeypatch.chdir(tmp_path)
    found = command(str(suite_file()), "--observe", words)
    assert isinstance(found.exception, SuiteError)
    assert told in str(found.exception)
    assert not (tmp_path / ".bench").exists()
    assert installed == []


def test_observers_are_no_parts_of_suites():
    assert "observer" in registry.kinds()
    assert "observer" not in registry.IN_SUITES


def test_the_order_check_refuses_what_is_out_of_order():
    start, end = StageStarted("train", "a", "ab"), StageEnded("train", "a", "ab", 1.0)
    first, last = RunStarted("r", "s", 1), RunEnded("r", None)
    update = Update(1, 0, 0.1, {}, training=TrainingName("a", "ab"))
    assert check_order([first, start, update, end, last]) == {"ab"}
    wrong = [
        [first, end, start, last],
        [first, start, start, end, last],
        [first, update, start, end, last],
        [first, start, end, update, last],
        [first, start, last],
        [start, end, last],
        [first, start, replace(update, training=TrainingName("b", "cd")), end, last],
    ]
    for events in wrong:
        with pytest.raises(AssertionError):
            check_order(events)


@pytest.mark.parametrize("of_observer", [True, False])
def test_what_a_thread_of_an_observer_reads_is_no_input_of_a_stage(of_observer, tmp_path):
    install()
    begun, done, found = threading.Event(), threading.Event(), {}

    def read():
        assert begun.wait(300)
        if not (tmp_path / "log").exists():
            (tmp_path / "log").write_text("")
        done.set()

    def work():
        begun.set()
        assert done.wait(300)

    thread = threading.Thread(target=read)
    config, _ = observer(build=thread.start if of_observer else lambda: None)
    with observing([config()], pytest.fail):
        if not of_observer:
            thread.start()
        observe(work, found, str(tmp_path))
    assert any(one.name == str(tmp_path / "log") for one in found) != of_observer
