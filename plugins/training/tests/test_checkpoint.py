"""Trainings that are broken off and taken up again end as if nothing had happened."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

import pytest
import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Rng, Task
from bench_core.computing.building import WEIGHTS, load_weights, store_weights
from bench_core.errors import Stopped, TrainingError
from bench_core.model import Model, State
from bench_core.storage.checkpoints import CHECKPOINT
from bench_core.storage.store import Store
from bench_core.tensor_rows import Rows
from bench_training.checkpoint import TENSORS, Checkpoints
from bench_training.evaluation import Selection
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer

LENGTH = 11  # batches of an epoch


class Windows(Task):
    """An epoch of eleven windows of two streams, or of shuffled rows."""

    streams = True

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(2 * LENGTH)
        if not self.streams:
            ids = ids[rng.uniform(ids).argsort()]
        for number, rows in enumerate(ids.split(2)):
            gold = rows[:, None] % 5
            yield Batch(rows, gold, gold, gold[:, 0] * 0 + 1, continues=self.streams and number > 0)


@dataclass(frozen=True)
class Inner(Rows):
    cells: tuple[Tensor, ...]


@dataclass(frozen=True)
class Memory(State):
    units: Tensor
    inner: Inner
    nothing: None = None


class Net(nn.Module, Model):
    """Uses all that a training may depend on: dropout, given noise, memory, buffers, phases."""

    def __init__(self, sparse=False):
        super().__init__()
        self.embed, self.top = nn.Embedding(5, 4, sparse=sparse), nn.Linear(4, 5)
        self.cell = nn.GRUCell(4, 4)
        self.register_buffer("seen", torch.zeros(5))
        if not sparse:
            self.top.weight = self.embed.weight  # tied

    def loss(self, batch, training):
        words = batch.gold[:, 0]
        self.seen += torch.bincount(words, minlength=5)
        units = training.memory.units + training.memory.inner.cells[0] if training.memory else None
        units = self.cell(nn.functional.dropout(self.embed(words), 0.3), units)
        units = units + 0.1 * training.rng.normal(batch.ids, 0, 4).float()
        loss = nn.functional.cross_entropy(self.top(units), (words + 1) % 5) * training.phase.get("weight", 1.0)
        memory = Memory(units, Inner((units * 0.5,)))
        return Loss(loss + 1e-3 * self.seen.mean(), batch.length.sum(), {"words": words.float().mean()}, memory)


class Killed(Exception):
    pass


class Judge:
    """A judgement that kills the process, as it were, the n-th time that it is asked."""

    def __init__(self, fatal=None):
        self.fatal, self.turns = fatal, count(1)

    def __call__(self, model):
        if next(self.turns) == self.fatal:
            raise Killed
        with torch.no_grad():
            torch.rand(3)  # must not matter
            return float(abs(model.seen.sum() - 24) + model.embed.weight[0, 0])  # best after twelve updates


class Often(Checkpoints):
    """Written every third step."""

    asked = 0

    def due(self):
        self.asked += 1
        return self.asked % 3 == 0


def trainer(config, folder=None, judge=None, streams=True, every=None, until=None, seed=0):
    torch.manual_seed(seed)
    task = Windows(None, None)
    task.streams = streams
    net = Net(sparse=config == TrainingConfig(**CONFIGS["sparse"]))
    kept = folder and (Often if every is None else Checkpoints)(Store(folder), "f" * 64, "net", every, until)
    return Trainer(
        net, task, config, Rng(1), torch.device("cpu"), Selection(judge or Judge(), -1, "size"), checkpoints=kept
    )


def ended(one):
    history = one.run()
    return history, {name: tensor.clone() for name, tensor in one.model.state_dict().items()}


def same(found, wanted):
    assert found[0] == wanted[0], "histories differ"
    assert found[1].keys() == wanted[1].keys()
    assert all(torch.equal(found[1][name], tensor) for name, tensor in wanted[1].items()), "weights differ"


CONFIGS = {
    "epochs": {"epochs": 4},
    "within epochs": {"epochs": 3, "evaluate_every": 4, "schedule": {"name": "plateau", "factor": 0.5}},
    "sgd": {
        "updates": 30,
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "lr": 0.1,
        "clip": 0.5,
        "evaluate_every": 3,
    },
    "phases": {
        "phases": [{"updates": 13, "weight": 2.0}, {"epochs": 2, "reset": ["cell"], "lr": 1e-2}],
        "evaluate_every": 5,
        "optimizer": "adamw",
    },
    "sparse": {"updates": 30, "clip": 0.5, "evaluate_every": 3},
    "patience": {"epochs": 9, "patience": 2, "evaluate_every": 5, "schedule": "cosine", "warmup": 3},
}


@pytest.mark.quick(2, 4)
@pytest.mark.parametrize("streams", [True, False], ids=["streams", "rows"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_training_that_is_killed_and_taken_up_ends_as_if_undisturbed(name, streams, tmp_path):
    config = TrainingConfig(**CONFIGS[name])
    wanted = ended(trainer(config, streams=streams))
    evaluations = len(wanted[0])
    assert evaluations > 2
    for fatal in sorted({1, 2, evaluations // 2 + 1, evaluations}):
        folder = tmp_path / str(fatal)
        with pytest.raises(Killed):
            trainer(config, folder, Judge(fatal), streams).run()
        again = trainer(config, folder, streams=streams, seed=0 if fatal == 1 else 99)
        same(ended(again), wanted)
        assert again.checkpoints.spent > 0 or fatal == 1, "it did begin at a checkpoint"


def test_a_training_that_is_killed_again_and_again_ends_as_if_undisturbed(tmp_path):
    config = TrainingConfig(**CONFIGS["within epochs"])
    wanted = ended(trainer(config))
    for turn in range(100):
        one = trainer(config, tmp_path, Judge(2), every=0.0, seed=turn)
        try:
            same(ended(one), wanted)
            break
        except Killed:
            continue
    assert turn == len(wanted[0]) - 1, "each turn got one evaluation further"


def test_what_is_taken_up_does_not_depend_on_how_often_checkpoints_are_written(tmp_path):
    config = TrainingConfig(epochs=1)
    wanted = ended(trainer(config))
    same(ended(trainer(config, tmp_path, every=1e9)), wanted)
    assert not (tmp_path / CHECKPOINT).exists()
    same(ended(trainer(config, tmp_path, every=0.0)), wanted)


def test_a_training_stops_at_a_checkpoint_when_time_is_up(tmp_path):
    config = TrainingConfig(updates=14, evaluate_every=4)
    wanted = ended(trainer(config))
    turns = 0
    while True:
        one = trainer(config, tmp_path, every=1e9, until=time.time() - 1, seed=turns)
        try:
            found = ended(one)
            break
        except Stopped:
            turns += 1
            assert one.progress.step == turns, "one step in each turn"
    same(found, wanted)


@pytest.mark.slow
def test_without_a_checkpoint_memory_the_generator_or_the_order_it_would_end_otherwise(tmp_path):
    """Each of the things that a checkpoint keeps matters: with one of them lost, the end is another."""
    config = TrainingConfig(**CONFIGS["within epochs"])
    wanted = ended(trainer(config))
    for lost in ("memory", "generators", "optimizers", "best", "losses", "batch", "epoch", "rates"):
        folder = tmp_path / lost
        with pytest.raises(Killed):
            trainer(config, folder, Judge(6)).run()
        again = trainer(config, folder, seed=5)
        last = again.checkpoints.last

        def without(model, device, lost=lost, last=last, again=again):
            kept = last(model, device)
            fresh = {"batch": 0, "epoch": 0}
            if lost in fresh:
                assert kept["progress"][lost] != fresh[lost]
                kept["progress"][lost] = fresh[lost]
            elif lost == "memory":
                kept["processes"][0]["memory"] = []
            elif lost == "generators":
                kept["processes"][0]["generators"] = [torch.get_rng_state(), None]
            elif lost == "losses":
                kept["losses"] = {"totals": {}, "weights": {}}
            elif lost == "optimizers":
                kept["optimizers"] = [{**one, "state": {}} for one in kept["optimizers"]]
            elif lost == "rates":
                assert kept["rates"] != [1.0, 1.0]
                kept["rates"] = [1.0, 1.0]
            else:
                kept[lost] = {}
            return kept

        again.checkpoints.last = without
        with pytest.raises((AssertionError, RuntimeError)):
            same(ended(again), wanted)


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_is_taken(tmp_path):
    config, heard = TrainingConfig(**CONFIGS["epochs"]), []
    wanted = ended(trainer(config))
    with pytest.raises(Killed):
        trainer(config, tmp_path, Judge(3)).run()
    newest = max((tmp_path / CHECKPOINT).glob(f"*/{TENSORS}"), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    again = trainer(config, tmp_path, seed=7)
    again.checkpoints.store = Store(tmp_path, warn=heard.append)
    same(ended(again), wanted)
    assert again.checkpoints.spent > 0
    (warning,) = heard
    assert "is ignored" in warning
    assert "damaged" in warning
    assert list((tmp_path / "set-aside").iterdir())


def test_a_finished_training_leaves_no_checkpoint(tmp_path):
    one = trainer(TrainingConfig(**CONFIGS["epochs"]), tmp_path)
    one.run()
    assert list((tmp_path / CHECKPOINT).iterdir())
    one.checkpoints.remove()
    assert not list((tmp_path / CHECKPOINT).iterdir())


def test_a_loss_that_is_no_number_names_the_last_good_weights(tmp_path):
    class Breaking(Net):
        def loss(self, batch, training):
            loss = super().loss(batch, training)
            return Loss(loss.value * float("nan"), loss.weight) if training.step == 3 else loss

    one = trainer(TrainingConfig(epochs=1), tmp_path)
    one.model = Breaking()
    one.optimizers = optimizers(one.model, one.config, one.device)
    with pytest.raises(
        TrainingError, match=r"step 4: .* To start from the last good weights, set `initial: .*safetensors`"
    ):
        one.run()


def test_what_cannot_be_kept_is_told_and_the_training_goes_on(tmp_path):
    class Odd(Net):
        def loss(self, batch, training):
            loss = super().loss(batch, None or training)
            return Loss(loss.value, loss.weight, memory=Oddity(loss.memory.units, {1, 2}))

    @dataclass(frozen=True)
    class Oddity(State):
        units: Tensor
        words: set

    heard = []
    one = trainer(TrainingConfig(epochs=1), tmp_path, streams=False)
    one.model = Odd()
    one.optimizers = optimizers(one.model, one.config, one.device)
    one.checkpoints.store = Store(tmp_path, warn=heard.append)
    one.run()
    assert "the checkpoint could not be written. A set cannot be stored" in heard[0]


def test_no_updates_leave_the_weights_and_judge_them():
    one = trainer(TrainingConfig(updates=0))
    before = {name: tensor.clone() for name, tensor in one.model.state_dict().items()}
    history, after = ended(one)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [(entry["step"], entry["epoch"], entry["best"]) for entry in history] == [(0, 0, True)]


def test_the_last_evaluation_of_an_epoch_belongs_to_the_epochs_done():
    history, _ = ended(trainer(TrainingConfig(epochs=3)))
    assert [entry["epoch"] for entry in history] == [1, 2, 3]


def test_weights_that_are_parts_of_one_storage_are_stored_as_any_others(tmp_path):
    """So cuDNN lays those of recurrent layers; tied ones are stored once all the same."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.output = nn.Embedding(5, 3), nn.GRU(3, 3, 2), nn.Linear(3, 5)
            self.output.weight = self.embedding.weight

    def flattened():
        model = Tied()
        weights = [*model.rnn.parameters()]
        parts = torch.cat([one.detach().reshape(-1) for one in weights]).split([one.numel() for one in weights])
        for one, part in zip(weights, parts, strict=True):
            one.data = part.view(one.shape)
        return model

    plain, other = Tied(), flattened()
    other.load_state_dict(plain.state_dict())
    store = Store(tmp_path)
    places = {}
    for name, model in (("plain", plain), ("flat", other)):
        places[name] = Checkpoints(store, name, name, every=0.0)
        places[name].save(1, model, {})
    plain_file, flat_file = (one.weights.read_bytes() for one in places.values())
    assert plain_file == flat_file

    again = flattened()
    assert places["flat"].last(again, torch.device("cpu")) == {}
    assert all(torch.equal(one, plain.state_dict()[name]) for name, one in again.state_dict().items())
    assert again.output.weight is again.embedding.weight
    assert len({one.untyped_storage().data_ptr() for one in again.rnn.parameters()}) == 1

    store_weights(other, tmp_path)
    last = flattened()
    load_weights(last, tmp_path / WEIGHTS)
    assert all(torch.equal(one, plain.state_dict()[name]) for name, one in last.state_dict().items())
