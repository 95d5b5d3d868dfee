"""Stages as Ray tasks: the same results, and no death that is not one stage's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psutil
import pytest
from bench_small.elsewhere import OF_TWO, die_and_go_on, everywhere, listened, report
from bench_small.suites import SUITE

import bench_core
from bench_core import StageFailed, StageRequest, SuiteError
from bench_core.commands.run import chosen
from bench_core.planning.plan import plan
from bench_core.planning.stages import Stage
from bench_core.runs.executors import executor
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_ray.executor import Ray
from bench_ray.plugin import RayConfig

pytestmark = pytest.mark.extra("bench-ray")
LONG = "training.epochs=1000000"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Start Ray once: it takes some seconds. It must have ended when it is closed."""
    folder = tmp_path_factory.mktemp("session")
    with everywhere(folder / "site"):
        executor = Ray(RayConfig(), folder / "store", folder, 1)
        started = ray_processes()
        assert started
        yield
        executor.close()
    wait_for(lambda: not any(process.is_running() for process in started))
    assert not Path(executor.folder.name).exists()


@pytest.fixture
def suite(session, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def ray_processes():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if {"raylet", "gcs_server"} & {Path(word).name for word in child.cmdline()}]


def wait_for(happened, seconds=300):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run(suite, place, name=None, workers=0, **more):
    settings = RayConfig() if name == "ray" else None
    return bench_core.run(
        suite, store=place / "store", out=place / "runs", workers=workers, elsewhere=settings, **more
    )


def first_training(suite, place, settings=()):
    """Return the first training of a suite, once what it reads is stored."""
    loaded = load(suite, None, settings, None)
    stages = plan(loaded, place).stages.values()
    prepare, train = (next(stage for stage in stages if stage.kind == kind) for kind in ("prepare", "train"))
    with Ray(RayConfig(), place / "store", place, 1) as executor:
        executor.submit(StageRequest(prepare), lambda text, share: None).result()
    return train


@pytest.mark.parametrize("name", ["ray", pytest.param(None, marks=pytest.mark.nightly)], ids=["ray", "workers"])
def test_ray_gives_the_same_report_as_this_process_and_as_workers_and_observers_hear_the_same(suite, tmp_path, name):
    runs = {}

    def heard(place, name, workers):
        def observed(observers):
            runs[place] = run(suite, tmp_path / place, name, workers, observers=observers)

        return listened(observed)

    here = heard("here", None, 0)
    assert len(here) == 4
    assert heard("there", name, 2) == here
    assert report(tmp_path / "b", runs["there"]) == report(tmp_path / "a", runs["here"])


def test_the_failure_of_a_stage_comes_back_in_its_own_words_with_its_traceback(suite, tmp_path):
    suite.write_text(SUITE.replace("{name: bigram}", "{name: bigram, breaks: training}"))
    found = run(suite, tmp_path, "ray", workers=2)
    failed = {cell.cell["model"]: cell.reason for cell in found.cells if cell.status == "failed"}
    assert failed.keys() == {"one"}
    assert "RuntimeError: out of luck" in failed["one"]
    logs = [path.read_text() for path in (tmp_path / "store" / "failures").iterdir()]
    assert logs
    assert all("Traceback" in log and "parts.py" in log for log in logs)


@pytest.mark.slow
def test_a_killed_process_is_one_failed_stage_and_the_others_go_on(suite, tmp_path):
    suite.write_text(SUITE.replace("{name: bigram}", "{name: bigram, training: {epochs: 1000000}}"))
    told = []

    def kill():
        wait_for(lambda: list((tmp_path / "store" / "unfinished").glob("train-*")))
        for process in psutil.process_iter(["cmdline"]):
            if "ray::train words x one" in " ".join(process.info["cmdline"] or ()):
                told.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    found = run(suite, tmp_path, "ray", workers=1, seeds=1)
    killer.join()
    assert len(told) == 1, "nothing was tried again"
    failed = {cell.cell["model"]: cell.reason for cell in found.cells if cell.status == "failed"}
    assert failed.keys() == {"one"}
    assert "its Ray process died" in failed["one"]


@pytest.mark.nightly
def test_a_training_of_two_processes_that_is_killed_ends_as_if_undisturbed(suite, tmp_path):
    suite.write_text(OF_TWO)

    def kill():
        for process in psutil.process_iter(["cmdline"]):
            if "ray::train words x one" in " ".join(process.info["cmdline"] or ()):
                os.kill(process.pid, signal.SIGKILL)

    die_and_go_on(lambda place: run(suite, place, "ray", 1, checkpoint_every=0.0), tmp_path, kill)
    here = report(tmp_path / "a", run(suite, tmp_path / "here"))
    assert report(tmp_path / "b", run(suite, tmp_path / "killed", "ray", 1)) == here


def test_closing_interrupts_what_is_under_way_and_leaves_nothing_half_written(suite, tmp_path):
    train, told = first_training(suite, tmp_path, [LONG]), []
    executor = Ray(RayConfig(), tmp_path / "store", tmp_path, 1)
    future = executor.submit(StageRequest(train), lambda text, share: told.append((text, share)))
    wait_for(lambda: any(text.startswith("step") and 0 < share < 1 for text, share in told))
    executor.close()
    with pytest.raises(StageFailed, match="interrupted"):
        future.result(0)
    assert not list((tmp_path / "store" / "unfinished").iterdir())


