"""The models that say the bag."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import permutations
from math import log

import pytest
import torch
from safetensors.torch import load_model, save_model

from bench_authors.testing import Case, tiny_batch, tiny_info
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import STOP, Purpose, Rng, Size, Source, SuiteError, TaskInfo
from bench_decoders.plugin import AncestralConfig, BeamConfig, GreedyConfig
from bench_word_order.plugin import BagBigramsConfig, BagOrderConfig, WordOrderConfig

LEARNING = {"the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart"}
BAGS = [[1, 2], [4, 4, 3], [2], [3, 1, 4, 1]]
TARGETS = [[2, 1], [4, 3, 4], [2], [1, 3, 1, 4]]
CONFIGS = [BagOrderConfig(), BagBigramsConfig()]


def batch():
    """Bags of all lengths, with repeated words, in one vocabulary with the targets."""
    rows = tiny_batch(TARGETS, Source.BAG)
    source = torch.tensor([[*bag, *[STOP] * (4 - len(bag))] for bag in BAGS])
    return replace(rows, source=source, source_length=torch.tensor([len(bag) for bag in BAGS]))


def case(config, decoder=None):
    info = replace(tiny_info(), source_vocabulary=tiny_info().vocabulary)
    made = Case.of(config, decoder, info=info, batch=batch())
    made.model.fit_statistics(lambda: iter([batch()]), Rng(0))
    return made


@pytest.mark.parametrize("config", CONFIGS)
def test_it_keeps_all_contracts_but_those_of_learning(config):
    contracts = [contract for contract in MODEL_CONTRACTS if str(contract) not in LEARNING]
    assert len(contracts) == len(MODEL_CONTRACTS) - len(LEARNING)
    assert "selected_rows_go_on_as_they_would" in check(contracts, case(config))


@pytest.mark.parametrize("decoder", [GreedyConfig(max_tokens=9), BeamConfig(max_tokens=9, width=3)])
def test_every_search_finds_the_bag_as_it_stands(decoder):
    found = [row[0] for row in case(BagOrderConfig(), decoder).decoded()]
    assert [one.tokens for one in found] == BAGS
    assert all(one.finished and one.log_prob == 0 for one in found)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("decoder", [GreedyConfig(), BeamConfig(width=4), AncestralConfig()])
def test_each_token_of_the_bag_is_said_as_often_as_it_is_there(config, decoder):
    for bag, row in zip(BAGS, case(config, decoder).decoded(), strict=True):
        for one in row:
            assert Counter(one.tokens) == Counter(bag)
            assert one.finished


@pytest.mark.parametrize("config", CONFIGS)
def test_a_limit_cuts_off_what_is_longer(config):
    found = case(config, GreedyConfig(max_tokens=2)).decoded()[3][0]
    assert (len(found.tokens), found.finished) == (2, False)


def witten_bell(targets, size):
    """Return p(w | v) from the definition."""
    pairs, words, total, follows = Counter(), Counter(), 0, defaultdict(set)
    for target in targets:
        for before, after in zip([STOP, *target], [*target, STOP], strict=True):
            pairs[before, after] += 1
            words[after] += 1
            total += 1
            follows[before].add(after)

    def prob(before, after):
        share, kinds = (words[after] + 1) / (total + size), len(follows[before])
        seen = sum(number for (first, _), number in pairs.items() if first == before)
        return (pairs[before, after] + kinds * share) / (seen + kinds) if seen else share

    return prob


def expected(prob, bag, order):
    """Return the log-probability of a bag in an order, each word chosen among the different ones left."""
    left, before, total = list(bag), STOP, 0.0
    for word in order:
        total += log(prob(before, word) / sum(prob(before, other) for other in set(left)))
        left.remove(word)
        before = word
    return total


def test_bigrams_are_those_of_the_definition_over_what_is_left():
    prob = witten_bell(TARGETS, 5)
    model = case(BagBigramsConfig()).model
    rows = batch()
    for bag, one in zip(BAGS, (rows.select(torch.tensor([row])) for row in range(len(BAGS))), strict=True):
        for order in set(permutations(bag)):
            log_probs, state = model.start(one)
            total = 0.0
            for word in order:
                total += log_probs[0, word].item()
                log_probs, state = model.step(state, torch.tensor([word]))
            assert total == pytest.approx(expected(prob, bag, order), abs=1e-12)
            assert log_probs[0, STOP] == 0


def test_a_full_beam_finds_the_best_order_by_brute_force():
    prob = witten_bell(TARGETS, 5)
    found = case(BagBigramsConfig(), BeamConfig(width=24)).decoded()
    for bag, row in zip(BAGS, found, strict=True):
        best = max(expected(prob, bag, order) for order in permutations(bag))
        assert row[0].log_prob == pytest.approx(best, abs=1e-12)


def test_unknown_contexts_fall_back_on_the_shares_of_words_and_an_unseen_model_on_none():
    info = TaskInfo(["<stop>", *"abcdef"], source_vocabulary=["<stop>", *"abcdef"])
    model = BagBigramsConfig().load()(BagBigramsConfig(), info)
    first, _ = model.start(batch())
    assert first[1, 3].exp() == pytest.approx(0.5)  # 3 and 4, alike
    model.fit_statistics(lambda: iter([batch()]), Rng(0))
    wide = replace(
        batch().select(torch.tensor([3])), source=torch.tensor([[6, 1, 2]]), source_length=torch.tensor([3])
    )
    _, state = model.start(wide)
    log_probs, _ = model.step(state, torch.tensor([6]))  # never seen before anything
    prob = witten_bell(TARGETS, 7)
    assert log_probs[0, 1].exp() == pytest.approx(prob(6, 1) / (prob(6, 1) + prob(6, 2)))


def test_counts_are_kept_with_the_weights(tmp_path):
    one = case(BagBigramsConfig())
    save_model(one.model, str(tmp_path / "weights"))
    fresh = BagBigramsConfig().load()(BagBigramsConfig(), one.info)
    load_model(fresh, str(tmp_path / "weights"))
    assert torch.equal(fresh.start(batch())[0], one.model.start(batch())[0])
    assert len(fresh.keys) > 5


def test_counts_do_not_depend_on_how_rows_are_batched():
    whole, parts = (case(BagBigramsConfig()).model for _ in range(2))
    parts.fit_statistics(lambda: (batch().select(torch.tensor([row])) for row in range(4)), Rng(0))
    for name, table in whole.named_buffers():
        assert torch.equal(table, dict(parts.named_buffers())[name])


@pytest.mark.parametrize("config", CONFIGS)
def test_two_vocabularies_are_refused(config):
    with pytest.raises(SuiteError, match="the same vocabulary"):
        config.load()(config, tiny_info(Source.BAG))


def test_bigrams_order_generated_english_better_than_the_bag_does(tmp_path):
    config = WordOrderConfig.model_validate({"corpus": {"name": "english", "sentences": 600}, "longest": 15})
    task = config.load()(config, tmp_path)
    info = task.prepare(tmp_path)
    rows = list(task.batches("test", Purpose.DECODE, Size(64)))
    right = {}
    for config in CONFIGS:
        model = config.load()(config, info)
        model.fit_statistics(lambda: task.batches("train", Purpose.TRAIN, Size(64)), Rng(0))
        decoder = GreedyConfig(max_tokens=16)
        found = [row[0].tokens for one in rows for row in decoder.load()(decoder).decode(model, one, Rng(0))]
        gold = [row[:length].tolist() for one in rows for row, length in zip(one.gold, one.length - 1, strict=True)]
        pairs = [Counter(zip([0, *words], [*words, 0], strict=True)) for words in found]
        wanted = [Counter(zip([0, *words], [*words, 0], strict=True)) for words in gold]
        right[config.name] = sum((one & other).total() for one, other in zip(pairs, wanted, strict=True))
    assert right["bag-bigrams"] > 1.5 * right["bag-order"]
