"""The sound parts that mutants change: two tasks, two models, two decoders, three metrics."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product
from math import fsum

import torch
from torch import nn
from torch.nn.functional import one_hot

from bench_core import (
    STOP,
    Additive,
    Batch,
    Decoder,
    Loss,
    Metric,
    Rng,
    Scorer,
    Scores,
    State,
    Stepper,
    Task,
    TaskInfo,
    as_hypothesis,
    generate,
    limits,
)

LETTERS = "abc"
SIZES = {"train": 60, "valid": 12, "test": 24}
TEXTS = ["".join(letters) for length in range(1, 6) for letters in product(LETTERS, repeat=length)]


class Words(Task):
    """Continue two letters to a word; no target occurs twice, in one split or in two."""

    letters = LETTERS

    def pairs(self):
        """Return prompt and target of each example, by split."""
        texts = [TEXTS[62 * number % len(TEXTS)] for number in range(sum(SIZES.values()))]
        pairs = [(self.letters[i % 3] + self.letters[i // 3 % 3], text) for i, text in enumerate(texts)]
        train, valid = SIZES["train"], SIZES["train"] + SIZES["valid"]
        return {"train": pairs[:train], "valid": pairs[train:valid], "test": pairs[valid:]}

    def prepare(self, data):
        (self.folder / "pairs.json").write_text(json.dumps(self.pairs()))
        return TaskInfo(["<stop>", *self.letters])

    def read(self, split):
        return [tuple(pair) for pair in json.loads((self.folder / "pairs.json").read_text())[split]]

    def batches(self, split, purpose, size, rng=None):
        pairs = self.read(split)
        order = torch.arange(len(pairs))
        if rng is not None:
            order = rng.uniform(order).argsort()
        longest = 1 + max(len(target) for _, target in pairs)
        number = size.number if size.unit == "rows" else max(1, size.number // longest)
        for ids in order.split(number):
            yield self.batch(ids, [pairs[i] for i in ids.tolist()], purpose)

    def batch(self, ids, pairs, purpose):
        targets = [[*self.tokens(target), STOP] for _, target in pairs]
        prompt = torch.tensor([[STOP, *self.tokens(prompt)] for prompt, _ in pairs])
        return Batch(ids, prompt, padded(targets), torch.tensor([len(target) for target in targets]))

    def tokens(self, text):
        return [1 + self.letters.index(letter) for letter in text]

    def text(self, tokens):
        return "".join(self.letters[token - 1] for token in tokens)

    def references(self, split):
        return {number: [target] for number, (_, target) in enumerate(self.read(split))}


class Copies(Words):
    """Copy a source."""

    def prepare(self, data):
        info = super().prepare(data)
        return replace(info, source_vocabulary=info.vocabulary)

    def batch(self, ids, pairs, purpose):
        found = super().batch(ids, pairs, purpose)
        source = padded([self.tokens(target) for _, target in pairs])
        return replace(found, prompt=found.prompt[:, :1], source=source, source_length=found.length - 1)


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[STOP] * (width - len(row))] for row in rows])


@dataclass(frozen=True)
class Trace(State):
    trace: torch.Tensor  # [N, V] the tokens so far, each weighing half of the next
    steps: torch.Tensor  # [N] taken
    ids: torch.Tensor  # [N]


class Table(nn.Module, Stepper[Trace], Scorer):
    """p(y_t | y_<t) = softmax(U tanh(W h_t)), with h_t = h_{t-1} / 2 + onehot(y_{t-1})."""

    def __init__(self, config, info):
        super().__init__()
        self.config = config
        self.size = len(info.vocabulary)
        self.hidden = nn.Linear(self.size, 16)
        self.table = nn.Linear(16, self.size)

    def setup(self, info, rng):
        """Choose weights by which some outputs stop, at various lengths, and some are cut."""
        for name, weights in self.named_parameters():
            weights.data.copy_(3 * Rng(2).shared(name, tuple(weights.shape)) - 1.5)
        self.table.bias.data[STOP] -= 1

    def vectors(self, tokens):
        return one_hot(tokens, self.size).to(self.table.weight.dtype)

    def logits(self, trace):
        return self.table(torch.tanh(self.hidden(trace)))

    def predict(self, trace):
        return self.logits(trace).log_softmax(-1)

    def begin(self, batch):
        """Return the trace before the opening [N, V]."""
        return self.table.weight.new_zeros(len(batch), self.size)

    def start(self, batch):
        trace = self.begin(batch)
        for tokens in batch.prompt.unbind(1):
            trace = trace / 2 + self.vectors(tokens)
        return self.predict(trace), Trace(trace, torch.zeros_like(batch.ids), batch.ids)

    def step(self, state, actions):
        trace = state.trace / 2 + self.vectors(actions)
        return self.predict(trace), replace(state, trace=trace, steps=state.steps + 1)

    def log_probs(self, batch):
        """Return the log-probabilities of all tokens at each place of `gold` [N, T, V]."""
        trace, traces = self.begin(batch), []
        for tokens in batch.inputs.unbind(1):
            trace = trace / 2 + self.vectors(tokens)
            traces.append(trace)
        return self.predict(torch.stack(traces[-batch.gold.shape[1] :], 1))

    def gains(self, batch):
        """Return the log-probability of each token of `gold` [N, T], 0 for padding."""
        return self.log_probs(batch).gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask

    def score(self, batch, scoring):
        return Scores(self.gains(batch).sum(1))

    def loss(self, batch, training):
        weight = batch.mask.sum()
        return Loss(-self.gains(batch).sum() / weight, weight)


class Reader(Table):
    """The same, from the mean of the tokens of a source."""

    def begin(self, batch):
        real = torch.arange(batch.source.shape[1], device=batch.ids.device) < batch.source_length[:, None]
        total = (self.vectors(batch.source) * real[:, :, None]).sum(1)
        return total / batch.source_length.clamp(min=1)[:, None]


class Greedy(Decoder[Stepper]):
    def decode(self, model, batch, rng):
        found = generate(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), self.config.max_tokens)
        return [[one] for one in found]


class Beam(Decoder[Stepper]):
    """Beam search, a row at a time."""

    width = 3

    def decode(self, model, batch, rng):
        rows = torch.arange(len(batch), device=batch.ids.device)
        return [self.search(model, batch.select(row)) for row in rows.split(1)]

    def search(self, model, batch):
        log_probs, state = model.start(batch)
        live, done = [(0.0, [])], []  # totals and chains
        most = int(limits(model, batch, self.config.max_tokens)) * model.actions_per_token
        for step in range(most):
            totals = log_probs.new_tensor([total for total, _ in live], dtype=torch.float64)[:, None] + log_probs
            found = sorted(self.choices(totals), reverse=True)[: self.width]
            chains = [(total, [*live[row][1], action], row) for total, row, action in found]
            ended = [one for one in chains if one[1][-1] == STOP or step + 1 == most]
            done += [as_hypothesis(model, chain, total) for total, chain, _ in ended]
            going = [one for one in chains if one not in ended]
            if not going:
                break
            rows = batch.ids.new_tensor([row for _, _, row in going])
            live = [(total, chain) for total, chain, _ in going]
            actions = batch.ids.new_tensor([chain[-1] for _, chain in live])
            log_probs, state = model.step(self.kept(state, rows), actions)
        return self.ranked(done)

    def choices(self, totals):
        places = (totals > -torch.inf).nonzero().tolist()
        return [(totals[row, action].item(), row, action) for row, action in places]

    def kept(self, state, rows):
        return state.select(rows)

    def ranked(self, done):
        return sorted(done, key=lambda one: -one.log_prob)


class Match(Additive):
    """The share of first outputs that are a reference."""

    better, unit, scale, signature = 1, "%", "share", "match"

    def measure(self, predictions):
        return [int(one.texts[0] in one.references) for one in predictions]

    def from_sums(self, sums, examples):
        return 100 * sums[0] / examples if examples else float("nan")


class Nats(Metric):
    """Nats a token of targets."""

    better, unit, signature = -1, "nats", "nats"
    may_be_infinite = True

    def measure(self, predictions):
        return [[-one.target_log_prob, one.target_tokens] for one in predictions]

    def combine(self, parts):
        return fsum(nats for nats, _ in parts) / sum(tokens for _, tokens in parts) if parts else float("nan")


class Length(Additive):
    """The mean length of first outputs."""

    better, unit, signature = 0, "tokens", "length"

    def measure(self, predictions):
        return [one.hypotheses[0].length for one in predictions]

    def from_sums(self, sums, examples):
        return sums[0] / examples if examples else float("nan")
