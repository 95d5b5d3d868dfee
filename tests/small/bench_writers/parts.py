"""The parts themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from bench_small.parts import Letters
from torch import nn

from bench_core import (
    Additive,
    Batch,
    Hypothesis,
    OwnVocabulary,
    Scorer,
    Scores,
    State,
    Stepper,
    TextScore,
    TextScorer,
)
from bench_writers.plugin import Echo, Oracle

LETTERS = "abcdefghijklmnopqrstuvwxyz "


class Capitals(nn.Module, Echo):
    def __init__(self, config, info):
        super().__init__()
        self.config = config

    def generate(self, prompts, generation):
        texts = [prompt.text.upper() * generation.settings.times for prompt in prompts]
        if self.config.breaks == "fewer":
            texts = texts[1:]
        if self.config.breaks == "no text":
            return [[Hypothesis([], True)] for _ in texts]
        if self.config.breaks == "bytes":
            return [[Hypothesis([], True, text=text.encode())] for text in texts]
        if self.config.breaks == "tokens":
            return [[Hypothesis([3], True, text=text)] for text in texts]
        return [
            [Hypothesis([], True, text=text, token_count=len(text)), Hypothesis([], False, text="?")]
            for text in texts
        ]


class Asked(nn.Module, Oracle):
    def __init__(self, config, info):
        super().__init__()
        self.config = config

    def generate(self, prompts, generation):
        (generation.folder / self.config.door).mkdir(parents=True, exist_ok=True)
        loudly = "!" * generation.settings.loudly
        said = f"{generation.split} {generation.seed}{loudly} of {generation.examples}:"
        return [[Hypothesis([], True, text=f"{said} {one.id} {one.name}", token_count=-1)] for one in prompts]


class NamedLetters(Letters):
    def example_names(self, split):
        return {number: f"{split}/{number}" for number in self.references(split)}


class Judge(nn.Module, TextScorer):
    def __init__(self, config, info):
        super().__init__()
        self.config = config

    def score_texts(self, prompts, targets, generation):
        assert generation.settings is None
        broken = {"nan": math.nan, "positive": 1.0, "none": None}
        found = [
            TextScore(broken.get(self.config.breaks, -len(target + prompt.text)), len(target + "!"), self.config.stop)
            for prompt, target in zip(prompts, targets, strict=True)
        ]
        return found[1:] if self.config.breaks == "fewer" else found


@dataclass(frozen=True)
class Last(State):
    token: torch.Tensor  # [N]


class Characters(nn.Module, OwnVocabulary, Stepper, Scorer):
    """p(c | b) of a fixed table; token 0 is stop, the others are LETTERS."""

    vocabulary_size = len(LETTERS) + 1

    def __init__(self, config, info):
        super().__init__()
        size = self.vocabulary_size
        self.register_buffer("table", torch.sin(torch.arange(size * size).view(size, size) ** 1.5))

    def encode(self, prompts, targets=None):
        golds = [[*map(self._token, text), 0] for text in targets or [""] * len(prompts)]
        spelled = [self.text(gold[:-1]) == text for gold, text in zip(golds, targets or [], strict=bool(targets))]
        width = max(map(len, golds))
        return Batch(
            torch.tensor([one.id for one in prompts], dtype=torch.long),
            torch.tensor([[0, self._token(one.text[-1:] or " ")] for one in prompts]),
            torch.tensor([[*gold, *[0] * (width - len(gold))] for gold in golds]),
            torch.tensor([len(gold) for gold in golds]),
            extras={"spelled": torch.tensor(spelled)} if targets else {},
        )

    def _token(self, letter):
        return 1 + max(0, LETTERS.find(letter.lower()))

    def text(self, tokens):
        return "".join(LETTERS[token - 1] for token in tokens)

    def start(self, batch):
        return self._next(batch.prompt[:, -1])

    def step(self, state, actions):
        return self._next(actions)

    def _next(self, token):
        return self.table[token].log_softmax(-1), Last(token)

    def score(self, batch, scoring):
        before = batch.inputs[:, -batch.gold.shape[1] :]
        found = self.table[before].log_softmax(-1).gather(2, batch.gold[..., None])[..., 0]
        return Scores((found * batch.mask).sum(1))


class TextLength(Additive):
    label, better, unit = "Characters", 0, "characters"

    def __init__(self, config):
        super().__init__(config)
        self.signature = "characters"

    def measure(self, predictions):
        return (len(one.texts[0]) for one in predictions)

    def from_sums(self, sums, examples):
        return sums[0] / examples
