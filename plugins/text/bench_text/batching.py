"""Divides the rows of a split into batches, in order or shuffled, by rows or by tokens."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from bench_core import Noise, Purpose, Size
from bench_text.ragged import Numbers

POOL = 50  # batches whose rows are sorted by length together


def grouped(
    lengths: Numbers, purpose: Purpose, size: Size, noise: Noise | None = None, openings: Numbers | None = None
) -> Iterator[Numbers]:
    """Yield the rows of each batch of an epoch, given the `lengths` [R] of all rows.

    Training batches with noise are `bucketed`; all others are `cut` from the rows in order, or `shuffled` by noise.
    Given the lengths of `openings` [R], the rows of a batch have equally long ones, and rows in order are sorted by
    these first.
    """
    if noise and purpose == Purpose.TRAIN:
        return bucketed(lengths, size, noise, openings)
    order = shuffled(len(lengths), noise)
    if openings is not None and noise is None:
        order = openings.argsort(kind="stable")
    return alike(cut(order, lengths[order], size), openings)


def alike(batches: Iterable[Numbers], openings: Numbers | None) -> Iterator[Numbers]:
    """Divide batches where the lengths of openings [R] change, if these are given."""
    for batch in batches:
        if openings is None:
            yield batch
        else:
            yield from np.split(batch, np.flatnonzero(np.diff(openings[batch])) + 1)


def bucketed(lengths: Numbers, size: Size, noise: Noise, openings: Numbers | None = None) -> Iterator[Numbers]:
    """Yield batches of random rows of similar length, in random order, given the `lengths` [R] of all rows.

    Given the lengths of `openings` [R], rows of a batch have equally long ones.
    """
    first = np.zeros_like(lengths) if openings is None else openings
    order = shuffled(len(lengths), noise.fork("rows"))
    usual = size.number if size.unit == "rows" else max(1, int(size.number / lengths.mean()))
    batches: list[Numbers] = []
    for start in range(0, len(order), POOL * usual):
        pool = order[start : start + POOL * usual]
        pool = pool[np.lexsort((lengths[pool], first[pool]))]
        batches += alike(cut(pool, lengths[pool], size), openings)
    return (batches[place] for place in shuffled(len(batches), noise.fork("batches")))


def cut(rows: Numbers, lengths: Numbers, size: Size) -> Iterator[Numbers]:
    """Cut `rows` [M] with `lengths` [M] into batches of at most `size`; one in tokens counts padding.

    A row that exceeds the size alone is a batch of its own.
    """
    if size.unit == "rows":
        yield from (rows[start : start + size.number] for start in range(0, len(rows), size.number))
        return
    start, longest = 0, 0
    for place, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if place > start and (place + 1 - start) * longest > size.number:
            yield rows[start:place]
            start, longest = place, length
    if len(rows):
        yield rows[start:]


def shuffled(number: int, noise: Noise | None) -> Numbers:
    """Return a random permutation of 0, 1, ..., `number` - 1; without noise, these numbers in order."""
    return noise.uniform(torch.arange(number)).argsort(stable=True).numpy() if noise else np.arange(number)


def evenly(places: Numbers, most: int) -> Numbers:
    """Return `most` of at least as many `places` [M], evenly spaced."""
    return places[np.arange(most) * len(places) // most]
