"""Divides the rows of a split into batches of rows or tokens, in order or shuffled."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from bench_core import Purpose, Rng, Size
from bench_text.ragged import Numbers

BATCHES_PER_POOL = 50  # number of batches whose rows are sorted by length together


def grouped(
    lengths: Numbers, purpose: Purpose, size: Size, rng: Rng | None = None, prompts: Numbers | None = None
) -> Iterator[Numbers]:
    """Yield the rows of each batch of an epoch, given the `lengths` [R] of all rows.

    Training batches with an rng are `bucketed`; others are `cut` from the rows in order, or `shuffled` by the rng.
    Given prompt lengths `prompts` [R], all rows of a batch have prompts of equal length, and without an rng rows are
    sorted by prompt length.
    """
    if rng and purpose == Purpose.TRAIN:
        return bucketed(lengths, size, rng, prompts)
    order = shuffled(len(lengths), rng)
    if prompts is not None and rng is None:
        order = prompts.argsort(kind="stable")
    return alike(cut(order, lengths[order], size), prompts)


def alike(batches: Iterable[Numbers], prompts: Numbers | None) -> Iterator[Numbers]:
    """Split batches where the prompt lengths `prompts` [R] change; without `prompts`, yield them unchanged."""
    for batch in batches:
        if prompts is None:
            yield batch
        else:
            yield from np.split(batch, np.flatnonzero(np.diff(prompts[batch])) + 1)


def bucketed(lengths: Numbers, size: Size, rng: Rng, prompts: Numbers | None = None) -> Iterator[Numbers]:
    """Yield batches of random rows of similar length, in random order, given the `lengths` [R] of all rows.

    Given prompt lengths `prompts` [R], all rows of a batch have prompts of equal length.
    """
    first = np.zeros_like(lengths) if prompts is None else prompts
    order = shuffled(len(lengths), rng.fork("rows"))
    usual = size.number if size.unit == "rows" else max(1, int(size.number / lengths.mean()))
    batches: list[Numbers] = []
    for start in range(0, len(order), BATCHES_PER_POOL * usual):
        pool = order[start : start + BATCHES_PER_POOL * usual]
        pool = pool[np.lexsort((lengths[pool], first[pool]))]
        batches += alike(cut(pool, lengths[pool], size), prompts)
    return (batches[index] for index in shuffled(len(batches), rng.fork("batches")))


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


def shuffled(number: int, rng: Rng | None) -> Numbers:
    """Return a random permutation of 0, 1, ..., `number` - 1; without an rng, these numbers in order."""
    return rng.uniform(torch.arange(number)).argsort(stable=True).numpy() if rng else np.arange(number)


def evenly(places: Numbers, most: int) -> Numbers:
    """Select `most` evenly spaced elements of `places` [M], M >= `most`."""
    return places[np.arange(most) * len(places) // most]
