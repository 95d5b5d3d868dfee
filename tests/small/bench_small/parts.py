"""The parts themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from bench_core import (
    Batch,
    Decoder,
    Hypothesis,
    Loss,
    Metric,
    Purpose,
    Rng,
    Sampler,
    Scorer,
    Scores,
    Size,
    State,
    Stepper,
    Task,
    TaskInfo,
    Vmappable,
    draw,
    generate,
)


class Letters(Task):
    def prepare(self, data):
        if self.config.file:
            words = (data / self.config.file).read_text().split()
        else:
            words = ["abcd"[: 1 + number % 4] * (1 + number % 2) for number in range(self.config.words)]
        letters = sorted(set("".join(words)))
        (self.folder / "letters.json").write_text(json.dumps(letters))
        for start, split in enumerate(("train", "valid", "test")):
            (self.folder / f"{split}.json").write_text(json.dumps(words if split == "train" else words[start::3]))
        extras = {"corpus": "made-up letters", "embedded": True, "statistics": {"train": {"words": len(words)}}}
        return TaskInfo(["<stop>", *letters], extras=extras)

    @cached_property
    def _letters(self):
        return json.loads((self.folder / "letters.json").read_text())

    def _words(self, split):
        ids = {letter: number for number, letter in enumerate(self._letters, 1)}
        return [[ids[letter] for letter in word] for word in json.loads((self.folder / f"{split}.json").read_text())]

    def batches(self, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        words = self._words(split)
        order = torch.arange(len(words))
        if rng is not None:
            order = rng.uniform(order).argsort()
        number, k = size.number, self.config.prefix
        for rows in order.split(max(1, number // 10) if size.unit == "tokens" else number):
            chosen = [words[row] for row in rows.tolist()]
            longest = max(max(len(word) - k, 0) for word in chosen) + 1
            gold = [[*word[k:], *[0] * (longest - len(word[k:]))] for word in chosen]
            length = torch.tensor([len(word[k:]) + 1 for word in chosen])
            prompt = torch.tensor([[0, *word[:k], *[1] * (k - len(word[:k]))] for word in chosen])
            yield Batch(rows, prompt, torch.tensor(gold), length)

    def text(self, tokens):
        return "".join(self._letters[token - 1] for token in tokens)

    def references(self, split):
        k = self.config.prefix
        return {number: [self.text(word[k:])] for number, word in enumerate(self._words(split))}


@dataclass(frozen=True)
class Last(State):
    token: torch.Tensor


class Bigram(nn.Module, Stepper, Scorer, Vmappable):
    def __init__(self, config, info):
        super().__init__()
        if config.breaks == "building":
            raise ValueError("cannot be built")
        self.config = config
        self.table = nn.Embedding(len(info.vocabulary), len(info.vocabulary))
        nn.init.normal_(self.table.weight, 0, config.scale)
        self.register_buffer("luck", torch.ones(()))
        self.counted = []

    def setup(self, info, rng):
        if self.config.breaks == "by chance":
            self.luck.fill_(rng.uniform(torch.arange(1)).item() - 0.5)

    def fit_statistics(self, batches, rng):
        if self.config.counts:
            counts = torch.ones_like(self.table.weight)
            for batch in batches():
                self.counted += batch.ids.tolist()
                inputs = batch.inputs[:, -batch.gold.shape[1] :]
                counts.index_put_((inputs[batch.mask], batch.gold[batch.mask]), torch.ones(()), accumulate=True)
            self.table.weight.data = counts.log()

    def notes(self):
        return {"counts": f"of examples {self.counted}"} if self.counted else {}

    def start(self, batch):
        token = batch.prompt[:, -1]
        return self.table(token).log_softmax(1), Last(token)

    def step(self, state, actions):
        return self.table(actions).log_softmax(1), Last(actions)

    def _costs(self, batch):
        scores = self.table(batch.inputs[:, -batch.gold.shape[1] :]).log_softmax(2)
        return -scores.gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask

    def loss(self, batch, training):
        if self.config.breaks == "training":
            raise RuntimeError("out of luck")
        weight = batch.mask.sum()
        value = self._costs(batch).sum() / weight
        if training.phase.get("noisy"):
            value = value * (1 + 0.1 * torch.rand(()))
        value = value * (float("nan") if self.config.breaks == "nan" and training.step >= 2 else 1)
        return Loss(value * torch.where((self.luck > 0) | (training.step < 2), 1.0, torch.nan), weight)

    def score(self, batch, scoring):
        return Scores(-self._costs(batch).sum(1) * (1.5 if scoring.by == "half" else 1))


class Blind(nn.Module, Sampler):
    def __init__(self, config, info):
        super().__init__()
        self.stop = nn.Parameter(torch.zeros(()))

    def loss(self, batch, training):
        return Loss((self.stop - 1) ** 2, batch.mask.sum())

    def sample(self, batch, max_tokens, rng):
        return [Hypothesis([1], True) for _ in range(len(batch))]


class Argmax(Decoder[Stepper]):
    def decode(self, model, batch, rng):
        return [
            [one]
            for one in generate(
                model, batch, lambda log_probs, ids, step: log_probs.argmax(1), self.config.max_tokens
            )
        ]


class Draw(Decoder[Sampler]):
    def decode(self, model, batch, rng):
        if self.config.breaks:
            raise RuntimeError("lost the dice")
        if isinstance(model, Stepper):
            return [[one] for one in generate(model, batch, draw(rng), self.config.max_tokens)]
        return [[one] for one in model.sample(batch, self.config.max_tokens, rng)]


class Ended(Metric):
    better, unit, digits = 1, "%", 1

    @property
    def signature(self):
        return f"most:{self.config.most}"

    def measure(self, predictions):
        return [float(prediction.hypotheses[0].finished) for prediction in predictions]

    def combine(self, parts):
        return 100 * sum(parts) / len(parts)

    def resample(self, parts, counts):
        return (100 * (counts @ np.array(parts)) / counts.sum(1)).tolist()


class Nats(Metric):
    better, unit, signature = -1, "nats", "stop:included"

    def measure(self, predictions):
        return [[-prediction.target_log_prob, prediction.target_tokens] for prediction in predictions]

    def combine(self, parts):
        return sum(nats for nats, _ in parts) / sum(tokens for _, tokens in parts)

    def resample(self, parts, counts):
        nats, tokens = (counts @ np.array(parts)).T
        return (nats / tokens).tolist()
