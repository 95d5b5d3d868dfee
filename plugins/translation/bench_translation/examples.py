"""The examples of a split, in files that batches read piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench_core import STOP
from bench_text.api import Ragged


@dataclass(frozen=True)
class Examples:
    """Sources and targets as tokens, each ended by stop, and the number that each pair has in its file."""

    ids: NDArray[np.int64]
    source: Ragged
    target: Ragged
    heads: Ragged | None = None  # of the target's tokens, as `heads.spread` gives them, each one more than that

    @classmethod
    def of(cls, ids: Sequence[int], source: Iterable[list[int]], target: Iterable[list[int]]) -> Examples:
        """End rows of tokens and gather them."""
        sides = (Ragged.of([*row, STOP] for row in side) for side in (source, target))
        return cls(np.array(ids, np.int64), *sides)

    @classmethod
    def load(cls, folder: Path, split: str) -> Examples:
        """Open what `save` left."""
        ids = np.load(folder / f"{split}.ids.npy", allow_pickle=False)
        parsed = (folder / f"{split}.heads.edges.npy").exists()
        heads = Ragged.load(folder, f"{split}.heads") if parsed else None
        return cls(ids, Ragged.load(folder, f"{split}.source"), Ragged.load(folder, f"{split}.target"), heads)

    def save(self, folder: Path, split: str) -> None:
        """Write arrays into a folder."""
        np.save(folder / f"{split}.ids.npy", self.ids, allow_pickle=False)
        self.source.save(folder, f"{split}.source")
        self.target.save(folder, f"{split}.target")
        if self.heads:
            self.heads.save(folder, f"{split}.heads")

    def where(self, kept: NDArray[np.bool_]) -> Examples:
        """Return the pairs of which `kept` [R] is true, before they are parsed."""
        sides = (Ragged.of(compress(side, kept)) for side in (self.source, self.target))
        return Examples(self.ids[kept], *sides)

    def __len__(self) -> int:
        return len(self.ids)


def save_lines(folder: Path, name: str, lines: Sequence[str]) -> None:
    """Write lines as they are, whatever they hold besides line feeds."""
    (folder / f"{name}.txt").write_bytes("\n".join(lines).encode())


def save_further(folder: Path, split: str, sides: Sequence[Sequence[str]]) -> None:
    """Keep further translations, of which each side has one for every pair; those that are empty are none."""
    if sides:
        rows = [[line for line in row if line.strip()] for row in zip(*sides, strict=True)]
        (folder / f"{split}.further.json").write_text(json.dumps(rows), encoding="utf-8")


def with_further(folder: Path, split: str, targets: Mapping[int, str]) -> dict[int, list[str]]:
    """Return the target of each pair, and what `save_further` has kept of it."""
    path = folder / f"{split}.further.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else [[]] * len(targets)
    return {number: [line, *row] for (number, line), row in zip(targets.items(), rows, strict=True)}


def load_lines(folder: Path, name: str) -> list[str]:
    """Return what `save_lines` wrote."""
    return (folder / f"{name}.txt").read_bytes().decode().split("\n")
