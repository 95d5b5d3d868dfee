"""Several orders as a tree of items."""

from __future__ import annotations

from itertools import permutations

import torch

from bench_authors.testing import tiny_batch
from bench_indigo.prefixes import prefixes


def orders_of(rows, width):
    """Return a table of orders [N, W, T], padded by identity, and which of them there are."""
    found = torch.arange(width).repeat(len(rows), max(map(len, rows)), 1)
    alive = torch.zeros(found.shape[:2], dtype=torch.bool)
    for row, orders in enumerate(rows):
        for number, order in enumerate(orders):
            found[row, number, : len(order)] = torch.tensor(order)
            alive[row, number] = True
    return found, alive


ROWS = [[(0, 1, 2), (0, 2, 1), (2, 1, 0), (0, 1, 2)], [(1, 0)], [()], [(0,)]]
BATCH = tiny_batch([(1, 2, 3), (4, 1), (), (2,)], prefix=0)


def test_what_orders_begin_with_in_common_is_there_once():
    tree = prefixes(BATCH, *orders_of(ROWS, 4))
    assert tree.index.shape == (4, 2 + 8)  # 0, 01, 012, 02, 021, 2, 21, 210
    placed = [[tree.index[0, item].item() for item in path] for path in tree.path[0].tolist()]
    assert placed == [[0, 1, 2], [0, 2, 1], [2, 1, 0], [0, 1, 2]]
    assert torch.equal(tree.path[0, 0], tree.path[0, 3])
    assert tree.path[0, 0, 0] == tree.path[0, 1, 0] != tree.path[0, 2, 0]
    assert tree.path[0, 0, 1] != tree.path[0, 1, 1]


def test_an_item_is_predicted_by_the_one_before_it_and_sees_what_was_placed():
    tree = prefixes(BATCH, *orders_of(ROWS, 4))
    for row, orders in enumerate(ROWS):
        for number, order in enumerate(orders):
            path = tree.path[row, number, : len(order)].tolist()
            assert [tree.parent[row, item].item() for item in path] == [1, *path][: len(path)]
            assert tree.last[row, number] == [1, *path][-1]
            for turn, item in enumerate(path):
                assert tree.seen[row, item].nonzero()[:, 0].tolist() == sorted([0, 1, *path[: turn + 1]])
            assert [tree.places[row, item].item() for item in path] == [place + 1 for place in order]
    assert tree.seen[:, 0].sum(1).tolist() == [1] * 4
    assert tree.seen[:, 1].sum(1).tolist() == [2] * 4


def test_boundaries_enclose_every_word():
    tree = prefixes(BATCH, *orders_of(ROWS, 4))
    real = tree.share > 0
    assert (tree.places[:, :1] == 0).all()
    assert ((tree.places < tree.places[:, 1:2]) & (tree.places > 0))[real].all()


def test_shares_are_of_the_orders_that_there_are():
    tree = prefixes(BATCH, *orders_of(ROWS, 4))
    assert tree.weight.tolist() == [[0.25] * 4, [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert tree.share.sum(1).tolist() == [3, 2, 0, 1]  # each order's words, on average
    assert tree.share[0, tree.path[0, 0]].tolist() == [0.75, 0.5, 0.5]


def test_all_orders_of_five_words_are_a_tree_of_as_many_items_as_arrangements():
    orders = [*permutations(range(5))]
    found, alive = orders_of([orders], 6)
    tree = prefixes(tiny_batch([(1, 2, 3, 4, 1)], prefix=0), found, alive)
    assert tree.index.shape[1] == 2 + 5 + 20 + 60 + 120 + 120
    assert len({tuple(path) for path in tree.path[0].tolist()}) == 120


def test_targets_without_words_have_boundaries_alone():
    found, alive = orders_of([[()], [()]], 1)
    tree = prefixes(tiny_batch([(), ()], prefix=0), found, alive)
    assert tree.index.shape == (2, 2)
    assert tree.last.tolist() == [[1], [1]]
