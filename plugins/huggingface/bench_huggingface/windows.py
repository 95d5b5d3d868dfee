"""Texts that are longer than a model's positions, scored in windows of which each token is in one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from bench_core import Batch


@dataclass(frozen=True)
class Window:
    """Some tokens of a target and all that is read before them."""

    row: int
    begin: int  # the place in the target of the first token
    read: list[int]  # in the numbers of the model
    scored: list[int]  # in ours


def windows(batch: Batch, positions: int, stride: int, own: Callable[[list[int]], list[int]]) -> Iterator[Window]:
    """Yield the windows of each row, one if it fits into the positions of a model that does not read the last token.

    Window w reads up to `positions` tokens of prompt and target, from token w * stride on. A token is scored in the
    first window that has it, after at least positions - stride + 1 others except in the first window.
    """
    assert batch.source is not None
    assert batch.source_length is not None
    rows = zip(
        batch.source.tolist(), batch.source_length.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True
    )
    for row, (source, before, gold, length) in enumerate(rows):
        text = [*source[:before], *own(gold[:length])]

        def first(place: int, before: int = before) -> int:
            return max(0, -((positions - before - place) // stride)) * stride

        for start, places in groupby(range(length), first):
            begin, *rest = places
            yield Window(row, begin, text[start : before + begin], gold[begin : begin + len(rest) + 1])