def test_a_training_out_of_time_stops_at_a_checkpoint(suite, tmp_path):
    train = first_training(suite, tmp_path, [LONG])
    with Ray(RayConfig(), tmp_path / "store", tmp_path, 1) as executor, pytest.raises(StageFailed) as stop:
        executor.submit(StageRequest(train, until=time.time()), lambda text, share: None).result()
    assert stop.value.stopped
    assert list((tmp_path / "store" / "checkpoint").iterdir())


def test_a_stage_that_was_planned_with_other_code_or_libraries_is_not_performed(suite, tmp_path):
    train = first_training(suite, tmp_path)
    code = {**train.code, "train": "0" * 64, "model elsewhere": "0" * 64}
    changed = replace(train, code=code, libraries={"torch": "1.0"})
    with Ray(RayConfig(), tmp_path / "store", tmp_path, 1) as executor, pytest.raises(StageFailed) as failure:
        executor.submit(StageRequest(changed), lambda text, share: None).result()
    text = str(failure.value)
    assert "differs from the start of the run: the code of train, the code of model elsewhere, torch (" in text
    assert not (tmp_path / "store" / "train").exists()


def test_a_stage_for_which_ray_of_this_machine_has_no_room_fails_at_once(suite, tmp_path):
    train = first_training(suite, tmp_path)
    config = RayConfig(memory=1e9)
    with Ray(config, tmp_path / "store", tmp_path, 1) as executor, pytest.raises(StageFailed) as failure:
        executor.submit(StageRequest(train), lambda text, share: None).result()
    assert str(failure.value) == "Ray has no 1 CPU, 1e+09 GB of memory on this machine."


def test_a_stage_has_the_threads_of_its_suite_and_a_gpu_only_if_it_computes_on_one(suite, tmp_path):
    settings = ["hardware.device=cuda", "hardware.threads=2"]
    stages = plan(load(suite, None, settings, None), tmp_path).stages.values()
    with Ray(RayConfig(address="auto", gpus=0.5), tmp_path, tmp_path, 1) as executor:
        needs = {stage.kind: executor._needs(StageRequest(stage)) for stage in stages}
        building = [executor._needs(StageRequest(stage, build=True)) for stage in stages if stage.kind == "train"]
    assert needs["train"] == needs["decode"] == needs["score"] == {"CPU": 2, "GPU": 0.5}
    assert needs["prepare"] == needs["measure"] == building[0] == {"CPU": 1}


def test_stages_share_a_gpu_as_the_suite_or_the_command_line_says_unless_ray_is_told_otherwise(session, tmp_path):
    stage = Stage("train", "k", {"device": "cuda", "threads": 1}, {}, "a training")
    for settings, found in (({}, 0.25), ({"gpus": 0.5}, 0.5)):
        with executor(1, Store(tmp_path), tmp_path, RayConfig(address="auto", **settings), per_gpu=4) as performing:
            assert performing._needs(StageRequest(stage))["GPU"] == found


@pytest.mark.slow
def test_settings_are_read_from_the_command_line_and_wrong_ones_refused():
    assert chosen("ray", ("address=auto", "gpus=0.5", "cpus=3")) == RayConfig(address="auto", gpus=0.5, cpus=3)
    with pytest.raises(SuiteError, match="--with gpus=2: 'gpus' must be at most 1"):
        chosen("ray", ("gpus=2",))
    with pytest.raises(SuiteError, match="give auto, host:port or ray://host:port"):
        chosen("ray", ("address=host",))


NOWHERE = """
from pathlib import Path
from bench_core import SuiteError
from bench_ray.executor import Ray
from bench_ray.plugin import RayConfig
try:
    Ray(RayConfig(address="127.0.0.1:1"), Path("store"), Path("."), 1)
except SuiteError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_an_error_before_anything_starts():
    done = subprocess.run([sys.executable, "-c", NOWHERE], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "no Ray cluster responds at '127.0.0.1:1': [Errno 111] Connection refused. Start a cluster"
    )


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has gone
        return ""


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly, id="SIGINT"),
        pytest.param(signal.SIGTERM, marks=pytest.mark.nightly, id="SIGTERM"),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow, id="SIGKILL"),
    ],
)
def test_ending_a_run_ends_the_ray_that_it_started(suite, tmp_path, number):
    command = [str(Path(sys.executable).parent / "bench"), "run", str(suite), "--executor", "ray", "--set", LONG]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    store = tmp_path / ".bench" / "store"
    wait_for(lambda: list(store.glob("unfinished/train*")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]
    commands = {child: command_of(child) for child in psutil.Process(process.pid).children(recursive=True)}
    assert any("raylet" in command for command in commands.values())
    if number == signal.SIGINT:  # as a terminal does
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    late = number == signal.SIGKILL  # two of Ray's own notice it after a minute
    started = [child for child, command in commands.items() if not (late and "Agent" in command)]
    _, words = process.communicate(timeout=300)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted; finished stages are stored" in words
        assert "Traceback" not in words
        assert not list(store.glob("unfinished/*"))
    wait_for(lambda: not any(child.is_running() and child.status() != "zombie" for child in started))
