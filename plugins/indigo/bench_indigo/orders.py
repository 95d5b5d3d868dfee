"""Fixed generation orders for the rows of a batch.

An order is a tensor pi [N, T] of reading positions in generation order: pi[row, k] is the position of word k. Its
first n = length - 1 entries are a permutation of the row's n words; EOS is not a word, so EOS and padding keep
their positions. Names and definitions follow Gu et al. (2019), plus `blt-strict`, which splits down to single words,
and `given`, an order provided by the task, which `given-reversed` reverses.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeAlias, get_args

import torch
from torch import Tensor

from bench_core import Batch, DataError, Rng, SuiteError, TaskInfo
from bench_indigo.plugin import FixedOrder

Ordering: TypeAlias = Callable[[Batch, Rng], Tensor]  # -> pi [N, T]

PADDING = -1  #: in `heads` and `order`: padding, not a word
CONTINUES = -2  #: in `heads`: another piece of the preceding word

_PARSED = (
    "Give the dependency heads of the target as batch.extras['heads']. The task `translation` provides them with "
    "`parse:`, such as {kind: spacy, pipeline: en_core_web_sm}, {kind: conllu, train: FILE} or, if no parser is "
    "available, {kind: train, treebank: ud-english-ewt}."
)


def make_order(order: FixedOrder, info: TaskInfo) -> Ordering:
    """Return the function that orders batches; raise SuiteError for an unknown name or missing counts."""
    if order in ("cf", "rf"):
        return _by_frequency(common(info), first=order == "cf")
    if order not in _ORDERINGS:
        raise SuiteError(f"{order!r} is not a fixed order. Choose one of: {', '.join(get_args(FixedOrder))}.")
    return _ORDERINGS[order]


def check_order(pi: Tensor, batch: Batch) -> Tensor:
    """Return `pi` [N, T]; raise DataError naming the first row that is not a permutation of its words."""
    places = _places(batch)
    words = places < _words(batch)
    wrong = ((pi.sort(1).values != places) | ((pi != places) & ~words)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        number = int(batch.length[row]) - 1
        raise DataError(
            f"the order of example {int(batch.ids[row])}, {pi[row, :number].tolist()}, is not a permutation of its "
            f"{number} words: each position from 0 to {number - 1} must occur exactly once."
        )
    return pi


def common(info: TaskInfo) -> Tensor:
    """Return which tokens are common [V]: the smallest set of types that covers half of the training tokens."""
    if not info.counts:
        raise SuiteError("the orders cf and rf need training token counts, which this task lacks. Change `order`.")
    counts = torch.tensor(info.counts)
    counts[0] = 0  # EOS is not a word
    ranked, tokens = counts.sort(descending=True, stable=True)
    needed = 2 * (ranked.cumsum(0) - ranked) < counts.sum()
    return torch.zeros(len(counts), dtype=torch.bool).scatter(0, tokens, needed)


def _places(batch: Batch) -> Tensor:
    """Return 0, 1, ... for each row [N, T]."""
    return torch.arange(batch.gold.shape[1], device=batch.gold.device).expand_as(batch.gold)


def _words(batch: Batch) -> Tensor:
    """Return the number of words of each row [N, 1]."""
    return batch.length[:, None] - 1


def _sort_words(keys: Tensor, batch: Batch) -> Tensor:
    """Sort words by ascending keys [N, T], and ties from left to right; EOS and padding come last."""
    words = _places(batch) < _words(batch)
    last = torch.inf if keys.is_floating_point() else torch.iinfo(keys.dtype).max
    return keys.masked_fill(~words, last).argsort(dim=1, stable=True)


def _left_to_right(batch: Batch, rng: Rng) -> Tensor:
    return _places(batch).clone()


def _right_to_left(batch: Batch, rng: Rng) -> Tensor:
    return _sort_words(-_places(batch), batch)


def _odd(batch: Batch, rng: Rng) -> Tensor:
    """Order the first, third, fifth, ... words first, then the others."""
    return _sort_words(_places(batch) % 2, batch)


def _balanced_tree(batch: Batch, rng: Rng, strict: bool = False) -> Tensor:
    """Order the middle word first, then the middles of its left and right parts, level by level."""
    width = batch.gold.shape[1]
    rows = [[*_balanced_order(length - 1, strict), *range(length - 1, width)] for length in batch.length.tolist()]
    return torch.tensor(rows, device=batch.gold.device).view_as(batch.gold)


@cache
def _balanced_order(number: int, strict: bool) -> tuple[int, ...]:
    """Return the balanced order of `number` words; pairs are split only if `strict`."""
    order: list[int] = []
    queue = [range(number)]
    for segment in queue:  # grows in the loop
        if len(segment) <= (0 if strict else 2):
            order += segment
            continue
        middle = len(segment) // 2
        order.append(segment[middle])
        queue += [segment[:middle], segment[middle + 1 :]]
    return tuple(order)


def _by_frequency(common: Tensor, first: bool) -> Ordering:
    """Order the common tokens (if not `first`, the other tokens) from left to right, then the rest."""

    def order(batch: Batch, rng: Rng) -> Tensor:
        is_common = common.to(batch.gold.device)[batch.gold]
        return _sort_words((is_common ^ first).long(), batch)

    return order


def _random(batch: Batch, rng: Rng) -> Tensor:
    """Sample a new order for each example and step."""
    return _sort_words(rng.fork("order").uniform(batch.ids, 0, batch.gold.shape[1]), batch)


def _from_task(batch: Batch, rng: Rng) -> Tensor:
    """Return the task's order, from extras["order"] [N, T], in which -1 marks positions without a word."""
    if "order" not in batch.extras:
        raise SuiteError("the order `given` needs batch.extras['order'], which this task lacks. Change `order`.")
    given = batch.extras["order"]
    places = _places(batch)
    return check_order(torch.where((places >= _words(batch)) & (given == PADDING), places, given), batch)


