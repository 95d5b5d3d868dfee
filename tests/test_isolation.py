"""Parts that disturb their process: named, contained, and without a trace in the results of others."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bench_small.elsewhere import everywhere
from bench_small.suites import SUITE

import bench_core
from bench_core.computing import process_state
from bench_core.computing.fingerprint import fingerprint
from bench_core.execution import workers
from bench_core.execution.executor import InProcess
from bench_core.execution.failures import StageFailed
from bench_core.execution.progress import ProgressDisplay
from bench_core.execution.worker import Channel, Garbled
from bench_core.runs.runner import Runner
from bench_core.storage.store import Store
from bench_core.suites.load import load

CLEAN = ("argmax", "draw")
ONE = ["models={one: {name: bigram}}"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Install the small plugin for worker processes, too."""
    folder = tmp_path_factory.mktemp("place")
    with everywhere(folder / "packages"):
        yield folder


@pytest.fixture(scope="module")
def undisturbed(place):
    """Return the numbers of the parts that behave, by cell and metric."""
    return numbers(run(place / "undisturbed", workers=0))


def suite(folder, *deeds, metrics=""):
    """Write the small suite with bad decoders before the others, each with a metric after it; return its path."""
    folder.mkdir(exist_ok=True)
    bad = "".join(f"  {deed}: {{name: bad, deed: {deed}}}\n" for deed in deeds)
    text = SUITE.replace("decoders:\n", f"decoders:\n{bad}").replace("seeds: 2", "seeds: 1")
    (folder / "suite.yaml").write_text(text.replace("metrics:\n", f"metrics:\n{metrics}"))
    return folder / "suite.yaml"


def run(folder, *deeds, metrics="", **options):
    """Run that suite."""
    options = {"workers": 1, "data": folder, "store": folder / "store", **options}
    return bench_core.run(suite(folder, *deeds, metrics=metrics), out=folder / "runs", **options)


def numbers(found):
    assert {cell.status for cell in found.cells if cell.cell["decoder"] in CLEAN} == {"done"}
    return {
        (cell.cell["model"], cell.cell["decoder"], name): vars(number)
        for cell in found.cells
        if cell.cell["decoder"] in CLEAN
        for name, number in cell.numbers.items()
        if name != "clear"
    }


def of_one(found):
    return {cell: number for cell, number in found.items() if cell[0] == "one"}


def reasons(found):
    return {cell.cell["decoder"]: cell.reason for cell in found.cells if cell.status != "done"}


def warnings(found):
    return (found.folder / "log").read_text()


