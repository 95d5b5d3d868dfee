"""Sequences of items stored as JSON lines: in gzipped files, or in temporary files for computed items."""

from __future__ import annotations

import gzip
import json
import zlib
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, TypeVar, overload

X = TypeVar("X")

IN_MEMORY = 2**24  # maximum bytes of a spool in memory; larger spools move to disk
CHUNK_BYTES = 2**20  # bytes per call of the compressor


def to_line(item: Any) -> bytes:
    """Return an item as a line of JSON; raise TypeError or ValueError if it is not JSON data."""
    return (json.dumps(item, sort_keys=True, ensure_ascii=False) + "\n").encode()


def write_lines(path: Path, items: Iterable[Any]) -> None:
    """Write gzipped JSON lines, one item at a time; the same items give the same bytes."""
    pack_lines(path, items.lines() if isinstance(items, Lines) else map(to_line, items))


def pack_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write gzipped lines; the bytes do not depend on the division into blocks."""
    pack, waiting, size = zlib.compressobj(6, zlib.DEFLATED, 31), list[bytes](), 0
    with path.open("wb") as file:
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size >= CHUNK_BYTES:
                file.write(pack.compress(b"".join(waiting)))
                waiting, size = [], 0
        file.write(pack.compress(b"".join(waiting)))
        file.write(pack.flush())


def read_lines(path: Path) -> Lines[Any]:
    """Return the items of gzipped JSON lines, each read on access."""
    return StoredLines(path, lambda item: item)


class Lines(Sequence[X]):
    """A sequence of items that are built from JSON lines on every access; equal to a list of these items."""

    def __init__(self, build: Callable[[Any], X]) -> None:
        self._build = build

    @abstractmethod
    def lines(self) -> Iterator[bytes]:
        """Yield all lines in order."""

    @abstractmethod
    def _line(self, place: int) -> bytes:
        """Return the line at a nonnegative index."""

    def __iter__(self) -> Iterator[X]:
        return (self._build(json.loads(line)) for line in self.lines())

    @overload
    def __getitem__(self, place: int) -> X: ...
    @overload
    def __getitem__(self, place: slice) -> list[X]: ...
    def __getitem__(self, place: int | slice) -> X | list[X]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        return self._build(json.loads(self._line(range(len(self))[place])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple | Lines):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Spool(Lines[X]):
    """Items in a temporary file or, while small, in memory; the index needs at most 16 bytes of memory per item.

    The file has no name in `folder` and disappears with the spool.
    """

    def __init__(self, build: Callable[[Any], X], folder: Path | None = None) -> None:
        super().__init__(build)
        self._file = SpooledTemporaryFile(IN_MEMORY, dir=None if folder is None else str(folder))  # noqa: SIM115
        self._ends, self._order = array("q", [0]), array("q")  # ends of lines; order after sorting

    def extend(self, lines: Iterable[bytes]) -> None:
        """Append lines one at a time."""
        self._file.seek(self._ends[-1])
        for line in lines:
            self._file.write(line)
            self._ends.append(self._ends[-1] + len(line))

    def sort(self, numbers: Sequence[int]) -> None:
        """Sort the items by `numbers`, stably."""
        import numpy as np

        self._order = array("q", np.argsort(np.asarray(numbers, np.int64), kind="stable").tobytes())

    def lines(self) -> Iterator[bytes]:
        return map(self._line, range(len(self)))

    def _line(self, place: int) -> bytes:
        row = self._order[place] if self._order else place
        self._file.seek(self._ends[row])
        return self._file.read(self._ends[row + 1] - self._ends[row])

    def __len__(self) -> int:
        return len(self._ends) - 1


class StoredLines(Lines[X]):
    """The items of a gzipped file, read in order; access to an earlier index copies the file to a spool."""

    def __init__(self, path: Path, build: Callable[[Any], X]) -> None:
        super().__init__(build)
        self.path = path
        self._count: int | None = None
        self._next, self._ahead = 0, iter(list[bytes]())  # next index, and the lines from there
        self._spool: Spool[X] | None = None

    def lines(self) -> Iterator[bytes]:
        with gzip.open(self.path) as file:
            yield from file

    def _line(self, place: int) -> bytes:
        if self._spool is None and place < self._next:
            self._spool = Spool(self._build)
            self._spool.extend(self.lines())
        if self._spool is not None:
            return self._spool._line(place)
        if not self._next:
            self._ahead = self.lines()
        line = next(islice(self._ahead, place - self._next, None))
        self._next = place + 1
        return line

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self.lines())
        return self._count
