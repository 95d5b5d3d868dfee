"""Selects the rows of a second look, isolates single rows, and replays them step by step."""

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

MAX_ROWS = 8  #: rows of a second look

Outputs: TypeAlias = Sequence[Sequence[Hypothesis]]  #: the hypotheses of each row


class Chosen:
    """The batch of a stage that contains the row with the lowest hash, with its results."""

    def __init__(self, salt: str) -> None:
        self.salt, self.least = crc32(salt.encode()), 1 << 64
        self.kept: tuple[Batch, Any] | None = None

    def offer(self, batch: Batch, results: Any) -> None:
        """Keep a batch and its results if one of its rows has the lowest hash so far."""
        least = min(map(self._rank, batch.ids.tolist()), default=self.least)
        if least < self.least and not batch.continues:
            self.least, self.kept = least, (batch, results)

    def rows(self, batch: Batch) -> list[int]:
        """Return the indices of the rows with the lowest hashes in a batch, ascending."""
        ids = batch.ids.tolist()
        return sorted(sorted(range(len(ids)), key=lambda row: self._rank(ids[row]))[:MAX_ROWS])

    def _rank(self, example: int) -> int:
        return (example + self.salt) * 0x9E3779B97F4A7C15 % (1 << 64)


def apart(batch: Batch, outputs: Outputs = ()) -> list[int]:
    """Return the rows to check alone: the shortest by source (or else output), and the longest by output."""
    firsts = [hypotheses[0] for hypotheses in outputs]
    lengths = [len(first.tokens) + (not first.finished) for first in firsts] or batch.length.tolist()
    sizes = lengths if batch.source_length is None else batch.source_length.tolist()
    rows = range(len(batch))
    return [*dict.fromkeys([min(rows, key=sizes.__getitem__), max(rows, key=lengths.__getitem__)])]


def one_row(batch: Batch, row: int) -> Batch:
    """Return a row as a batch of its own, without its padding in `batch`."""
    single = batch.select(torch.tensor([row], device=batch.ids.device))
    source = single.source
    if source is not None and single.source_length is not None:
        source = source[:, : int(single.source_length)]
    return replace(single, gold=single.gold[:, : int(single.length)], source=source)


def replay(
    model: Stepper[Any], batch: Batch, chain: Tensor, lengths: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Step along the actions `chain` [N, K], each row until EOS or for `lengths` steps [N], at least one step.

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


def pad(tokens: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Pad sequences with EOS to rows [N, T]; return them with their lengths [N], which include one EOS."""
    lengths = torch.tensor([len(sequence) + 1 for sequence in tokens])
    rows = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.long)
    for row, sequence in zip(rows, tokens, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return rows, lengths


@contextmanager
def float64() -> Iterator[None]:
    """Make float64 the default dtype in the block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def is_close(first: float, second: float, tolerance: float) -> bool:
    """Return whether two log-probabilities or scores are equal up to rounding."""
    if not (math.isfinite(first) and math.isfinite(second)):
        return first == second or (math.isnan(first) and math.isnan(second))
    return abs(first - second) <= tolerance * max(1.0, abs(first), abs(second))
