"""How often each example is in each bootstrap sample, drawn one by one or in blocks.

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

from block_bootstrap.replicates_file import BLOCKS, DRAWS

AT_ONCE = 2**22  # counts of examples that are worked on at a time
KEPT = 2**25  # that are kept for the next series of as many


def resamples(examples: int, block: int = 1) -> Iterable[NDArray[np.uint16]]:
    """Yield how often each example is in each bootstrap sample [D, N], some samples at a time.

    Blocks of several in a row wrap around at the end (the circular block bootstrap of Politis and Romano, 1992).
    """
    return _kept(examples, block) if examples * DRAWS <= KEPT else _counts(examples, block)


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
    """Yield counts; the raw stream of the generator is the same in every release of numpy."""
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
