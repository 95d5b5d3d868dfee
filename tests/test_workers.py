"""Stages in worker processes: the same results as in one, and no crash that is not one stage's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import pytest

import bench_core
from bench_core.execution.failures import StageFailed
from bench_core.execution.workers import Workers
from bench_core.planning.stages import Stage, StageRequest
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_reports.render.report import write_report

SUITE = """
suite: tests/workers
tasks:
  sentences: {name: sequence-completion, corpus: {name: english, sentences: 150}, prefix: 2}
models:
  lstm: {name: rnn-lm, hidden: 8, layers: 1}
  tanh: {name: rnn-lm, cell: tanh, hidden: 8, layers: 1}
decoders:
  greedy: {name: greedy}
  sampled: {name: ancestral}
metrics:
  non-termination: {name: non-termination}
  perplexity: {name: perplexity}
training: {epochs: 2, batch_size: 16}
limits: {max_tokens: 12, examples: 8}
hardware: {device: cpu, threads: 1}
tables:
  - {id: main, rows: [decoder], columns: [model], values: [non-termination, perplexity]}
"""


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def report(folder, run):
    write_report(run, folder)
    return {name: (folder / name).read_bytes() for name in ("report.md", "report.tex", "results.json")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the run of the suite in this process."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "suite.yaml").write_text(SUITE)
    run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", workers=0)
    assert all(cell.status == "done" for cell in run.cells)
    return run


@pytest.mark.nightly
def test_two_workers_give_the_report_of_this_process_and_a_run_that_can_be_read_again(suite, whole, tmp_path):
    run = bench_core.run(suite, store=tmp_path / "store", out=tmp_path / "runs", workers=2)
    assert all(cell.status == "done" for cell in run.cells)
    assert report(tmp_path / "two", run) == report(tmp_path / "none", whole)
    assert read_run(Path(run.folder)) == run


@pytest.mark.nightly
def test_a_worker_that_is_killed_is_one_failed_stage_and_the_next_run_makes_up_for_it(suite, whole, tmp_path):
    store, killed = tmp_path / "store", []

    def kill():
        deadline = time.monotonic() + 300
        while not killed and time.monotonic() < deadline:
            if list((store / "unfinished").glob("train-*")):
                killed.extend(worker_processes())
                for process in killed[:1]:
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.005)

    killer = Thread(target=kill)
    killer.start()
    run = bench_core.run(suite, store=store, out=tmp_path / "runs", workers=1, settings=["training.epochs=40"])
    killer.join()
    failed = [cell for cell in run.cells if cell.status == "failed"]
    assert 1 <= len({cell.cell["model"] for cell in failed}) < 2, "the others go on"
    assert all("the worker process was killed by SIGKILL" in cell.reason for cell in failed)
    again = bench_core.run(suite, store=store, out=tmp_path / "runs", workers=1)
    assert report(tmp_path / "a", again) == report(tmp_path / "b", whole)


def worker_processes():
    import psutil

    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if "bench_core.execution.worker" in " ".join(child.cmdline())]


@pytest.mark.slow
def test_a_worker_ends_with_the_run_that_asked_for_it_and_leaves_nothing_half_written(suite, tmp_path):
    command = [str(Path(sys.executable).parent / "bench"), "run", str(suite), "--set", "training.epochs=1000"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    store = tmp_path / ".bench" / "store"
    wait_for(lambda: list(store.glob("unfinished/train*")))
    process.kill()
    process.wait()
    wait_for(lambda: not list(store.glob("unfinished/*")))


def wait_for(happened, seconds=300):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stage_survives_its_way_to_a_worker():
    stage = Stage(
        "decode",
        "k",
        {"a": [1, 2]},
        {"task": ("prepare", "p"), "model": ("train", "t")},
        "l",
        {"decode": "1f"},
        {"torch": "2"},
        {"decode": ("a:b", "c:d")},
        {"a.txt": "sha256:0"},
    )
    assert Stage.from_json(json.loads(json.dumps(asdict(stage)))) == stage


def test_the_failure_of_a_stage_comes_back_in_its_own_words_with_its_traceback(tmp_path):
    settings = {"name": "sequence-completion", "corpus": {"name": "nowhere"}}
    stage = Stage("prepare", "k" * 64, {"task": settings}, {}, "sentences")
    with Workers(1, tmp_path / "store", tmp_path) as workers, pytest.raises(StageFailed) as failure:
        workers.submit(StageRequest(stage), lambda text, share: None).result()
    assert failure.value.expected
    assert "Traceback" in failure.value.details
    assert not Store(tmp_path / "store").has("prepare", "k" * 64)
