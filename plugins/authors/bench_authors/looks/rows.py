"""Rows that are looked at again: which ones, each alone, and step by step."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias
from zlib import crc32

import torch
from torch import Tensor

from bench_core.data import STOP, Batch, Hypothesis
from bench_core.model import Stepper

ROWS = 8  #: that are looked at again

Outputs: TypeAlias = Sequence[Sequence[Hypothesis]]  #: the hypotheses of each row


class Chosen:
    """The batch of a stage with the row of the lowest hash, and the results of this batch."""

    def __init__(self, salt: str) -> None:
        self.salt, self.least = crc32(salt.encode()), 1 << 64
        self.kept: tuple[Batch, Any] | None = None

    def offer(self, batch: Batch, found: Any) -> None:
        """Keep a batch with its results if one of its rows has the lowest hash so far."""
        least = min(map(self._rank, batch.ids.tolist()), default=self.least)
        if least < self.least and not batch.continues:
            self.least, self.kept = least, (batch, found)

    def rows(self, batch: Batch) -> list[int]:
        """Return the indices of the rows with the lowest hashes in a batch, ascending."""
        ids = batch.ids.tolist()
        return sorted(sorted(range(len(ids)), key=lambda row: self._rank(ids[row]))[:ROWS])

    def _rank(self, example: int) -> int:
        return (example + self.salt) * 0x9E3779B97F4A7C15 % (1 << 64)


def apart(some: Batch, found: Outputs = ()) -> list[int]:
    """Return the rows to be looked at alone: that with the shortest source or output, and that with the longest."""
    lengths = [len(own[0].tokens) + (not own[0].finished) for own in found] or some.length.tolist()
    sizes = lengths if some.source_length is None else some.source_length.tolist()
    rows = range(len(some))
    return [*dict.fromkeys([min(rows, key=sizes.__getitem__), max(rows, key=lengths.__getitem__)])]


def one_row(batch: Batch, row: int) -> Batch:
    """Return one row alone, without the padding that it had among the others."""
    one = batch.select(torch.tensor([row], device=batch.ids.device))
    source = one.source
    if source is not None and one.source_length is not None:
        source = source[:, : int(one.source_length)]
    return replace(one, gold=one.gold[:, : int(one.length)], source=source)


def replay(
    model: Stepper[Any], batch: Batch, chain: Tensor, lengths: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Step along `chain` [N, K], each row until its stop or for `lengths` steps [N], at least one.

    Yields rows [M], log-probabilities [M, A] and actions [M].
    """
    log_probs, state = model.start(batch)
    rows = torch.arange(len(chain), device=chain.device)
    for step in range(chain.shape[1]):
        actions = chain[rows, step]
        yield rows, log_probs, actions
        going = actions != STOP if lengths is None else (actions != STOP) & (step + 1 < lengths[rows])
        live = going.nonzero()[:, 0]
        if not len(live) or step + 1 == chain.shape[1]:
            return
        rows = rows[live]
        log_probs, state = model.step(state.select(live), actions[live])


def padded(tokens: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return sequences as rows [N, T] that end with EOS and are padded with it, and their lengths [N] with EOS."""
    lengths = torch.tensor([len(one) + 1 for one in tokens])
    rows = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.long)
    for row, one in zip(rows, tokens, strict=True):
        row[: len(one)] = torch.tensor(one, dtype=torch.long)
    return rows, lengths


@contextmanager
def float64() -> Iterator[None]:
    """Make float64 the default dtype of new tensors in the block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def is_close(one: float, other: float, room: float) -> bool:
    """Return whether two log-probabilities, or scores, are the same but for rounding."""
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return one == other or (math.isnan(one) and math.isnan(other))
    return abs(one - other) <= room * max(1.0, abs(one), abs(other))
