"""Splitting batches, and batching windows of a stream."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from bench_core.data import Batch


def side_by_side(batches: Iterator[Batch], most: int, alone: Callable[[], bool]) -> Iterator[Batch]:
    """Yield windows of a stream in batches of up to `most` rows if `alone()` is true; yield other batches unchanged.

    A model without memory scores windows independently, so windows can be batched.
    """
    waiting: list[Batch] = []
    for batch in batches:
        is_window = batch.continues and alone()
        fits = waiting and is_window and waiting[0].gold.shape[1] == batch.gold.shape[1]
        if waiting and not (fits and sum(map(len, waiting)) + len(batch) <= most):
            yield _concatenate(waiting)
            waiting = []
        if is_window:
            waiting.append(batch)
        else:
            yield batch
    if waiting:
        yield _concatenate(waiting)


def _concatenate(batches: list[Batch]) -> Batch:
    """Concatenate batches of the same shape into a batch that does not continue another batch."""
    columns = iter([*zip(*map(_tensors, batches), strict=True)])
    return replace(batches[0].change(lambda _: torch.cat(next(columns))), continues=False)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []

    def collect(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    batch.change(collect)
    return tensors


def split(batch: Batch, most: int) -> Iterator[Batch]:
    """Split a batch into parts of at most `most` rows."""
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    yield from map(batch.select, torch.split(rows, most))


def rows(batch: Batch) -> tuple[list[int], list[list[int]]]:
    """Return the ids and targets of the rows."""
    lengths = batch.length.tolist()
    return batch.ids.tolist(), [row[:length] for row, length in zip(batch.gold.tolist(), lengths, strict=True)]
