"""Contracts report models that see what they predict, and do not confuse other mistakes with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from bench_authors.testing import Case, patched, toys
from bench_authors.testing.contracts import posing
from bench_authors.testing.leaks import leak
from bench_authors.testing.models import a_score_without_steps_does_not_see_what_it_predicts as alone
from bench_authors.testing.mutants import models as mutants
from bench_authors.testing.stepping import the_score_is_the_sum_of_its_steps as steps
from bench_authors.testing.toy_models import ToyLatent, ToyRecurrent
from bench_core import Kind, Scores

SEEN = "the model sees what it predicts: "


@pytest.fixture(autouse=True)
def slow_learners(monkeypatch):
    monkeypatch.setattr("bench_authors.testing.leaks.STEPS", 500)


@pytest.fixture
def brief(request, monkeypatch):
    """Train for fewer steps, for losses that fall early or never."""
    if not request.config.option.full_contracts:
        monkeypatch.setattr("bench_authors.testing.leaks.STEPS", 100)


class Bidirectional(ToyRecurrent):
    """A recurrent layer that also reads the inputs from right to left."""

    def __init__(self, config, info):
        super().__init__(config, info)
        self.back = nn.RNN(config.hidden, config.hidden, batch_first=True)

    def _run(self, tokens, memory):
        hidden, memory = super()._run(tokens, memory)
        return hidden + self.back(self.embed(tokens).flip(1))[0].flip(1), memory


class Attentive(ToyRecurrent):
    """A layer of attention over all inputs, with or without a causal mask."""

    causal = False

    def __init__(self, config, info):
        super().__init__(config, info)
        self.place = nn.Embedding(32, config.hidden)
        self.projection = nn.Linear(config.hidden, 3 * config.hidden)

    def start(self, batch):
        return self._read_again(batch.prompt)

    def step(self, state, actions):
        return self._read_again(torch.cat([state.source, actions[:, None]], 1))

    def _read_again(self, tokens):
        memory = replace(self._begin(tokens), source=tokens)
        hidden, _ = self._run(tokens, memory)
        return self.logits(hidden[:, -1]).log_softmax(1), memory

    def _run(self, tokens, memory):
        embedded = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        queries, keys, values = self.projection(embedded)[:, None].chunk(3, 3)
        read = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return embedded + read[:, 0], memory


class Causal(Attentive):
    causal = True


class Logits(ToyRecurrent):
    """Scores targets by logits, without a softmax."""

    def score(self, batch, scoring):
        hidden, _ = self._read(batch, None)
        return Scores((self.logits(hidden).gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask).sum(1))


class Config(toys.ToyRecurrentConfig):
    """A model of these tests."""

    name = "of-these-tests"
    kind: str = ""

    def load(self):
        return {one.__name__: one for one in (Bidirectional, Attentive, Causal, Logits)}[self.kind]


class WithoutDivergence(ToyLatent):
    """An inferred trajectory that can encode the target at no cost."""

    def _elbo(self, batch, rng, read=None):
        hidden, total = self._origin(len(batch)), 0
        for t, mean in enumerate(self._read(batch.gold).chunk(2, 2)[0].unbind(1)):
            hidden = self._move(hidden, mean)
            total = total + self.logits(hidden).log_softmax(1).gather(1, batch.gold[:, t : t + 1])[:, 0]
        return total


class WithoutDivergenceConfig(toys.LatentConfig):
    """The Config of an invalid bound."""

    likelihoods = {"elbo": Kind.BOUND}
    target = f"{__name__}:WithoutDivergence"


def message_of(contract, case):
    """Return the message of a contract for a case that breaks it."""
    with pytest.raises(AssertionError) as error:
        contract(case)
    return str(error.value)


def scoring(change):
    """Return a mutant with the score `change(model, batch)`, log-probabilities [N]."""

    def mutant(case):
        def score(model, batch, asked):
            return Scores(change(lambda rows: model.score(rows, asked).log_probs, batch))

        return replace(case, model=patched(case.model, score=score))

    return mutant


def left_out(score, batch):
    """Return the score without the first target token."""
    first = score(replace(batch, gold=batch.gold[:, :1], length=torch.ones_like(batch.length)))
    return score(batch) - first


OTHERS = {
    "a mean": scoring(lambda score, batch: score(batch) / batch.length),
    "a temperature": scoring(lambda score, batch: score(batch) / 4),
    "a token left out": scoring(left_out),
    "the best of all rows": scoring(lambda score, batch: score(batch) / 2 + score(batch).max() / 2),
    "bits": scoring(lambda score, batch: score(batch) / math.log(2)),
    "a bonus": scoring(lambda score, batch: score(batch) + 3),
}


@pytest.mark.parametrize("kind", ["Bidirectional", "Attentive"])
@pytest.mark.parametrize("hidden", [6, 16])
def test_models_that_read_the_whole_target_are_reported(kind, hidden):
    assert message_of(steps, Case.of(Config(kind=kind, hidden=hidden))).startswith(SEEN)


def test_a_causal_mask_is_all_that_attention_needs():
    steps(Case.of(Config(kind="Causal")))


@pytest.mark.parametrize("config", [toys.ToyRecurrentConfig, toys.CodesConfig, toys.ToyEncoderDecoderConfig])
def test_unshifted_inputs_are_reported(config):
    assert message_of(steps, mutants.reads_what_it_predicts(Case.of(config()))).startswith(SEEN)


def test_a_model_without_steps_is_reported_by_a_separate_contract():
    message = message_of(alone, mutants.reads_what_it_predicts(Case.of(toys.RescorerConfig())))
    assert message.startswith(SEEN + "trained on random tokens, which have an entropy of 1.39 nats each")


def test_an_estimate_may_see_what_it_predicts():
    case = mutants.reads_what_it_predicts(Case.of(toys.RescorerConfig()))
    alone(replace(case, config=posing(case.config, likelihoods={"exact": Kind.ESTIMATE})))


def test_a_latent_trajectory_without_cost_is_reported():
    assert message_of(alone, Case.of(WithoutDivergenceConfig())).startswith(SEEN)


@pytest.mark.quick(4)
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "config", [toys.ToyRecurrentConfig, toys.SelfTerminatingConfig, toys.ToyEncoderDecoderConfig]
)
@pytest.mark.parametrize("mistake", OTHERS)
def test_other_mistakes_are_not_reported_as_leaks(config, mistake):
    assert "sees" not in message_of(steps, OTHERS[mistake](Case.of(config())))


@pytest.mark.quick(3)
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("mutant", [one for one in steps.mutants if one is not mutants.reads_what_it_predicts])
@pytest.mark.parametrize("config", [toys.ToyRecurrentConfig, toys.SelfTerminatingConfig, toys.CodesConfig])
def test_other_mutants_are_not_reported_as_leaks(config, mutant):
    assert "sees" not in message_of(steps, mutant(Case.of(config())))


@pytest.mark.usefixtures("brief")
def test_logits_are_not_reported_as_leaks():
    """Logits have no scale, so training makes them arbitrarily high."""
    assert "sees" not in message_of(steps, Case.of(Config(kind="Logits")))


def test_untrainable_models_are_not_reported():
    def score(model, batch, asked):
        raise ZeroDivisionError

    case = Case.of(toys.RescorerConfig())
    assert leak(replace(case, model=patched(case.model, score=score)), "exact") == ""
