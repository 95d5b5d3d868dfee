"""Ragged rows of tokens in one array."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Numbers: TypeAlias = NDArray[Any]  #: numpy arrays; dtype and shape are documented where they are used


@dataclass(frozen=True)
class Ragged:
    """R rows of tokens, stored contiguously: `[*Ragged.of([[5, 6], [], [7]])] == [[5, 6], [], [7]]`."""

    tokens: Numbers  # int32
    edges: Numbers  # int64 [R + 1]: the start of each row and the end of the last row

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Concatenate rows."""
        tokens, edges = array("i"), array("q", [0])
        for row in rows:
            tokens.extend(row)
            edges.append(len(tokens))
        return cls(np.array(tokens, np.int32), np.array(edges, np.int64))

    @classmethod
    def load(cls, folder: Path, name: str) -> Ragged:
        """Open the rows that `save` wrote; tokens are read from disk on access."""
        tokens = np.load(folder / f"{name}.tokens.npy", mmap_mode="r", allow_pickle=False)
        return cls(tokens, np.load(folder / f"{name}.edges.npy", allow_pickle=False))

    def save(self, folder: Path, name: str) -> None:
        """Write the two arrays to a folder."""
        np.save(folder / f"{name}.tokens.npy", self.tokens, allow_pickle=False)
        np.save(folder / f"{name}.edges.npy", self.edges, allow_pickle=False)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def lengths(self) -> Numbers:
        """The number of tokens in each row, int64 [R]."""
        return np.diff(self.edges)

    def __iter__(self) -> Iterator[list[int]]:
        return (self.tokens[start:end].tolist() for start, end in pairwise(self.edges))

    def take(self, rows: Numbers) -> Ragged:
        """Return the rows [M] at these indices."""
        lengths = self.lengths[rows]
        edges = np.concatenate([[0], lengths.cumsum()])
        indices = np.arange(edges[-1]) + np.repeat(self.edges[rows] - edges[:-1], lengths)
        return Ragged(self.tokens[indices], edges)

    def padded(self, rows: Numbers) -> Tensor:
        """Return the rows [M] at these indices, padded with 0: int64 [M, T]."""
        return padded(self.tokens, self.edges[rows], self.edges[rows + 1])


def padded(tokens: Numbers, starts: Numbers, ends: Numbers) -> Tensor:
    """Return `tokens[start:end]` for each of M starts and ends, padded with 0: int64 [M, T]."""
    import torch  # not needed for reading examples

    indices = starts[:, None] + np.arange((ends - starts).max(initial=0))
    is_inside = indices < ends[:, None]
    return torch.from_numpy(np.where(is_inside, tokens[np.where(is_inside, indices, 0)], 0).astype(np.int64))
