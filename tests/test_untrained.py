"""A model that is not trained reads no split that nobody asked for."""

from __future__ import annotations

import json

import pytest
from bench_small.parts import Letters

import bench_core
from bench_core import Purpose
from bench_core.computing.task_look import TaskLook
from bench_core.errors import DataError
from bench_training import stages

TRAINING = "{epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}"
WAYS = {
    "evaluate": "{mode: evaluate, select: {metric: nats}}",
    "no updates": "{updates: 0, select: {metric: nats}}",
    "no updates, by its loss": "{updates: 0}",
    "no updates, stopping": "{updates: 0, stop: {metric: nats}, batch_size: auto}",
    "no updates, together": "{mode: evaluate, together: true}",
}


@pytest.fixture
def read(monkeypatch):
    """Return the splits that are read, with their purposes, in order."""
    found, batches = [], Letters.batches
    monkeypatch.setattr(TaskLook, "at_examples", lambda look: None)  # they read some examples of each split
    monkeypatch.setattr("bench_core.computing.stages.overlap", lambda *given: {})

    def noted(self, split, purpose, size, noise=None):
        found.append((split, purpose))
        return batches(self, split, purpose, size, noise)

    monkeypatch.setattr(Letters, "batches", noted)
    return found


def run(suite_file, tmp_path, training):
    path = suite_file(**{TRAINING: training})
    found = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert [cell.reason for cell in found.cells if cell.status != "done"] == []
    return found


def only_asked(suite_file, tmp_path, read, way):
    """Of the test split alone, and for no training."""
    run(suite_file, tmp_path, WAYS[way])
    assert {split for split, _ in read} == {"test"}
    assert Purpose.TRAIN not in {purpose for _, purpose in read}


@pytest.mark.quick(2)
@pytest.mark.parametrize("way", WAYS)
def test_no_split_is_read_that_nobody_asked_for(suite_file, tmp_path, read, way):
    only_asked(suite_file, tmp_path, read, way)
    for folder in (tmp_path / "store" / "train").iterdir():
        assert (folder / "history.jsonl").read_text() == ""
        assert json.loads((folder / "training.json").read_text())["updates"] == 0


@pytest.mark.quick(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_task_without_the_other_splits_is_evaluated(suite_file, tmp_path, monkeypatch, way):
    batches = Letters.batches

    def refusing(self, split, purpose, size, noise=None):
        if split in ("train", "valid"):
            raise DataError(f"there is no split {split!r}")
        return batches(self, split, purpose, size, noise)

    monkeypatch.setattr(Letters, "batches", refusing)
    run(suite_file, tmp_path, WAYS[way])


def test_a_training_does_read_them(suite_file, tmp_path, read):
    """Else the facts above would show nothing."""
    run(suite_file, tmp_path, TRAINING)
    assert {split for split, _ in read} == {"train", "valid", "test"}


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_stage_that_reads_another_split_is_caught(suite_file, tmp_path, read, monkeypatch, split):
    built = stages.TrainingSetup.model

    def curious(self, noise):
        next(self.task.batches(split, Purpose.SCORE, self.size))
        return built(self, noise)

    monkeypatch.setattr(stages.TrainingSetup, "model", curious)
    with pytest.raises(AssertionError):
        only_asked(suite_file, tmp_path, read, "evaluate")
