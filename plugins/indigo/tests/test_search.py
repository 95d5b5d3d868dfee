"""Searched orders: against a search of one target at a time, and where it is known what must come out."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from bench_authors.testing import Case, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row
from bench_core import Rng, Source
from bench_indigo import search as module
from bench_indigo.plugin import IndigoConfig
from bench_indigo.search import search

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
TARGETS = [(1, 2, 3, 1), (2,), (), (4, 4, 1), (3, 1)]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def case_of(targets=TARGETS, seed=0, **settings):
    batch = tiny_batch(targets, source=Source.TOKENS)
    return Case.of(IndigoConfig(**SMALL, **settings), batch=batch, source=Source.TOKENS, seed=seed)


def found(case, width):
    """Return the orders of every row, as tuples, best first."""
    orders, alive = search(case.model, case.batch, case.model.encode(case.batch), width)
    lengths = (case.batch.length - 1).tolist()
    return [
        [tuple(order[:number]) for order, is_there in zip(row, there, strict=True) if is_there]
        for row, there, number in zip(orders.tolist(), alive.tolist(), lengths, strict=True)
    ]


def by_definition(case, row, width):
    """Return the orders of one target that are kept when every step is computed anew, from the beginning."""
    batch = one_row(case.batch, row)
    target = batch.gold[0, :-1].tolist()
    kept = [((), 0.0)]
    for _ in target:
        longer = [
            ((*order, place), cost(case, batch, target, (*order, place)))
            for order, _ in kept
            for place in range(len(target))
            if place not in order
        ]
        kept = sorted(longer, key=lambda one: -one[1])[:width]
    return kept


def cost(case, batch, target, order):
    """Return log p of placing words of a target in an order."""
    log_probs, state = case.model.start(batch)
    total = 0.0
    for turn, place in enumerate(order):
        for action in (target[place], 1 + sum(earlier < place for earlier in order[:turn])):
            total += log_probs[0, action].item()
            log_probs, state = case.model.step(state, torch.tensor([action]))
    return total


def search_is_what_its_definition_says():
    for width in (1, 3, 5):
        case = case_of()
        for row, orders in enumerate(found(case, width)):
            wanted = [order for order, _ in by_definition(case, row, width)]
            assert set(orders) == set(wanted), (width, row)
            assert len(orders) == len(wanted)


def test_search_is_what_its_definition_says():
    search_is_what_its_definition_says()


MUTANTS = {
    "slots off by one": ("_slots", lambda intact: lambda placed, number: (intact(placed, number) - 1).clamp(min=0)),
    "words alone count": ("_slot_gains", lambda intact: lambda *what: 0 * intact(*what)),
    "slots alone count": ("_word_gains", lambda intact: lambda *what: 0 * intact(*what)),
    "pointer to the wrong side": ("slot_logits", lambda intact: lambda scores: intact(scores.flip(1))),
    "the worst are kept": (
        "_best",
        lambda intact: lambda totals, trail, width: intact(-totals.masked_fill(totals == -torch.inf, torch.inf), trail, width),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_that_law_catches_its_mutants(monkeypatch, mutant):
    name, mistake = MUTANTS[mutant]
    monkeypatch.setattr(module, name, mistake(getattr(module, name)))
    with pytest.raises(AssertionError):
        search_is_what_its_definition_says()


def test_all_orders_are_found_where_there_are_no_more():
    for orders, target in zip(found(case_of(), 150), TARGETS, strict=True):
        assert sorted(orders) == [*permutations(range(len(target)))]


def test_a_target_is_searched_alike_alone_and_in_any_batch():
    case = case_of()
    together = found(case, 4)
    alone = [found(replace(case, batch=one_row(case.batch, row)), 4)[0] for row in range(len(TARGETS))]
    assert together == alone


def biased(to_the_left):
    """Return a model of uniform words that always wants the slot before `</s>`, or else the one after `<s>`."""
    config = IndigoConfig(d_model=8, heads=2, layers=1, feed_forward=4, tied=False, beam=24)
    batch = tiny_batch([(1, 2, 3, 4), (2, 2, 2), (4, 1)], source=Source.TOKENS)
    case = Case.of(config, batch=batch, source=Source.TOKENS)
    model = case.model
    for layer in model.stack.layers:
        for part in (layer.attention.outward, layer.cross.outward, layer.narrow):
            part.weight.zero_()
            part.bias.zero_()
        for norm in layer.norms:
            norm.weight.fill_(1)
    model.words.weight.zero_()
    model.embed.weight.zero_()
    model.embed.weight[:5, 6:] = torch.tensor([1.0, -1.0])  # words alone ask, in numbers 6 and 7
    model.embed.weight[5, 4:6] = torch.tensor([1.0, -1.0])  # <s>
    model.embed.weight[6, 2:4] = torch.tensor([1.0, -1.0])  # </s>
    model.pointer.weight.zero_()
    left, right, _ = model.pointer.weight
    if to_the_left:
        right[6, 4], right[7, 5] = 2, 2  # right of <s>
    else:
        left[6, 2], left[7, 3] = 2, 2  # left of </s>
    return case


@pytest.mark.parametrize("to_the_left", [False, True])
def test_orders_go_where_the_pointer_always_points(to_the_left):
    case = biased(to_the_left)
    best = case.model.order(case.batch, Rng(1)).tolist()
    for order, number in zip(best, (4, 3, 2), strict=True):
        ascending = [*range(number)]
        assert order[:number] == (ascending[::-1] if to_the_left else ascending)


def test_wider_searches_of_long_targets_end():
    targets = [tuple(1 + place % 4 for place in range(17)), (1, 2)]
    case = case_of(targets)
    orders = found(case, 5)
    assert len(set(orders[0])) == 5
    assert all(sorted(order) == [*range(17)] for order in orders[0])
    assert sorted(orders[1]) == [(0, 1), (1, 0)]


def test_facts_of_the_tiny_task_are_enough():
    assert tiny_info(Source.TOKENS).counts