def processes(folder):
    """Return the workers of a store, and the children that they have forked."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder / "store") in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def wait_for_the_end_of_processes(folder):
    """Wait until workers and their children have ended, which takes a moment after they were killed."""
    deadline = time.monotonic() + 300
    while processes(folder):
        assert time.monotonic() < deadline, "children end with their workers"
        time.sleep(0.1)


SETTINGS = {
    "dtype": "torch's default dtype",
    "precision": "torch's float32 precision",
    "deterministic": "torch's deterministic mode",
    "device": "torch's default device",
    "threads": "the number of threads",
    "folder": "the working directory",
}


@pytest.mark.nightly
def test_a_setting_of_the_process_that_a_part_changed_is_named_and_is_put_back(place, undisturbed):
    store = os.path.relpath(place / "settings" / "store")  # it is found from any working directory
    found = run(place / "settings", *SETTINGS, "gradients", "seed", "ignore", "stdin", store=store)
    assert numbers(found) == undisturbed
    said = warnings(found)
    for deed, name in SETTINGS.items():
        assert f"words x one x {deed}, seed 0, test: it changed {name}, restored" in said
    assert said.count("it changed the signal handlers") == 2
    assert said.count("it changed") == 2 * (len(SETTINGS) + 1), "for both models, and for nobody else"


@pytest.mark.slow
def test_what_a_part_did_to_model_batch_or_predictions_reaches_no_other_stage(place, undisturbed):
    found = run(place / "objects", "weights", "shuffled", "buffer", "method", "hook", "batch", workers=0,
                metrics="  clear: {name: clear}\n", settings=[
                    "exempt=[{part: clear, law: predictions_are_left_as_they_are, reason: it is tried here}]"
                ])  # fmt: skip
    assert numbers(found) == undisturbed
    told = reasons(found)
    assert {*told} - {"weights", "shuffled", "buffer"} <= {"method", "hook", "batch"}, (
        "a second look may refuse their own"
    )
    assert {deed: told[deed] for deed in ("weights", "shuffled", "buffer")} == {
        deed: f"decode of words x {{model}} x {deed}, seed 0, test: it changed the model's weights ({weights}), "
        "which are read-only. Modify copies instead.".format(model="two")
        for deed, weights in {"weights": "table.weight", "shuffled": "table.weight", "buffer": "luck"}.items()
    }
    store = Store(place / "objects" / "store")
    stored = {store.get("decode", key).manifest["label"] for kind, key in store.entries() if kind == "decode"}
    assert not [label for label in stored if "x weights" in label or "x shuffled" in label or "x buffer" in label]


#: What is said of a deed; nothing where what its child did is no concern of the stage.
TO_PROCESSES = {
    "input": r"it read standard input \(in bench_small.bad",
    "garbage": r"the worker process sent unexpected data instead of an answer \('",
    "kill": "was killed by SIGKILL",
    "recursion": "RecursionError",
    "lasting child": "",
    "answer": "unexpected data instead of an answer",
    "close": "a part closed the descriptors of its process|OSError",
    "leave": "ended with code 0",
    "quit": "ended with code 0",
    "child": "was killed by SIGABRT",
    "twice": "",
    "stop": "was suspended for",
}


@pytest.mark.slow(1)
@pytest.mark.parametrize("deeds", [[*TO_PROCESSES][:5], [*TO_PROCESSES][5:]], ids=["some", "others"])
def test_whatever_a_part_does_to_its_process_one_stage_fails_and_the_run_goes_on(
    place, undisturbed, monkeypatch, deeds, request
):
    monkeypatch.setattr(workers, "SILENCE", 2.0)
    monkeypatch.setattr(workers, "SUSPENSION", 3.0)
    folder = place / request.node.callspec.id
    found = run(folder, *deeds, settings=ONE)
    assert numbers(found) == of_one(undisturbed)
    said = reasons(found)
    assert {*said} == {deed for deed in deeds if TO_PROCESSES[deed]}
    for deed, reason in said.items():
        assert re.search(TO_PROCESSES[deed], reason), deed
    wait_for_the_end_of_processes(folder)


@pytest.mark.nightly
def test_a_stage_that_hangs_ends_when_its_time_is_up(place, undisturbed, monkeypatch):
    monkeypatch.setattr(workers, "CLEANUP_SECONDS", 1.0)
    found = run(place / "undisturbed", "sleep", "endless", stage_timeout=2.0)  # all else is stored
    assert numbers(found) == undisturbed
    assert [*reasons(found)] == ["sleep", "endless"]
    assert all("it took longer than 2 s (--stage-timeout)" in reason for reason in reasons(found).values())
    wait_for_the_end_of_processes(place / "undisturbed")


@pytest.mark.slow
def test_a_run_that_is_killed_takes_the_children_of_its_parts_along(place, undisturbed):
    folder = place / "undisturbed"
    command = [str(Path(sys.executable).parent / "bench"), "run", str(suite(folder, "lasting child", "sleep"))]
    process = subprocess.Popen(
        [*command, "--store", str(folder / "store"), "--data", str(folder)], cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while len(processes(folder)) < 3:  # the run, its worker, and the child
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.wait()
    wait_for_the_end_of_processes(folder)


@pytest.mark.nightly
def test_code_that_was_replaced_fails_its_stage_by_name_and_reaches_no_other(place, undisturbed):
    found = run(place / "patch", "patch", settings=ONE)
    assert numbers(found) == of_one(undisturbed)
    (reason,) = reasons(found).values()
    assert "it replaced torch." in reason
    assert "Nothing was stored" in reason


# without processes


def test_a_stage_in_this_process_finds_the_same_state_and_leaves_it_as_it_was(place, undisturbed, monkeypatch):
    monkeypatch.chdir(place)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    random.seed(5)
    try:
        states = torch.get_rng_state(), random.getstate()
        assert numbers(run(place / "here", "threads", workers=0)) == undisturbed
        assert torch.get_default_dtype() == torch.float64
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert os.getcwd() == str(place)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_stage_computes_in_float32_in_layers_of_cudnn_too(tmp_path):
    torch.backends.cudnn.allow_tf32 = True
    with process_state.defined_state(1, 0, str(tmp_path), lambda names: None):
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("inside", ["nullcontext()", "state.unchanged_state()"])
def test_the_stage_that_imports_torch_computes_in_float32_too_and_is_not_said_to_change_it(inside):
    code = (
        "from contextlib import nullcontext;"
        "import os, sys; from bench_core.computing import process_state as state;"
        "from bench_core.execution.watching import install;"
        "install(); told = []; assert 'torch' not in sys.modules\n"
        "with state.defined_state(1, 0, os.getcwd(), told.append):\n"
        f"    with {inside}:\n"
        "        import torch\n"
        "    inside = torch.backends.cudnn.allow_tf32\n"
        "print(inside, torch.backends.cudnn.allow_tf32, told)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False True []"
    )


@pytest.mark.slow
def test_every_setting_that_is_put_back_is_one_of_a_fresh_process(tmp_path):
    code = (
        "import torch, numpy; from bench_core.computing import process_state as state;"
        "found = state._present(); print([n for n, v in state.FRESH.items() if found[n] != v])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_generators_are_seeded_alike_for_every_stage_of_a_seed(tmp_path):
    def draws(seed):
        with process_state.defined_state(1, seed, str(tmp_path), lambda names: None):
            import numpy as np

            return random.random(), np.random.rand(), torch.rand(()).item()

    assert draws(3) == draws(3)
    assert all(one != other for one, other in zip(draws(3), draws(4), strict=True))


def test_what_a_module_sets_when_it_is_imported_or_built_does_not_last():
    with process_state.unchanged_state():
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_a_fingerprint_tells_any_change_of_a_weight(dtype):
    model = torch.nn.Module()
    model.register_buffer("table", torch.zeros(3, 4).to(dtype).T)
    before = fingerprint(model)
    assert not before.changed(fingerprint(model))
    assert before == fingerprint(model)
    model.table[3, 2] = 1
    assert before.changed(fingerprint(model)) == ["table"]
    model.table[3, 2], model.table[2, 2] = 0, 0
    model.added = torch.nn.Parameter(torch.zeros(0))
    assert before.changed(fingerprint(model)) == ["added"]


@pytest.mark.parametrize(
    "text", [b"x", b"tokem", b"other {}\n", b"token {\n", b"token \xff\n", b"\n", b'{"done": true}\n']
)
def test_only_what_stands_behind_the_token_of_an_order_is_its_answer(text):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        theirs.sendall(b'token {"tell": []}\ntok')
        assert channel.receive("token", 1.0) == [{"tell": []}]
        theirs.sendall(b'en {"warn": ""}\n' + text)
        with pytest.raises(Garbled):
            channel.receive("token", 1.0)


def test_what_comes_between_two_orders_costs_a_process_and_no_stage(tmp_path):
    worker = workers.Worker(0, tmp_path, tmp_path)
    try:
        process, channel = worker._ready()
        assert worker._ready() == (process, channel)
        channel.rest = b"gar"
        assert worker._ready()[0] != process
        assert process.poll() is not None
    finally:
        worker.kill()


def test_a_worker_that_is_silent_but_not_stopped_gets_a_warning_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "SILENCE", 0.0)
    monkeypatch.setattr(workers, "_is_stopped", lambda process: False)
    said, answers = [], iter([[], [], [{"done": True}]])
    process, channel = (
        SimpleNamespace(poll=lambda: None, pid=1),
        SimpleNamespace(receive=lambda *_: next(answers), closed=False),
    )
    found = workers.Worker(0, tmp_path, tmp_path)._answers(process, channel, "token", said.append)
    assert next(found) == {"done": True}
    assert len(said) == 1
    assert "no heartbeat" in said[0]


def test_an_artifact_that_is_not_there_though_its_stage_was_said_to_be_done_is_a_failure(place):
    class Liar(InProcess):
        def submit(self, order, tell):
            future = Future()
            future.set_result(None)
            return future

    store = Store(place / "lies" / "store")
    found = Runner(load(suite(place / "lies")), place, store, Liar(store, place), ProgressDisplay()).run(
        place / "lies" / "runs"
    )
    assert all("it finished, but its artifact cannot be read" in cell.reason for cell in found.cells)


def test_only_worker_processes_can_be_isolated_or_ended(place):
    for options in ({"isolate": True}, {"stage_timeout": 1.0}):
        with pytest.raises(bench_core.SuiteError, match="worker processes on this machine"):
            run(place / "none", workers=0, **options)


def test_no_worker_process_can_be_started_is_the_failure_of_a_stage(tmp_path, monkeypatch):
    def full(*words, **options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(workers.subprocess, "Popen", full)
    with pytest.raises(StageFailed, match="cannot start a worker process"):
        workers.Worker(0, tmp_path, tmp_path)._ready()
