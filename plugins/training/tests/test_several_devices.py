"""A training on several devices: two processes end as one does, stop and resume, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from threading import Thread

import psutil
import pytest
import torch
from bench_small.elsewhere import ONE_OF_EACH, everywhere, list_peers
from safetensors.torch import load_file
from torch import nn

import bench_core
from bench_core import Batch
from bench_core.errors import SuiteError
from bench_training.batch_stream import share_of
from bench_training.checkpoint import Checkpoints
from bench_training.data_parallel import DataParallel
from bench_upkeep.garbage import CHECKPOINT

TWO = {"device: cpu}": "device: cpu, devices: 2}"}
MORE = {"epochs: 3,": "epochs: 6, accumulate: 2, average: exponential, clip: 0.5, evaluate_every: 2,"}


@pytest.fixture
def write(tmp_path):
    with everywhere(tmp_path / "site"):

        def suite(name="suite.yaml", **changes):
            text = ONE_OF_EACH
            for old, new in changes.items():
                assert old in text
                text = text.replace(old, new)
            path = tmp_path / name
            path.write_text(text)
            return path

        yield suite


def run(path, place, **more):
    return bench_core.run(path, store=place / "store", out=place / "runs", **{"workers": 0, **more})


def left(place):
    """Return the weights, history and updates of the only training."""
    (folder,) = (place / "store" / "train").iterdir()
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return load_file(folder / "weights.safetensors"), history, json.loads((folder / "training.json").read_text())


def alike(found, wanted):
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-6)
    assert [entry.keys() for entry in found[1]] == [entry.keys() for entry in wanted[1]]
    for one, other in zip(found[1], wanted[1], strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    assert found[2] == wanted[2]


def same(found, wanted):
    assert all(torch.equal(found[0][name], tensor) for name, tensor in wanted[0].items())
    assert found[1:] == wanted[1:]


@pytest.mark.slow(1)
@pytest.mark.parametrize("changes", [{}, MORE], ids=["plain", "more"])
def test_two_processes_end_as_one_does(write, tmp_path, changes):
    run(write("one.yaml", **changes), tmp_path / "one")
    run(write("two.yaml", **changes, **TWO), tmp_path / "two")
    alike(left(tmp_path / "two"), left(tmp_path / "one"))
    assert list_peers() == []


@pytest.mark.slow(1)
def test_two_processes_train_in_a_process_that_does_nothing_else(write, tmp_path):
    """What torch replaces when processes join is put back: elsewhere than here, Python prints tracebacks itself."""
    command = [sys.executable, "-m", "bench_core", "run", write("two.yaml", **TWO)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert left(tmp_path / ".bench")[2]["updates"] > 0


@pytest.mark.nightly
def test_more_processes_than_rows_end_as_one_does(write, tmp_path):
    """The last batch of an epoch, or every one, leaves some of them without rows."""
    few = {"batch_size: 8": "batch_size: 2"}
    run(write("one.yaml", **few), tmp_path / "one")
    run(write("three.yaml", **few, **{"device: cpu}": "device: cpu, devices: 3}"}), tmp_path / "three")
    alike(left(tmp_path / "three"), left(tmp_path / "one"))


def killed(path, place, *options):
    """Run a suite in a process that is killed with its workers once there is a checkpoint; return whether it was."""
    command = [sys.executable, "-m", "bench_core", "run", str(path), "--store", str(place / "store")]
    folders = ["--runs", str(place / "runs"), "--out", str(place / "out"), "--checkpoint-every", "0s", *options]
    process = subprocess.Popen([*command, *folders], stdout=subprocess.DEVNULL, start_new_session=True)
    checkpoints, deadline = place / "store" / CHECKPOINT, time.monotonic() + 300
    while not (checkpoints.exists() and any(checkpoints.glob("*/manifest.json"))):
        assert time.monotonic() < deadline
        assert process.poll() is None, "it ended before a checkpoint"
        time.sleep(0.02)
    assert len(list_peers()) == 1
    for one in psutil.Process(process.pid).children(recursive=True):
        if one not in list_peers():
            with suppress(psutil.NoSuchProcess):
                one.kill()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.nightly
def test_a_training_of_two_that_is_killed_ends_as_if_undisturbed(write, tmp_path):
    long = {"epochs: 3": "epochs: 40"}
    path = write("two.yaml", **long, **TWO)
    run(path, tmp_path / "undisturbed")
    killed(path, tmp_path / "killed", "--workers", "0")
    deadline = time.monotonic() + 300
    while list_peers():
        assert time.monotonic() < deadline, "the other process outlives the first"
        time.sleep(0.1)
    assert not (tmp_path / "killed" / "store" / "train").exists()
    run(path, tmp_path / "killed")
    same(left(tmp_path / "killed"), left(tmp_path / "undisturbed"))


@pytest.mark.nightly
def test_a_training_of_two_stops_at_a_time_limit_and_goes_on(write, tmp_path, monkeypatch):
    path = write("two.yaml", **{"epochs: 3": "epochs: 10"}, **TWO)
    with monkeypatch.context() as patch:
        asked = count()
        patch.setattr(Checkpoints, "over", lambda self: next(asked) >= 15)  # of this process, not of the other
        stopped = run(path, tmp_path / "stopped", stop_after=1e6)
    assert {cell.status for cell in stopped.cells} != {"done"}
    assert any((tmp_path / "stopped" / "store" / CHECKPOINT).glob("*/manifest.json"))
    run(path, tmp_path / "stopped")
    run(path, tmp_path / "undisturbed")
    same(left(tmp_path / "stopped"), left(tmp_path / "undisturbed"))


@pytest.mark.nightly
def test_the_death_of_one_process_is_told_and_takes_the_other_down(write, tmp_path):
    path = write("two.yaml", **{"epochs: 3": "epochs: 100000"}, **TWO)
    checkpoints = tmp_path / "run" / "store" / CHECKPOINT

    def kill():
        deadline = time.monotonic() + 300
        while not any(checkpoints.glob("*/manifest.json")) and time.monotonic() < deadline:
            time.sleep(0.05)
        for one in list_peers():
            one.kill()

    thread = Thread(target=kill)
    thread.start()
    found = run(path, tmp_path / "run", workers=1, checkpoint_every=0.0)
    thread.join()
    (reason,) = {cell.reason for cell in found.cells}
    assert "process 1 of the training run ended: code -9" in reason


def test_shares_are_the_rows_of_a_batch():
    ids = torch.arange(7)
    batch = Batch(ids, ids[:, None], ids[:, None], ids * 0 + 1)
    for number in (1, 2, 3, 7, 9):
        shares = [share_of(batch, rank, number) for rank in range(number)]
        assert torch.cat([one.ids for one in shares if one is not None]).equal(ids)
        sizes = [0 if one is None else len(one) for one in shares]
        assert max(sizes) - min(sizes) <= 1


GLOO = """
import sys, torch
from pathlib import Path
from torch import nn
from bench_training.log import Average
from bench_training.data_parallel import join, leave
from bench_core.model import Loss
rank, place = int(sys.argv[1]), sys.argv[2]
peers = join(rank, 3, place, torch.device("cpu"))
layer = nn.ParameterDict({name: nn.Parameter(torch.ones(2)) for name in ("all", "one", "none")})
layer["all"].grad = torch.full((2,), float(rank + 1))
if rank == 1:
    layer["one"].grad = torch.tensor([5.0, 7.0])
