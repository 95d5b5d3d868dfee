"""Runs that are killed: nothing is lost, nothing is left in part, and the end is that of an undisturbed run."""

from __future__ import annotations

import errno
import os
from io import StringIO
from random import Random

import pytest
from bench_small.killing import SUITES, Place, differences

import bench_core
from bench_core import store as stores
from bench_core.checkpoint import KIND, Checkpoints
from bench_core.executor import Order, StageFailed
from bench_core.plan import Stage
from bench_core.store import Store
from bench_core.workers import Workers, _answers


@pytest.mark.parametrize("name", [pytest.param("sentences", marks=pytest.mark.slow), "stream"])
def test_a_run_that_is_killed_again_and_again_ends_as_if_undisturbed(name, tmp_path):
    """Fifty kills are those of `tests/drills/kill_runs.py`."""
    suite = SUITES[name].replace("updates: 800", "updates: 300")
    wanted, seconds = Place(tmp_path / "undisturbed", suite).undisturbed()
    place, random = Place(tmp_path / "killed", suite, workers=2), Random(3)
    kills = [
        place.kill(random.uniform(0.3, 0.9) * seconds, victim, random)
        for victim in ("run", "worker", "run", "worker")
    ]
    found, _ = place.finish()
    assert differences(found, wanted) == [], kills
    assert place.leftovers() == [], kills


def test_a_worker_that_died_while_it_had_nothing_to_do_fails_no_stage(tmp_path):
    settings = {"name": "sequence-completion", "corpus": {"name": "nowhere"}}
    stage = Stage("prepare", "k" * 64, {"task": settings}, {}, {}, "sentences")
    with Workers(1, tmp_path / "store", tmp_path) as workers:
        for _ in range(2):
            with pytest.raises(StageFailed, match="nowhere"):
                workers.submit(Order(stage), lambda text, share: None).result()
            process = workers.all[0].process
            os.kill(process.pid, 9)
            process.wait()


def test_half_an_answer_of_a_worker_that_died_is_none():
    assert [*_answers(StringIO('{"tell": ["a", 0.5]}\n{"failed": {"te'))] == [{"tell": ["a", 0.5]}]


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
    left = sorted((tmp_path / "store" / KIND).iterdir())
    assert left
    begun = {path: path.stat().st_mtime_ns for path in (path / "manifest.json" for path in left)}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "due", lambda self: False)
        patch.setattr(Checkpoints, "remove", lambda self: None)
        assert {cell.status for cell in run().cells} == {"done"}
    assert begun == {path: path.stat().st_mtime_ns for path in begun}, "they were taken up, at their ends"
    run()


def test_a_checkpoint_that_is_being_removed_is_never_there_in_part(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(place):
        next(path for path in place.iterdir() if path.suffix == ".json").unlink()
        raise Killed

    store, heard = Store(tmp_path), []
    with store.writing(KIND, "c" * 64, {}) as folder:
        (folder / "rest.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(stores.shutil, "rmtree", killed)
        with pytest.raises(Killed):
            store.remove(KIND, "c" * 64)
    assert not store.path(KIND, "c" * 64).exists()
    assert heard == []
    (left,) = (tmp_path / "unfinished").iterdir()
    assert left.name.startswith("removed-"), "by which `gc` knows it"


def test_a_run_folder_is_there_as_a_whole_or_not_at_all(suite_file, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(path, cells):
        path.write_text("{")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("bench_core.record.write_cells", killed)
        with pytest.raises(Killed):
            bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs")
    assert not list((tmp_path / "runs").glob("[!.]*"))
    run = bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs")
    assert list((tmp_path / "runs").glob("[!.]*")) == [run.folder]
