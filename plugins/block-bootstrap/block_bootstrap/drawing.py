"""How often each example is in each bootstrap sample, drawn individually or in blocks.

The same number of examples gives the same samples, so that two series of the same examples can be compared replicate
by replicate: the paired bootstrap (Efron and Tibshirani, 1993; Koehn, 2004).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import zip_longest
from math import ceil

import numpy as np
from numpy.typing import NDArray

from block_bootstrap.replicates_file import BLOCKS, REPLICATES

MAX_COUNTS = 2**22  # counts per batch
MAX_CACHED_COUNTS = 2**25  # per number of examples


def resamples(examples: int, block: int = 1) -> Iterable[NDArray[np.uint16]]:
    """Yield how often each example is in each bootstrap sample, [D, N], in batches of samples.

    Blocks of consecutive examples wrap around at the end (circular block bootstrap; Politis and Romano, 1992).
    """
    return _cached_counts(examples, block) if examples * REPLICATES <= MAX_CACHED_COUNTS else _counts(examples, block)


def mark(ids: Iterable[int], groups: Sequence[int] = (), of: str = "") -> str:
    """Return an id for examples `of` a data set, and their groups; equal ids mean comparable replicates."""
    digest = sha256(f"{REPLICATES} {BLOCKS} {of} ".encode())
    for example, group in zip_longest(ids, groups):
        digest.update(f"{example} {group},".encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def _cached_counts(examples: int, block: int) -> Sequence[NDArray[np.uint16]]:
    return list(_counts(examples, block))


def _counts(examples: int, block: int) -> Iterator[NDArray[np.uint16]]:
    """Yield counts [D, N] in batches; the raw stream of the generator is the same in all numpy releases."""
    if not examples:
        return
    stream, number = np.random.PCG64(1), ceil(examples / block)
    rows = max(1, MAX_COUNTS // examples)
    for first in range(0, REPLICATES, rows):
        batch = min(rows, REPLICATES - first)
        starts = (stream.random_raw(batch * number) % np.uint64(examples)).astype(np.int64).reshape(batch, number, 1)
        places = ((starts + np.arange(block)) % examples).reshape(batch, -1)[:, :examples]
        places += examples * np.arange(batch)[:, None]
        counts = np.bincount(places.reshape(-1), minlength=batch * examples)
        yield counts.astype(np.uint16).reshape(batch, examples)
