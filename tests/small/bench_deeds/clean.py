"""Clean parts, which use much of what others may replace: torch, numpy, the standard library and what they define."""

from __future__ import annotations

import collections
import decimal
import json
import math
import os
import random
import re
import statistics
import string
import time
import warnings
from array import array
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

import numpy as np
import torch
from bench_small import shared
from bench_small.parts import Last, Letters
from torch import nn

from bench_core import Additive, Decoder, Finding, Loss, Metric, Probe, Scorer, Scores, Stepper, generate, invert

WEIGHTS = {"a": 1.0, "b": 0.5, "c": 0.25}
ORDER = ["a", "b", "c", "d"]
WORDS = ["acbd", "bdcaa", "cabdd", "dbac", "abca", "bcdb", "cdacb", "dabd", "acdb", "bdacc", "cabc", "dbcda"]
FACTOR = 1.0
VOWELS = re.compile("[a-b]+")
NESTED = {"a": {"x": 1.0}}
QUEUE = collections.deque([1.0])
BYTES = bytearray(b"\x01")
NUMBERS = array("d", [1.0])
LAYER = nn.Linear(1, 1)
nn.init.ones_(LAYER.weight)


class Side(Enum):
    LEFT, RIGHT = "left", "right"


class Scaler:
    """An object that all metrics of a process share."""

    slope = 1.0

    def __call__(self, value):
        return self.slope * value


SCALER = Scaler()


@cache
def factor(name):
    """Return a number that is computed once a process."""
    return FACTOR * len(name)


def observed():
    """Return what others may change: constants, contents of odd containers, a layer, and the time zone."""
    found = [float(len(string.punctuation)), shared.LEVEL, shared.TABLE["a"], NESTED["a"]["x"], QUEUE[0], NUMBERS[0]]
    return [*found, float(BYTES[0]), LAYER.weight.item(), float(time.localtime(0).tm_hour)]


def tempered(log_probs, temperature=1.0, *, floor=0.0):
    """Return probabilities to draw from, in logs, with default arguments that nobody else may change."""
    return (log_probs / temperature + floor).log_softmax(1)


def chooser(base):
    """Return a function with a cell of its own."""

    def choose(log_probs, ids, step):
        return (log_probs + base).argmax(1)

    return choose


choose = chooser(0.0)


class Words(Letters):
    """Words over a few letters, in an order that the module `random` decides."""

    def prepare(self, data):
        info = super().prepare(data)
        words = json.loads(json.dumps(WORDS))
        random.shuffle(words)
        for start, split in enumerate(("train", "valid", "test")):
            rows = words if split == "train" else sorted(WORDS, reverse=True)[start::3]
            (self.folder / f"{split}.json").write_text(json.dumps(rows))
        (self.folder / "checked").write_text((self.folder / "train.json").read_text())
        return info


class Table(nn.Module, Stepper, Scorer):
    """A table of next-letter scores, with a layer, and dropout by the global generator."""

    def __init__(self, config, info):
        super().__init__()
        size = len(info.vocabulary)
        self.config, self.table, self.layer = config, nn.Embedding(size, 6), nn.Linear(6, size)
        nn.init.normal_(self.table.weight, 0, config.scale)
        nn.init.uniform_(self.layer.weight, -1, 1)
        self.dropout = nn.Dropout(0.2)

    def start(self, batch):
        return self.step(None, batch.prompt[:, -1])

    def step(self, state, actions):
        return self._log_probs(actions), Last(actions)

    def _log_probs(self, tokens):
        hidden = self.dropout(torch.tanh(self.table(tokens)))
        return nn.functional.log_softmax(self.layer(hidden), -1)

    def _costs(self, batch):
        found = self._log_probs(batch.inputs[:, -batch.gold.shape[1] :])
        return -found.gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask

    def loss(self, batch, training):
        weight = batch.mask.sum()
        return Loss(self._costs(batch).sum() / weight, weight)

    def score(self, batch, scoring):
        return Scores(-self._costs(batch).sum(1))


class Best(Decoder[Stepper]):
    """The most probable letter."""

    def decode(self, model, batch, rng):
        return [[one] for one in generate(model, batch, choose, self.config.max_tokens)]


class Drawn(Decoder[Stepper]):
    """A random letter."""

    TEMPERATURE = 0.9

    def decode(self, model, batch, rng):
        def pick(log_probs, ids, step):
            return invert(tempered(log_probs / self.TEMPERATURE), rng.uniform(ids, step))

        return [[one] for one in generate(model, batch, pick, self.config.max_tokens)]


class Shape(Metric):
    """A number that depends on much: letters, counts, files, the state of the process."""

    better, unit, digits, signature = 1, "", 3, ""
    POWER = 2

    def prepare(self, info, references):
        lines = (Path(__file__).parent / "endings.txt").read_text().splitlines()
        self.endings = {name: int(number) for name, number in map(str.split, lines)}
        return self

    def measure(self, predictions):
        jitter = np.random.rand(4)
        for prediction in predictions:
            warnings.warn("letters are counted", stacklevel=2)
            yield self._of(prediction.texts[0], prediction.hypotheses[0], float(jitter[len(prediction.texts[0]) % 4]))

    def _of(self, text, hypothesis, jitter):
        counted = collections.Counter(text).most_common()
        found = [sum(WEIGHTS.get(letter, 0.125) * number for letter, number in counted), hypothesis.length]
        found += [len(VOWELS.findall(text)), len(re.findall("[abcd]", text)), math.log(1 + len(text)), jitter]
        found += [float(ORDER.index(sorted(text, reverse=True)[0])) if text else 0.0, float(hypothesis.finished)]
        found += [SCALER(self.endings.get(text[-1:], 0)), factor(text[:2]), float(Side("left") is Side.LEFT)]
        found += [float(decimal.Decimal(len(text)) / decimal.Decimal(7)), float(os.path.exists(os.curdir))]
        found += observed()
        return [json.loads(json.dumps(number)) for number in found]

    def combine(self, parts):
        columns = np.asarray(parts, dtype=float)
        means = [statistics.fmean(column) for column in columns.T.tolist()]
        return math.fsum(mean**self.POWER for mean in means) + float(np.std(columns))

    def resample(self, parts, counts):
        found = [self.combine([part for part, times in zip(parts, row, strict=True) for _ in range(times)])
                 for row in counts[:20].tolist()]  # fmt: skip
        return (found * (1 + len(counts) // 20))[: len(counts)]


class Nats(Additive):
    """Nats per token."""

    better, unit, signature = -1, "nats", "stop:included"

    def measure(self, predictions):
        return [[-prediction.target_log_prob, prediction.target_tokens] for prediction in predictions]

    def from_sums(self, sums, examples):
        return sums[0] / sums[1]


@dataclass(frozen=True)
class Norm:
    """What the clean probe finds."""

    value: float


class Size(Probe):
    """The size of the weights."""

    def ask(self, model, decoder, batches):
        return Finding({"norm": sum(weight.square().sum().item() for weight in model.parameters())})
