"""Divides the rows of a split into batches of rows or tokens, in order or shuffled."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from bench_core import Noise, Purpose, Size
from bench_text.ragged import Numbers

BATCHES_PER_POOL = 50  # whose rows are sorted by length


def grouped(
    lengths: Numbers, purpose: Purpose, size: Size, noise: Noise | None = None, openings: Numbers | None = None
) -> Iterator[Numbers]:
    """Yield the rows of each batch of an epoch, given the `lengths` [R] of all rows.

    Training batches with an rng are `bucketed`; others are `cut` from the rows in order, or `shuffled` by the rng.
    Given prompt lengths `openings` [R], all rows of a batch have prompts of equal length, and without an rng rows are
    sorted by prompt length.
    """
    if noise and purpose == Purpose.TRAIN:
        return bucketed(lengths, size, noise, openings)
    order = shuffled(len(lengths), noise)
    if openings is not None and noise is None:
        order = openings.argsort(kind="stable")
    return alike(cut(order, lengths[order], size), openings)


def alike(batches: Iterable[Numbers], openings: Numbers | None) -> Iterator[Numbers]:
    """Split batches where the prompt lengths `openings` [R] change; without `openings`, yield them unchanged."""
    for batch in batches:
        if openings is None:
            yield batch
        else:
            yield from np.split(batch, np.flatnonzero(np.diff(openings[batch])) + 1)


def bucketed(lengths: Numbers, size: Size, noise: Noise, openings: Numbers | None = None) -> Iterator[Numbers]:
    """Yield batches of random rows of similar length, in random order, given the `lengths` [R] of all rows.

    Given prompt lengths `openings` [R], all rows of a batch have prompts of equal length.
    """
    first = np.zeros_like(lengths) if openings is None else openings
    order = shuffled(len(lengths), noise.fork("rows"))
    usual = size.number if size.unit == "rows" else max(1, int(size.number / lengths.mean()))
    batches: list[Numbers] = []
    for start in range(0, len(order), BATCHES_PER_POOL * usual):
        pool = order[start : start + BATCHES_PER_POOL * usual]
        pool = pool[np.lexsort((lengths[pool], first[pool]))]
        batches += alike(cut(pool, lengths[pool], size), openings)
    return (batches[index] for index in shuffled(len(batches), noise.fork("batches")))


def cut(rows: Numbers, lengths: Numbers, size: Size) -> Iterator[Numbers]:
    """Split `rows` [M] with `lengths` [M] into batches of at most `size`; a size in tokens includes padding.

    A row that alone exceeds the size forms its own batch.
    """
    if size.unit == "rows":
        yield from (rows[start : start + size.number] for start in range(0, len(rows), size.number))
        return
    start, longest = 0, 0
    for index, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if index > start and (index + 1 - start) * longest > size.number:
            yield rows[start:index]
            start, longest = index, length
    if len(rows):
        yield rows[start:]


def shuffled(number: int, noise: Noise | None) -> Numbers:
    """Return a random permutation of 0, 1, ..., `number` - 1; without an rng, these numbers in order."""
    return noise.uniform(torch.arange(number)).argsort(stable=True).numpy() if noise else np.arange(number)


def evenly(places: Numbers, most: int) -> Numbers:
    """Select `most` evenly spaced elements of `places` [M], M >= `most`."""
    return places[np.arange(most) * len(places) // most]
