"""Stages share GPUs: at most so many on each, and no more than fit in memory."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from itertools import product
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.execution import gpus, workers
from bench_core.execution.gpus import GPU, GPUs, gpus_here
from bench_core.execution.workers import Workers
from bench_core.planning.stages import Stage, StageRequest
from bench_core.runs import executors
from bench_core.storage.store import Store

GB = 10**9


def stage(key, device="cuda"):
    return Stage("train", key, {"device": device}, {}, key)


@pytest.mark.parametrize(("number", "per_gpu"), [*product([1, 2, 3], [1, 2, 4])])
def test_each_gpu_takes_as_many_stages_as_it_may_and_no_more(number, per_gpu):
    places = GPUs([GPU(str(one)) for one in range(number)], per_gpu)
    for count in range(number * per_gpu):
        assert places.free(None) is not None
        places.begin(str(count), None)
        loads = [sum(one is gpu for one, _ in places.on.values()) for gpu in places.gpus]
        assert max(loads) - min(loads) <= 1, "spread evenly"
    assert places.free(None) is None
    places.end("0")
    assert places.free(None) is not None


def test_stages_share_a_gpu_as_far_as_their_memory_fits():
    places = GPUs([GPU("0", 10 * GB)], per_gpu=4)
    places.begin("a", 6 * GB)
    assert places.free(4 * GB) is None, "some of the memory is left alone"
    assert places.free(3 * GB) is not None
    assert places.free(None) is not None, "what is unknown counts by its number"


def test_a_stage_too_large_for_any_gpu_begins_alone():
    places = GPUs([GPU("0", 10 * GB)], per_gpu=4)
    assert places.free(50 * GB) is not None
    places.begin("large", 50 * GB)
    assert places.free(1) is None


def test_the_memory_of_gpus_is_read_by_number_and_uuid(monkeypatch):
    said = "0, GPU-aaaa-1, 1000\n1, GPU-bbbb-2, 2000\n"
    monkeypatch.setattr(gpus.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-aaaa")
    assert gpus_here() == [GPU("1", 2000 * 2**20), GPU("GPU-aaaa", 1000 * 2**20)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_here() == []


class Watched:
    """Counts the stages on each GPU at a time, in place of worker processes."""

    def __init__(self):
        self.lock, self.now, self.most, self.seen = threading.Lock(), {}, {}, []

    def do(self, worker, request, tell, warn, hear):
        gpu = worker.gpu if request.stage.settings["device"] == "cuda" else "cpu"
        with self.lock:
            self.now[gpu] = self.now.get(gpu, 0) + 1
            self.most[gpu] = max(self.most.get(gpu, 0), self.now[gpu])
            self.seen.append(request.stage.key)
        time.sleep(0.01)
        with self.lock:
            self.now[gpu] -= 1


@pytest.fixture
def watched(monkeypatch):
    found = Watched()
    monkeypatch.setattr(workers.Worker, "do", lambda worker, *words: found.do(worker, *words))
    return found


def perform(pool, stages, memory=None):
    """Perform stages as the runner does: each where there is room."""
    waiting, running = [*stages], {}
    while waiting or running:
        for one in [*waiting]:
            if len(running) < pool.capacity and (pool.has_room(one, memory) or not running):
                waiting.remove(one)
                running[pool.submit(StageRequest(one), lambda *_: None)] = one
        for future in [one for one in running if one.done()]:
            future.result()
            del running[future]


@pytest.mark.parametrize(("number", "per_gpu"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_workers_have_at_most_so_many_stages_on_a_gpu_while_those_of_the_cpu_go_on(
    watched, tmp_path, number, per_gpu
):
    stages = [stage(f"{device}{count}", device) for count in range(8) for device in ("cuda", "cpu")]
    places = [GPU(str(one)) for one in range(number)]
    with Workers(8, tmp_path, tmp_path, per_gpu=per_gpu, gpus=places) as pool:
        perform(pool, stages)
    assert sorted(watched.seen) == sorted(one.key for one in stages)
    on_gpus = {gpu: most for gpu, most in watched.most.items() if gpu != "cpu"}
    assert len(on_gpus) == number
    assert max(on_gpus.values()) <= per_gpu
    assert watched.most["cpu"] > 1


def test_workers_leave_a_gpu_to_one_stage_where_two_do_not_fit(watched, tmp_path):
    with Workers(4, tmp_path, tmp_path, per_gpu=4, gpus=[GPU("0", 10 * GB)]) as pool:
        perform(pool, [stage(str(count)) for count in range(5)], memory=6 * GB)
    assert watched.most == {None: 1}, "the only GPU needs no name"


def test_a_failed_stage_gives_its_place_back(monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(workers.Worker, "do", fail)
    with Workers(2, tmp_path, tmp_path, gpus=[GPU("0")]) as pool:
        assert isinstance(pool.submit(StageRequest(stage("a")), lambda *_: None).exception(), RuntimeError)
        assert pool.has_room(stage("b"), None)


class Alone:
    """An executor that gives each stage a GPU of its own."""

    shares_gpus, closed = False, False

    def close(self):
        self.closed = True

    def submit(self, request, tell):
        return Future()


def test_sharing_is_refused_where_an_executor_cannot(tmp_path):
    class Config:
        name = "alone"

        def load(self):
            return lambda *_: Alone()

    with pytest.raises(SuiteError, match="'alone' gives each stage a separate GPU"):
        executors.executor(1, Store(tmp_path), tmp_path, Config(), per_gpu=2)


def test_the_suite_says_how_many_share_a_gpu_unless_the_command_line_does(tmp_path):
    suite = SimpleNamespace(hardware={"a": SimpleNamespace(per_gpu=4), "b": SimpleNamespace(per_gpu=3)})
    for asked, found in ((None, 3), (2, 2)):
        with executors.executor(1, Store(tmp_path), tmp_path, per_gpu=asked, suite=suite) as pool:
            assert pool.placed.per_gpu == found


def test_how_many_share_a_gpu_is_in_no_cache_key(suite_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = [
        CliRunner().invoke(bench, ["run", str(suite_file(**change)), "--dry-run", "--json"]).stdout
        for change in ({}, {"device: cpu": "device: cpu, per_gpu: 4"})
    ]
    assert found[0] == found[1]
    assert '"key"' in found[0]
