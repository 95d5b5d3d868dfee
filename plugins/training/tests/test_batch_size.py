"""`batch_size: auto` finds the largest power of two that fits, changes nothing else, and is recorded."""

from __future__ import annotations

import json

import pytest
import torch
from bench_small.trainings import CPU, Lines, Net, Often, ended, interrupted, same, trainer

import bench_core
from bench_core import Batch
from bench_core.computing.memory_errors import is_out_of_memory
from bench_core.errors import PluginError, TrainingError
from bench_core.storage.store import Store
from bench_training import batch_size
from bench_training.batch_size import BatchSizeSearch


class Long(Lines):
    """A split of 100 rows, of four tokens each."""

    rows = 100

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(self.rows)
        ids = ids if rng is None else ids[rng.uniform(ids).argsort()]
        for rows in ids.split(size.number) if self.rows else ():
            gold = 1 + (rows[:, None] + torch.arange(4)) % 4
            yield Batch(rows, gold[:, :1] * 0, gold, rows * 0 + 4)


class Greedy(Net):
    """Takes more memory than there is for batches of more positions than a limit."""

    most, error = 4 * 24, torch.OutOfMemoryError

    def loss(self, batch, training):
        if batch.gold.numel() > self.most:
            raise self.error("out of memory")
        return super().loss(batch, training)


def greedy(most, error=torch.OutOfMemoryError, dropout=0.3):
    model = Greedy(dropout)
    model.most, model.error = most, error
    return model


def searched(model, task=None, **settings):
    """Return what the search of a training finds."""
    one = trainer(model, task or Long(None, None), batch_size="auto", **settings)
    one.begin()
    return one.size.number


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
@pytest.mark.parametrize(("most", "wanted"), [(4, 1), (8, 2), (15, 2), (16, 4), (4 * 24, 16), (4 * 64, 64)])
def test_it_is_the_largest_power_of_two_that_fits(most, wanted, error):
    assert searched(greedy(most, error)) == wanted


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 100])
def test_it_is_not_larger_than_it_takes_to_hold_the_split(rows):
    task = Long(None, None)
    task.rows = rows
    found = searched(Net(), task)
    assert found >= rows, "the whole split fits"
    assert found < 2 * rows


def test_parts_of_a_batch_need_the_memory_of_one_part():
    assert searched(greedy(4 * 8)) == 8
    assert searched(greedy(4 * 8), accumulate=4) == 32


def test_nothing_that_fits_is_an_error_of_the_training():
    with pytest.raises(TrainingError, match=r"not even the smallest batch fits in memory. Use a smaller model"):
        searched(greedy(3))


def test_an_empty_split_is_no_lack_of_memory():
    task = Long(None, None)
    task.rows = 0
    with pytest.raises(TrainingError, match=r"the training split has no batches. Is it empty?"):
        searched(Net(), task)


def test_other_errors_are_raised_as_they_are():
    with pytest.raises(RuntimeError, match=r"^out of memory$"):
        searched(greedy(8, RuntimeError))


def test_weights_gradients_and_generators_stay_as_they_are():
    model = greedy(4 * 24)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert searched(model) == 16
    assert torch.equal(torch.get_rng_state(), state)
    assert all(each.grad is None for each in model.parameters())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_training_ends_as_one_that_was_given_the_size():
    def run(size):
        torch.manual_seed(7)
        return ended(trainer(greedy(4 * 24), Long(None, None), batch_size=size))

    same(run("auto"), run(16))


def test_a_resumed_training_uses_the_size_that_it_found(tmp_path):
    def make(kept, turn):
        one = trainer(
            greedy(4 * 24 if turn == 0 else 4 * 1000, dropout=0.0), Long(None, None), checkpoints=kept,
            batch_size="auto",
        )  # fmt: skip
        return one

    wanted = ended(trainer(greedy(4 * 24, dropout=0.0), Long(None, None), batch_size=16))
    same(interrupted(make, tmp_path, 5), wanted)


def test_the_checkpoint_has_the_size(tmp_path):
    kept = Often(Store(tmp_path), "e" * 64, "net", 1e9)
    trainer(greedy(4 * 24), Long(None, None), checkpoints=kept, batch_size="auto").run()
    assert kept.last(Net(), CPU)["progress"]["batch_size"] == 16


def test_on_a_cpu_a_size_that_would_take_too_much_is_not_tried(monkeypatch):
    """It would be killed, and could not say why."""
    sizes, free = [], 10_000.0

    class Looking(Net):
        def loss(self, batch, training):
            sizes.append(len(batch))
            return super().loss(batch, training)

    taken = {}
    computed = BatchSizeSearch._backward_bytes

    def noted(self, batch):
        taken[len(batch)] = computed(self, batch)
        return taken[len(batch)]

    monkeypatch.setattr(BatchSizeSearch, "_backward_bytes", noted)
    monkeypatch.setattr(batch_size, "_max_batch_bytes", lambda: free)
    found = searched(Looking())
    assert found == max(sizes) == max(taken)
    assert found < 64
    assert taken[found] <= free < 2 * taken[found]
    assert all(taken[2 * size] > 1.5 * taken[size] for size in sizes if size >= 8 and 2 * size in taken)


def test_the_memory_that_is_free_is_part_of_what_the_system_has(monkeypatch):
    import psutil

    assert 0 < batch_size._max_batch_bytes() < psutil.virtual_memory().total


def test_the_size_is_recorded_with_the_training(tmp_path, suite_file):
    path = suite_file(**{"batch_size: 8": "batch_size: auto", "seeds: 2": "seeds: 1"})
    bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    found = [json.loads((one / "training.json").read_text()) for one in (tmp_path / "store" / "train").iterdir()]
    assert len(found) == 2
    for one in found:
        assert one["updates"] > 0
        assert one["batch_size"] & (one["batch_size"] - 1) == 0
        assert one["batch_size"] > 1


def test_a_model_that_breaks_a_contract_is_named_in_the_search():
    class Wrong(Net):
        def loss(self, batch, training):
            return 3

    with pytest.raises(PluginError, match="Wrong"):
        searched(Wrong())


def test_memory_runs_out_by_the_class_of_an_error_and_by_no_text_of_ours():
    text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
    assert [is_out_of_memory(kind(text)) for kind in (RuntimeError, MemoryError, torch.OutOfMemoryError)] == [
        True
    ] * 3
    assert [is_out_of_memory(kind(text)) for kind in (PluginError, NotImplementedError, ValueError)] == [False] * 3
    assert not is_out_of_memory(RuntimeError("another"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
