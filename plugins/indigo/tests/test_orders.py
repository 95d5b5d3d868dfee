from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import permutations

import pytest
import torch

from bench_authors.testing import catches
from bench_core import Batch, DataError, Rng, SuiteError, TaskInfo
from bench_indigo.orders import CONTINUES, PADDING, check_order, common, make_order

INFO = TaskInfo(["<stop>", "a", "b", "c", "d"], [7, 5, 3, 1, 1])
RNG = Rng(3)
BALANCED = {
    0: [],
    1: [0],
    2: [0, 1],
    3: [1, 0, 2],
    4: [2, 0, 1, 3],
    5: [2, 0, 1, 3, 4],
    6: [3, 1, 4, 5, 0, 2],
    7: [3, 1, 5, 0, 2, 4, 6],
    8: [4, 2, 6, 0, 1, 3, 5, 7],
}


def batch_of(targets, first=10, width=0, **extras):
    """Return targets as rows, and what extras say of their tokens, padded with -1."""
    length = torch.tensor([len(target) + 1 for target in targets])
    width = max(width, int(length.max()))

    def padded(rows, fill):
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])

    ids = torch.arange(first, first + len(targets))
    told = {name: padded(rows, PADDING) for name, rows in extras.items()}
    return Batch(ids, torch.zeros(len(targets), 1).long(), padded(targets, 0), length, extras=told)


def ordered(order, targets, rng=RNG, /, **extras):
    """Return the order of the words of each target, after a look at what pads it."""
    batch = batch_of(targets, **extras)
    pi = check_order(make_order(order, INFO)(batch, rng), batch)
    assert pi.dtype == torch.long
    return [row[:number] for row, number in zip(pi.tolist(), (batch.length - 1).tolist(), strict=True)]


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("l2r", [[0, 1, 2, 3, 4], [0, 1], []]),
        ("r2l", [[4, 3, 2, 1, 0], [1, 0], []]),
        ("odd", [[0, 2, 4, 1, 3], [0, 1], []]),
        ("blt", [[2, 0, 1, 3, 4], [0, 1], []]),
        ("blt-strict", [[2, 1, 4, 0, 3], [1, 0], []]),
    ],
)
def test_orders_of_places_are_those_of_the_paper_in_rows_of_all_lengths(order, wanted):
    assert ordered(order, [[1, 2, 3, 4, 1], [1, 1], []]) == wanted


@pytest.mark.parametrize("number", BALANCED)
def test_balanced_orders_are_those_of_the_table(number):
    assert ordered("blt", [[1] * number]) == [BALANCED[number]]


@pytest.mark.parametrize("number", range(9))
def test_odd_places_come_before_even_ones(number):
    assert ordered("odd", [[1] * number]) == [[*range(0, number, 2), *range(1, number, 2)]]


@pytest.mark.parametrize("number", range(1, 9))
def test_a_strictly_balanced_order_has_every_middle_before_its_halves(number):
    (order,) = ordered("blt-strict", [[1] * number])

    def check(low, high):
        if high > low:
            middle = low + (high - low) // 2
            assert order.index(middle) == min(order.index(place) for place in range(low, high))
            check(low, middle)
            check(middle + 1, high)

    check(0, number)


def test_common_words_come_first_or_last():
    target = [[3, 1, 2, 1], [1], [2, 3]]  # c a b a
    assert common(INFO).tolist() == [False, True, False, False, False]
    assert ordered("cf", target) == [[1, 3, 0, 2], [0], [0, 1]]
    assert ordered("rf", target) == [[0, 2, 1, 3], [0], [0, 1]]


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ([9, 1, 2, 4, 3], [3, 4]),  # 4 of 10 are too few, 7 are enough
        ([9, 2, 2, 2, 2], [1, 2]),  # of equals the first
        ([9, 0, 0, 1, 0], [3]),
        ([9, 6, 5, 1, 0], [1]),  # exactly half
    ],
)
def test_common_words_are_the_fewest_that_make_half_of_the_tokens_without_stop(counts, wanted):
    found = common(TaskInfo(["<stop>", "a", "b", "c", "d"], counts))
    assert found.nonzero()[:, 0].tolist() == wanted


