"""Windows for scoring texts that are longer than a model's positions; each token is scored once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from bench_core import Batch


@dataclass(frozen=True)
class Window:
    """Scored tokens of a target and their context."""

    row: int
    begin: int  # index of the first scored token in the target
    read: list[int]  # input tokens, in the model's numbers
    scored: list[int]  # scored tokens, in the numbers of actions


def windows(batch: Batch, positions: int, stride: int, swap: Callable[[list[int]], list[int]]) -> Iterator[Window]:
    """Yield the windows of each row; a single one if all tokens except the last, which is not an input, fit.

    Window w reads up to `positions` tokens of prompt and target, from token w * stride on. A token is scored in the
    first window that contains it, after at least positions - stride + 1 others except in the first window.
    """
    assert batch.source is not None
    assert batch.source_length is not None
    rows = zip(
        batch.source.tolist(), batch.source_length.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True
    )
    for row, (source, before, gold, length) in enumerate(rows):
        text = [*source[:before], *swap(gold[:length])]

        def first(place: int, before: int = before) -> int:
            return max(0, -((positions - before - place) // stride)) * stride

        for start, places in groupby(range(length), first):
            begin, *rest = places
            yield Window(row, begin, text[start : before + begin], gold[begin : begin + len(rest) + 1])
