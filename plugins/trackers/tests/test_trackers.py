"""What trackers write down is what happened, read back by the readers of their own tools."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest
from bench_small.elsewhere import everywhere
from bench_small.suites import SUITE

import bench_core
from bench_core import (
    Evaluation,
    Number,
    RunEnded,
    RunStarted,
    StageEnded,
    SuiteError,
    TrainingName,
    TrainingStarted,
    Update,
    event_from_json,
)
from bench_core.commands.run import chosen_observers
from bench_trackers.jsonl import JsonLines
from bench_trackers.names import curves, file_name, number_name, run_id, training_folder
from bench_trackers.plugin import JsonLinesConfig, TensorBoardConfig, WandbConfig

FIRST, OTHER = TrainingName("words x one, seed 0", "a" * 64, 0), TrainingName("words x one, seed 1", "a" * 64, 1)
START = RunStarted("tests-small-1", "tests/small", 3)


def updates(first, last, training=FIRST, scale=1.0):
    """Return the events of updates, with an evaluation every fifth."""
    for step in range(first, last + 1):
        yield Update(step, step // 4, 0.1 / step, {"loss": scale / step, "kl": 0.5}, 2.0, training=training)
        if step % 5 == 0:
            yield Evaluation(step, "valid nats", scale / step + 1, step == 5, training=training)


def hear(observer, *events):
    for event in events:
        observer.hear(event)
    observer.close()


def histories(run):
    """Return the evaluations of every training of a run of the small suite, by the name of its file."""
    return {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()]
        for path in run.folder.glob("history/*")
    }


@pytest.fixture
def observed(tmp_path, suite_file, request):
    """Run the small suite under an observer; return the run and the folder of what this wrote."""
    config = request.param(dir=tmp_path / "tracked")
    run = bench_core.run(
        suite_file(), store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path, observers=[config]
    )
    assert {cell.reason for cell in run.cells} == {""}
    return run, tmp_path / "tracked"


@pytest.mark.parametrize("text", ["words x one, seed 0", "a/../b", "../..", "", "é" * 300, "con\x1b[1m"])
def test_any_name_is_that_of_one_file(text, tmp_path):
    name = file_name(text)
    (tmp_path / name).write_text("")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_trainings_of_different_seeds_and_settings_have_different_names():
    trainings = [FIRST, OTHER, TrainingName(FIRST.label, "b" * 64, 0)]
    assert len({*map(run_id, trainings)}) == len({*map(training_folder, trainings)}) == 3


def test_every_value_of_an_event_is_on_a_curve_of_its_own():
    update, evaluation = Update(3, 1, 0.1, {"loss": 1.0, "kl": 0.5}, 2.0), Evaluation(3, "valid loss", 4.0, True)
    found = [*curves(update), *curves(evaluation)]
    assert len(found) == len(dict(found)) == 6
    assert {value for _, value in found} == {0.1, 1.0, 0.5, 2.0, 4.0}
    assert "training/gradient norm" not in dict(curves(Update(3, 1, 0.1, {"loss": 1.0})))


def test_numbers_of_two_cells_share_a_name_only_if_the_seed_is_all_that_differs():
    cell = {"task": "words", "model": "one", "decoder": None, "split": "test", "hardware": "cpu", "seed": 0}
    name = number_name(Number(cell, "nats", 1.0))
    assert name == number_name(Number({**cell, "seed": 1}, "nats", 2.0))
    for axis in cell.keys() - {"seed"}:
        assert name != number_name(Number({**cell, axis: "other"}, "nats", 1.0))
    assert name != number_name(Number(cell, "ended", 1.0))


@pytest.mark.parametrize("observed", [JsonLinesConfig], indirect=True)
def test_json_lines_hold_every_event_of_a_run(observed):
    run, folder = observed
    (path,) = folder.iterdir()
    assert path.stem == run.folder.name
    events = [event_from_json(json.loads(line)) for line in path.read_text().splitlines()]
    assert (type(events[0]), type(events[-1])) == (RunStarted, RunEnded)
    assert sum(isinstance(event, Evaluation) for event in events) == sum(map(len, histories(run).values()))
    assert sum(isinstance(event, Number) for event in events) == sum(len(cell.numbers) for cell in run.cells)


def test_json_lines_are_json_also_of_what_json_lacks(tmp_path):
    observer = JsonLines(JsonLinesConfig(dir=tmp_path))
    hear(observer, START, Evaluation(1, "valid nats", math.nan, False), Update(1, 0, 0.1, {"loss": math.inf}))
    (path,) = tmp_path.iterdir()

    def never(text):
        raise AssertionError(f"{text} is no JSON")

    rows = [json.loads(line, parse_constant=never) for line in path.read_text().splitlines()]
    assert (rows[1]["value"], rows[2]["losses"]["loss"]) == ("nan", "inf")


def test_a_line_is_there_as_soon_as_its_event_is_heard(tmp_path):
    observer = JsonLines(JsonLinesConfig(dir=tmp_path))
    for number, event in enumerate([START, *updates(1, 3)], 1):
        observer.hear(event)
        assert (tmp_path / "tests-small-1.jsonl").read_text().count("\n") == number
    observer.close()


def scalars(folder):
    """Return the curves of a folder as TensorBoard shows them: points of step and value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), {"scalars": 0})
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def curve(events, name):
    return [(event.step, pytest.approx(value)) for event in events for tag, value in curves(event) if tag == name]


