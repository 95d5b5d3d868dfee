"""Windows for scoring texts that exceed the positions of a model; each token is scored once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from bench_core import Batch


@dataclass(frozen=True)
class Window:
    """Tokens of a target to score, and their context."""

    row: int
    begin: int  # index of the first scored token in the target
    read: list[int]  # input tokens, as ids of the model
    scored: list[int]  # tokens to score, as actions


def windows(batch: Batch, positions: int, stride: int, swap: Callable[[list[int]], list[int]]) -> Iterator[Window]:
    """Yield the windows of each row; a single window if all input tokens fit (the last token is not an input).

    Window w reads up to `positions` tokens of prompt and target, from token w * stride on. A token is scored in the
    first window that predicts it; in every window except the first, it is preceded by at least positions - stride + 1
    tokens.
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
