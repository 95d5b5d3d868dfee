"""A small model, task and training for tests of what trains, and trainings that are killed again and again."""

from __future__ import annotations

import math

import torch
from torch import nn

from bench_core import Batch, Loss, Rng, Task
from bench_core.model import Model
from bench_core.storage.store import Store
from bench_training.checkpoint import Checkpoints
from bench_training.evaluation import Selection
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer

CPU = torch.device("cpu")
ROWS = 24


class Lines(Task):
    """Targets of one to four tokens; each batch a step of eight rows."""

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(ROWS)
        ids = ids if rng is None else ids[rng.uniform(ids).argsort()]
        for rows in ids.split(size.number):
            length = 1 + rows % 4
            gold = (1 + (rows[:, None] + torch.arange(4)) % 4) * (torch.arange(4) < length[:, None] - 1)
            yield Batch(rows, gold[:, :1] * 0, gold, length)


class Net(nn.Module, Model):
    """Predicts the sum of tokens by two layers, with dropout and noise if asked."""

    def __init__(self, dropout=0.0, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embed, self.inner, self.top = nn.Embedding(5, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.register_buffer("seen", torch.zeros(()))
        self.dropout = dropout

    def loss(self, batch, training):
        if self.training:
            self.seen += 1
        rng = training.rng.fork("units").normal(batch.ids, 0, 6).to(self.embed.weight.dtype)
        units = nn.functional.dropout(self.embed(batch.gold), self.dropout, self.training) + 0.1 * rng[:, None]
        logits = self.top(self.inner(units).tanh())
        costs = nn.functional.cross_entropy(
            logits.transpose(1, 2), (batch.gold + 1) % 5, reduction="none", label_smoothing=training.label_smoothing
        )
        tokens = batch.length.sum()
        return Loss((costs * batch.mask).sum() / tokens, tokens, {"cost": costs.mean()})


def judge(model):
    return float(model.top.weight.square().sum())


def trainer(model=None, task=None, checkpoints=None, precision="fp32", selection=None, stop=None, **settings):
    config = TrainingConfig(**{"batch_size": 8, "updates": 12, "evaluate_every": 4, "lr": 0.02, **settings})
    return Trainer(
        model or Net(), task or Lines(None, None), config, Rng(1), CPU, selection or Selection(judge, -1, "size"),
        precision, checkpoints=checkpoints, stop=stop,
    )  # fmt: skip


def ended(one):
    history = one.run()
    return history, {name: tensor.clone() for name, tensor in one.model.state_dict().items()}


def same(found, wanted):
    assert found[0] == wanted[0], "histories differ"
    assert found[1].keys() == wanted[1].keys()
    for name, tensor in wanted[1].items():
        assert torch.equal(found[1][name], tensor), name


class Killed(Exception):
    pass


class Often(Checkpoints):
    """Written after every update; the process is killed, as it were, after so many."""

    fatal, asked = math.inf, 0

    def due(self):
        self.asked += 1
        if self.asked > self.fatal:
            raise Killed
        return True


def interrupted(make, folder, after):
    """Return what a training ends with that is killed after so many updates, again and again."""
    for turn in range(40):
        kept = Often(Store(folder), "e" * 64, "net", 1e9)
        kept.fatal = after
        torch.manual_seed(1000 + turn)  # which must not matter
        one = make(kept, turn)
        torch.manual_seed(2000 + turn)
        try:
            return ended(one)
        except Killed:
            continue
    raise AssertionError("it never ends")
