"""Runs that are killed: nothing is lost, nothing is left in part, and the end is that of an undisturbed run."""

from __future__ import annotations

import errno
import os
import socket
from itertools import count
from random import Random

import pytest
import torch
from bench_small.killing import SUITES, Place, differences
from safetensors.torch import load_file, save_file

import bench_core
from bench_core.execution.failures import StageFailed
from bench_core.execution.worker import Channel
from bench_core.execution.workers import Workers
from bench_core.planning.stages import Stage, StageRequest
from bench_core.storage import store as stores
from bench_core.storage.checkpoints import CHECKPOINT
from bench_core.storage.store import Store
from bench_training.checkpoint import WEIGHTS, Checkpoints, _built, _flat


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "workers", "victims"),
    [
        pytest.param("sentences", 1, ("run",), marks=pytest.mark.slow),
        pytest.param("sentences", 2, ("run", "worker") * 2, marks=pytest.mark.nightly),
        pytest.param("stream", 1, ("run", "worker") * 2, marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_is_killed_again_and_again_ends_as_if_undisturbed(name, workers, victims, tmp_path):
    """Fifty kills are those of `tests/drills/kill_runs.py`."""
    suite = SUITES[name].replace("updates: 800", "updates: 300")
    wanted, seconds = Place(tmp_path / "undisturbed", suite).undisturbed()
    place, random = Place(tmp_path / "killed", suite, workers), Random(3)
    kills = [place.kill(random.uniform(0.3, 0.9) * seconds, victim, random) for victim in victims]
    found, _ = place.finish()
    assert differences(found, wanted) == [], kills
    assert place.leftovers() == [], kills


@pytest.mark.slow
def test_a_worker_that_died_while_it_had_nothing_to_do_fails_no_stage(tmp_path):
    settings = {"name": "sequence-completion", "corpus": {"name": "nowhere"}}
    stage = Stage("prepare", "k" * 64, {"task": settings}, {}, "sentences")
    with Workers(1, tmp_path / "store", tmp_path) as workers:
        for _ in range(2):
            with pytest.raises(StageFailed, match="nowhere"):
                workers.submit(StageRequest(stage), lambda text, share: None).result()
            process = workers.all[0].process
            os.kill(process.pid, 9)
            process.wait()


def test_half_an_answer_of_a_worker_that_died_is_none():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'7 {"tell": ["a", 0.5]}\n7 {"failed": {"te')
        theirs.shutdown(socket.SHUT_RDWR)
        channel = Channel(ours)
        assert channel.receive("7", 1.0) == [{"tell": ["a", 0.5]}]
        assert channel.receive("7", 1.0) == []
        assert channel.closed


@pytest.mark.slow
def test_a_checkpoint_is_kept_until_its_training_is_stored(suite_file, tmp_path, monkeypatch):
    write = stores.write_manifest

    def full(folder, kind, key, about):
        if kind == "train":
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(folder, kind, key, about)

    def run():
        return bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs", checkpoint_every=0.0)

    with monkeypatch.context() as patch:
        patch.setattr(stores, "write_manifest", full)
        assert {cell.status for cell in run().cells} == {"failed"}
    left = sorted((tmp_path / "store" / CHECKPOINT).iterdir())
    assert left
    begun = {path: path.stat().st_mtime_ns for path in (path / "manifest.json" for path in left)}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "due", lambda self: False)
        patch.setattr(Checkpoints, "remove", lambda self: None)
        assert {cell.status for cell in run().cells} == {"done"}
    assert begun == {path: path.stat().st_mtime_ns for path in begun}, "they were taken up, at their ends"
    run()


def test_what_is_taken_up_lies_in_memory_as_what_was_computed_did(tmp_path):
    """Products of matrices differ in the last bit by how their rows lie, and so would the rest of the training."""
    kept = {"memory": torch.ones(3, 5), "moments": [torch.ones(7), torch.ones(1), torch.ones(6, 9)]}
    tensors = {}
    flat = _flat(kept, tensors)
    save_file(tensors, tmp_path / "tensors.safetensors")
    built = _built(flat, load_file(tmp_path / "tensors.safetensors"), torch.device("cpu"))
    found = [built["memory"], *built["moments"]]
    assert [tensor.data_ptr() % 64 for tensor in found] == [torch.ones(1).data_ptr() % 64] * 4
    assert len({tensor.untyped_storage().data_ptr() for tensor in found}) == 4, (
        "none is part of another, or of a file"
    )


@pytest.mark.slow
def test_a_model_with_memory_that_is_stopped_again_and_again_is_trained_as_if_undisturbed(tmp_path, monkeypatch):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITES["stream"].replace("updates: 800", "updates: 60").replace("evaluate_every: 100, ", ""))

    def weights(folder):
        run = bench_core.run(suite, store=folder, out=tmp_path / "runs", stop_after=1e6)
        done = all(cell.status == "done" for cell in run.cells)
        return done and [(folder / "train" / cell.artifacts["train"] / WEIGHTS).read_bytes() for cell in run.cells]

    wanted, turns = weights(tmp_path / "undisturbed"), 0
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "over", lambda self: next(asked) >= 15)
        asked = count()
        while not (found := weights(tmp_path / "stopped")):
            asked, turns = count(), turns + 1
    assert turns > 5
    assert found == wanted


def test_a_checkpoint_that_is_being_removed_is_never_there_in_part(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(place):
        next(path for path in place.rglob("*") if path.suffix == ".json").unlink()
        raise Killed

    store, heard = Store(tmp_path), []
    with store.writing(CHECKPOINT, "c" * 64, {}) as folder:
        (folder / "rest.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(stores.shutil, "rmtree", killed)
        with pytest.raises(Killed):
            store.remove(CHECKPOINT, "c" * 64)
    assert not store.path(CHECKPOINT, "c" * 64).exists()
    assert heard == []
    (left,) = (tmp_path / "unfinished").iterdir()
    assert left.name.startswith("removed-"), "by which `gc` knows it"


def test_a_run_folder_is_there_as_a_whole_or_not_at_all(suite_file, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(path, stages):
        path.write_text("{")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("bench_core.runs.run_writer.write_costs", killed)
        with pytest.raises(Killed):
            bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs")
    assert not list((tmp_path / "runs").glob("[!.]*"))
    run = bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs")
    assert list((tmp_path / "runs").glob("[!.]*")) == [run.folder]
