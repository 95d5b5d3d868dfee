"""Dependency heads of the words of a target, mapped to its tokens.

`Batch.extras["heads"]` [N, T] has the place of a head for the first token of each word: that of the first token of
the word above it, its own at a root. Every further token of a word has CONTINUES, stop and what pads have PADDING.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from bench_text.api import Encoder

PADDING, CONTINUES = -1, -2


def widths(lines: Sequence[str], encoder: Encoder, spaces: bool) -> Iterable[list[int]]:
    """Return how many tokens each word of each line has; `spaces` are tokens of the words after them."""
    types = sorted({word for line in lines for word in line.split()})
    known = {word: len(row) for word, row in zip(types, encoder.encode(types), strict=True)}
    return ([known[word] + (spaces and place > 0) for place, word in enumerate(line.split())] for line in lines)


def spread(heads: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Tell the tokens of a target, its stop included, what `heads` tells its words; a root is its own head."""
    starts = [0, *accumulate(widths)]
    rows = ([starts[head], *[CONTINUES] * (width - 1)] for head, width in zip(heads, widths, strict=True))
    return [head for row in rows for head in row] + [PADDING]
