"""Toy decoders, tasks and metrics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, inf
from pathlib import Path
from typing import Any

import torch

from bench_authors.looks.rows import pad
from bench_core import (
    STOP,
    Batch,
    Decoder,
    Hypothesis,
    Metric,
    Prediction,
    Purpose,
    Rng,
    Sampler,
    Size,
    Split,
    Stepper,
    Task,
    TaskInfo,
    as_hypothesis,
    generate,
    limits,
)


class ToyGreedy(Decoder[Stepper[Any]]):
    """Takes the most probable action at every step, the lowest action if several are tied."""

    def decode(self, model: Stepper[Any], batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        outputs = generate(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), self.config.max_tokens)
        return [[output] for output in outputs]


class ToyAncestral(Decoder[Sampler]):
    """Samples from the model."""

    def decode(self, model: Sampler, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        return [[output] for output in model.sample(batch, self.config.max_tokens, rng)]


class ToyExhaustive(Decoder[Stepper[Any]]):
    """Enumerates every hypothesis, for all rows in parallel."""

    def decode(self, model: Stepper[Any], batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        max_actions = limits(model, batch, self.config.max_tokens) * model.actions_per_token
        log_probs, state = model.start(batch)
        owner = torch.arange(len(batch), device=log_probs.device)  # [M] row of each unfinished hypothesis
        totals = torch.zeros_like(owner, dtype=torch.float64)  # [M]
        chains: list[list[int]] = [[] for _ in owner]
        finished: list[list[tuple[float, list[int]]]] = [[] for _ in owner]
        for step in range(1, int(max_actions.max()) + 1):
            parents, actions = (log_probs > -inf).nonzero(as_tuple=True)
            owner, totals = owner[parents], totals[parents] + log_probs[parents, actions]
            chains = [[*chains[i], action] for i, action in zip(parents.tolist(), actions.tolist(), strict=True)]
            done = (actions == STOP) | (step >= max_actions[owner])
            for i in done.nonzero()[:, 0].tolist():
                finished[owner[i]].append((-totals[i].item(), chains[i]))
            live = (~done).nonzero()[:, 0]
            if not len(live):
                break
            owner, totals, chains = owner[live], totals[live], [chains[i] for i in live.tolist()]
            log_probs, state = model.step(state.select(parents[live]), actions[live])
        best = (sorted(row)[: self.config.outputs] for row in finished)
        return [[as_hypothesis(model, chain, -cost) for cost, chain in row] for row in best]


class Letters(Task):
    """Spells words; of every four words, the third is for validation and the fourth for test."""

    def prepare(self, data: Path) -> TaskInfo:
        words = self.config.words
        splits = {"valid": words[2::4], "test": words[3::4], "train": [*words[0::4], *words[1::4]]}
        letters = ["<stop>", *sorted(set("".join(words)))]
        (self.folder / "words.json").write_text(json.dumps({"letters": letters, "splits": splits}), encoding="utf-8")
        counts = ["".join(splits["train"]).count(letter) for letter in letters[1:]]
        return TaskInfo(letters, [len(splits["train"]), *counts])

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        targets = [self._tokens(word) for word in self._read()["splits"][split]]
        order = torch.arange(len(targets))
        if rng is not None:
            order = rng.uniform(order).argsort()
        for ids in _pack(order.tolist(), [len(target) + 1 for target in targets], size):
            yield self._batch(ids, [targets[i] for i in ids])

    def text(self, tokens: list[int]) -> str:
        letters = self._read()["letters"]
        return "".join(letters[token] for token in tokens)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        return {number: [word] for number, word in enumerate(self._read()["splits"][split])}

    def _batch(self, ids: list[int], targets: list[list[int]]) -> Batch:
        return Batch(torch.tensor(ids), torch.full((len(ids), 1), STOP), *pad(targets))

    def _tokens(self, word: str) -> list[int]:
        letters = self._read()["letters"]
        return [letters.index(letter) for letter in word]

    def _read(self) -> Any:
        return json.loads((self.folder / "words.json").read_text(encoding="utf-8"))


class Reversal(Letters):
    """Spells words from their reversed letters."""

    def prepare(self, data: Path) -> TaskInfo:
        info = super().prepare(data)
        return TaskInfo(info.vocabulary, info.counts, source_vocabulary=info.vocabulary)

    def _batch(self, ids: list[int], targets: list[list[int]]) -> Batch:
        batch = super()._batch(ids, targets)
        source, lengths = pad([target[::-1] for target in targets])
        return replace(batch, source=source[:, :-1], source_length=lengths - 1)  # without EOS


class ToyStream(Letters):
    """All words of a split as a stream, in windows of at most two rows."""

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        stream = torch.tensor(
            [token for word in self._read()["splits"][split] for token in [*self._tokens(word), STOP]]
        )
        number = min(2, size.number if size.unit == "rows" else 1 + size.number // (2 * self.config.window))
        rows = stream[: len(stream) // number * number].view(number, -1)
        before, ids = torch.full((number, 1), STOP), torch.arange(number)
        for turn, window in enumerate(torch.split(rows, self.config.window, 1)):
            length = torch.full_like(ids, window.shape[1])
            yield Batch(ids, before, window, length, continues=turn > 0)
            before = window[:, -1:]


def _pack(order: list[int], lengths: list[int], size: Size) -> Iterator[list[int]]:
    """Yield batches of rows in order."""
    batch: list[int] = []
    for number in order:
        total = len(batch) + 1 if size.unit == "rows" else sum(lengths[i] for i in [*batch, number])
        if batch and total > size.number:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


class ToyExactMatch(Metric[int]):
    """Share of examples whose first text is one of the references."""

    better, unit = 1, "%"
    signature = "exact match"

    def measure(self, predictions: Sequence[Prediction]) -> list[int]:
        return [int(prediction.texts[0] in prediction.references) for prediction in predictions]

    def combine(self, parts: Sequence[int]) -> float:
        return 100 * sum(parts) / len(parts)


class ToyPerplexity(Metric[tuple[float, float]]):
    """exp of the nats per token, including EOS."""

    better, unit = -1, ""
    may_be_infinite = True
    signature = "nats per token, EOS included"

    def measure(self, predictions: Sequence[Prediction]) -> list[tuple[float, float]]:
        return [(y.weight * (y.target_log_prob or 0.0), y.weight * y.target_tokens) for y in predictions]

    def combine(self, parts: Sequence[tuple[float, float]]) -> float:
        nats, tokens = (sum(column) for column in zip(*parts, strict=True))
        return exp(-nats / tokens)
