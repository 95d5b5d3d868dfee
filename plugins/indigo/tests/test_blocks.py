"""The layers: against the formulas that they stand for, all at once and item by item."""

from __future__ import annotations

import pytest
import torch

from bench_authors.testing import float64
from bench_indigo.blocks import Embedding, SelfAttention, Shape, WordLogits, additive_mask, attention_mask, sinusoids
from bench_indigo.kv_cache import DecoderStack, Seats, Trail, insert_columns
from bench_indigo.relations import relations

SHAPE = Shape(width=8, heads=2, feed_forward=12, dropout=0.0, relative=True)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def by_definition(layer, states, known, seen):
    """Return what attention with relations is, pair by pair."""
    heads, size = layer.heads, states.shape[2] // layer.heads
    queries, keys, values = (part.view(*states.shape[:2], heads, size) for part in layer.inward(states).chunk(3, 2))
    found = torch.zeros_like(values)
    for row in range(len(states)):
        for head in range(heads):
            for i in range(states.shape[1]):
                among = seen[row, i].nonzero()[:, 0].tolist()
                scores = torch.stack([
                    queries[row, i, head] @ (keys[row, j, head] + layer.relation[int(known[row, i, j]) + 1]) / size**0.5
                    for j in among
                ])  # fmt: skip
                found[row, i, head] = scores.softmax(0) @ values[row, among, head]
    return layer.outward(found.flatten(2))


PLACES = torch.tensor([[0, 5, 3, 1, 4, 2], [0, 5, 1, 2, 3, 4], [0, 5, 4, 3, 2, 1]])
SEEN = torch.ones(3, 6, 6, dtype=torch.bool).tril()


def test_attention_with_relations_is_what_its_definition_says():
    layer, states = SelfAttention(SHAPE), torch.randn(3, 6, 8)
    known = relations(PLACES)
    wanted = by_definition(layer, states, known, SEEN)
    torch.testing.assert_close(layer(states, attention_mask(SEEN, known, states)), wanted)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda known: known.mT,  # transposed
        lambda known: known.abs(),  # sides are not told apart
        lambda known: -known,
        lambda known: known.roll(1, 2),
    ],
)
def test_attention_with_other_relations_is_another(mistake):
    layer, states = SelfAttention(SHAPE), torch.randn(3, 6, 8)
    known = relations(PLACES)
    wanted = by_definition(layer, states, known, SEEN)
    found = layer(states, attention_mask(SEEN, mistake(known), states))
    assert (found - wanted).abs().amax((1, 2)).min() > 1e-4


def test_each_relation_is_learnt():
    layer, states = SelfAttention(SHAPE), torch.randn(3, 6, 8)
    with torch.enable_grad():
        layer(states, attention_mask(SEEN, relations(PLACES), states)).square().sum().backward()
    assert (layer.relation.grad.abs().sum(1) > 1e-6).all()


def test_a_stack_that_reads_item_by_item_gives_what_it_gives_at_once():
    stack = DecoderStack(SHAPE, 2)
    sources = stack.read([torch.randn(3, 4, 8)], torch.zeros(3, 1, 1, 4))
    states = torch.randn(3, 6, 8)
    wanted = stack(states, attention_mask(SEEN, relations(PLACES), states), sources)
    found, trail = stack.begin(states[:, :2], sources)
    torch.testing.assert_close(found, wanted[:, :2])
    for item in range(2, 6):
        left = (PLACES[:, :item] < PLACES[:, item : item + 1]).sum(1)
        found, trail = stack.extend(trail, states[:, item], left)
        torch.testing.assert_close(found, wanted[:, item])
    order = torch.stack([PLACES[row, trail.columns[row]] for row in range(3)])
    assert order.tolist() == [[*range(6)]] * 3  # reading order


def test_generations_go_on_as_if_alone_however_they_are_chosen_and_for_however_long():
    stack, draw = DecoderStack(SHAPE, 2), torch.Generator().manual_seed(3)
    sources = stack.read([torch.randn(4, 4, 8)], torch.zeros(4, 1, 1, 4))
    begun = torch.randn(4, 2, 8)
    _, trail = stack.begin(begun, sources)
    histories = [(row, []) for row in range(4)]  # source, and items with how many are on their left
    compacted = 0
    for step in range(40):
        if step % 3:
            most = min(6, len(histories) + 2)
            rows = torch.randint(len(histories), (most,), generator=draw)
            trail, histories = trail.select(rows), [histories[row] for row in rows.tolist()]
        states = torch.randn(len(histories), 8, generator=draw)
        left = torch.randint(1, step + 2, (len(histories),), generator=draw)
        before = trail.pool
        found, trail = stack.extend(trail, states, left)
        compacted += trail.pool is not before
        histories = [
            (source, [*items, (state, place)])
            for (source, items), state, place in zip(histories, states, left.tolist(), strict=True)
        ]
    for row, (source, items) in enumerate(histories):
        one = sources.change(lambda tensor, source=source: tensor[[source]])
        _, alone = stack.begin(begun[[source]], one)
        for state, place in items:
            wanted, alone = stack.extend(alone, state[None], torch.tensor([place]))
        torch.testing.assert_close(found[row], wanted[0])
    assert compacted > 1
    assert trail.pool.capacity < 6 * 40  # what no one needs is let go


