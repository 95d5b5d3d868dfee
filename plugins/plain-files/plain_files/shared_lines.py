"""Packed lines of JSON, in which values that several lines have in common are written once."""

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHORTEST = 64  # characters of JSON that are written once and then referred to
LARGEST = 2**30  #: bytes of all lines, and characters of all that they stand for
LONGEST = 2**24  #: characters of a line, with what it refers to
RECENT = 1_000  # values that lines share as objects
REFERENCE = "$"  # {"$": 3} stands for the value of line 3


def write_shared(path: Path, items: Iterable[Mapping[str, Any]], shared: Collection[str]) -> None:
    """Write mappings, gzipped and without a time stamp; what is under the names `shared` is written once.

    Raises ValueError for a mapping with the name `value`, by which lines of shared values are known.
    """
    lines = _Lines()
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for item in items:
            if "value" in item:
                raise ValueError("no mapping may have the name 'value'")
            line = {name: lines.shared(value) if name in shared else value for name, value in item.items()}
            packed.write("".join([*lines.taken(), _json(line) + "\n"]).encode())


def read_shared(path: Path, shared: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the mappings of `write_shared`; raise OSError or ValueError if the file is damaged, or far too large."""
    values: list[Any] = []
    sizes: list[int] = []
    try:
        for text in _unpacked(path):
            line = json.loads(text)
            size = len(text) + sum(sizes[place] for place in _references(line))
            if size > LONGEST:
                raise ValueError("a line refers to too much")
            if "value" in line:
                values.append(_resolved(line["value"], values))
                sizes.append(size)
            else:
                yield {name: _resolved(one, values) if name in shared else one for name, one in line.items()}
    except (EOFError, zlib.error, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(error) from None


def _unpacked(path: Path) -> Iterator[bytes]:
    left = LARGEST
    with gzip.open(path) as file:
        while line := file.readline(LONGEST + 1):
            left -= len(line)
            if len(line) > LONGEST or left < 0:
                raise ValueError("it is too large")
            yield line


@dataclass
class _Lines:
    """Values that stand on lines of their own, each once."""

    places: dict[str, int] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    recent: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # by id: values, and what stands for them

    def shared(self, value: Any) -> Any:
        """Return a value in which references stand for what is long."""
        if not isinstance(value, Mapping | list | tuple):
            return value
        known = self.recent.get(id(value))
        if known is None or known[0] is not value:
            if len(self.recent) > RECENT:
                self.recent.clear()
            known = self.recent[id(value)] = value, self._shared(value)
        return known[1]

    def _shared(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            found: Any = {str(key): self.shared(one) for key, one in value.items()}
            found = {REFERENCE: found} if REFERENCE in found else found
        else:
            found = [self.shared(one) for one in value]
        text = _json(found)
        if len(text) < SHORTEST:
            return found
        if text not in self.places:
            self.places[text] = len(self.places)
            self.new.append(f'{{"value":{text}}}\n')
        return {REFERENCE: self.places[text]}

    def taken(self) -> list[str]:
        """Return the lines that are new, once."""
        new, self.new = self.new, []
        return new


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _references(value: Any) -> Iterator[int]:
    """Yield the lines that a value refers to."""
    if isinstance(value, dict) and isinstance(value.get(REFERENCE), int):
        if value[REFERENCE] < 0:
            raise ValueError("a reference leads nowhere")
        yield value[REFERENCE]
    elif isinstance(value, dict):
        for one in _inside(value).values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _resolved(value: Any, values: list[Any]) -> Any:
    """Return a value with what its references stand for."""
    if isinstance(value, list):
        return [_resolved(one, values) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get(REFERENCE), int):
        return values[value[REFERENCE]]
    return {key: _resolved(one, values) for key, one in _inside(value).items()}


def _inside(value: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping as it was: one that has the name of references itself stands below that name."""
    inside = value.get(REFERENCE)
    return inside if isinstance(inside, dict) else value
