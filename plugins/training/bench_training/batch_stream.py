"""Prepares batches for a device: splits them, reads ahead in a thread, and pins memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from bench_core.data import Batch

MAX_BATCHES_AHEAD = 4  #: batches read ahead on a GPU


def parts_of(batch: Batch, number: int) -> list[Batch]:
    """Split a batch into up to `number` consecutive, nonempty parts with about equal numbers of rows."""
    if number == 1:
        return [batch]
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    return [batch.select(part) for part in torch.tensor_split(rows, number) if len(part)]


def share_of(batch: Batch, number: int, of: int) -> Batch | None:
    """Return the part of a batch for process `number` out of `of`; None if this part has no rows."""
    if of == 1:
        return batch
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    share = torch.tensor_split(rows, of)[number]
    return batch.select(share) if len(share) else None


def pin(batch: Batch) -> Batch:
    """Return a batch in pinned memory; unchanged without a GPU."""
    try:
        return batch.change(Tensor.pin_memory)
    except RuntimeError:  # the GPU is simulated
        return batch


def read_ahead(
    batches: Iterator[Any], prepare: Callable[[Any], Any] = lambda item: item, lock: Lock | None = None
) -> Iterator[Any]:
    """Yield items that a thread prepares in advance: up to MAX_BATCHES_AHEAD items, and the item in progress.

    The iterator is advanced under the lock; a caller holds the lock to use the same task without interference. If the
    iterator raises an error, it is raised in place of the item. The thread ends with the generator.
    """
    lock, end = lock or Lock(), object()

    def read() -> Any:
        with lock:
            item = next(batches, end)
        return item if item is end else prepare(item)

    with ThreadPoolExecutor(1, "batches") as thread:
        pending = deque(thread.submit(read) for _ in range(MAX_BATCHES_AHEAD + 1))
        try:
            while (item := pending.popleft().result()) is not end:
                pending.append(thread.submit(read))
                yield item
        finally:
            thread.shutdown(cancel_futures=True)


def with_last(batches: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield each item, and whether it is the last item."""
    for item in batches:
        for following in batches:
            yield item, False
            item = following
        yield item, True