def test_choosing_generations_copies_nothing_that_was_read():
    stack = DecoderStack(SHAPE, 1)
    sources = stack.read([torch.randn(2, 4, 8)], torch.zeros(2, 1, 1, 4))
    _, trail = stack.begin(torch.randn(2, 2, 8), sources)
    wide = trail.select(torch.tensor([0, 0, 1, 1, 1]))
    assert wide.pool is trail.pool
    _, wider = stack.extend(wide, torch.randn(5, 8), torch.ones(5, dtype=torch.long))
    assert wider.pool is trail.pool


def test_a_state_can_be_gone_on_from_twice():
    stack = DecoderStack(SHAPE, 2)
    sources = stack.read([torch.randn(2, 4, 8)], torch.zeros(2, 1, 1, 4))
    _, trail = stack.begin(torch.randn(2, 2, 8), sources)
    one, other, left = torch.randn(2, 8), torch.randn(2, 8), torch.ones(2, dtype=torch.long)
    first, _ = stack.extend(trail, one, left)
    stack.extend(trail, other, left)
    again, _ = stack.extend(trail, one, left)
    torch.testing.assert_close(again, first)


def test_generations_sit_with_their_source():
    seats = Seats.of(torch.tensor([1, 0, 1, 3, 1]), 4)
    assert (seats.width, seats.busy, seats.whole) == (3, 3, False)
    rows = torch.arange(1.0, 6.0)[:, None]
    table = seats.table(rows)
    assert table[:, :, 0].tolist() == [[2, 0, 0], [1, 3, 5], [0, 0, 0], [4, 0, 0]]
    assert torch.equal(seats.rows(table), rows)


def test_an_item_goes_behind_those_on_its_left():
    columns = torch.tensor([[7, 8, 9], [4, 5, 6]])
    assert insert_columns(columns, torch.tensor([1, 3]), torch.tensor([1, 2])).tolist() == [
        [7, 1, 8, 9],
        [4, 5, 6, 2],
    ]


def test_a_trail_keeps_its_columns_in_a_smaller_pool():
    stack = DecoderStack(SHAPE, 1)
    sources = stack.read([torch.randn(3, 4, 8)], torch.zeros(3, 1, 1, 4))
    _, trail = stack.begin(torch.randn(3, 2, 8), sources)
    for _ in range(3):
        _, trail = stack.extend(trail, torch.randn(3, 8), torch.ones(3, dtype=torch.long))
    some = trail.select(torch.tensor([2, 0]))
    small = some.compact(4)
    assert isinstance(small, Trail)
    assert len(small.pool.sources.mask) == 2
    for old, new in zip(some.pool.pairs[0], small.pool.pairs[0], strict=True):
        for row in range(2):
            kept = old[some.owner[row]][:, some.columns[row]]
            torch.testing.assert_close(new[small.owner[row]][:, small.columns[row]], kept)


def test_sinusoids_continue_where_they_left_off():
    like = torch.zeros(1, 6)
    whole = sinusoids(0, 9, like)
    assert torch.equal(torch.cat([sinusoids(0, 4, like), sinusoids(4, 5, like)]), whole)
    torch.testing.assert_close(
        whole[3, :2], torch.tensor([3.0, 3.0]).sin().where(torch.tensor([True, False]), torch.tensor(3.0).cos())
    )


def test_words_beyond_the_vocabulary_are_never_predicted():
    embedding = Embedding(7, 8)
    assert WordLogits(8, 5, tied=True, mapped=True)(torch.randn(3, 8), embedding).shape == (3, 5)
    assert WordLogits(8, 5, tied=False, mapped=False)(torch.randn(3, 8), embedding).shape == (3, 5)


def test_what_is_shut_is_minus_infinity():
    assert additive_mask(torch.tensor([True, False]), torch.zeros(1)).tolist() == [0, -torch.inf]
