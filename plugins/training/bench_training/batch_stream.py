"""Brings batches to a device: parts of them, from a thread that reads ahead, from memory that a GPU copies from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from bench_core.data import Batch

AHEAD = 4  #: batches that are read before they are needed, on a GPU


def parts_of(batch: Batch, number: int) -> list[Batch]:
    """Return a batch in consecutive parts of about as many rows, fewer where it has fewer rows than `number`."""
    if number == 1:
        return [batch]
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    return [batch.select(some) for some in torch.tensor_split(rows, number) if len(some)]


def share_of(batch: Batch, number: int, of: int) -> Batch | None:
    """Return the part of a batch that belongs to one of several processes; None if it has no rows."""
    if of == 1:
        return batch
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    own = torch.tensor_split(rows, of)[number]
    return batch.select(own) if len(own) else None


def pinned(batch: Batch) -> Batch:
    """Return a batch in memory that a GPU copies from by itself; as it is where there is none."""
    try:
        return batch.change(Tensor.pin_memory)
    except RuntimeError:  # no GPU, but a pretended one
        return batch


def read_ahead(
    batches: Iterator[Any], prepare: Callable[[Any], Any] = lambda one: one, lock: Lock | None = None
) -> Iterator[Any]:
    """Yield what an iterator yields, prepared by a thread that is up to AHEAD items in advance, and one at work.

    The iterator is advanced under the lock, so that nobody who holds it meets the thread in the same task. An error
    of the iterator is raised where its item would have come. The thread ends with the generator.
    """
    lock, over = lock or Lock(), object()

    def read() -> Any:
        with lock:
            one = next(batches, over)
        return one if one is over else prepare(one)

    with ThreadPoolExecutor(1, "batches") as thread:
        due = deque(thread.submit(read) for _ in range(AHEAD + 1))
        try:
            while (one := due.popleft().result()) is not over:
                due.append(thread.submit(read))
                yield one
        finally:
            thread.shutdown(cancel_futures=True)


def with_last(batches: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield items, each with whether it is the last."""
    for one in batches:
        for following in batches:
            yield one, False
            one = following
        yield one, True
