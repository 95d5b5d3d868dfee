"""The parts themselves; what a way breaks stands beside its name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np
import torch
from bench_small.parts import Argmax, Bigram, Ended, Letters

from bench_core import Hypothesis, Loss, Scores, State, TextSize

WRONG = 3  # the example, and the step counted from 1, that some ways break


def only(log_probs, ids, example, value):
    """Put a value into the row of one example."""
    return torch.where((ids == example)[:, None], torch.tensor(value), log_probs)


def with_one(log_probs, value, row=-1):
    return log_probs.index_put((torch.tensor(row), torch.tensor(-1)), torch.tensor(value))


LOG_PROBS = {  # what becomes of the log-probabilities of the next actions, given logits
    "step logits": lambda log_probs, logits: logits + 3,
    "step probabilities": lambda log_probs, logits: log_probs.exp(),
    "step above": lambda log_probs, logits: log_probs + 0.01,
    "step half": lambda log_probs, logits: log_probs - 1,
    "step masked": lambda log_probs, logits: log_probs.masked_fill(log_probs == log_probs.amax(1, True), -inf),
    "step inf": lambda log_probs, logits: with_one(log_probs, inf),
    "step nan": lambda log_probs, logits: log_probs * nan,
    "step ints": lambda log_probs, logits: log_probs.long(),
    "step rows": lambda log_probs, logits: log_probs[:-1],
    "step flat": lambda log_probs, logits: log_probs[0],
    "step deep": lambda log_probs, logits: log_probs[:, None],
    "step none": lambda log_probs, logits: None,
    "step empty": lambda log_probs, logits: log_probs[:, :0],
    "step array": lambda log_probs, logits: log_probs.numpy(),
}
FROM_ROW = {"row nan": nan, "row inf": inf, "row shut": -inf}
LOSSES = {
    "loss tensor": lambda loss: loss.value,
    "loss rows": lambda loss: Loss(loss.value.expand(3), loss.weight),
    "loss float": lambda loss: Loss(loss.value.item(), loss.weight),
    "loss detached": lambda loss: Loss(loss.value.detach(), loss.weight),
    "loss int": lambda loss: Loss(loss.value.long(), loss.weight),
    "loss nan": lambda loss: Loss(loss.value * nan, loss.weight),
    "loss weight": lambda loss: Loss(loss.value, loss.weight * 0),
    "loss weight int": lambda loss: Loss(loss.value, 7),
    "loss part": lambda loss: Loss(loss.value, loss.weight, {"rate": 0.5}),
    "loss memory": lambda loss: Loss(loss.value, loss.weight, memory=loss.value),
}
SCORES = {
    "score tokens": lambda scores: Scores(scores.log_probs[:, None].expand(-1, 4)),
    "score table": lambda scores: Scores(scores.log_probs[:, None, None].expand(-1, 4, 5)),
    "score rows": lambda scores: Scores(scores.log_probs[:-1]),
    "score tensor": lambda scores: scores.log_probs,
    "score list": lambda scores: Scores(scores.log_probs.tolist()),
    "score ints": lambda scores: Scores(scores.log_probs.long()),
    "score nan": lambda scores: Scores(scores.log_probs * nan),
    "score inf": lambda scores: Scores(-scores.log_probs * inf),
    "score positive": lambda scores: Scores(-scores.log_probs),
    "score value nan": lambda scores: Scores(scores.log_probs, {"share": scores.log_probs * nan}),
    "score value table": lambda scores: Scores(scores.log_probs, {"share": torch.zeros(1)}),
    "score memory": lambda scores: Scores(scores.log_probs, memory=torch.zeros(1)),
}


@dataclass(frozen=True)
class Seen(State):
    token: torch.Tensor
    ids: torch.Tensor
    turn: torch.Tensor


class Broken(Bigram):
    @property
    def way(self):
        return self.config.way

    def start(self, batch):
        token = batch.prompt[:, -1]
        return self._next(Seen(token, batch.ids, torch.ones_like(token)))

    def step(self, state, actions):
        return self._next(Seen(actions, state.ids, state.turn + 1))

    def _next(self, state):
        logits = self.table(state.token)
        log_probs = logits.log_softmax(1)
        if self.way == "row nan late":  # never stops, so that the step is reached
            log_probs = with_stop(logits, -inf).log_softmax(1)
        if self.way in FROM_ROW or self.way == "row nan late":
            late = state.turn == (WRONG if self.way == "row nan late" else 1)
            value = FROM_ROW.get(self.way, nan)
            log_probs = only(log_probs, torch.where(late, state.ids, -1), WRONG, value)
        log_probs = LOG_PROBS.get(self.way, lambda log_probs, logits: log_probs)(log_probs, logits)
        found = log_probs, (None if self.way == "step stateless" else state)
        return log_probs if self.way == "step alone" else found

    def limit(self, batch):
        return {
            "limit zero": torch.zeros_like(batch.ids),
            "limit number": 5,
            "limit rows": batch.ids[:1] * 0 + 5,
        }.get(self.way)

    def read(self, actions):
        made = {"read beyond": [len(self.table.weight)], "read tensor": torch.tensor(actions), "read none": None}
        return made.get(self.way, actions)

    def sample(self, batch, max_tokens, rng):
        found = super().sample(batch, max_tokens, rng)
        if self.way == "sample rows":
            return found[:-1]
        if self.way == "sample beyond":
            return [replace(one, tokens=[99]) for one in found]
        return found

    def loss(self, batch, training):
        return LOSSES.get(self.way, lambda loss: loss)(super().loss(batch, training))

    def score(self, batch, scoring):
        if self.way == "score logits":
            logits = self.table(batch.inputs[:, -batch.gold.shape[1] :]) + 3
            return Scores((logits.gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask).sum(1))
        return SCORES.get(self.way, lambda scores: scores)(super().score(batch, scoring))


def with_stop(logits, value):
    return logits.index_fill(1, torch.tensor(0), value)


HYPOTHESES = {
    "vocabulary": lambda one: replace(one, tokens=[99]),
    "negative": lambda one: replace(one, tokens=[-1]),
    "stop": lambda one: replace(one, tokens=[1, 0]),
    "long": lambda one: replace(one, tokens=[1] * 7, finished=False),
    "long with stop": lambda one: replace(one, tokens=[1] * 6, finished=True),
    "tensor": lambda one: replace(one, tokens=torch.ones(2, dtype=torch.long)),
    "tensors": lambda one: replace(one, tokens=[torch.tensor(1)]),
    "numpy": lambda one: replace(one, tokens=[np.int64(1)]),
    "text": lambda one: replace(one, tokens="ab"),
    "log_prob nan": lambda one: replace(one, log_prob=nan),
    "log_prob inf": lambda one: replace(one, log_prob=-inf),
    "log_prob positive": lambda one: replace(one, log_prob=0.5),
    "log_prob tensor": lambda one: replace(one, log_prob=torch.tensor(-1.0)),
    "finished tensor": lambda one: replace(one, finished=torch.tensor(True)),
    "action stop": lambda one: replace(one, actions=[1, 0]),
    "value nan": lambda one: replace(one, values={"calls": nan}),
    "value text": lambda one: replace(one, values={"calls": "3"}),
    "tokens alone": lambda one: one.tokens,
}
ROWS = {
    "none": lambda rows: None,
    "rows": lambda rows: rows[:-1],
    "nothing": lambda rows: [*rows[:-1], []],
    "unlisted": lambda rows: [row[0] for row in rows],
}


class BrokenDecoder(Argmax):
    def decode(self, model, batch, rng):
        change = HYPOTHESES.get(self.config.way, lambda one: one)
        rows = [[change(Hypothesis([1], True, -1.0, [1]))] for _ in batch.ids.tolist()]
        return ROWS.get(self.config.way, lambda rows: rows)(rows)


class BrokenRate(Ended):
    def prepare(self, info, references):
        return None if self.config.way == "prepare" else self

    def measure(self, predictions):
        parts = [*super().measure(predictions)]
        made = {"measure none": None, "measure rows": parts[:-1], "measure set": [{1} for _ in parts]}
        return made.get(self.config.way, parts)

    def combine(self, parts):
        made = {"none": None, "text": "50", "nan": nan, "inf": inf, "list": [50.0], "complex": 1j, "true": True}
        made |= {"above": 250.0, "below": -1.0}
        if self.config.way == "measure set":
            return 50.0
        return made.get(self.config.way, 50.0)

    def resample(self, parts, counts):
        made = {"resample none": [None] * len(counts), "resample text": ["1"] * len(counts), "resample few": [1.0]}
        return made.get(self.config.way, [50.0] * len(counts))

    def error(self, parts):
        return {"error text": "a", "error negative": -1.0, "error nan": nan}.get(self.config.way, 0.0)


BATCHES = {
    "batch none": lambda batch: None,
    "batch ids": lambda batch: replace(batch, ids=batch.ids.float()),
    "batch gold beyond": lambda batch: replace(batch, gold=batch.gold + 99),
    "batch gold negative": lambda batch: replace(batch, gold=batch.gold - 1),
    "batch gold ints": lambda batch: replace(batch, gold=batch.gold.int()),
    "batch opening rows": lambda batch: replace(batch, prompt=batch.prompt[:-1]),
    "batch opening empty": lambda batch: replace(batch, prompt=batch.prompt[:, :0]),
    "batch length": lambda batch: replace(batch, length=batch.length + 9),
    "batch length zero": lambda batch: replace(batch, length=batch.length * 0),
    "batch source": lambda batch: replace(batch, source=batch.gold),
    "batch extra": lambda batch: replace(batch, extras={"more": torch.zeros(99)}),
    "batch weight": lambda batch: replace(batch, extras={"weight": -torch.ones(len(batch))}),
    "batch twice": lambda batch: replace(batch, ids=batch.ids * 0),
}


class BrokenLetters(Letters):
    def prepare(self, data):
        info = super().prepare(data)
        made = {"facts none": None, "facts text": replace(info, vocabulary="abcd"), "facts": {"vocabulary": []}}
        return made.get(self.config.way, info)

    def batches(self, split, purpose, size, rng=None):
        if self.config.way == "batches none":
            return None
        found = super().batches(split, purpose, size, rng)
        return map(BATCHES.get(self.config.way, lambda batch: batch), found)

    def text(self, tokens):
        made = {"text list": tokens, "text none": None, "text bytes": b"ab"}
        return made.get(self.config.way, super().text(tokens))

    def references(self, split):
        found = {number: [Letters.text(self, word[1:])] for number, word in enumerate(self._words(split))}
        made = {
            "references none": None,
            "references few": {number: texts for number, texts in found.items() if number != WRONG},
            "references text": {number: texts[0] for number, texts in found.items()},
            "references tokens": {number: [[1, 2]] for number in found},
            "references list": list(found.values()),
        }
        return made.get(self.config.way, found)

    def sources(self, split):
        return {0: 7} if self.config.way == "sources" else {}

    def groups(self, split):
        return {"groups": {0: "a"}, "groups list": [0, 0]}.get(self.config.way, {})

    def target_sizes(self, split):
        return {"sizes": {0: 7}, "sizes negative": {0: TextSize(-1, 1)}}.get(self.config.way, {})