@pytest.mark.extra("bench-trackers", "tensorboard")
@pytest.mark.parametrize("observed", [TensorBoardConfig], indirect=True)
def test_tensorboard_shows_the_curves_and_numbers_that_the_run_stored(observed):
    run, folder = observed
    shown = {path.name: scalars(path) for path in (folder / "tests-small").iterdir() if path.name != "numbers"}
    stored = [
        {
            "evaluation/valid nats": [(one["step"], pytest.approx(one["valid nats"])) for one in rows],
            "training/loss": [(one["step"], pytest.approx(one["loss"])) for one in rows],
        }
        for rows in histories(run).values()
    ]
    found = [{name: one[name] for name in stored[0]} for one in shown.values()]
    assert len(found) == len(stored) == 4
    assert all(one in found for one in stored)
    (numbers,) = (folder / "tests-small" / "numbers").iterdir()
    assert numbers.name == run.folder.name
    values = {(name, step): value for name, points in scalars(numbers).items() for step, value in points}
    assert len(values) == sum(len(cell.numbers) for cell in run.cells)
    for cell in run.cells:
        for name, one in cell.numbers.items():
            place = number_name(Number(cell.cell, name, 0.0)), cell.cell["seed"]
            assert values[place] == pytest.approx(one.value)


@pytest.mark.extra("bench-trackers", "tensorboard")
@pytest.mark.parametrize("checkpoint", [0, 4, 5, 7])
def test_tensorboard_shows_each_step_of_a_resumed_training_once(tmp_path, monkeypatch, checkpoint):
    """A run that was killed at step 8; the next one goes on from the last checkpoint, some seconds later."""
    from tensorboard.summary.writer import event_file_writer

    from bench_trackers.tensorboard import TensorBoard

    clock = count(1_000_000_000)
    monkeypatch.setattr(event_file_writer, "time", SimpleNamespace(time=lambda: next(clock)))
    first, second = [*updates(1, 8, scale=2.0)], [*updates(checkpoint + 1, 12)]
    hear(TensorBoard(TensorBoardConfig(dir=tmp_path)), START, TrainingStarted(0, 12, training=FIRST), *first)
    hear(
        TensorBoard(TensorBoardConfig(dir=tmp_path)), START, TrainingStarted(checkpoint, 12, training=FIRST), *second
    )
    (folder,) = (tmp_path / "tests-small").iterdir()
    shown, events = scalars(folder), [*(one for one in first if one.step <= checkpoint), *second]
    assert shown.keys() == {name for event in events for name, _ in curves(event)}
    for name, points in shown.items():
        assert points == curve(events, name)


