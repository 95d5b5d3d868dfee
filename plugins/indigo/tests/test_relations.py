"""Relations, places and slots: exact facts (Gu et al., 2019, section 3.1), with the mistakes that they invite."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
import torch
from torch.nn.functional import pad

from bench_authors.testing import catches
from bench_indigo.pointer import slot_logits, target_slot_log_probs
from bench_indigo.relations import neighbours, relations

LEFT, RIGHT = -1, 1  # where one item stands, seen from another


def absolute(known):
    """Return the places z [*, I] that R [*, I, I] means, counted from 0."""
    return known.clamp(min=0).sum(-1)


def beside(known, item, side):
    """Return r [*, I] of one more item, placed next to `item` [*], on its `side`."""
    at = item[..., None]
    row = known.gather(-2, at[..., None].expand(*at.shape, known.shape[-1]))[..., 0, :]
    return row.scatter(-1, at, side)


def places_of(order):
    """Return z of both boundaries and of words placed in an order of reading positions."""
    return torch.tensor([0, len(order) + 1, *(place + 1 for place in order)])


ORDERS = [order for number in range(7) for order in permutations(range(number))]


def transposes(intact):
    return lambda places: intact(places).mT


def takes_itself_for_a_right_neighbour(intact):
    return lambda places: intact(places) + torch.eye(places.shape[-1], dtype=torch.int8)


@catches(transposes, takes_itself_for_a_right_neighbour)
def the_example_of_the_paper_has_its_relations(relations):
    found = relations(torch.tensor([0, 3, 2, 1]))  # <s> I dream </s>, of which `dream` came first
    assert found.tolist() == [[0, -1, -1, -1], [1, 0, 1, 1], [1, -1, 0, 1], [1, -1, -1, 0]]
    assert found.dtype == torch.int8


@catches(transposes, takes_itself_for_a_right_neighbour)
def places_come_back_for_every_order_of_up_to_six_words(relations):
    assert len(ORDERS) == 874
    for order in ORDERS:
        places = places_of(order)
        found = relations(places)
        assert absolute(found).tolist() == places.tolist()
        assert torch.equal(found.mT, -found)


def swaps_the_sides(intact):
    return lambda *what: intact(*what)[::-1]


def sees_the_item_that_is_to_be_placed(intact):
    def wrong(places, seen, wanted):
        late = seen | (places[:, None] == wanted[:, :, None])
        return intact(places, late, wanted - 1)  # so that it is nearest on its right

    return wrong


def sees_one_item_too_few(intact):
    def wrong(places, seen, wanted):
        return intact(places, seen & (seen.cumsum(2) < seen.sum(2, keepdim=True).clamp(min=3)), wanted)

    return wrong


@catches(swaps_the_sides, sees_the_item_that_is_to_be_placed, sees_one_item_too_few)
def the_neighbours_of_a_slot_are_the_nearest_items_there(neighbours):
    for order in permutations(range(4)):
        places = places_of(order)[None]
        items = places.shape[1]
        seen = torch.ones(1, items, items, dtype=torch.bool).tril(-1)[:, 2:]
        left, right = neighbours(places, seen, places[:, 2:])
        for turn, z in enumerate(places[0, 2:].tolist()):
            there = places[0, : turn + 2].tolist()
            assert places[0, left[0, turn]] == max(each for each in there if each < z)
            assert places[0, right[0, turn]] == min(each for each in there if each > z)


def random_scores(order, dtype=torch.float64):
    items = len(order) + 2
    draw = torch.Generator().manual_seed(len(order))
    return 3 * torch.randn(1, len(order), 2, items, generator=draw, dtype=dtype)


def asked(target_slot_log_probs, order, dtype=torch.float64):
    """Return the scores of every key for each word of an order, and log p of its slot."""
    places, scores = places_of(order)[None], random_scores(order, dtype).requires_grad_()
    seen = torch.ones(1, len(order) + 2, len(order) + 2, dtype=torch.bool).tril(-1)[:, 2:]
    return scores, target_slot_log_probs(scores, places, seen, places[:, 2:])


def points_to_the_wrong_side(intact):
    return lambda scores, *more: intact(scores.flip(2), *more)


def opens_the_outer_sides(intact):
    def wrong(scores, places, seen, wanted, raw=False):
        left, right = neighbours(places, seen, wanted)
        scores = scores.masked_fill(~seen[:, :, None], -torch.inf)
        both = [scores[:, :, side].gather(2, item[:, :, None])[:, :, 0] for side, item in ((1, left), (0, right))]
        return torch.logaddexp(*both) - scores.flatten(2).logsumexp(2)

    return wrong


def masks_one_item_too_few(intact):
    def wrong(scores, places, seen, wanted, raw=False):
        later = torch.ones_like(seen[0]).tril(2)[None]  # also the word that is to be placed
        return intact(scores, places, later, wanted)

    return wrong


def adds_no_second_key(intact):
    return lambda scores, places, seen, wanted, raw=False: intact(scores, places, seen, wanted, True)


@catches(points_to_the_wrong_side, opens_the_outer_sides, masks_one_item_too_few, adds_no_second_key)
def the_slot_of_a_word_weighs_both_of_its_keys_among_all_that_are_open(target_slot_log_probs):
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 3, 1]):
        scores, found = asked(target_slot_log_probs, order)
        for turn, place in enumerate(order):
            reading = sorted(range(turn + 2), key=places_of(order)[: turn + 2].tolist().__getitem__)
            keys = [(scores[0, turn, 1, a], scores[0, turn, 0, b]) for a, b in pairwise(reading)]
            weights = torch.stack([torch.stack(pair) for pair in keys]).exp()  # [slots, 2]
            assert weights.numel() == 2 * (turn + 1)
            slot = sum(earlier < place for earlier in order[:turn])
            torch.testing.assert_close(found[0, turn].exp(), weights[slot].sum() / weights.sum())


@catches(opens_the_outer_sides, masks_one_item_too_few)
def keys_that_are_shut_have_no_gradient(target_slot_log_probs):
    for order in permutations(range(4)):
        scores, found = asked(target_slot_log_probs, order)
        found.sum().backward()
        for turn in range(1, 4):  # before that there is one slot, whose probability is 1 whatever its keys are
            alive = (scores.grad[0, turn] != 0).nonzero().tolist()
            open_ = [[side, item] for side in (0, 1) for item in range(turn + 2) if item != side]
            assert alive == open_


LAWS = [
    (the_example_of_the_paper_has_its_relations, relations),
    (places_come_back_for_every_order_of_up_to_six_words, relations),
    (the_neighbours_of_a_slot_are_the_nearest_items_there, neighbours),
    (the_slot_of_a_word_weighs_both_of_its_keys_among_all_that_are_open, target_slot_log_probs),
    (keys_that_are_shut_have_no_gradient, target_slot_log_probs),
]


def run(law, function):
    with torch.enable_grad():
        law.check(function)


@pytest.mark.parametrize(("law", "function"), LAWS, ids=[str(law) for law, _ in LAWS])
def test_the_laws_hold(law, function):
    run(law, function)


MISTAKES = [(law, function, mutant) for law, function in LAWS for mutant in law.mutants]


@pytest.mark.parametrize(
    ("law", "function", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, _, mutant in MISTAKES]
)
def test_every_law_catches_its_mutants(law, function, mutant):
    with pytest.raises(AssertionError):
        run(law, mutant(function))


def appended(known, row):
    """Return relations with one more item of relations `row`."""
    return torch.cat([torch.cat([known, -row[..., None]], -1), pad(row, (0, 1))[..., None, :]], -2)


def test_relations_grow_without_changing_and_alike_from_either_neighbour():
    for order in ORDERS:
        places = places_of(order)
        known = relations(places[:2])
        for turn in range(2, len(places)):
            there = places[:turn]
            left = there.masked_fill(there > places[turn], -1).argmax()
            right = there.masked_fill(there < places[turn], 99).argmin()
            row = beside(known, left, RIGHT)
            assert torch.equal(row, beside(known, right, LEFT))
            assert row.dtype == torch.int8
            known = appended(known, row)
            assert torch.equal(known, relations(places[: turn + 1]))


def test_relations_of_many_rows_are_those_of_each():
    places = torch.stack([places_of(order) for order in permutations(range(4))])
    found = relations(places)
    items = torch.arange(len(places)) % 6
    rows = beside(found, items, LEFT)
    for number in range(len(places)):
        assert torch.equal(found[number], relations(places[number]))
        assert torch.equal(rows[number], beside(found[number], items[number], LEFT))


def test_only_the_order_of_places_matters():
    places = torch.tensor([[0, 5, 3, 1, 4, 2]])
    assert torch.equal(relations(places), relations(10 * places))
    seen = torch.ones(1, 6, 6, dtype=torch.bool).tril(-1)[:, 2:]
    assert all(
        torch.equal(one, other)
        for one, other in zip(
            neighbours(places, seen, places[:, 2:]), neighbours(10 * places, seen, 10 * places[:, 2:]), strict=True
        )
    )


def test_words_from_left_to_right_go_between_the_last_one_and_the_boundary():
    for order, chosen in (
        ([0, 1, 2, 3], lambda turn: (turn + 1 if turn else 0, 1)),
        ([3, 2, 1, 0], lambda turn: (0, turn + 1)),
    ):
        places = places_of(order)[None]
        seen = torch.ones(1, 6, 6, dtype=torch.bool).tril(-1)[:, 2:]
        left, right = neighbours(places, seen, places[:, 2:])
        assert [*zip(left[0].tolist(), right[0].tolist(), strict=True)] == [chosen(turn) for turn in range(4)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_slots_sum_to_one(dtype):
    for number in range(2, 30, 3):
        draw = torch.Generator().manual_seed(number)
        keys = 4 * torch.randn(5, 2, number, generator=draw, dtype=dtype)
        found = slot_logits(keys)
        assert found.shape == (5, number - 1)
        live = torch.cat([keys[:, 1, :-1], keys[:, 0, 1:]], 1)
        shares = (found - live.logsumexp(1, keepdim=True)).exp()
        torch.testing.assert_close(shares.sum(1), torch.ones(5, dtype=dtype), rtol=0, atol=1e-6)
