"""Counts the examples of a task that are repeated in a split, or shared with an earlier one."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.data import Batch, Purpose
from bench_core.task import Size, Split

Row: TypeAlias = tuple[bytes, bytes, bytes]  # opening, target, source

SPLITS = ("train", "valid", "test")
TOGETHER = 512  #: rows that are read at a time
FIRST = 3  #: batches that tell whether a split is a stream


def overlap(
    task: CheckedTask, splits: Sequence[Split] = SPLITS, base: CheckedTask | None = None
) -> dict[str, dict[str, int]]:
    """Return the numbers of examples of each split: all, those that are repeated, and those shared with `train`.

    The latter is that of `base`, if there is one. `chosen_by` counts those of other splits that are in `valid`, by
    which checkpoints and settings are selected; it is left out if it is 0. Streams, and splits that cannot be read,
    have no entry.
    """
    train, found = {*_hashes(base, "train")} if base else set[int](), dict[str, dict[str, int]]()
    valid = set[int]()
    for split in splits:
        if rows := _hashes(task, split):
            repeated, shared = len(rows) - len({*rows}), sum(row in train for row in rows)
            found[split] = {"examples": len(rows), "repeated": repeated, "shared": shared if split != "train" else 0}
            if split != "train" and (chosen := sum(row in valid for row in rows)):
                found[split]["chosen_by"] = chosen
            train = {*rows} if split == "train" else train
            valid = {*rows} if split == "valid" else valid
    return found


def _hashes(task: CheckedTask, split: Split) -> list[int]:
    rows = list[int]()
    with suppress(Exception):  # the stage that needs the split will name the error
        rows += map(hash, _rows_of(task, split))
    return rows


def _rows_of(task: CheckedTask, split: str) -> Iterator[Row]:
    kinds = task.config.purposes(split)
    purpose = next((one for one in (Purpose.SCORE, Purpose.DECODE, Purpose.TRAIN) if one in kinds), None)
    if purpose is not None and not is_stream(task, split):
        for batch in task.batches(split, purpose, Size(TOGETHER)):
            yield from rows_by_id(batch).values()


def is_stream(task: CheckedTask, split: str) -> bool:
    """Return whether the rows of a split are windows of a stream; False if it cannot be read."""
    with suppress(Exception):
        first = (islice(task.batches(split, one, Size(8)), FIRST) for one in task.config.purposes(split))
        return task.info.consecutive or any(batch.continues for batches in first for batch in batches)
    return False


def rows_by_id(batch: Batch) -> dict[int, Row]:
    """Return opening, target and source of each example of a batch in main memory, without padding."""
    source, ends, found = batch.source, batch.source_length, dict[int, Row]()
    sizes = [None] * len(batch) if ends is None else ends.tolist()
    columns = batch.ids.tolist(), batch.opening.numpy(), batch.gold.numpy(), batch.length.tolist(), sizes
    for place, (example, opening, gold, length, end) in enumerate(zip(*columns, strict=True)):
        given = b"" if source is None else source[place, :end].numpy().tobytes()
        found[example] = opening.tobytes(), gold[:length].tobytes(), given
    return found
