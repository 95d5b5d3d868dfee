"""Ragged rows of tokens in one array, and batches of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench_core import Noise, Size

Numbers: TypeAlias = NDArray[Any]
POOL = 50  # batches whose rows are sorted by length together


@dataclass(frozen=True)
class Ragged:
    """Rows of tokens, one after the other."""

    tokens: Numbers  # int32
    edges: Numbers  # int64 [R + 1]: where each row begins, and where the last one ends

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Gather rows."""
        tokens, edges = array("i"), array("q", [0])
        for row in rows:
            tokens.extend(row)
            edges.append(len(tokens))
        return cls(np.array(tokens, np.int32), np.array(edges, np.int64))

    @classmethod
    def load(cls, folder: Path, name: str) -> Ragged:
        """Open what `save` left; tokens are read from the disk when they are needed."""
        tokens = np.load(folder / f"{name}.tokens.npy", mmap_mode="r", allow_pickle=False)
        return cls(tokens, np.load(folder / f"{name}.edges.npy", allow_pickle=False))

    def save(self, folder: Path, name: str) -> None:
        """Write two arrays into a folder."""
        np.save(folder / f"{name}.tokens.npy", self.tokens, allow_pickle=False)
        np.save(folder / f"{name}.edges.npy", self.edges, allow_pickle=False)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def lengths(self) -> Numbers:
        """Return how many tokens each row has [R]."""
        return np.diff(self.edges)

    def __iter__(self) -> Iterator[list[int]]:
        return (self.tokens[start:end].tolist() for start, end in pairwise(self.edges))


def padded(tokens: Numbers, starts: Numbers, ends: Numbers) -> Tensor:
    """Return tokens[start:end] of each row, padded with 0 [N, T]."""
    places = starts[:, None] + np.arange((ends - starts).max(initial=0))
    inside = places < ends[:, None]
    return torch.from_numpy(np.where(inside, tokens[np.where(inside, places, 0)], 0).astype(np.int64))


def shuffled(number: int, noise: Noise | None) -> Numbers:
    """Return 0, 1, ... in random order; in that order without noise."""
    return noise.uniform(torch.arange(number)).argsort(stable=True).numpy() if noise else np.arange(number)


def evenly(places: Numbers, most: int) -> Numbers:
    """Return `most` of places [M], of which there are at least as many, spaced evenly."""
    return places[np.arange(most) * len(places) // most]


def cut(rows: Numbers, lengths: Numbers, size: Size) -> Iterator[Numbers]:
    """Cut `rows` [M] of `lengths` [M] into batches of as many rows, or rows times longest row, as `size` allows."""
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


def bucketed(lengths: Numbers, size: Size, noise: Noise) -> Iterator[Numbers]:
    """Yield batches of random rows of like length, in random order."""
    order = shuffled(len(lengths), noise.fork("rows"))
    usual = size.number if size.unit == "rows" else max(1, int(size.number / lengths.mean()))
    batches: list[Numbers] = []
    for start in range(0, len(order), POOL * usual):
        pool = order[start : start + POOL * usual]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += cut(pool, lengths[pool], size)
    return (batches[place] for place in shuffled(len(batches), noise.fork("batches")))
