"""Bootstrap: scores of resampled examples of a cell, one by one, in groups or in blocks.

Cells with the same number of examples use the same resamples, so two cells of the same examples can be compared
replicate by replicate: the paired bootstrap (Efron and Tibshirani, 1993; Koehn, 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import zip_longest
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core.computing.block_length import block_length, contributions
from bench_core.computing.result_checks import gave, is_number, shown
from bench_core.metric import Additive, Metric, resample_table, table
from bench_core.storage.bootstrap_replicates import BLOCKS, DRAWS, Draws

AT_ONCE = 2**22  # counts of examples that are worked on at a time
KEPT = 2**25  # that are kept for the next cell


@dataclass(frozen=True)
class Replicates:
    """The scores of bootstrap samples, and of how many independent units these are."""

    draws: Draws  # [B, D], for each block length
    units: int  # examples, or groups of them; 0 of a whole population
    block: int = 1  # how many examples in a row depend on each other


def replicates(metric: Metric[Any], parts: Sequence[Any], groups: Sequence[int], consecutive: bool) -> Replicates:
    """Return replicates of the score of examples with statistics `parts`; none of a whole population.

    Groups, one number for each example, are drawn as wholes. Consecutive examples are drawn in blocks of several
    lengths, as it is not known yet which cells they will be compared with.
    """
    if metric.population == "whole" or not len(parts):
        return Replicates(np.zeros((0, DRAWS)), 0)
    names, places = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
    if len(names) < len(parts):
        return Replicates(draws(metric, parts, 1, places)[None], len(names))
    if not consecutive:
        return Replicates(draws(metric, parts)[None], len(parts))
    lengths = [length for length in BLOCKS if length == 1 or 8 * length <= len(parts)]
    found = np.stack([draws(metric, parts, length) for length in lengths])
    return Replicates(found, len(parts), block_length(contributions(metric, parts)))


def draws(
    metric: Metric[Any], parts: Sequence[Any], block: int = 1, places: NDArray[np.intp] | None = None
) -> NDArray[np.float64]:
    """Return the scores [D] of bootstrap samples of the examples, drawn in blocks, or by their `places` of groups."""
    resample, number = _resampling(metric, parts), len(parts) if places is None else int(places.max()) + 1
    counts = _kept if number * DRAWS <= KEPT else _counts
    grouped = (some if places is None else some[:, places] for some in counts(number, block))
    scores = [score for some in grouped for score in resample(some)]
    strange = [score for score in scores if not is_number(score)]
    if strange or len(scores) not in (0, DRAWS):
        what = shown(strange[0]) if strange else f"{len(scores)} scores"
        raise gave(metric, "resample", f"{what} for {DRAWS} samples", "it is one number each.")
    return np.array(scores, dtype=np.float64)


def _resampling(metric: Metric[Any], parts: Sequence[Any]) -> Callable[[NDArray[np.uint16]], list[float]]:
    """Return what scores resamples of the same parts, after one pass over them; sums use a table."""
    if isinstance(metric, Additive) and getattr(metric.resample, "__func__", None) is Additive.resample:
        return partial(resample_table, metric, table(metric, parts))
    return partial(metric.resample, parts if isinstance(parts, list) else [*parts])


def mark(ids: Iterable[int], groups: Sequence[int] = (), of: str = "") -> str:
    """Return an id that cells with comparable replicates share: of their examples (`of` some data) and groups."""
    digest = sha256(f"{DRAWS} {BLOCKS} {of} ".encode())
    for one, group in zip_longest(ids, groups):
        digest.update(f"{one} {group},".encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def _kept(examples: int, block: int) -> Sequence[NDArray[np.uint16]]:
    return list(_counts(examples, block))


def _counts(examples: int, block: int) -> Iterator[NDArray[np.uint16]]:
    """Yield how often each example is in each bootstrap sample [D, N], some samples at a time.

    Blocks wrap around at the end (the circular block bootstrap of Politis and Romano, 1992). The raw stream of the
    generator is the same in every release of numpy.
    """
    if not examples:
        return
    stream, number = np.random.PCG64(1), ceil(examples / block)
    rows = max(1, AT_ONCE // examples)
    for first in range(0, DRAWS, rows):
        some = min(rows, DRAWS - first)
        starts = (stream.random_raw(some * number) % np.uint64(examples)).astype(np.int64).reshape(some, number, 1)
        places = ((starts + np.arange(block)) % examples).reshape(some, -1)[:, :examples]
        places += examples * np.arange(some)[:, None]
        counts = np.bincount(places.reshape(-1), minlength=some * examples)
        yield counts.astype(np.uint16).reshape(some, examples)
