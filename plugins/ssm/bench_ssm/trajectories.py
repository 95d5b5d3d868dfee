"""P(w) as a mean over shared trajectories: P^(w) = 1/N sum_n prod_t P(w_t | h_t^n).

Sorted targets form a trie, whose nodes are prefixes of targets. The probabilities of a node [N] are its parent's
times its token's, computed for as many trajectories at a time as fit into a CPU's cache. The last two tokens of
targets are handled separately, as they form few distinct pairs (the last is EOS): the sum over trajectories is a
matrix product of nodes and pairs if most nodes of a level continue with most pairs, else a sum for each target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import torch
from torch import Tensor
from torch.nn.functional import pad

TRIE_TARGETS = 4096  # maximum number of targets in a trie
CPU_PRODUCTS = 2**19  # products of a level computed at a time on a CPU: 2 MiB in float32
CROSS_RATIO = 8  # maximum ratio of computed to needed products if all nodes are multiplied by all pairs


@dataclass(frozen=True)
class TrieLevel:
    """The nodes of a trie at one depth, and the targets that end within two more tokens."""

    parents: Tensor  # [M] index of each node's parent in the previous level
    tokens: Tensor  # [M] last token of each node
    rows: Tensor  # [E] indices of these targets
    nodes: Tensor  # [E] index of the node that each target continues
    endings: tuple[Tensor, Tensor]  # [P] distinct pairs of the last two tokens of targets
    pairs: Tensor  # [E] index of each target's pair


def log_means(table: Tensor, gold: Tensor, length: Tensor, parts: Sequence[tuple[int, int]]) -> Tensor:
    """Return ln P^(w) [P, W] in float64 for each of `parts`, which are ranges [start, end) of trajectories.

    `table` [T, V, N] has the log-probability of every token at every step of every trajectory. Targets are rows of
    `gold` [W, T'], of which the first `length` [W] >= 1 tokens count. Sums that under- or overflow are recomputed in
    log space.
    """
    steps = int(length.max())
    number = table.shape[2]
    table, gold = table[:steps], gold[:, :steps]
    words, place = torch.unique(torch.cat([gold, length[:, None]], 1), dim=0, return_inverse=True)
    gold, length = words[:, :-1], words[:, -1]
    mean = table.logsumexp(2) - log(number)  # [T, V]; products relative to it rarely under- or overflow
    probs = pad((table - mean[:, :, None]).exp(), (0, 0, 0, 1, 0, 1), value=1.0)  # [T + 1, V + 1, N]
    blocks = zip(torch.split(gold, TRIE_TARGETS), torch.split(length, TRIE_TARGETS), strict=True)
    sums = torch.cat([_sums(probs, *block, parts) for block in blocks])
    real = torch.arange(steps, device=gold.device) < length[:, None]
    usual = mean.double()[torch.arange(steps, device=gold.device), gold].where(real, 0).sum(1)  # [W]
    results = []
    for total, (start, end) in zip(sums.unbind(1), parts, strict=True):
        means = total.log() + usual - log(end - start)
        least = number * torch.finfo(table.dtype).tiny / torch.finfo(table.dtype).eps
        doubtful = (~((total > least) & (total < torch.inf))).nonzero()[:, 0]
        means[doubtful] = _in_log_space(table[:, :, start:end], gold[doubtful], length[doubtful])
        results.append(means[place])
    return torch.stack(results)


def _sums(probs: Tensor, gold: Tensor, length: Tensor, parts: Sequence[tuple[int, int]]) -> Tensor:
    """Return the products of sorted targets, summed over each part of the trajectories [W, P]."""
    levels = list(_trie(gold, length, probs.shape[1] - 1))
    most = max(len(level.tokens) for level in levels)
    size = max(16, CPU_PRODUCTS // most) if probs.device.type == "cpu" else max(16, 2**27 // most)
    edges = sorted({edge for part in parts for edge in part})
    pieces = list(pairwise(edges))
    totals = [probs.new_zeros(len(pieces), len(level.rows), dtype=torch.float64) for level in levels]
    for piece, (start, end) in enumerate(pieces):
        for first in range(start, end, size):
            _add([sums[piece] for sums in totals], levels, probs[:, :, first : min(first + size, end)])
    rows = torch.cat([level.rows for level in levels])
    sums = torch.cat(totals, 1)[:, rows.argsort()]  # [pieces, W]
    within = [[start <= first and last <= end for first, last in pieces] for start, end in parts]
    return torch.stack([sums[torch.tensor(each, device=sums.device)].sum(0) for each in within], 1)


def _trie(gold: Tensor, length: Tensor, none: int) -> Iterator[TrieLevel]:
    """Yield the levels of sorted targets; a target of one token ends with the pair of this token and `none`."""
    alive = torch.arange(len(gold), device=gold.device)  # indices of the targets that reach the level
    node = torch.zeros_like(alive)  # index of each target's node
    for size in range(max(1, gold.shape[1] - 1)):
        if size:
            longer = length[alive] > size + 1
            alive, node = alive[longer], node[longer]
            if not len(alive):
                return
            prefixes = gold[alive, :size]
            new = pad((prefixes[1:] != prefixes[:-1]).any(1), (1, 0), value=True)
            parents, tokens, node = node[new], prefixes[new, -1], new.cumsum(0) - 1
        else:
            parents, tokens = node[:1], node[:1]  # unused: the root has neither
        ending = length[alive] <= size + 2
        rows = alive[ending]
        last = gold[rows, size]
        after = (
            gold[rows, size + 1].where(length[rows] > size + 1, none)
            if gold.shape[1] > 1
            else last.new_full(last.shape, none)
        )
        pairs, pair = torch.unique(last * (none + 1) + after, return_inverse=True)
        yield TrieLevel(parents, tokens, rows, node[ending], (pairs // (none + 1), pairs % (none + 1)), pair)


def _add(sums: list[Tensor], levels: list[TrieLevel], probs: Tensor) -> None:
    """Add the products over n trajectories to each level's sums [E]; `probs` [T + 1, V + 1, n] are probabilities."""
    values = probs[-1, -1:]  # [1, n] ones, for the root
    for size, (total, level) in enumerate(zip(sums, levels, strict=True)):
        if size:
            values = values.index_select(0, level.parents).mul_(probs[size - 1].index_select(0, level.tokens))
        if not len(total):
            continue
        first, second = level.endings
        tails = probs[size].index_select(0, first).mul_(probs[size + 1].index_select(0, second))  # [P, n]
        if len(values) * len(tails) <= CROSS_RATIO * len(total):
            total += (values @ tails.T)[level.nodes, level.pairs]
        else:
            total += values.index_select(0, level.nodes).mul_(tails.index_select(0, level.pairs)).sum(1)


def _in_log_space(table: Tensor, gold: Tensor, length: Tensor) -> Tensor:
    """Return ln P^(w) [W], computed from sums of log-probabilities in float64."""
    results = []
    rows = max(1, 2**22 // table.shape[2])
    for words, sizes in zip(torch.split(gold, rows), torch.split(length, rows), strict=True):
        total = table.new_zeros(len(words), table.shape[2], dtype=torch.float64)
        for step in range(int(sizes.max()) if len(words) else 0):
            total += table[step, words[:, step]].double().where(step < sizes[:, None], 0)
        results.append(total.logsumexp(1) - log(table.shape[2]))
    return torch.cat(results)
