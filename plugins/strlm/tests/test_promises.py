"""No promise is broken: random models, as adverse as they can be, are certified and then decoded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import comb, inf, nan, sqrt
from random import Random
from typing import Any

import pytest
import torch

from bench_authors.testing import Case, patched
from bench_core import STOP, Batch, Rng, TaskInfo
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
)
from bench_rnn.plugin import RNNLMConfig
from bench_strlm import bounds
from bench_strlm.consistency import Consistency
from bench_strlm.magnitudes import logits_of
from bench_strlm.plugin import ConsistencyConfig, SelfTerminatingCausalLMConfig, SelfTerminatingRNNLMConfig

SAMPLES = 48  # rows that are drawn where something is said of probabilities


@dataclass(frozen=True)
class Trial:
    """A model with a decoder, the limit of the metric and the rows that are decoded."""

    model: Any
    decoder: Any
    limit: int
    batches: list[Batch]


def trial(theorem: str, number: int) -> Trial:
    """Draw a model, a decoder that the theorem is about, and openings."""
    draw = Random(f"{theorem}/{number}")
    tokens, epsilon = draw.randint(2, 40), 10 ** draw.uniform(-4, -0.301)
    steps = bounds.greedy_steps(epsilon)
    limit = draw.randint(1, 60) if draw.random() < 0.2 or steps > 400 else max(1, steps + draw.randint(-2, 8))
    decoder = DECODERS[theorem](draw, limit + draw.choice([0, 0, 0, -1, 5]), tokens)
    prefixes = [draw.randint(0, 12) for _ in range(draw.randint(1, 3))]
    terminating = theorem not in ("Lemma 3.2", "Theorem 4.1")
    model = self_terminating(draw, epsilon, tokens, max(prefixes), limit) if terminating else plain(draw, tokens)
    rows = 2 if theorem in ("Theorem 4.2", "Theorem 4.3") else SAMPLES
    batches = [prompts(draw, prefix, rows, tokens, rows * number) for number, prefix in enumerate(prefixes)]
    return Trial(model, decoder, limit, batches)


def prompts(draw: Random, prefix: int, rows: int, tokens: int, first: int) -> Batch:
    """Return random openings, of ids from `first` on."""
    ids = torch.arange(first, first + rows)
    words = [[STOP, *(draw.randint(1, tokens - 1) for _ in range(prefix))] for _ in range(rows)]
    return Batch(ids, torch.tensor(words), torch.ones_like(ids)[:, None], torch.ones_like(ids))


def cell_of(draw: Random) -> dict[str, Any]:
    """Return settings of a recurrent model."""
    cell = draw.choice(["tanh", "gru", "gru", "lstm", "relu", "identity"])
    variant = {"variant": draw.choice(["torch", "notes"])} if cell == "gru" else {}
    embedding = {"embedding": draw.choice([None, "one-hot", 3])}
    return {"cell": cell, "hidden": draw.randint(1, 6), "layers": draw.randint(1, 2), **variant, **embedding}


def self_terminating(draw: Random, epsilon: float, tokens: int, prefix: int, limit: int) -> Any:
    """Return a model that must stop, in all ways of putting it off."""
    info = TaskInfo(["</s>", *map(str, range(1, tokens))])
    terms = {"epsilon": epsilon, "st_context": draw.random() < 0.3}
    positions = prefix + 1 + draw.choice([limit + 9, limit - 1, draw.randint(0, limit + 2)])
    if draw.random() < 0.15:
        sizes = {"n_layer": 1, "n_embd": 4, "n_head": 2, "n_positions": max(positions, prefix + 1)}
        config: Any = SelfTerminatingCausalLMConfig(architecture={"model_type": "gpt2", **sizes}, **terms)
    else:
        config = SelfTerminatingRNNLMConfig(**cell_of(draw), **terms)
    model = Case.of(config, info=info, seed=draw.randrange(999), scale=10 ** draw.uniform(0, 3)).model
    head = logits_of(model) if isinstance(config, SelfTerminatingRNNLMConfig) else model.network.lm_head
    favourites = range(1, 1 + draw.randint(1, min(3, tokens - 1)))
    with torch.no_grad():
        if draw.random() < 0.5:
            head.weight[STOP] = 0
        if head.bias is not None and draw.random() < 0.4:  # as late as can be, and a few words are all there is
            head.weight.zero_()
            head.bias[STOP] = 200
            head.bias[favourites] = 300
        elif head.bias is not None:
            head.bias[STOP] += draw.uniform(-200, 200)
            head.bias[favourites] += draw.choice([0, 60])
    attack(draw, model)
    if draw.random() < 0.2 and isinstance(config, SelfTerminatingRNNLMConfig):
        room = max(1, positions - prefix)
        model = patched(model, limit=lambda model, batch: torch.full_like(batch.ids, room))
    return model


def plain(draw: Random, tokens: int) -> Any:
    """Return a softmax model, most of them tame enough for a bound that says something."""
    info = TaskInfo(["</s>", *map(str, range(1, tokens))])
    kind = draw.choice(["tame", "tame", "met", "met", "wild"])
    scale = 10 ** (draw.uniform(0, 3) if kind == "wild" else draw.uniform(-2, 0))
    settings = cell_of(draw) | ({"cell": "tanh", "variant": "torch"} if kind == "met" else {})
    model = Case.of(RNNLMConfig(**settings), info=info, seed=draw.randrange(999), scale=scale).model
    logits = logits_of(model)
    with torch.no_grad():
        logits.bias[STOP] += draw.uniform(-200, 200) if kind == "wild" else draw.uniform(-6, 3)
        if kind == "met":  # units are 1, words weigh them by w and stop by -w: p(stop) is as small as it can be
            for name, weights in model.rnn.named_parameters():
                weights.fill_(20 if "bias" in name else 0)
            logits.weight.fill_(draw.uniform(0, 3) / logits.in_features)
            logits.weight[STOP] *= -1
        if draw.random() < 0.3:
            logits.bias += 10 ** draw.uniform(0, 6)
    attack(draw, model)
    return model


def attack(draw: Random, model: Any) -> None:
    """Give the model a type, and at times a weight that is no number or too large."""
    model.to(draw.choice([torch.float32, torch.float64]))
    if draw.random() < 0.1:
        weights = draw.choice([weights for weights in model.parameters() if weights.numel()])
        with torch.no_grad():
            weights.view(-1)[draw.randrange(weights.numel())] = draw.choice([nan, inf, -inf, 1e38, 3e38])


def temperature(draw: Random) -> float:
    return draw.choice([1.0, 1.0, draw.uniform(0.1, 1.0)])


DECODERS = {
    "Theorem 4.2": lambda draw, most, tokens: GreedyConfig(max_tokens=max(1, most)),
    "Theorem 4.3": lambda draw, most, tokens: BeamConfig(
        max_tokens=max(1, most),
        width=draw.randint(1, 5),
        finish=draw.choice(["first", "k"]),
        alpha=draw.choice([0.0, 0.8]),
        outputs=draw.randint(1, 2),
    ),
    "Definition 4.3": lambda draw, most, tokens: draw.choice(
        [
            AncestralConfig(max_tokens=max(1, most)),
            TopKConfig(max_tokens=max(1, most), k=draw.randint(1, 3), temperature=temperature(draw)),
            NucleusConfig(max_tokens=max(1, most), mass=draw.random(), temperature=temperature(draw)),
            ConsistentTopKConfig(max_tokens=max(1, most), k=draw.randint(1, 3), temperature=temperature(draw)),
            ConsistentNucleusConfig(max_tokens=max(1, most), mass=draw.random(), temperature=temperature(draw)),
            TemperatureConfig(max_tokens=max(1, most), temperature=temperature(draw)),
        ]
    ),
    "Lemma 3.2": lambda draw, most, tokens: draw.choice(
        [
            AncestralConfig(max_tokens=max(1, most)),
            TopKConfig(max_tokens=max(1, most), k=tokens, temperature=10 ** draw.uniform(-1, 1)),
            NucleusConfig(max_tokens=max(1, most), mass=1, temperature=10 ** draw.uniform(-1, 1)),
            TemperatureConfig(max_tokens=max(1, most), temperature=10 ** draw.uniform(-1, 1)),
            ConsistentTopKConfig(
                max_tokens=max(1, most), k=draw.randint(1, 5), temperature=10 ** draw.uniform(-1, 1)
            ),
            ConsistentNucleusConfig(
                max_tokens=max(1, most), mass=draw.random(), temperature=10 ** draw.uniform(-1, 1)
            ),
        ]
    ),
    "Theorem 4.1": lambda draw, most, tokens: draw.choice(
        [
            ConsistentTopKConfig(max_tokens=max(1, most), k=draw.randint(1, 5)),
            ConsistentNucleusConfig(max_tokens=max(1, most), mass=draw.random()),
        ]
    ),
}


class Account:
    """What was promised, and what came of it."""

    def __init__(self) -> None:
        self.promises = 0
        self.expected = self.spread = self.endless = 0.0

    def settle(self, one: Trial, theorem: str) -> None:
        """Certify and decode a trial; add up what was said of probabilities."""
        with torch.no_grad():
            found = Consistency(ConsistencyConfig(limit=one.limit)).statement(one.model, one.decoder, one.batches)
            assert found.source.startswith(theorem) or not found.source
            if not found.bound:
                assert found.promises is None
                return
            self.promises += 1
            lengths = [
                len(row[0].tokens) + 1 if row[0].finished else inf
                for batch in one.batches
                for row in one.decoder.load()(one.decoder).decode(one.model, batch, Rng(17))
            ]
        if found.promises:
            last = int(re.fullmatch(r"by step ([\d,]+)", found.bound)[1].replace(",", ""))
            assert max(lengths) <= last <= one.limit, found
            return
        steps, chance = re.fullmatch(r"P\(no EOS in ([\d,]+)\) < (.+)", found.bound).groups()
        endless, chance = sum(length > int(steps) for length in lengths), float(chance)
        assert at_least(endless, len(lengths), chance) > 1e-9, found
        self.expected, self.endless = self.expected + len(lengths) * chance, self.endless + endless
        self.spread += len(lengths) * chance * (1 - chance)


def at_least(number: int, of: int, chance: float) -> float:
    """Return the probability that so many of all draws, or more, come out."""
    return sum(comb(of, n) * chance**n * (1 - chance) ** (of - n) for n in range(number, of + 1))


def drill(theorem: str, numbers: range) -> None:
    account = Account()
    for number in numbers:
        try:
            account.settle(trial(theorem, number), theorem)
        except Exception as error:
            raise AssertionError(f"{theorem}, trial {number}: {error!r}") from error
    assert account.promises >= len(numbers) / 4, "most trials were about nothing"
    assert account.endless <= account.expected + 5 * sqrt(account.spread) + 1e-9


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("theorem", DECODERS)
def test_no_promise_is_broken_by_twenty_adverse_models(theorem):
    drill(theorem, range(20))


@pytest.mark.nightly
@pytest.mark.parametrize("theorem", DECODERS)
def test_no_promise_is_broken_by_a_thousand_adverse_models(theorem):
    drill(theorem, range(1000))
