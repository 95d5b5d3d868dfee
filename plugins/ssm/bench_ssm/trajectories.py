"""P(w) as a mean over shared trajectories: P^(w) = 1/N sum_n prod_t P(w_t | h_t^n).

Sorted targets form a trie, whose nodes are their beginnings. A node's products [N] are its parent's times those of
one token, for as many trajectories at a time as fit in a cache. The last two tokens of targets, few pairs where the
last one is stop, are the other side of what sums over trajectories: a product of matrices where most nodes of a level
go on with most pairs, else a product for each target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import torch
from torch import Tensor
from torch.nn.functional import pad

WORDS = 4096  # targets of one trie
PRODUCTS = 2**19  # of a level of a trie at a time, on a processor; 2 MiB in float32
CROSS = 8  # times as many products of matrices, of all nodes with all endings, cost no more than those needed alone


@dataclass(frozen=True)
class Level:
    """The nodes of a trie with the same number of tokens, and the targets that end two tokens further on."""

    parents: Tensor  # [M] among the nodes of the level before
    tokens: Tensor  # [M] last of each node
    rows: Tensor  # [E] targets that end
    nodes: Tensor  # [E] of this level, which these targets continue
    endings: tuple[Tensor, Tensor]  # [P] their last two tokens, each pair once
    pairs: Tensor  # [E] which of these are theirs


def log_means(table: Tensor, gold: Tensor, length: Tensor, parts: Sequence[tuple[int, int]]) -> Tensor:
    """Return ln P^(w) by each of `parts` of the trajectories, from the first to the last [P, W], in float64.

    `table` [T, V, N] has the log-probability of every token at every step of every trajectory; targets are rows of
    `gold` [W, T'], their tokens the first `length` [W], at least 1. What was too small or too large for the
    type of numbers is computed once more, in logarithms.
    """
    steps = int(length.max())
    number = table.shape[2]
    table, gold = table[:steps], gold[:, :steps]
    words, place = torch.unique(torch.cat([gold, length[:, None]], 1), dim=0, return_inverse=True)
    gold, length = words[:, :-1], words[:, -1]
    mean = table.logsumexp(2) - log(number)  # [T, V]; relative to it, products are neither tiny nor huge
    probs = pad((table - mean[:, :, None]).exp(), (0, 0, 0, 1, 0, 1), value=1.0)  # [T + 1, V + 1, N]
    blocks = zip(torch.split(gold, WORDS), torch.split(length, WORDS), strict=True)
    sums = torch.cat([_sums(probs, *block, parts) for block in blocks])
    real = torch.arange(steps, device=gold.device) < length[:, None]
    usual = mean.double()[torch.arange(steps, device=gold.device), gold].where(real, 0).sum(1)  # [W]
    found = []
    for total, (start, end) in zip(sums.unbind(1), parts, strict=True):
        means = total.log() + usual - log(end - start)
        least = number * torch.finfo(table.dtype).tiny / torch.finfo(table.dtype).eps
        doubtful = (~((total > least) & (total < torch.inf))).nonzero()[:, 0]
        means[doubtful] = _careful(table[:, :, start:end], gold[doubtful], length[doubtful])
        found.append(means[place])
    return torch.stack(found)


def _sums(probs: Tensor, gold: Tensor, length: Tensor, parts: Sequence[tuple[int, int]]) -> Tensor:
    """Return the sums over parts of the trajectories [W, P] of the products of sorted targets."""
    levels = list(_trie(gold, length, probs.shape[1] - 1))
    most = max(len(level.tokens) for level in levels)
    size = max(16, PRODUCTS // most) if probs.device.type == "cpu" else max(16, 2**27 // most)
    edges = sorted({edge for part in parts for edge in part})
    pieces = list(pairwise(edges))
    found = [probs.new_zeros(len(pieces), len(level.rows), dtype=torch.float64) for level in levels]
    for piece, (start, end) in enumerate(pieces):
        for first in range(start, end, size):
            _add([sums[piece] for sums in found], levels, probs[:, :, first : min(first + size, end)])
    rows = torch.cat([level.rows for level in levels])
    sums = torch.cat(found, 1)[:, rows.argsort()]  # [pieces, W]
    within = [[start <= first and last <= end for first, last in pieces] for start, end in parts]
    return torch.stack([sums[torch.tensor(each, device=sums.device)].sum(0) for each in within], 1)


def _trie(gold: Tensor, length: Tensor, none: int) -> Iterator[Level]:
    """Yield the levels of sorted targets; one that has no last token but one is said to have `none`."""
    alive = torch.arange(len(gold), device=gold.device)  # targets that reach a level
    node = torch.zeros_like(alive)  # of each of these
    for size in range(max(1, gold.shape[1] - 1)):
        if size:
            kept = length[alive] > size + 1
            alive, node = alive[kept], node[kept]
            if not len(alive):
                return
            beginnings = gold[alive, :size]
            new = pad((beginnings[1:] != beginnings[:-1]).any(1), (1, 0), value=True)
            parents, tokens, node = node[new], beginnings[new, -1], new.cumsum(0) - 1
        else:
            parents, tokens = node[:1], node[:1]  # nothing comes before the root
        ending = length[alive] <= size + 2
        rows = alive[ending]
        last = gold[rows, size]
        after = (
            gold[rows, size + 1].where(length[rows] > size + 1, none)
            if gold.shape[1] > 1
            else last.new_full(last.shape, none)
        )
        pairs, pair = torch.unique(last * (none + 1) + after, return_inverse=True)
        yield Level(parents, tokens, rows, node[ending], (pairs // (none + 1), pairs % (none + 1)), pair)


def _add(sums: list[Tensor], levels: list[Level], probs: Tensor) -> None:
    """Add to sums [E] of each level the products of some trajectories, of probabilities `probs` [T + 1, V + 1, n]."""
    values = probs[-1, -1:]  # [1, n] of the root, 1
    for size, (total, level) in enumerate(zip(sums, levels, strict=True)):
        if size:
            values = values.index_select(0, level.parents).mul_(probs[size - 1].index_select(0, level.tokens))
        if not len(total):
            continue
        first, second = level.endings
        tails = probs[size].index_select(0, first).mul_(probs[size + 1].index_select(0, second))  # [P, n]
        if len(values) * len(tails) <= CROSS * len(total):
            total += (values @ tails.T)[level.nodes, level.pairs]
        else:
            total += values.index_select(0, level.nodes).mul_(tails.index_select(0, level.pairs)).sum(1)


def _careful(table: Tensor, gold: Tensor, length: Tensor) -> Tensor:
    """Return ln P^(w) [W] from sums of logarithms in float64."""
    found = []
    rows = max(1, 2**22 // table.shape[2])
    for words, sizes in zip(torch.split(gold, rows), torch.split(length, rows), strict=True):
        total = table.new_zeros(len(words), table.shape[2], dtype=torch.float64)
        for step in range(int(sizes.max()) if len(words) else 0):
            total += table[step, words[:, step]].double().where(step < sizes[:, None], 0)
        found.append(total.logsumexp(1) - log(table.shape[2]))
    return torch.cat(found)
