"""Search errors and model errors, where it is known which of them an output has."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bench_core import Scorer, Scores
from bench_decoders import search_errors
from bench_decoders.plugin import (
    BeamConfig,
    ExhaustiveConfig,
    GreedyConfig,
    SearchErrorsConfig,
    bench_probes,
)
from bench_decoders.search_errors import SearchErrors

TREE = {(): [0.0, 0.4, 0.6], (1,): [0.9, 0.05, 0.05], (2,): [0.2, 0.5, 0.3]}  # stop, 1, 2; longer outputs stop


def probabilities(prefix):
    return TREE.get(prefix, [1.0, 0.0, 0.0])


def scored(kind, config=None):
    """Return a class of models that also scores targets, step by step."""

    class Scored(kind, Scorer):
        def score(self, batch, scoring):
            self.by = scoring.by
            totals = []
            for row in range(len(batch)):
                one = batch.select(torch.tensor([row]))
                log_probs, state = self.start(one)
                total = 0.0
                for token in one.gold[0, : int(one.length)].tolist():
                    total += log_probs[0, token].item()
                    if token:
                        log_probs, state = self.step(state, torch.tensor([token]))
                totals.append(total)
            return Scores(torch.tensor(totals, dtype=torch.float64), getattr(self, "more", {}))

    return Scored


def targets(batch, *golds):
    """Return a row for each target."""
    width = max(map(len, golds)) + 1
    table = torch.tensor([[*gold, *[0] * (width - len(gold))] for gold in golds])
    return replace(batch(len(golds)), gold=table, length=torch.tensor([len(gold) + 1 for gold in golds]))


def numbers(model, decoder, rows, **settings):
    finding = SearchErrors(SearchErrorsConfig(**settings)).ask(model, decoder, [rows])
    return {name.split(",")[0]: number for name, number in finding.numbers.items()}


GREEDY = GreedyConfig(max_tokens=3)


def known_errors_are_told_apart(table, batch):
    rows = targets(batch, [1], [2], [2, 1], [2, 2])  # greedy search outputs 2 1, of probability 0.3
    found = numbers(scored(table)(probabilities), GREEDY, rows)
    assert found["correct"] == 25  # 2 1
    assert found["search errors"] == 25  # 1, of probability 0.36
    assert found["model errors"] == 50  # 2 and 2 2, of probability 0.12 and 0.18
    assert found["references beyond the limit"] == 0
    assert found["mean log p of outputs"] == pytest.approx(math.log(0.3))
    assert found["mean log p of references"] == pytest.approx(sum(map(math.log, [0.36, 0.12, 0.3, 0.18])) / 4)


def test_a_missed_reference_is_a_search_error_and_a_worse_one_a_model_error(table, batch):
    known_errors_are_told_apart(table, batch)


MUTANTS = {
    "the worse is missed": ("is_search_error", lambda each: not each.is_correct and each.reference < each.output),
    "all errors are of the search": ("is_search_error", lambda each: not each.is_correct),
    "correct outputs may be errors": ("is_search_error", lambda each: each.reference >= each.output),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_known_errors_catch_the_mistake(table, batch, monkeypatch, name):
    attribute, mistake = MUTANTS[name]
    monkeypatch.setattr(search_errors.OutputComparison, attribute, property(mistake))
    with pytest.raises(AssertionError):
        known_errors_are_told_apart(table, batch)


def test_a_wider_beam_finds_what_greedy_search_misses(table, batch):
    rows = targets(batch, [1])
    beam = BeamConfig(max_tokens=3, width=3, finish="exhausted")
    assert numbers(scored(table)(probabilities), beam, rows)["correct"] == 100


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_all_sequences_has_no_search_errors(recurrent, batch, seed):
    chance = torch.Generator().manual_seed(seed)
    golds = [
        torch.randint(1, 3, (int(n),), generator=chance).tolist()
        for n in torch.randint(0, 4, (12,), generator=chance)
    ]
    model = scored(recurrent)(vocabulary=3, seed=seed)
    found = numbers(model, ExhaustiveConfig(max_tokens=4), targets(batch, *golds))
    assert found["search errors"] == found["references beyond the limit"] == 0
    assert found["correct"] + found["model errors"] == pytest.approx(100)
    assert found["mean log p of outputs"] >= found["mean log p of references"]


def test_a_reference_that_decoding_cannot_reach_is_no_search_error(table, batch):
    model = scored(table)(lambda prefix: {**TREE, (1,): [0.05, 0.9, 0.05]}.get(prefix, [1.0, 0.0, 0.0]))
    for limit, error in ((2, "references beyond the limit"), (3, "search errors")):
        found = numbers(model, GreedyConfig(max_tokens=limit), targets(batch, [1, 1]))  # of probability 0.36
        assert found[error] == 100


def test_only_so_many_examples_are_decoded(table, batch):
    model, rows = scored(table)(probabilities), targets(batch, [2, 1], [1], [1])
    assert numbers(model, GREEDY, rows, examples=1)["correct"] == 100
    assert numbers(model, GREEDY, rows, examples=2)["correct"] == 50
    finding = SearchErrors(SearchErrorsConfig(examples=4)).ask(model, GREEDY, [rows, rows])
    assert finding.numbers["correct, %"] == 50


def test_the_best_order_counts_where_a_score_sums_over_orders(table, batch):
    model, rows = scored(table)(probabilities), targets(batch, [2, 2])
    model.more = {"best-order": torch.tensor([-0.5], dtype=torch.float64)}
    assert numbers(model, GREEDY, rows)["search errors"] == 100


def test_the_likelihood_is_that_of_the_settings_or_the_first_of_the_model(table, batch):
    model, rows = scored(table)(probabilities), targets(batch, [1])
    model.config = SimpleNamespace(likelihoods={"order": 1, "searched": 2})
    numbers(model, GREEDY, rows)
    assert model.by == "order"
    numbers(model, GREEDY, rows, by="searched")
    assert model.by == "searched"


def test_models_without_likelihood_and_outputs_without_probability_are_said_to_be(table, batch):
    rows = targets(batch, [1])
    finding = SearchErrors(SearchErrorsConfig()).ask(table(probabilities), GREEDY, [rows])
    assert "no likelihood" in finding.statements[0].says
    assert not finding.numbers
    assert [config.name for config in bench_probes()] == ["search-errors"]
