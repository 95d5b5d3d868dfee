"""Fixed generation orders, for the rows of a batch.

An order is a tensor pi [N, T] of reading positions, in the order in which their words are generated: pi[row, k] is
the place of the word that comes as number k. Its first n = length - 1 entries are a permutation of the n words of
the row; stop is no word, so it and the padding stay where they are. The names and what they mean are those of Gu et
al. (2019), with `blt-strict`, which splits down to single words, and `given`, which a task decides.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeAlias, get_args

import torch
from torch import Tensor

from bench_core import Batch, DataError, Noise, SuiteError, TaskInfo
from bench_indigo.plugin import Known

Ordering: TypeAlias = Callable[[Batch, Noise], Tensor]  # -> pi [N, T]

PADDING = -1  #: in `heads` and `order`, where there is no word
CONTINUES = -2  #: in `heads`, a later piece of the word before it

_PARSED = (
    "Give the dependency heads of the target as batch.extras['heads']; the task `translation` does with `parse:`, "
    "such as {kind: spacy, pipeline: en_core_web_sm}, {kind: conllu, train: FILE} or, where there is no parser yet, "
    "{kind: train, treebank: ud-english-ewt}."
)


def make_order(order: Known, info: TaskInfo) -> Ordering:
    """Return what orders batches of a task; raise SuiteError where its facts or the name do not allow that."""
    if order in ("cf", "rf"):
        return _by_frequency(common(info), first=order == "cf")
    if order not in _ORDERINGS:
        raise SuiteError(f"{order!r} is no order that is known beforehand. Those are: {', '.join(get_args(Known))}.")
    return _ORDERINGS[order]


def checked(pi: Tensor, batch: Batch) -> Tensor:
    """Return `pi` [N, T]; raise DataError that names the first row of which it does not permute the words."""
    places = _places(batch)
    words = places < _words(batch)
    wrong = ((pi.sort(1).values != places) | ((pi != places) & ~words)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        number = int(batch.length[row]) - 1
        raise DataError(
            f"the order of example {int(batch.ids[row])}, {pi[row, :number].tolist()}, is no permutation of its "
            f"{number} words: each place from 0 to {number - 1} must stand there once."
        )
    return pi


def common(info: TaskInfo) -> Tensor:
    """Return which tokens of the vocabulary are common [V]: the fewest that are half of all that is trained on."""
    if not info.counts:
        raise SuiteError("the orders cf and rf need counts of the training tokens, which this task does not give.")
    counts = torch.tensor(info.counts)
    counts[0] = 0  # stop is no word
    ranked, tokens = counts.sort(descending=True, stable=True)
    needed = 2 * (ranked.cumsum(0) - ranked) < counts.sum()
    return torch.zeros(len(counts), dtype=torch.bool).scatter(0, tokens, needed)


def _places(batch: Batch) -> Tensor:
    """Return 0, 1, ... for each row [N, T]."""
    return torch.arange(batch.gold.shape[1], device=batch.gold.device).expand_as(batch.gold)


def _words(batch: Batch) -> Tensor:
    """Return the number of words of each row [N, 1]."""
    return batch.length[:, None] - 1


def _sorted(keys: Tensor, batch: Batch) -> Tensor:
    """Return the words by ascending keys [N, T], those of like keys left to right, and then what is no word."""
    words = _places(batch) < _words(batch)
    last = torch.inf if keys.is_floating_point() else torch.iinfo(keys.dtype).max
    return keys.masked_fill(~words, last).argsort(dim=1, stable=True)


def _left_to_right(batch: Batch, noise: Noise) -> Tensor:
    return _places(batch).clone()


def _right_to_left(batch: Batch, noise: Noise) -> Tensor:
    return _sorted(-_places(batch), batch)


def _odd(batch: Batch, noise: Noise) -> Tensor:
    """Take the first, third, fifth word and so on, then the others."""
    return _sorted(_places(batch) % 2, batch)


def _balanced(batch: Batch, noise: Noise, strict: bool = False) -> Tensor:
    """Take the middle of all, then the middle of what is left and right of it, level by level."""
    width = batch.gold.shape[1]
    rows = [[*_halved(length - 1, strict), *range(length - 1, width)] for length in batch.length.tolist()]
    return torch.tensor(rows, device=batch.gold.device).view_as(batch.gold)


@cache
def _halved(number: int, strict: bool) -> tuple[int, ...]:
    """Return the balanced order of so many words; two that are left are not split unless `strict`."""
    order: list[int] = []
    queue = [range(number)]
    for segment in queue:  # which grows
        if len(segment) <= (0 if strict else 2):
            order += segment
            continue
        middle = len(segment) // 2
        order.append(segment[middle])
        queue += [segment[:middle], segment[middle + 1 :]]
    return tuple(order)


def _by_frequency(common: Tensor, first: bool) -> Ordering:
    """Take the common tokens, or else the others, from left to right, and then the rest."""

    def order(batch: Batch, noise: Noise) -> Tensor:
        found = common.to(batch.gold.device)[batch.gold]
        return _sorted((found ^ first).long(), batch)

    return order


def _random(batch: Batch, noise: Noise) -> Tensor:
    """Draw an order for each example and step anew."""
    return _sorted(noise.fork("order").uniform(batch.ids, 0, batch.gold.shape[1]), batch)


def _given(batch: Batch, noise: Noise) -> Tensor:
    """Take the order that the task gives as extras["order"] [N, T], -1 where there is no word."""
    if "order" not in batch.extras:
        raise SuiteError("the order `given` needs batch.extras['order'], which this task does not give.")
    given = batch.extras["order"]
    places = _places(batch)
    return checked(torch.where((places >= _words(batch)) & (given == PADDING), places, given), batch)


def _syntactic(batch: Batch, noise: Noise) -> Tensor:
    """Walk the dependency trees breadth first, one after the other, children from left to right.

    extras["heads"] [N, T] says for the first token of each word where the first token of its head is, itself at a
    root; CONTINUES for every other token of the word, and PADDING where there is none. Raises SuiteError without
    them and DataError where they are no trees.
    """
    if "heads" not in batch.extras:
        raise SuiteError(f"the order syn needs to know how words depend on each other. {_PARSED}")
    heads, places = batch.extras["heads"], _places(batch)
    _check_heads(heads, batch)
    starts = heads >= 0
    above = torch.where(starts, heads, places)  # [N, T] the head of each word
    root, depth = _climbed(above, batch)
    rank = places  # of a word among those as deep
    for level in range(1, int(depth.amax()) + 1):
        keys = rank.gather(1, above) * places.shape[1] + places
        keys = keys.masked_fill(depth != level, torch.iinfo(keys.dtype).max)
        rank = torch.where(depth == level, keys.argsort(dim=1, stable=True).argsort(1), rank)
    width = places.shape[1] + 1
    keys = (root * width + depth) * width + rank
    first = torch.where(starts, places, 0).cummax(1).values  # of each token's word
    return _sorted(keys.gather(1, first), batch)


def _climbed(above: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the root above each word and how deep the word is [N, T]; raise DataError if some lead to no root."""
    at, depth = above, (above != _places(batch)).long()
    for _ in range(above.shape[1].bit_length()):  # twice as far each time
        at, depth = at.gather(1, at), depth + depth.gather(1, at)
    endless = above.gather(1, at) != at
    if endless.any():
        row, place = endless.nonzero()[0].tolist()
        raise DataError(
            f"the heads of example {int(batch.ids[row])} go in a circle: above the word at token {place} there is no "
            "root. A root is its own head."
        )
    return at, depth