def _reversed_from_task(batch: Batch, rng: Rng) -> Tensor:
    """Return the task's order backwards."""
    return _sort_words(-_from_task(batch, rng).argsort(1), batch)


def _syntactic(batch: Batch, rng: Rng) -> Tensor:
    """Walk the dependency trees breadth-first, one after the other, children from left to right.

    For the first token of each word, extras["heads"] [N, T] is the position of its head's first token, or its own
    position if it is a root; it is CONTINUES for other tokens of the word, and PADDING elsewhere. Raises SuiteError
    without heads, and DataError if heads do not form trees.
    """
    if "heads" not in batch.extras:
        raise SuiteError(f"the order syn needs dependency heads. {_PARSED}")
    heads, places = batch.extras["heads"], _places(batch)
    _check_heads(heads, batch)
    starts = heads >= 0
    above = torch.where(starts, heads, places)  # [N, T] the head of each word
    root, depth = _climb(above, batch)
    rank = places  # rank among the words of the same depth
    for level in range(1, int(depth.amax()) + 1):
        keys = rank.gather(1, above) * places.shape[1] + places
        keys = keys.masked_fill(depth != level, torch.iinfo(keys.dtype).max)
        rank = torch.where(depth == level, keys.argsort(dim=1, stable=True).argsort(1), rank)
    width = places.shape[1] + 1
    keys = (root * width + depth) * width + rank
    first = torch.where(starts, places, 0).cummax(1).values  # first token of each token's word
    return _sort_words(keys.gather(1, first), batch)


def _climb(above: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the root and depth of each word [N, T]; raise DataError if a word has no root."""
    at, depth = above, (above != _places(batch)).long()
    for _ in range(above.shape[1].bit_length()):  # path doubling
        at, depth = at.gather(1, at), depth + depth.gather(1, at)
    endless = above.gather(1, at) != at
    if endless.any():
        row, place = endless.nonzero()[0].tolist()
        raise DataError(
            f"the heads of example {int(batch.ids[row])} form a cycle: the word at token {place} has no root. "
            "A root is its own head."
        )
    return at, depth


def _check_heads(heads: Tensor, batch: Batch) -> None:
    """Raise DataError naming the first token with an invalid head."""
    if heads.shape != batch.gold.shape:
        raise DataError(f"heads have shape {[*heads.shape]}, targets {[*batch.gold.shape]}: give one head per token.")
    places, number = _places(batch), _words(batch)
    words = places < number
    first = heads.gather(1, heads.clamp(0, heads.shape[1] - 1)) >= 0  # whether each head begins a word
    known = torch.where(heads >= 0, (heads < number) & first, (heads == CONTINUES) & (places > 0))
    wrong = torch.where(words, ~known, heads != PADDING)
    if wrong.any():
        row, place = wrong.nonzero()[0].tolist()
        raise DataError(
            f"example {int(batch.ids[row])}: token {place} has the invalid head {int(heads[row, place])}; the target "
            f"has {int(number[row])} tokens. The head of a word's first token is the position of the first token of "
            f"the word's head, or its own if it is a root; other tokens are {CONTINUES}, and padding is {PADDING}."
        )


_ORDERINGS: Mapping[str, Ordering] = {
    "l2r": _left_to_right,
    "r2l": _right_to_left,
    "odd": _odd,
    "blt": _balanced_tree,
    "blt-strict": partial(_balanced_tree, strict=True),
    "syn": _syntactic,
    "rnd": _random,
    "given": _from_task,
    "given-reversed": _reversed_from_task,
}
