"""Parts that are correct and unusual: what looks odd of them is allowed by their interface, or declared."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import torch
from torch import nn

from bench_core import (
    STOP,
    Additive,
    Decoder,
    Hypothesis,
    Loss,
    Metric,
    Sampler,
    Scorer,
    Scores,
    Stepper,
    draw,
    generate,
)
from bench_mutants.sound import Beam, Greedy, Length, Match, Table, Words

# Models


class Bounded(Table):
    """A declared bound: below what the steps say."""

    def score(self, batch, scoring):
        return Scores(super().score(batch, scoring).log_probs - 0.3 * batch.length)


class Estimated(Table):
    """A declared estimate, which depends on noise and may be above."""

    def score(self, batch, scoring):
        return Scores(super().score(batch, scoring).log_probs + 0.2 * scoring.rng.normal(batch.ids, 0, 1)[:, 0])


class TwoWays(Table):
    """An exact likelihood and a bound of the same model."""

    def score(self, batch, scoring):
        found = super().score(batch, scoring).log_probs
        return Scores(found - 1 if scoring.by == "below" else found)


class Rounded(Table):
    """Rounding that depends on the shape of a batch, as matrix products on any processor have it."""

    def predict(self, trace):
        return super().predict(trace * (1 + 1e-6 * trace.shape[0]))


class Single(Table):
    """A score added up in single precision, in another order than the steps."""

    def score(self, batch, scoring):
        return Scores(self.gains(batch).flip(1).float().cumsum(1)[:, -1].to(self.table.weight.dtype))


class Regularized(Table):
    """A loss with a penalty on weights."""

    def loss(self, batch, training):
        found = super().loss(batch, training)
        penalty = 0.01 * self.table.weight.square().sum()
        return Loss(found.value + penalty, found.weight, {"penalty": penalty.detach()})


class Dropped(Table):
    """Dropout, off in evaluation mode."""

    def predict(self, trace):
        return super().predict(nn.functional.dropout(trace, 0.5, self.training))


class Forbids(Table):
    """A letter that never follows itself: impossible actions, and impossible targets."""

    def predict(self, trace):
        shut = (trace >= 1) & (torch.arange(self.size, device=trace.device) != STOP)
        return self.logits(trace).masked_fill(shut, -torch.inf).log_softmax(-1)


class OnMainMemory(Table):
    """A model that would fail on an accelerator, and computes on a CPU."""

    def predict(self, trace):
        return super().predict(trace * torch.ones(self.size, dtype=trace.dtype))


class Limited(Table):
    """A limit of its own, which is below that of the suite."""

    def limit(self, batch):
        return torch.full_like(batch.ids, 4)


class Uniform(nn.Module, Stepper, Scorer):
    """All tokens alike, without a parameter."""

    def __init__(self, config, info):
        super().__init__()
        self.inner = Table(config, info)

    def start(self, batch):
        log_probs, state = self.inner.start(batch)
        return torch.zeros_like(log_probs).log_softmax(1), state

    def step(self, state, actions):
        log_probs, state = self.inner.step(state, actions)
        return torch.zeros_like(log_probs).log_softmax(1), state

    def score(self, batch, scoring):
        each = torch.zeros(self.inner.size, dtype=self.inner.table.weight.dtype).log_softmax(0)[0]
        return Scores(each * batch.length)

    def loss(self, batch, training):
        return Loss(batch.mask.sum() * 0.0, batch.mask.sum())


class Whole(nn.Module, Sampler):
    """Samples whole words of its own, without steps and without scores."""

    def __init__(self, config, info):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def sample(self, batch, max_tokens, rng):
        lengths = (rng.uniform(batch.ids) * 4).long().tolist()
        return [Hypothesis([1] * length, True) for length in lengths]

    def loss(self, batch, training):
        return Loss((self.bias - 1).square(), batch.mask.sum())


# Decoders


class Untyped(Decoder):
    """Greedy decoding by a class without a type parameter."""

    def decode(self, model, batch, rng):
        return Greedy(self.config).decode(model, batch, rng)


class Ancestral(Decoder[Sampler]):
    """Whatever the model draws."""

    def decode(self, model, batch, rng):
        return [[one] for one in model.sample(batch, self.config.max_tokens, rng)]


class Tempered(Decoder[Stepper]):
    """Draws at temperature 0.5; the log-probability is that of the model's own distribution."""

    def decode(self, model, batch, rng):
        pick = draw(rng)
        found = generate(
            model,
            batch,
            lambda log_probs, ids, step: pick((2 * log_probs).log_softmax(1), ids, step),
            self.config.max_tokens,
        )
        return [[one] for one in found]


