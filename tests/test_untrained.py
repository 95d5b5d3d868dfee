"""A model that is not trained reads no split that nobody asked for."""

from __future__ import annotations

import json

import pytest
import torch
from bench_small.parts import Letters
from click.testing import CliRunner

import bench_core
from bench_authors.looks.tasks import TaskLook
from bench_core import Purpose
from bench_core.commands.main import bench
from bench_core.computing import stages
from bench_core.computing.initial_model import store_model
from bench_core.errors import DataError, TrainingError
from bench_core.planning.plan import plan
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_reports.content.cost_tables import StageCosts

TRAINING = "{epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}"
WAYS = {
    "evaluate": "{mode: evaluate, select: {metric: nats}}",
    "no updates": "{updates: 0, select: {metric: nats}}",
    "no updates, by its loss": "{updates: 0}",
    "no updates, stopping": "{updates: 0, stop: {metric: nats}, batch_size: auto}",
    "no updates, together": "{mode: evaluate, vmap_seeds: true}",
}


@pytest.fixture
def read(monkeypatch):
    """Return the splits that are read, with their purposes, in order."""
    found, batches = [], Letters.batches
    monkeypatch.setattr(TaskLook, "at_examples", lambda look: None)  # they read some examples of each split
    monkeypatch.setattr("bench_core.computing.stages.overlap", lambda *given: {})

    def noted(self, split, purpose, size, rng=None):
        found.append((split, purpose))
        return batches(self, split, purpose, size, rng)

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
    for folder in (tmp_path / "store" / "initial").iterdir():
        assert (folder / "history.jsonl").read_text() == ""
        assert json.loads((folder / "training.json").read_text())["updates"] == 0


@pytest.mark.quick(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_task_without_the_other_splits_is_evaluated(suite_file, tmp_path, monkeypatch, way):
    batches = Letters.batches

    def refusing(self, split, purpose, size, rng=None):
        if split in ("train", "valid"):
            raise DataError(f"there is no split {split!r}")
        return batches(self, split, purpose, size, rng)

    monkeypatch.setattr(Letters, "batches", refusing)
    run(suite_file, tmp_path, WAYS[way])


def invoke(*words):
    done = CliRunner().invoke(bench, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.quick(3)
def test_its_run_is_exported_imported_verified_and_shows_what_the_model_costs(suite_file, tmp_path):
    found, store = run(suite_file, tmp_path, WAYS["evaluate"]), Store(tmp_path / "store")
    kinds = {kind for kind, _ in found.artifacts()}
    assert "initial" in kinds
    assert "train" not in kinds
    assert all(store.has(*one) for one in found.artifacts())
    invoke("export", found.folder, "--store", store.root, "-o", tmp_path / "run.zip")
    away, runs = tmp_path / "away", tmp_path / "imported"
    invoke("import", tmp_path / "run.zip", "--store", away, "--runs", runs)
    (folder,) = runs.iterdir()
    assert "no contradictions" in invoke("verify", folder, "--store", away)
    for one in (found, read_run(folder)):
        costs = {StageCosts(one).of(cell, "cost.train.parameters") for cell in one.cells}
        assert costs == {25.0}
    again = bench_core.run(suite_file(**{TRAINING: WAYS["evaluate"]}), store=away, out=tmp_path / "again", workers=0)
    assert again.info["tasks"] == found.info["tasks"]


def test_a_training_does_read_them(suite_file, tmp_path, read):
    """Else the facts above would show nothing."""
    run(suite_file, tmp_path, TRAINING)
    assert {split for split, _ in read} == {"train", "valid", "test"}


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_stage_that_reads_another_split_is_caught(suite_file, tmp_path, read, monkeypatch, split):
    built = stages.initial_model

    def curious(context, task, info, settings, size, *more):
        next(task.batches(split, Purpose.SCORE, size))
        return built(context, task, info, settings, size, *more)

    monkeypatch.setattr(stages, "initial_model", curious)
    with pytest.raises(AssertionError):
        only_asked(suite_file, tmp_path, read, "evaluate")


def test_weights_that_are_not_finite_are_not_laid_to_a_training_where_there_was_none(tmp_path):
    model = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(model.weight, float("nan"))
    with pytest.raises(TrainingError, match=r"^before any training, .*Use other weights\.$"):
        store_model(model, [], {"updates": 0}, tmp_path)
    with pytest.raises(TrainingError, match=r"^after training, .*Lower `lr`"):
        store_model(model, [], {"updates": 3}, tmp_path)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("{mode: evaluate, batch_size: 4, lr: 0.5, warmup: 3}", True),
        ("{updates: 0, batch_size: 4, select: {metric: nats}}", True),
        ("{mode: evaluate, batch_size: 4, vmap_seeds: true, optimizer: sgd}", True),
        ("{mode: evaluate, batch_size: 5}", False),
        ("{mode: evaluate, batch_size: 4, batch_unit: tokens}", False),
    ],
)
def test_a_given_model_depends_on_no_setting_of_a_training_but_the_size_of_batches(suite_file, tmp_path, other, same):
    texts = ("{mode: evaluate, batch_size: 4}", other)
    plans = [plan(load(suite_file(**{TRAINING: text})), tmp_path) for text in texts]
    keys = [{key for key, stage in found.stages.items() if stage.kind == "initial"} for found in plans]
    assert keys[0]
    assert (keys[0] == keys[1]) == same
