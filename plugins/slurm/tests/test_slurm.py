"""Stages as jobs: the same results, and no death that is not one stage's own."""

from __future__ import annotations

import os
import pickletools
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import psutil
import pytest
from bench_small.elsewhere import OF_TWO, ONE_OF_EACH, die_and_go_on, everywhere, listened, report
from bench_small.suites import SUITE

import bench_core
from bench_core import StageFailed, StageRequest, StageStarted, SuiteError
from bench_core.commands.run import chosen
from bench_core.planning.plan import plan
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_slurm.clusters import OnSlurm
from bench_slurm.executor import Slurm
from bench_slurm.jobs import EventReader, EventWriter
from bench_slurm.plugin import SlurmConfig

pytestmark = pytest.mark.extra("bench-slurm")
LONG = "training.epochs=1000000"


@pytest.fixture
def suite(tmp_path):
    with everywhere(tmp_path / "site"):
        path = tmp_path / "suite.yaml"
        path.write_text(ONE_OF_EACH)
        yield path


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Put a Slurm of this machine on the path; return the folder of its jobs."""
    commands, folder = tmp_path / "bin", tmp_path / "cluster"
    for place in (commands, folder):
        place.mkdir()
    script = Path(__file__).with_name("fake_slurm.py").read_text()
    for name in ("sbatch", "srun", "squeue", "scancel", "watch"):
        (commands / name).write_text(f"#!{sys.executable}\n{script}")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def run(suite, place, config=None, workers=0, **more):
    return bench_core.run(suite, store=place / "store", out=place / "runs", workers=workers, elsewhere=config, **more)


def on(cluster, **settings):
    return SlurmConfig(cluster=cluster, poll=0.3, **settings)


def first_training(suite, place, settings=()):
    """Return the first training of a suite, once what it reads is stored."""
    stages = plan(load(suite, None, settings, None), place).stages.values()
    prepare, train = (next(stage for stage in stages if stage.kind == kind) for kind in ("prepare", "train"))
    with Slurm(on("debug"), place / "store", place, 1) as executor:
        executor.submit(StageRequest(prepare), lambda text, share: None).result()
    return train


def wait_for(happened, seconds=300):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes(folder):
    """Return the processes that name a folder in their command line."""
    found = [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]
    return [process for process in found if str(folder) in " ".join(process.info["cmdline"])]


@pytest.mark.slow
def test_debugging_gives_the_same_report_as_this_process(suite, tmp_path):
    suite.write_text(SUITE)
    here = report(tmp_path / "a", run(suite, tmp_path / "here"))
    found = report(tmp_path / "b", run(suite, tmp_path / "debug", on("debug", brief="job"), workers=2))
    assert found == here
    assert not (tmp_path / "debug" / "store-jobs").exists(), "nothing is left"


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_jobs_give_the_same_report_as_this_process_and_observers_hear_the_same(suite, tmp_path, cluster, name):
    """By files that a job appends to, whatever of it is read when."""
    runs = {}

    def heard(place, config=None):
        def observed(observers):
            runs[place] = run(suite, tmp_path / place, config, workers=2 if config else 0, observers=observers)

        return listened(observed)

    here = heard("here")
    assert len(here) == 1
    assert heard("there", on(name)) == here
    assert report(tmp_path / "b", runs["there"]) == report(tmp_path / "a", runs["here"])
    assert not (tmp_path / "there" / "store-jobs").exists(), "nothing is left"


def test_events_are_read_once_also_where_a_line_is_not_yet_whole(tmp_path):
    path = tmp_path / "events.jsonl"
    events = [StageStarted("train", f"words x {number}", "ab") for number in range(3)]
    written = EventWriter(path, last_write=time.monotonic() + 1000)
    read = EventReader(path)
    assert read() == []
    for event in events[:2]:
        written(event)
    assert not path.exists(), "not at once"
    written.flush()
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert read() == events[:1]
    path.write_bytes(whole)
    assert read() == events[1:2]
    written(events[2])
    written.flush()
    assert [*read(), *read()] == events[2:]


@pytest.mark.nightly
def test_workers_and_brief_jobs_give_the_same_report_too(suite, tmp_path):
    found = report(tmp_path / "a", run(suite, tmp_path / "workers", workers=2))
    assert report(tmp_path / "b", run(suite, tmp_path / "jobs", on("local", brief="job"), workers=2)) == found


def test_a_job_asks_for_what_its_stage_needs(suite, tmp_path, cluster):
    stages = plan(load(suite, None, ["hardware.device=cuda", "hardware.threads=3"], None), tmp_path).stages.values()
    config = on(
        "slurm", partition="cpu", gpu_partition="gpu", account="us", memory=1.5, minutes=90, setup="module load cuda",
        extra="--exclude=n1,n2 --exclusive",
    )  # fmt: skip
    slurm = OnSlurm(config, tmp_path / "jobs")
    asked = {}
    for stage in stages:
        slurm._poll = lambda: None
        slurm.config = config.model_copy(update={"extra": f"{config.extra} --begin=never"})
        job = slurm.submit(StageRequest(stage), "order", "store", "data", "place", None)
        asked[stage.kind] = (cluster / f"{job.job_id}.sh").read_text().splitlines()
    everyone = {"--account=us", "--mem=1500M", "--time=90", "--exclude=n1,n2", "--exclusive"}
    for kind, lines in asked.items():
        flags = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")}
        cuda = kind not in ("prepare", "measure")
        assert everyone | {f"--job-name=bench-{kind}", f"--cpus-per-task={3 if cuda else 1}"} <= flags
        assert ("--gpus-per-node=1" in flags) == cuda
        assert f"--partition={'gpu' if cuda else 'cpu'}" in flags
        assert "module load cuda" in lines
        assert any(line.startswith("srun") and f"--cpus-per-task={3 if cuda else 1} " in line for line in lines)
    assert "--time=5" not in str(asked), "a limit that nobody asked for"


def test_what_is_pickled_for_a_job_is_the_name_of_a_function_and_texts(suite, tmp_path, cluster):
    train = first_training(suite, tmp_path)
    executor = Slurm(on("slurm", extra="--begin=never"), tmp_path / "store", tmp_path, 1)
    executor.submit(StageRequest(train), lambda text, share: None)
    wait_for(lambda: list(executor.folder.glob("*_submitted.pkl")))
    (path,) = executor.folder.glob("*_submitted.pkl")
    words = [value for code, value, _ in pickletools.genops(path.read_bytes()) if "UNICODE" in code.name]
    executor.close()
    needed = {"submitit.core.utils", "DelayedSubmission", "bench_slurm.jobs", "job", "builtins", "getattr"}
    globals_ = {word for word in words if word.startswith(("bench_", "submitit", "builtins"))}
    assert globals_ <= needed
    assert "bench_slurm.jobs" in globals_


def test_the_failure_of_a_stage_comes_back_in_its_own_words_and_its_logs_are_kept(suite, tmp_path):
    suite.write_text(ONE_OF_EACH.replace("{name: bigram}", "{name: bigram, breaks: training}"))
    (cell,) = run(suite, tmp_path, on("debug", brief="job")).cells
    assert "RuntimeError: out of luck" in cell.reason
    assert "Traceback" in next((tmp_path / "store" / "failures").iterdir()).read_text()
    assert {path.suffix for path in (tmp_path / "store-jobs").glob("*/*")} <= {".out", ".err"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_a_killed_job_is_one_failed_cell_with_its_last_words(suite, tmp_path, cluster, name, monkeypatch):
    monkeypatch.setattr("bench_slurm.clusters.OnSlurm.patience", 0.5)
    suite.write_text(ONE_OF_EACH.replace("{name: bigram}", "{name: bigram, training: {epochs: 1000000}}"))

    def kill():
        wait_for(lambda: list((tmp_path / "store" / "unfinished").glob("train-*")))
        for process in processes(tmp_path / "store-jobs"):
            if process.info["cmdline"][1:4] == ["-u", "-m", "submitit.core._submit"]:
                with next((tmp_path / "store-jobs").glob("*/*_log.err")).open("a") as log:
                    log.write("my last words")
                process.kill()

    killer = Thread(target=kill)
    killer.start()
    (cell,) = run(suite, tmp_path, on(name)).cells
    killer.join()
    assert cell.status == "failed"
    assert "ended without an answer (" in cell.reason
    assert "Its logs are kept as" in cell.reason
    assert next((tmp_path / "store" / "failures").iterdir()).read_text().endswith("my last words")
    assert [path.read_text() for path in (tmp_path / "store-jobs").glob("*/*_log.err")] == ["my last words"]


@pytest.mark.nightly
def test_a_training_of_two_processes_that_is_killed_ends_as_if_undisturbed(suite, tmp_path):
    suite.write_text(OF_TWO)

    def kill():
        for process in processes(tmp_path / "killed" / "store-jobs"):
            process.kill()

    die_and_go_on(lambda place: run(suite, place, on("local"), checkpoint_every=0.0), tmp_path, kill)
    here = report(tmp_path / "a", run(suite, tmp_path / "here"))
    assert report(tmp_path / "b", run(suite, tmp_path / "killed", on("local"))) == here


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_closing_cancels_what_is_under_way_and_leaves_neither_processes_nor_halves(suite, tmp_path, cluster, name):
    train, told = first_training(suite, tmp_path, [LONG]), []
    executor = Slurm(on(name), tmp_path / "store", tmp_path, 1)
    future = executor.submit(StageRequest(train), lambda text, share: told.append((text, share)))
    wait_for(lambda: any(text.startswith("step") and 0 < share < 1 for text, share in told))
    executor.close()
    with pytest.raises(StageFailed, match="interrupted"):
        future.result(0)
    wait_for(lambda: not processes(tmp_path / "store-jobs"))
    wait_for(lambda: not list((tmp_path / "store" / "unfinished").iterdir()))
    assert told[0][0].startswith("job ")
    assert told[0][0].endswith(("pending", "running"))


def test_jobs_are_cancelled_when_their_threads_end_before_the_cancellation(suite, tmp_path, cluster, monkeypatch):
    train = first_training(suite, tmp_path)
    executor = Slurm(on("slurm", extra="--begin=never"), tmp_path / "store", tmp_path, 1)
    future = executor.submit(StageRequest(train), lambda text, share: None)
    wait_for(lambda: executor.jobs)
    (job,) = executor.jobs
    monkeypatch.setattr(executor.here, "close", lambda: future.exception(300))
    executor.close()
    assert (cluster / f"{job}.state").read_text() == "CANCELLED"


def test_a_training_that_takes_longer_than_a_job_goes_on_in_another(suite, tmp_path, monkeypatch):
    train = first_training(suite, tmp_path, ["training.epochs=4"])
    with Slurm(on("debug", minutes=1e-4), tmp_path / "store", tmp_path, 1) as executor:
        submitted = []
        once = executor.cluster.submit
        monkeypatch.setattr(executor.cluster, "submit", lambda *words: submitted.append(words) or once(*words))
        executor.submit(StageRequest(train), lambda text, share: None).result()
    assert len(submitted) > 1
    with Slurm(on("debug"), tmp_path / "whole", tmp_path, 1) as executor:
        for stage in plan(load(suite, None, ["training.epochs=4"], None), tmp_path).stages.values():
            if stage.kind in ("prepare", "train"):
                executor.submit(StageRequest(stage), lambda text, share: None).result()
    files = [
        Store(tmp_path / store).get("train", train.key).file("weights.safetensors") for store in ("store", "whole")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_that_is_out_of_time_is_not_continued_in_another_job(suite, tmp_path):
    train = first_training(suite, tmp_path, [LONG])
    with Slurm(on("debug", minutes=60), tmp_path / "store", tmp_path, 1) as executor:
        future = executor.submit(StageRequest(train, until=time.time()), lambda text, share: None)
        with pytest.raises(StageFailed, match="the time limit was reached") as stop:
            future.result()
    assert stop.value.stopped


def test_a_job_that_slurm_does_not_take_is_a_failed_stage_with_its_reason(suite, tmp_path, cluster):
    refuses = cluster.parent / "bin" / "sbatch"
    refuses.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpuu' >&2\nexit 1\n")
    train = first_training(suite, tmp_path)
    with Slurm(on("slurm"), tmp_path / "store", tmp_path, 1) as executor, pytest.raises(StageFailed) as failure:
        executor.submit(StageRequest(train), lambda text, share: None).result()
    assert "the job was rejected: " in str(failure.value)
    assert "invalid partition specified: gpuu" in str(failure.value)


def test_without_slurm_there_is_one_error_before_anything_starts(suite, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SuiteError, match="needs sbatch, srun, squeue, scancel, which were not found on this machine"):
        run(suite, tmp_path, SlurmConfig())
    assert not (tmp_path / "store").exists()


def test_settings_are_read_from_the_command_line_and_wrong_ones_refused():
    given = ("cluster=local", "minutes=30", "extra=--exclude=n1,n2 --nice=100", "folder=/shared/jobs")
    config = SlurmConfig(cluster="local", minutes=30, extra="--exclude=n1,n2 --nice=100", folder=Path("/shared/jobs"))
    assert chosen("slurm", given) == config
    with pytest.raises(SuiteError, match="'exclude=n1' is not an option of sbatch"):
        chosen("slurm", ("extra=exclude=n1",))
    with pytest.raises(SuiteError, match="has no setting 'partitoin'"):
        chosen("slurm", ("partitoin=gpu",))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="SIGINT"),
        pytest.param(signal.SIGTERM, id="SIGTERM"),
    ],
)
def test_interrupting_a_run_ends_its_local_jobs(suite, tmp_path, number):
    words = ["--executor", "slurm", "--with", "cluster=local", "--set", LONG]
    command = [str(Path(sys.executable).parent / "bench"), "run", str(suite), *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    store = tmp_path / ".bench" / "store"
    wait_for(lambda: list(store.glob("unfinished/train*")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]
    os.killpg(process.pid, number)  # as a terminal does
    _, words = process.communicate(timeout=300)
    wait_for(lambda: not processes(tmp_path / ".bench"))
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in words
    assert not list(store.glob("unfinished/*"))