@pytest.mark.extra("bench-trackers", "tensorboard")
def test_tensorboard_closes_the_files_of_a_stage_that_has_ended(tmp_path):
    from bench_trackers.tensorboard import TensorBoard

    observer = TensorBoard(TensorBoardConfig(dir=tmp_path))
    for event in (START, *updates(1, 2), *updates(1, 2, OTHER)):
        observer.hear(event)
    assert len(observer.writers) == 2
    observer.hear(StageEnded("train", "words x one, seed 0", "b" * 64, 1.0))
    assert len(observer.writers) == 2
    observer.hear(StageEnded("train", "words x one, seed 0", FIRST.key, 1.0))
    assert observer.writers == {}


def records(path):
    """Return the records of an offline file, by the reader of Weights & Biases."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(path))
    while (data := store.scan_data()) is not None:
        record = Record()
        record.ParseFromString(data)
        yield record


def key_of(item):
    return item.key or ".".join(item.nested_key)


def tracked(path):
    """Return what an offline file says of its run, its rows, and its summary."""
    about, rows, summary = None, [], {}
    for record in records(path):
        which = record.WhichOneof("record_type")
        if which == "run":
            about = record.run
        elif which == "history":
            rows.append({key_of(item): json.loads(item.value_json) for item in record.history.item})
        elif which == "summary":
            summary |= {key_of(item): json.loads(item.value_json) for item in record.summary.update}
    return about, rows, summary


@pytest.fixture
def proxy(monkeypatch):
    """Be the proxy of all that would leave this machine; yield the listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        place = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WANDB_BASE_URL"):
            monkeypatch.setenv(name, place)
            monkeypatch.setenv(name.lower(), place)
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        yield server


@pytest.mark.extra("bench-trackers", "wandb")
@pytest.mark.slow
def test_weights_and_biases_has_a_run_for_each_training_and_sends_nothing(tmp_path, proxy):
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    with everywhere(tmp_path / "site"):
        command = ["run", str(path), "--workers", "0", "--json", "--observe", f"wandb:dir={tmp_path},project=words"]
        done = subprocess.run(
            [sys.executable, "-m", "bench_core", *command],
            cwd=tmp_path, capture_output=True, encoding="utf-8", env=os.environ, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "switched off" not in done.stderr
    with pytest.raises(BlockingIOError):
        proxy.accept()
    from bench_core.runs.results import read_run

    run = read_run(tmp_path / json.loads(done.stdout)["run"])
    found = [tracked(path) for path in tmp_path.glob("wandb/offline-run-*/run-*.wandb")]
    assert {(about.project, about.run_group) for about, _, _ in found} == {("words", "tests/small")}
    trainings = {about.display_name: (about.run_id, rows) for about, rows, _ in found if about.job_type == "train"}
    assert {*trainings} == {f"words x {model}, seed {seed}" for model in ("one", "two") for seed in (0, 1)}
    assert len({run_id for run_id, _ in trainings.values()}) == 4
    for rows in histories(run).values():
        expected = [(one["step"], one["valid nats"]) for one in rows]
        assert expected in [
            [(row["step"], row["evaluation/valid nats"]) for row in logged if "evaluation/valid nats" in row]
            for _, logged in trainings.values()
        ]
    (numbers,) = [summary for about, _, summary in found if about.job_type == "numbers"]
    values = sorted(value for name, value in numbers.items() if not name.startswith("_"))
    assert values == sorted(one.value for cell in run.cells for one in cell.numbers.values())


@pytest.mark.parametrize(("name", "config"), [("tensorboard", TensorBoardConfig), ("wandb", WandbConfig)])
def test_an_extra_that_is_missing_is_named_with_what_installs_it(name, config, monkeypatch):
    from bench_core.suites import extras

    monkeypatch.setattr(extras, "missing", lambda owner, wanted: [f"{one}>=0" for one in sorted(wanted)])
    with pytest.raises(SuiteError, match=rf"--observe {name}: .* extras .*: {name} of bench-trackers") as error:
        chosen_observers([name])
    assert f"pip install '{name}>=0'" in str(error.value)
    assert chosen_observers(["jsonl:dir=here"])[0].dir.name == "here"


def test_choosing_trackers_imports_none_of_them():
    code = (
        "import sys; from bench_core.registry import parts; parts('observer'); "
        "print([name for name in ('tensorboard', 'wandb', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