value, weight = peers.add_gradients(layer, torch.tensor(1.0 * rank), torch.tensor(10.0))
assert (value.item(), weight.item()) == (3.0, 30.0)
assert layer["all"].grad.tolist() == [6.0, 6.0]
assert layer["one"].grad.tolist() == [5.0, 7.0]
assert layer["none"].grad is None
assert peers.decide([rank == 0, rank == 1]) == [True, False]
assert peers.numbers([float(rank) + 0.5, float("nan")])[0] == 0.5
assert [one["x"].tolist() for one in peers.gather({"x": torch.arange(rank)})] == [[], [0], [0, 1]]
losses = Average()
losses.add(Loss(torch.tensor(float(rank)), torch.tensor(1 + rank)))
assert peers.combine(losses).values() == {"loss": (0 * 1 + 1 * 2 + 2 * 3) / 6}
leave()
print("fine")
"""


@pytest.mark.slow
def test_processes_add_up_decide_and_gather(tmp_path):
    command = [sys.executable, "-c", GLOO]
    several = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "place")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for rank in range(3)
    ]
    for process in several:
        out, words = process.communicate(timeout=300)
        assert out == b"fine\n", words.decode()


def test_sparse_gradients_are_refused():
    layer = nn.Embedding(3, 2, sparse=True)
    layer(torch.tensor([1])).sum().backward()
    with pytest.raises(SuiteError, match="sparse gradients are not supported on several devices"):
        DataParallel(0, 2).add_gradients(layer, torch.zeros(()), torch.ones(()))