def _check_heads(heads: Tensor, batch: Batch) -> None:
    """Raise DataError that names the first token of which the head cannot be."""
    if heads.shape != batch.gold.shape:
        raise DataError(f"there are heads {[*heads.shape]} of targets {[*batch.gold.shape]}: give one a token.")
    places, number = _places(batch), _words(batch)
    words = places < number
    first = heads.gather(1, heads.clamp(0, heads.shape[1] - 1)) >= 0  # whether each head begins a word
    known = torch.where(heads >= 0, (heads < number) & first, (heads == CONTINUES) & (places > 0))
    wrong = torch.where(words, ~known, heads != PADDING)
    if wrong.any():
        row, place = wrong.nonzero()[0].tolist()
        raise DataError(
            f"the head of token {place} of example {int(batch.ids[row])} cannot be {int(heads[row, place])}: its "
            f"target has {int(number[row])} tokens. A word's first token has the place of its head's first token, or "
            f"its own at a root, each further token {CONTINUES}, and what is no word {PADDING}."
        )


_ORDERINGS: Mapping[str, Ordering] = {
    "l2r": _left_to_right,
    "r2l": _right_to_left,
    "odd": _odd,
    "blt": _balanced,
    "blt-strict": partial(_balanced, strict=True),
    "syn": _syntactic,
    "rnd": _random,
    "given": _given,
}
