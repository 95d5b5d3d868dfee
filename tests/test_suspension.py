"""Workers, runs and machines that are suspended for a while go on afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from types import SimpleNamespace

import pytest
from bench_small.elsewhere import everywhere
from bench_small.suites import SUITE

import bench_core
from bench_core.execution import workers
from bench_core.execution.executor import Executor, InProcess
from bench_core.execution.failures import StageFailed, time_up
from bench_core.execution.progress import ProgressDisplay
from bench_core.execution.worker import Channel
from bench_core.runs import time_limit
from bench_core.runs.runner import Runner
from bench_core.storage.store import Store
from bench_core.suites.load import load

ANSWERS = """
import socket, sys, time
end = socket.socket(fileno=int(sys.argv[1]))
for answer in ["begun", *["alive"] * 6, "done"]:
    end.sendall(f'token {{"{answer}": true}}\\n'.encode())
    time.sleep(0.05)
"""


@pytest.fixture
def answering(tmp_path, monkeypatch):
    """Return a worker that is to be patient for 0.2 s, and a function that starts its process, suspended."""
    for name in ("SILENCE", "PAUSE"):
        monkeypatch.setattr(workers, name, {"SILENCE": 0.2, "PAUSE": 0.02}[name])
    worker = workers.Worker(0, tmp_path, tmp_path, words=(tmp_path / "words").open("w+b"))

    def start():
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-S", "-c", ANSWERS, str(theirs.fileno())]
            worker.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        os.kill(worker.process.pid, signal.SIGSTOP)
        worker.channel = Channel(ours)
        return worker.process, worker.channel

    yield worker, start
    worker.kill()


def test_a_suspended_worker_is_waited_for_and_goes_on(answering):
    worker, start = answering
    worker.timeout = 60.0
    (process, channel), said = start(), list[str]()

    def resume(text):
        said.append(text)
        os.kill(process.pid, signal.SIGCONT)

    begun, answers = time.monotonic(), worker._answers(process, channel, "token", resume)
    assert [*iter(lambda: next(answers), {"done": True})] == [{"begun": True}, *[{"alive": True}] * 6]
    assert said == [
        f"the worker process {process.pid} is suspended. The run waits for it; `kill -CONT {process.pid}` resumes it."
    ]
    assert time.monotonic() - begun >= 0.2


def test_a_suspended_stage_takes_no_time(answering, monkeypatch):
    worker, start = answering
    worker.timeout = 3.0
    monkeypatch.setattr(workers, "SILENCE", 4.0)
    process, channel = start()
    os.kill(process.pid, signal.SIGCONT)
    answers = worker._answers(process, channel, "token", lambda text: os.kill(process.pid, signal.SIGCONT))
    assert next(answers) == {"begun": True}
    os.kill(process.pid, signal.SIGSTOP)
    assert [*iter(lambda: next(answers), {"done": True})], "though it was suspended for longer than --stage-timeout"


def test_a_worker_that_is_never_resumed_is_ended(answering):
    worker, start = answering
    worker.suspension = 0.5
    (process, channel), said = start(), []
    with pytest.raises(StageFailed, match=r"was suspended for 0.5 s. Run the suite again to continue"):
        [*worker._answers(process, channel, "token", said.append)]
    assert len(said) == 1
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("answers", [[[], [], [{"done": True}]], [[{"begun": True}], [], [{"done": True}]]])
def test_after_the_machine_was_suspended_no_worker_is_blamed(tmp_path, monkeypatch, answers):
    clock, said = [100.0], []

    def receive(*_):
        clock[0] += 10 * 3600.0
        return answers.pop(0)

    monkeypatch.setattr(workers.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(workers, "_is_stopped", lambda process: False)
    process, channel = SimpleNamespace(poll=lambda: None, pid=1), SimpleNamespace(receive=receive, closed=False)
    worker = workers.Worker(0, tmp_path, tmp_path, timeout=60.0)
    found = worker._answers(process, channel, "token", said.append)
    assert [*iter(lambda: next(found), {"done": True})] in ([], [{"begun": True}])
    assert said == []


def test_a_stage_that_takes_too_long_ends_though_it_answers(tmp_path, monkeypatch):
    clock = [100.0]

    def receive(*_):
        clock[0] += 1.0
        return [{"begun": True}] if clock[0] == 101.0 else [{"alive": True}]

    monkeypatch.setattr(workers.time, "monotonic", lambda: clock[0])
    process, channel = SimpleNamespace(poll=lambda: None, pid=1), SimpleNamespace(receive=receive, closed=False)
    worker = workers.Worker(0, tmp_path, tmp_path, timeout=60.0)
    with pytest.raises(StageFailed, match="longer than 60 s"):
        [*worker._answers(process, channel, "token", lambda text: None)]
    assert clock[0] == 161.0


class Late(Executor):
    """Prepares tasks, and answers to other requests some time after them, when the time limit is long over: the machine was suspended."""

    capacity = 1

    def __init__(self, monkeypatch, seconds, first):
        self.first, self.seconds, self.left, now = first, seconds, [], time.time
        self.wake = lambda: monkeypatch.setattr(time_limit.time, "time", lambda: now() + 10_000)

    def submit(self, request, tell):
        future = Future()
        if request.stage.kind == "prepare":
            return self.first.submit(request, tell)

        def work():
            time.sleep(self.seconds)
            self.left.append("a checkpoint")
            future.set_exception(time_up())

        Thread(target=work, daemon=True).start()
        self.wake()
        return future

    def close(self):
        pass


@pytest.mark.parametrize(("seconds", "left"), [(0.2, ["a checkpoint"]), (5.0, [])])
def test_stages_have_time_to_stop_after_the_machine_slept_past_the_time_limit(
    suite_file, tmp_path, monkeypatch, seconds, left
):
    store = Store(tmp_path / "store")
    executor = Late(monkeypatch, seconds, InProcess(store, tmp_path))
    monkeypatch.setattr(time_limit, "GRACE", 60.0 if left else 0.5)
    limited = Runner(load(suite_file()), tmp_path, store, executor, ProgressDisplay(), until=time.time() + 100)
    found = limited.run(tmp_path / "runs")
    assert executor.left == left
    assert {cell.status for cell in found.cells} == {"not run"}


@pytest.mark.nightly
def test_a_training_goes_on_after_its_worker_was_suspended(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "SILENCE", 1.0)
    store, path, said = tmp_path / "store", tmp_path / "suite.yaml", list[str]()
    path.write_text(SUITE.replace("epochs: 3", "updates: 200").replace("seeds: 2", "seeds: 1"))

    class Watching(ProgressDisplay):
        def warn(self, text):
            if "is suspended" in text:
                said.append(text)
                os.kill(int(text.split()[3]), signal.SIGCONT)

    def suspend():
        end = time.monotonic() + 300
        while time.monotonic() < end:
            with suppress(StopIteration):
                next((store / "unfinished").glob("train-*"))
                os.kill(worker(store), signal.SIGSTOP)
                return
            time.sleep(0.01)

    with everywhere(tmp_path / "packages"):
        suspending = Thread(target=suspend)
        suspending.start()
        found = bench_core.run(
            path, data=tmp_path, store=store, out=tmp_path / "runs", workers=1, progress=Watching()
        )  # fmt: skip
        suspending.join()
    assert len(said) == 1
    assert {cell.status for cell in found.cells} == {"done"}


def worker(store):
    """Return the process of the worker of a store."""
    import psutil

    children = psutil.Process().children(recursive=True)
    return next(child.pid for child in children if str(store) in child.cmdline())
