"""A task that yields batches within a time limit and only counts all later batches."""

import time
from collections.abc import Callable, Iterator
from math import prod

import torch

from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.data import Batch, Purpose
from bench_core.random_numbers import Rng
from bench_core.task import Size, Split

EXCERPT_SECONDS = 2.0  #: time for which batches are yielded


class Excerpt(CheckedTask):
    """Yields the batches of a split until the time limit, but at least one; counts the elements of all batches."""

    def __init__(
        self, task: CheckedTask, seconds: float = EXCERPT_SECONDS, rows: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:  # fmt: skip
        super().__init__(task.task, task.info)
        self.seconds = seconds  # wall-clock time for which batches are yielded
        self.rows = rows  # maximum number of rows per pass; None for all
        self.clock = clock  # clock that times the counting
        self.part = 1.0  # share of each batch's rows that is yielded
        self.yielded = self.all = 0  # numbers of elements
        self.counting = 0.0  # seconds spent on counting, on the clock

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        begun, seen, end = time.perf_counter(), 0, None
        for batch in super().batches(split, purpose, size, rng):
            if self.rows is not None and seen >= self.rows:
                break
            self.all += elements(batch)
            if end is None and seen and time.perf_counter() - begun >= self.seconds:
                end = self.clock()
            seen += len(batch)
            if end is None:
                part = share_of(batch, self.part)
                self.yielded += elements(part)
                yield part
        self.counting += 0.0 if end is None else self.clock() - end

    @property
    def share(self) -> float:
        """The share of elements that were yielded."""
        return self.yielded / self.all if self.all else 1.0


def share_of(batch: Batch, share: float) -> Batch:
    """Return the first rows of a batch: a share of its rows, but at least one."""
    number = max(1, round(len(batch) * share))
    return batch if number >= len(batch) else batch.select(torch.arange(number, device=batch.ids.device))


def elements(batch: Batch) -> int:
    """Return the number of target and source tokens including padding; cost is about proportional to it."""
    source = batch.source
    tokens = source is not None and not torch.is_floating_point(source)
    return batch.gold.numel() + (prod(source.shape) if source is not None and tokens else 0)
