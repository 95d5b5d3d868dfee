"""Counts of examples that are repeated in a split or shared with an earlier split."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.data import Batch, Purpose
from bench_core.task import Size, Split

Row: TypeAlias = tuple[bytes, bytes, bytes]  # prompt, target, source

SPLITS = ("train", "valid", "test")
BATCH_ROWS = 512
STREAM_BATCHES = 3  #: number of batches to read to detect a stream


def overlap(
    task: CheckedTask, splits: Sequence[Split] = SPLITS, base: CheckedTask | None = None
) -> dict[str, dict[str, int]]:
    """Return counts of examples of each split: all, repeated, and shared with `train` (of `base`, if given).

    `chosen_by` counts examples of other splits that are in `valid`, which selects checkpoints and settings; omitted
    if 0. Streams and unreadable splits have no entry.
    """
    train, counts = {*_hashes(base, "train")} if base else set[int](), dict[str, dict[str, int]]()
    valid = set[int]()
    for split in splits:
        if rows := _hashes(task, split):
            repeated, shared = len(rows) - len({*rows}), sum(row in train for row in rows)
            counts[split] = {"examples": len(rows), "repeated": repeated, "shared": shared if split != "train" else 0}
            if split != "train" and (chosen := sum(row in valid for row in rows)):
                counts[split]["chosen_by"] = chosen
            train = {*rows} if split == "train" else train
            valid = {*rows} if split == "valid" else valid
    return counts


def _hashes(task: CheckedTask, split: Split) -> list[int]:
    rows = list[int]()
    with suppress(Exception):  # the stage that needs the split will report the error
        rows += map(hash, _rows_of(task, split))
    return rows


def _rows_of(task: CheckedTask, split: str) -> Iterator[Row]:
    kinds = task.config.purposes(split)
    purpose = next((use for use in (Purpose.SCORE, Purpose.DECODE, Purpose.TRAIN) if use in kinds), None)
    if purpose is not None and not is_stream(task, split):
        for batch in task.batches(split, purpose, Size(BATCH_ROWS)):
            yield from rows_by_id(batch).values()


def is_stream(task: CheckedTask, split: str) -> bool:
    """Return whether the rows of a split are windows of a stream; False if the split cannot be read."""
    with suppress(Exception):
        epochs = (task.batches(split, purpose, Size(8)) for purpose in task.config.purposes(split))
        first = (batch for batches in epochs for batch in islice(batches, STREAM_BATCHES))
        return task.info.consecutive or any(batch.continues for batch in first)
    return False


def rows_by_id(batch: Batch) -> dict[int, Row]:
    """Return prompt, target and source of each example of a batch in host memory, without padding."""
    source, ends, by_id = batch.source, batch.source_length, dict[int, Row]()
    sizes = [None] * len(batch) if ends is None else ends.tolist()
    columns = batch.ids.tolist(), batch.prompt.numpy(), batch.gold.numpy(), batch.length.tolist(), sizes
    for place, (example, prompt, gold, length, end) in enumerate(zip(*columns, strict=True)):
        source_bytes = b"" if source is None else source[place, :end].numpy().tobytes()
        by_id[example] = prompt.tobytes(), gold[:length].tobytes(), source_bytes
    return by_id
