"""Canvases and the weights of what is missing on them."""

from __future__ import annotations

from itertools import pairwise
from math import exp

import pytest
import torch

from bench_authors.testing import catches, tiny_batch
from bench_core import STOP, Rng
from bench_indigo import spans
from bench_indigo.spans import canvas, labels, sample_canvas_mask

TARGETS = [(1, 2, 3, 4, 1, 2), (4,), (), (2, 2, 1, 3), (3, 1, 4, 2, 3)]


def keeping(batch, *places):
    """Return which tokens are on the canvas: those at `places` of each row."""
    keep = torch.zeros_like(batch.gold, dtype=torch.bool)
    for row, some in enumerate(places):
        keep[row, list(some)] = True
    return keep


def weights_of(span, tau, find=labels):
    """Return the weights of a span of so many words between two that are kept."""
    batch = tiny_batch([[1, *[2] * span, 3]])
    found = find(batch, keeping(batch, [0, span + 1]), tau)
    return found.weight[0, 1 : span + 1]


def in_a_loop(batch, keep, tau):
    """Return the labels of every slot, as pairs of token and weight, one slot and word after the other."""
    rows = []
    for gold, length, some in zip(batch.gold.tolist(), batch.length.tolist(), keep.tolist(), strict=True):
        ends = [-1, *(place for place in range(length - 1) if some[place]), length - 1]
        slots = []
        for left, right in pairwise(ends):
            first, last = left + 1, right - 1
            raw = [1 if tau is None else exp(-abs((first + last) / 2 - i) / tau) for i in range(first, right)]
            found = [(gold[first + n], one / sum(raw)) for n, one in enumerate(raw)]
            slots.append(found or [(STOP, 1.0)])
        rows.append(slots)
    return rows


def as_lists(found):
    """Return labels as `in_a_loop` does."""
    rows = [[[] for _ in range(slots)] for slots in found.slots.tolist()]
    for row, at in (found.weight > 0).nonzero().tolist():
        pair = found.token[row, at].item(), found.weight[row, at].item()
        rows[row][found.slot[row, at]].append(pair)
    return rows


def unnormalised(batch, keep, tau):
    """Weights are exp(-distance / tau) as they stand."""
    found = labels(batch, keep, tau)
    width = found.slot.shape[1]
    many = torch.nn.functional.one_hot(found.slot, width) * (found.weight > 0)[:, :, None]
    number = many.sum(1).gather(1, found.slot)
    return spans.SlotLabels(found.slot, found.token, found.weight * number, found.slots)


def off_the_middle(batch, keep, tau):
    """Distances are from the first missing word."""
    if tau is None:
        return labels(batch, keep, tau)
    found = labels(batch, keep, None)
    weight = torch.zeros_like(found.weight)
    for row in range(len(batch)):
        for slot in range(int(found.slots[row])):
            mine = ((found.slot[row] == slot) & (found.weight[row] > 0)).nonzero()[:, 0]
            weight[row, mine] = torch.softmax(-torch.arange(len(mine)).double() / tau, 0)
    return spans.SlotLabels(found.slot, found.token, weight, found.slots)


def forgets_what_is_empty(batch, keep, tau):
    """A slot where nothing is missing has no label."""
    found = labels(batch, keep, tau)
    return spans.SlotLabels(found.slot, found.token, found.weight * (found.token != STOP), found.slots)


@catches(lambda find: unnormalised, lambda find: off_the_middle)
def weights_are_those_of_the_specification(find):
    """By hand."""
    for span, tau, wanted in [
        (4, 1.0, [0.1345, 0.3655, 0.3655, 0.1345]),
        (4, 0.5, [0.0596, 0.4404, 0.4404, 0.0596]),
        (3, 1.0, [0.2119, 0.5761, 0.2119]),
        (3, None, [1 / 3] * 3),
        (1, 2.0, [1.0]),
    ]:
        found = weights_of(span, tau, find)
        torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=5e-5)


