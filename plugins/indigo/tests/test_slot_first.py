"""Slots before words: contracts, laws of its probabilities, searches, and the mistakes that these catch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations, product
from math import lgamma, log

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_decoder, check_model, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row, replay
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import STOP, Rng, Source, TaskInfo, Training
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_indigo import search as searching
from bench_indigo import slot_first
from bench_indigo.plugin import IndigoConfig
from bench_indigo.search import search

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12, "position_first": True}
RNG = Rng(7)
TINY = tiny_info(Source.TOKENS)
SLOW = ("samples_occur_as_often_as_their_score_says", "eight_examples_can_be_learnt_by_heart")
QUICK = [contract for contract in MODEL_CONTRACTS if str(contract) not in SLOW]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def batch_of(targets, **extras):
    """Return targets that all have the same source."""
    found = tiny_batch(targets, source=Source.TOKENS)
    source, length = found.source[:1].expand(len(targets), -1), found.source_length[:1].expand(len(targets))
    return replace(found, source=source, source_length=length, extras=extras)


def case_of(batch=None, info=TINY, scale=2.5, **settings):
    return Case.of(IndigoConfig(**{**SMALL, **settings}), info=info, batch=batch, source=Source.TOKENS, scale=scale)


@pytest.mark.slow
def test_the_model_keeps_all_contracts():
    check_model(case_of(order="rnd", dropout=0.2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"beam": 3}, {"order": "blt", "raw_keys": True, "tied": False}, {"order": "r2l", "layers": 2}],
    ids=str,
)
def test_the_model_keeps_the_quick_contracts(settings):
    assert len(check(QUICK, case_of(**settings))) >= 16


@pytest.mark.parametrize("decoder", [GreedyConfig(max_tokens=5), BeamConfig(max_tokens=4, width=3, outputs=2)])
@pytest.mark.parametrize("raw", [False, True])
def test_decoders_keep_their_contracts(decoder, raw):
    config = IndigoConfig(**SMALL, order="l2r", raw_keys=raw)
    check_decoder(Case.of(config, decoder, source=Source.TOKENS))


def every(number):
    return [*permutations(range(number))]


def steps_are_the_parallel_pass(**settings):
    """Assert that all orders of four words cost step by step what they cost at once."""
    orders = torch.tensor([[*order, 4] for order in every(4)])
    case = case_of(batch_of([(1, 2, 2, 4)] * len(orders), order=orders), order="given", **settings)
    total = torch.zeros(len(orders))
    for rows, log_probs, actions in replay(case.model, case.batch, case.model.chain(case.batch, RNG)):
        total = total.index_add(0, rows, log_probs.gather(1, actions[:, None])[:, 0])
    torch.testing.assert_close(case.scored("order"), total)
    assert total.std() > 0.1, "the case must bite"


@pytest.mark.parametrize("settings", [{}, {"raw_keys": True}, {"cross_attention": "forward"}], ids=str)
def test_every_order_costs_step_by_step_what_it_costs_at_once(settings):
    steps_are_the_parallel_pass(**settings)


MUTANTS = {
    "neighbours taken for each other": ("neighbours", lambda intact: lambda *what: intact(*what)[::-1]),
    "the end is no rival of slots": ("target_slot_log_probs", lambda intact: lambda *what: intact(*what[:-1])),
    "slots are no rivals of the end": ("end_log_probs", lambda intact: lambda scores, seen, ends: ends - ends),
    "pointer to the wrong side": (
        "target_slot_log_probs",
        lambda intact: lambda scores, *what: intact(scores.flip(2), *what),
    ),
    "stepping sees another slot": (
        "word_states",
        lambda intact: lambda model, trail, hidden, left: intact(model, trail, hidden, left.clamp(max=1)),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_that_law_catches_its_mutants(monkeypatch, mutant):
    name, mistake = MUTANTS[mutant]
    monkeypatch.setattr(slot_first, name, mistake(getattr(slot_first, name)))
    with pytest.raises(AssertionError):
        steps_are_the_parallel_pass()


def test_where_nothing_is_known_words_are_alike_and_slots_and_the_end():
    info = TaskInfo(["<stop>", *"abcdefghi"], source_vocabulary=["<stop>", *"abcdef"])
    for settings, orders in (({"order": "rnd"}, 1), ({"beam": 6}, 6)):
        case = case_of(batch_of([(3, 1, 9), (2, 2, 2)]), info, **settings)
        for weights in case.model.parameters():
            weights.zero_()
        wanted = log(orders) - 3 * log(9) - lgamma(6)  # 3 of 9 words; one of 2, 3, 4 and 5 choices: 5! in all
        found = case.scored("order" if orders == 1 else "searched")
        torch.testing.assert_close(found, torch.full_like(found, wanted))


@pytest.mark.parametrize("raw", [False, True])
def test_all_targets_and_what_goes_on_have_probability_one(raw):
    info = TaskInfo(["<stop>", "a", "b"], source_vocabulary=TINY.source_vocabulary)
    targets = [target for number in range(4) for target in product((1, 2), repeat=number)]
    case = case_of(batch_of(targets), info, scale=1, beam=6)
    ended = case.scored("searched").exp().sum()
    walked = case_of(batch_of(targets), info, scale=1, beam=6, raw_keys=raw)
    log_probs, state = walked.model.start(one_row(walked.batch, 0))
    going = torch.zeros(1)
    for step in range(6):  # every chain of three slots and words
        assert (log_probs[:, STOP] == -torch.inf).all() == bool(step % 2)
        total = (going[:, None] + log_probs)[:, 1:]
        width = total.shape[1]
        rows = torch.arange(len(going)).repeat_interleave(width)
        log_probs, state = walked.model.step(state.select(rows), torch.arange(1, width + 1).repeat(len(going)))
        going = total.flatten()
    still = (going.exp() * (1 - log_probs[:, STOP].exp())).sum()
    assert 0.01 < ended < 0.99
    torch.testing.assert_close(ended + still, torch.ones(()))


def test_a_word_knows_both_neighbours_of_its_slot():
    case = case_of(order="l2r")
    ones = torch.ones(len(case.batch), dtype=torch.long)
    _, state = case.model.start(case.batch)
    for action in (1, 3, 2, 4):
        _, state = case.model.step(state, action * ones)
    found = [case.model.step(state, slot * ones)[0][:, 1:] for slot in (1, 2, 3)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert not torch.allclose(found[one], found[other])


def test_the_loss_counts_the_end_among_the_slots():
    orders = torch.tensor([[2, 0, 1, 3]])
    case = case_of(batch_of([(1, 2, 3)], order=orders), order="given")
    loss = case.model.loss(case.batch, Training(0, 1, 0, 1, RNG))
    torch.testing.assert_close(-case.scored("order")[0], 3 * loss.parts["words"] + 4 * loss.parts["slots"])
    smoothed = case.model.loss(case.batch, Training(0, 1, 0, 1, RNG, label_smoothing=0.3))
    torch.testing.assert_close(smoothed.parts["slots"], loss.parts["slots"])
    assert smoothed.parts["words"].isfinite(), "stop, which cannot be, has no share of the labels"
    assert smoothed.parts["words"] != loss.parts["words"]


TARGETS = [(1, 2, 3, 1), (2,), (), (4, 4, 1), (3, 1)]


def cost(case, batch, target, order):
    """Return log p of placing words of a target in an order."""
    log_probs, state = case.model.start(batch)
    total = 0.0
    for turn, place in enumerate(order):
        for action in (1 + sum(earlier < place for earlier in order[:turn]), target[place]):
            total += log_probs[0, action].item()
            log_probs, state = case.model.step(state, torch.tensor([action]))
    return total


def by_definition(case, row, width):
    """Return the orders of one target that are kept when every step is computed anew, from the beginning."""
    batch = one_row(case.batch, row)
    target = batch.gold[0, : int(batch.length[0]) - 1].tolist()
    kept = [()]
    for _ in target:
        longer = [(*order, place) for order in kept for place in range(len(target)) if place not in order]
        kept = sorted(longer, key=lambda order: -cost(case, batch, target, order))[:width]
    return kept


def searched():
    """Return a case in which slots matter about as much as words do."""
    case = case_of(batch_of(TARGETS), scale=1.5)
    case.model.pointer.weight.mul_(2)
    return case


@cache
def wanted():
    """Return the orders of every row for two widths."""
    case = searched()
    return {(row, width): by_definition(case, row, width) for row in range(len(TARGETS)) for width in (1, 3)}


def search_is_what_its_definition_says(wanted):
    case = searched()
    for (row, width), kept in wanted.items():
        orders, alive = search(case.model, case.batch, case.model.encode(case.batch), width)
        found = [tuple(order[: len(TARGETS[row])]) for order in orders[row, alive[row]].tolist()]
        assert len(found) == len(kept)
        assert set(found) == set(kept), (width, row)


def test_search_is_what_its_definition_says():
    search_is_what_its_definition_says(wanted())


def test_a_search_in_small_parts_finds_the_same(monkeypatch):
    monkeypatch.setattr(slot_first, "LOGITS", 2 * len(TINY.vocabulary))
    search_is_what_its_definition_says(wanted())


SEARCHES = {
    "slots off by one": (
        searching,
        "_slots",
        lambda intact: lambda placed, number: (intact(placed, number) - 1).clamp(min=0),
    ),
    "all words see the first slot": (
        slot_first,
        "word_states",
        lambda intact: lambda model, trail, hidden, left: intact(model, trail, hidden, left.clamp(max=1)),
    ),
    "slots alone count": (slot_first, "_log_probs", lambda intact: lambda *what: 0 * intact(*what)),
    "pointer to the wrong side": (slot_first, "slot_logits", lambda intact: lambda scores: intact(scores.flip(1))),
}


@pytest.mark.parametrize("mutant", SEARCHES)
def test_that_definition_catches_mutants(monkeypatch, mutant):
    right = wanted()
    module, name, mistake = SEARCHES[mutant]
    monkeypatch.setattr(module, name, mistake(getattr(module, name)))
    with pytest.raises(AssertionError):
        search_is_what_its_definition_says(right)


def test_a_search_that_is_wide_enough_weighs_all_orders():
    targets = [(1, 2, 3, 1), (4, 4, 4, 2)]
    case = case_of(batch_of(targets), beam=24)
    orders = torch.tensor([[*order, 4] for order in every(4)])
    alone = [
        case_of(batch_of([target] * 24, order=orders), order="given").scored("order").logsumexp(0)
        for target in targets
    ]
    torch.testing.assert_close(case.scored("searched"), torch.stack(alone))


def test_the_end_cannot_have_a_slot_too():
    with pytest.raises(ValidationError, match=r"`eod_slot`.*Remove one of them"):
        IndigoConfig(eod_slot=True, position_first=True)


def test_what_a_word_knows_of_its_slot_can_be_reset_by_its_name():
    case = case_of(order="l2r")
    weights = case.model.beside.weight.clone()
    dict(case.model.named_modules())["beside"].reset_parameters()
    assert not torch.allclose(case.model.beside.weight, weights)