def test_orders_by_frequency_need_counts():
    for order in ("cf", "rf"):
        with pytest.raises(SuiteError, match="need training token counts"):
            make_order(order, TaskInfo(["<stop>", "a"]))


def test_a_random_order_is_an_examples_own_and_new_at_every_step():
    targets = [[1] * 6, [1] * 6, [1, 2, 3], []]
    first = ordered("rnd", targets)
    assert first[0] != first[1]
    assert ordered("rnd", targets, Rng(4)) != first
    order, batch = make_order("rnd", INFO), batch_of(targets, width=11)
    wider = order(batch, RNG)
    assert [row[: len(target)] for row, target in zip(wider.tolist(), targets, strict=True)] == first
    turned = order(batch.select(torch.tensor([2, 0])), RNG)
    assert turned.tolist() == wider[[2, 0]].tolist()


def test_random_orders_are_uniform():
    number = 6000
    found = [tuple(row) for row in ordered("rnd", [[1, 2, 3]] * number)]
    expected = number / 6
    statistic = sum((found.count(order) - expected) ** 2 / expected for order in permutations(range(3)))
    assert statistic < 20.5  # chi-squared of 5 degrees, once in a thousand


CAT = [1, 2, 2, 2, 3]  # the cat sat on mats


def test_words_come_by_their_depth_in_the_tree():
    assert ordered("syn", [CAT], heads=[[1, 2, 2, 4, 2]]) == [[2, 1, 4, 0, 3]]


def test_the_example_of_a_chain_goes_down_it():
    assert ordered("syn", [CAT], heads=[[1, 2, 2, 2, 3]]) == [[2, 1, 3, 0, 4]]


def test_a_visited_word_gives_all_of_its_pieces():
    heads = [[3, CONTINUES, CONTINUES, 3, CONTINUES], [0], []]
    assert ordered("syn", [[1] * 5, [1], []], heads=heads) == [[3, 4, 0, 1, 2], [0], []]


def test_sentences_of_a_line_are_walked_one_after_the_other():
    assert ordered("syn", [[1] * 5], heads=[[1, 1, 3, 3, 3]]) == [[1, 0, 3, 2, 4]]


def walked(heads):
    """Walk trees with a queue, word for word."""
    order = []
    for root in (place for place, head in enumerate(heads) if head == place):
        queue = deque([root])
        while queue:
            word = queue.popleft()
            order.append(word)
            queue += [place for place, head in enumerate(heads) if head == word != place]
    return order


def trees(number, count):
    """Return random heads of so many words, crossing each other as they like."""
    draws = Rng(8).uniform(torch.arange(count), number, 2 * number)
    found = []
    for row in draws:
        turns = row[:number].argsort().tolist()
        heads = [0] * number
        for turn, word in enumerate(turns):  # the head is an earlier one, or the word itself
            heads[word] = word if turn == 0 else turns[int(row[number + turn] * (turn + 0.2)) if turn else 0]
        found.append(heads)
    return found


@pytest.mark.parametrize("number", [1, 2, 5, 9, 17])
def test_trees_of_all_shapes_are_walked_as_with_a_queue(number):
    found = trees(number, 60)
    assert ordered("syn", [[1] * number] * 60, heads=found) == [walked(heads) for heads in found]


CROSSING = [*trees(9, 60), *trees(5, 20)]


def forgets_the_order_of_parents(walk):
    def depth(row, place):
        return 0 if row[place] == place else 1 + depth(row, row[place])

    return lambda row: sorted(walk(row), key=lambda place: (depth(row, place), place))


def walks_depth_first(walk):
    def below(row, word):
        return [word, *(b for place, head in enumerate(row) if head == word != place for b in below(row, place))]

    return lambda row: [b for place, head in enumerate(row) if head == place for b in below(row, place)]


def takes_children_from_the_right(walk):
    return lambda row: [len(row) - 1 - place for place in walk([len(row) - 1 - head for head in row[::-1]])]


def starts_at_the_leaves(walk):
    return lambda row: walk(row)[::-1]