@catches(lambda find: unnormalised, lambda find: forgets_what_is_empty)
def those_of_a_slot_sum_to_one(find):
    batch = tiny_batch(TARGETS)
    for turn in range(20):
        found = find(batch, sample_canvas_mask(batch, Rng(turn)), 0.7)
        total = found.weight.new_zeros(len(batch), 8).scatter_add(1, found.slot, found.weight)
        real = torch.arange(8) < found.slots[:, None]
        torch.testing.assert_close(total, real.double())


@catches(lambda find: unnormalised, lambda find: off_the_middle, lambda find: forgets_what_is_empty)
def labels_are_those_found_one_by_one(find):
    batch = tiny_batch(TARGETS)
    for turn in range(30):
        keep = sample_canvas_mask(batch, Rng(turn))
        for tau in (None, 0.4, 1.0, 3.0):
            for row, wanted in zip(as_lists(find(batch, keep, tau)), in_a_loop(batch, keep, tau), strict=True):
                assert [[token for token, _ in slot] for slot in row] == [
                    [token for token, _ in slot] for slot in wanted
                ]
                for slot, other in zip(row, wanted, strict=True):
                    assert [weight for _, weight in slot] == pytest.approx([weight for _, weight in other])


LAWS = (weights_are_those_of_the_specification, those_of_a_slot_sum_to_one, labels_are_those_found_one_by_one)
MISTAKES = [(law, mutant(labels)) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_labels_keep_their_laws(law):
    law(labels)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


@pytest.mark.parametrize("span", [1, 2, 5, 6])
def test_a_tau_beyond_all_bounds_makes_weights_uniform_and_a_small_one_leaves_the_middle(span):
    torch.testing.assert_close(weights_of(span, 1e12), weights_of(span, None))
    middle = weights_of(span, 1e-6)
    assert middle.sum() == 1
    assert middle.nonzero()[:, 0].tolist() == [span // 2] if span % 2 else [span // 2 - 1, span // 2]


def test_a_canvas_has_what_is_kept_in_its_order():
    batch = tiny_batch(TARGETS)
    found, length = canvas(batch.gold, keeping(batch, [1, 2, 5], [], [], [0, 3], [4]))
    assert length.tolist() == [3, 0, 0, 2, 1]
    assert [row[:n] for row, n in zip(found.tolist(), length.tolist(), strict=True)] == [
        [2, 3, 2],
        [],
        [],
        [2, 3],
        [3],
    ]


def test_neither_the_end_nor_padding_is_kept():
    batch = tiny_batch(TARGETS)
    for turn in range(50):
        keep = sample_canvas_mask(batch, Rng(turn))
        assert not keep[torch.arange(batch.gold.shape[1]) >= batch.length[:, None] - 1].any()


def test_what_is_kept_depends_on_example_and_noise_alone():
    batch, rng = tiny_batch(TARGETS), Rng(3)
    together, rows = sample_canvas_mask(batch, rng), torch.tensor([4, 0, 3])
    assert torch.equal(sample_canvas_mask(batch.select(rows), rng), together[rows])
    for row, length in enumerate(batch.length.tolist()):
        alone = tiny_batch(TARGETS[row : row + 1], first=int(batch.ids[row]))
        assert torch.equal(sample_canvas_mask(alone, rng)[0], together[row, :length])
    assert not torch.equal(sample_canvas_mask(batch, Rng(4)), together)


def test_numbers_kept_are_uniform_and_so_are_choices_of_a_number():
    draws = 12_000
    keep = sample_canvas_mask(tiny_batch([(1, 2, 3)] * draws), Rng(9))[:, :3]
    codes, counts = (keep * torch.tensor([1, 2, 4])).sum(1).unique(return_counts=True)
    wanted = {code: 1 / 4 if code in (0, 7) else 1 / 12 for code in range(8)}
    for code, number in zip(codes.tolist(), counts.tolist(), strict=True):
        share = wanted.pop(code)
        assert abs(number / draws - share) < 5 * (share / draws) ** 0.5
    assert not wanted