class Normalized(Beam):
    """A beam ranked by log-probability a token."""

    def ranked(self, done):
        return sorted(done, key=lambda one: -one.log_prob / one.length)


class DeclaredNormalized(Normalized):
    """The same, whose Config declares that log-probabilities are a token."""

    def ranked(self, done):
        return [replace(one, log_prob=one.log_prob / one.length) for one in super().ranked(done)]


class Quiet(Greedy):
    """Outputs without log-probabilities."""

    def decode(self, model, batch, rng):
        return [[replace(one, log_prob=None) for one in row] for row in super().decode(model, batch, rng)]


class Bare(Greedy):
    """Outputs of tokens alone."""

    def decode(self, model, batch, rng):
        found = super().decode(model, batch, rng)
        return [[replace(one, log_prob=None, actions=None) for one in row] for row in found]


class Silent(Decoder[Stepper]):
    """Empty outputs: every row stops at once."""

    def decode(self, model, batch, rng):
        found = generate(model, batch, lambda log_probs, ids, step: torch.zeros_like(ids), self.config.max_tokens)
        return [[one] for one in found]


class AtLeastTwo(Decoder[Stepper]):
    """Greedy decoding that may not stop before the third step."""

    def decode(self, model, batch, rng):
        def pick(log_probs, ids, step):
            return log_probs[:, 1:].argmax(1) + 1 if step < 2 else log_probs.argmax(1)

        return [[one] for one in generate(model, batch, pick, self.config.max_tokens)]


class Several(Decoder[Sampler]):
    """Three samples a row, the same ones among them, the most probable first."""

    def decode(self, model, batch, rng):
        drawn = [model.sample(batch, self.config.max_tokens, rng.fork(turn)) for turn in range(3)]
        return [sorted(row, key=lambda one: -one.log_prob) for row in zip(*drawn, strict=True)]


class Constant(Decoder[Sampler]):
    """The same output for all rows, whatever the model says."""

    def decode(self, model, batch, rng):
        return [[Hypothesis([1, 2], True)] for _ in range(len(batch))]


# Metrics


class Unbounded(Length):
    """A number without a range, of either sign."""

    unit, signature = "", "unbounded"

    def measure(self, predictions):
        return [1e6 * (len(one.texts[0]) - len(one.references[0])) for one in predictions]


class FirstReference(Match):
    """A share of which only the first reference counts."""

    signature = "first"

    def measure(self, predictions):
        return [int(one.texts[0] == one.references[0]) for one in predictions]


class ErrorRate(Additive):
    """Errors in percent of the reference, which may be above 100."""

    better, unit, signature = -1, "%", "errors"

    def row(self, part):
        return part

    def measure(self, predictions):
        return [[3 * len(one.texts[0]), len(one.references[0])] for one in predictions]

    def from_sums(self, sums, examples):
        return 100 * sums[0] / sums[1] if examples else float("nan")


class Longest(Metric):
    """The longest output of a whole population."""

    better, unit, signature, population = 0, "tokens", "longest", "whole"

    def measure(self, predictions):
        return [one.hypotheses[0].length for one in predictions]

    def combine(self, parts):
        return float(max(parts, default=0))


class Total(Length):
    """The sum over a whole population."""

    signature, population = "total", "whole"

    def from_sums(self, sums, examples):
        return float(sums[0]) if sums else 0.0