@catches(forgets_the_order_of_parents, walks_depth_first, takes_children_from_the_right, starts_at_the_leaves)
def a_walk_is_breadth_first_from_left_to_right(walk):
    for row in CROSSING:
        assert walk(row) == walked(row)


def test_the_walk_is_breadth_first_from_left_to_right():
    a_walk_is_breadth_first_from_left_to_right(lambda row: ordered("syn", [[1] * len(row)], heads=[row])[0])


@pytest.mark.parametrize("mutant", a_walk_is_breadth_first_from_left_to_right.mutants, ids=lambda m: m.__name__)
def test_another_walk_is_told_from_it(mutant):
    with pytest.raises(AssertionError):
        a_walk_is_breadth_first_from_left_to_right(mutant(walked))


def test_without_heads_the_error_says_how_to_get_them():
    with pytest.raises(SuiteError, match=r"`parse:`.*spacy.*conllu.*treebank: ud-english-ewt"):
        ordered("syn", [[1]])


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([1, 0, 2], r"example 11 form a cycle: the word at token 0"),
        ([0, 2, 1], r"cycle: the word at token 1"),
        ([0, 3, 0], r"example 11: token 1 has the invalid head 3; the target has 3 tokens"),
        ([0, 0, -3], r"example 11: token 2 has the invalid head -3"),
        ([0, 0, PADDING], r"example 11: token 2 has the invalid head -1"),
        ([CONTINUES, 1, 1], r"example 11: token 0 has the invalid head -2"),
        ([0, CONTINUES, 1], r"example 11: token 2 has the invalid head 1"),  # not the first token of a word
        ([0, 0, 0, 0], r"example 11: token 3 has the invalid head 0"),  # EOS
    ],
)
def test_heads_that_are_no_trees_are_refused_by_example_and_token(heads, message):
    with pytest.raises(DataError, match=message):
        ordered("syn", [[1, 1], [1, 2, 3]], heads=[[1, 1], heads])


def test_heads_of_another_width_are_refused():
    batch = batch_of([[1, 2]])
    with pytest.raises(DataError, match="one head per token"):
        make_order("syn", INFO)(replace(batch, extras={"heads": torch.zeros(1, 2).long()}), RNG)


def test_a_given_order_can_be_reversed():
    assert ordered("given-reversed", [[1, 2, 3], [4]], order=[[2, 0, 1], [0]]) == [[1, 0, 2], [0]]


def test_a_given_order_is_taken_as_it_is():
    assert ordered("given", [[1, 2, 3], [4]], order=[[2, 0, 1], [0]]) == [[2, 0, 1], [0]]
    with pytest.raises(SuiteError, match=r"extras\['order'\]"):
        ordered("given", [[1]])


@pytest.mark.parametrize("order", [[0, 0, 1], [1, 2, 3], [0, 1], [0, 1, -1], [-1, 0, 1]])
def test_what_is_no_permutation_is_refused_by_example(order):
    with pytest.raises(DataError, match=r"order of example 11, \[.*\], is not a permutation of its 3 words"):
        ordered("given", [[4], [1, 2, 3]], order=[[0], order])


def test_what_pads_an_order_stays_in_its_place():
    batch = batch_of([[1, 2], [1, 2, 3]])
    with pytest.raises(DataError, match="example 10"):
        check_order(torch.tensor([[0, 1, 3, 2], [2, 1, 0, 3]]), batch)


@pytest.mark.parametrize("order", ["l2r", "r2l", "odd", "blt", "blt-strict", "syn", "cf", "rf", "rnd"])
def test_every_order_permutes_the_words_of_each_row(order):
    targets = [[1 + place % 4 for place in range(number)] for number in (7, 0, 1, 3, 12)]
    heads = [[0] * len(target) for target in targets]
    assert [sorted(row) for row in ordered(order, targets, heads=heads)] == [[*range(len(row))] for row in targets]


def test_a_searched_order_is_none_that_is_known_beforehand():
    with pytest.raises(SuiteError, match=r"'searched' is not a fixed order.*l2r, r2l"):
        make_order("searched", INFO)
