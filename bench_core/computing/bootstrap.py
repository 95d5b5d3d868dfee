"""Bootstrap: scores of resampled examples of a cell.

Cells with the same number of examples use the same resamples, so two cells of the same examples can be compared
replicate by replicate: the paired bootstrap (Efron and Tibshirani, 1993; Koehn, 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core.computing.guards import gave, is_number, shown
from bench_core.metric import Additive, Metric, resample_table, table
from bench_core.storage.bootstrap_replicates import DRAWS, Draws

AT_ONCE = 2**22  # counts of examples that are worked on at a time
KEPT = 2**25  # that are kept for the next cell


def draws(metric: Metric[Any], parts: Sequence[Any], block: int = 1) -> Draws:
    """Return the scores of bootstrap samples of the examples with statistics `parts`, drawn in blocks."""
    counts, resample = _kept if len(parts) * DRAWS <= KEPT else _counts, _resampling(metric, parts)
    scores = [score for some in counts(len(parts), block) for score in resample(some)]
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


def mark(ids: Iterable[int], block: int, of: str = "") -> str:
    """Return an id that cells with comparable replicates share: of their examples (`of` some data) and the draws."""
    digest = sha256(f"{DRAWS} {block} [".encode())
    for place, one in enumerate(ids):
        digest.update(f", {one}".encode() if place else str(one).encode())
    digest.update(f"] {of}".encode())
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