class Count(Length):
    """How many outputs of a sample are long, as its Config declares a count."""

    signature, digits = "count", 0

    def measure(self, predictions):
        return [int(one.hypotheses[0].length > 2) for one in predictions]

    def from_sums(self, sums, examples):
        return float(sums[0]) if sums else 0.0


class Distinct(Metric):
    """The share of different outputs, which repeated examples lower."""

    better, unit, signature = 1, "%", "distinct"

    def measure(self, predictions):
        return [one.texts[0] for one in predictions]

    def combine(self, parts):
        return 100 * len({*parts}) / len(parts) if parts else float("nan")


class Median(Metric):
    """A median, which is no function of sums."""

    better, unit, signature = 0, "tokens", "median"

    def measure(self, predictions):
        return [one.hypotheses[0].length for one in predictions]

    def combine(self, parts):
        return float(median(parts)) if parts else float("nan")


class Undefined(Length):
    """A mean over finished outputs, which declares that there may be none."""

    signature, may_be_nan = "undefined", True

    def row(self, part):
        return part

    def measure(self, predictions):
        return [[0.0, 0.0] for _ in predictions]

    def from_sums(self, sums, examples):
        return sums[0] / sums[1] if sums and sums[1] else float("nan")


class Inexact(Metric):
    """A mean added up from left to right, whose last digits depend on the order."""

    better, unit, signature = 0, "", "inexact"

    def measure(self, predictions):
        return [0.1 * one.hypotheses[0].length + 1 / 3 for one in predictions]

    def combine(self, parts):
        total = 0.0
        for part in parts:
            total += part
        return total / len(parts) if parts else float("nan")


class Rarity(Length):
    """A metric fitted to the references, which it looks up by example."""

    signature = "rarity"

    def prepare(self, info, references):
        self.known = {number: max(map(len, texts), default=0) for number, texts in references.items()}
        return self

    def measure(self, predictions):
        return [abs(len(one.texts[0]) - self.known[one.id]) for one in predictions]


class OfPrompts(Length):
    """A metric of prompts, the same for all systems."""

    signature = "prompts"

    def measure(self, predictions):
        return [len(one.prompt) for one in predictions]


# Tasks


class Alone(Words):
    """A test split of one example."""

    def pairs(self):
        found = super().pairs()
        return {**found, "test": found["test"][:1]}


class SamePrompt(Words):
    """One prompt for all examples, which have different references."""

    def pairs(self):
        return {split: [("ab", target) for _, target in found] for split, found in super().pairs().items()}


class EmptyTargets(Words):
    """Targets of which some are empty."""

    def pairs(self):
        found = super().pairs()
        prompts = {"train": "aa", "valid": "bb", "test": "cc"}
        return {split: [*pairs[1:], (prompts[split], "")] for split, pairs in found.items()}


class Binary(Words):
    """A vocabulary of one letter and stop."""

    letters = "a"

    def pairs(self):
        lengths = {"train": range(1, 30, 3), "valid": range(2, 30, 3), "test": range(3, 30, 3)}
        return {split: [("aa", "a" * length) for length in found] for split, found in lengths.items()}


class Capitals(Words):
    """References that are no text of any target, as of a corpus that was lower-cased."""

    def references(self, split):
        return {number: [text.upper() for text in texts] for number, texts in super().references(split).items()}


class Unanswered(Words):
    """Examples without any reference."""

    def references(self, split):
        return {number: [] for number in super().references(split)}


class Many(Words):
    """Several references, the target the last of them."""

    def references(self, split):
        return {number: [f"{text}a", f"{text}b", text] for number, (text,) in super().references(split).items()}


class Weighted(Words):
    """Examples of different weight."""

    def batch(self, ids, pairs, purpose):
        found = super().batch(ids, pairs, purpose)
        return replace(found, extras={"weight": 1.0 + ids % 3})


class Common(Words):
    """A few examples that occur often in the language, in all splits."""

    def pairs(self):
        return {split: [*found, ("ab", "c"), ("ab", "c")] for split, found in super().pairs().items()}


class Documents(Words):
    """Examples that share groups."""

    def groups(self, split):
        return {number: number // 4 for number in self.references(split)}
