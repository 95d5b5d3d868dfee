"""Gzipped JSON lines in which values shared by several lines are written once."""

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIN_SHARED_CHARACTERS = 64  # minimum length of a shared value in JSON
MAX_TOTAL_SIZE = 2**30  #: bytes of all lines, and characters of the expanded text
MAX_LINE_SIZE = 2**24  #: characters of a line, including references
MAX_RECENT_VALUES = 1_000  # cached objects that lines share
REFERENCE = "$"  # {"$": 3} refers to the value of line 3


def write_shared(path: Path, items: Iterable[Mapping[str, Any]], shared: Collection[str]) -> None:
    """Write mappings as gzipped JSON lines without a time stamp; values of the names in `shared` are written once.

    Raises ValueError for a mapping with the key `value`, which marks lines with shared values.
    """
    lines = _SharedValues()
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for item in items:
            if "value" in item:
                raise ValueError("the name 'value' is reserved: a mapping must not have the key 'value'")
            line = {name: lines.replace(value) if name in shared else value for name, value in item.items()}
            packed.write("".join([*lines.pop_new_lines(), _json(line) + "\n"]).encode())


def read_shared(path: Path, shared: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield mappings written by `write_shared`; raise OSError or ValueError if the file is damaged or too large."""
    values: list[Any] = []
    sizes: list[int] = []
    try:
        for text in _unpack(path):
            line = json.loads(text)
            size = len(text) + sum(sizes[place] for place in _references(line))
            if size > MAX_LINE_SIZE:
                raise ValueError("a line is too large with its references")
            if "value" in line:
                values.append(_resolve(line["value"], values))
                sizes.append(size)
            else:
                yield {name: _resolve(value, values) if name in shared else value for name, value in line.items()}
    except (EOFError, zlib.error, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(error) from None


def _unpack(path: Path) -> Iterator[bytes]:
    remaining = MAX_TOTAL_SIZE
    with gzip.open(path) as file:
        while line := file.readline(MAX_LINE_SIZE + 1):
            remaining -= len(line)
            if len(line) > MAX_LINE_SIZE or remaining < 0:
                raise ValueError("the file is too large")
            yield line


@dataclass
class _SharedValues:
    """Shared values, each on its own line."""

    places: dict[str, int] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    recent: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # id -> (value, its replacement)

    def replace(self, value: Any) -> Any:
        """Return a value whose long parts are replaced by references."""
        if not isinstance(value, Mapping | list | tuple):
            return value
        known = self.recent.get(id(value))
        if known is None or known[0] is not value:
            if len(self.recent) > MAX_RECENT_VALUES:
                self.recent.clear()
            known = self.recent[id(value)] = value, self._replace_parts(value)
        return known[1]

    def _replace_parts(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            replaced: Any = {str(key): self.replace(item) for key, item in value.items()}
            replaced = {REFERENCE: replaced} if REFERENCE in replaced else replaced
        else:
            replaced = [self.replace(item) for item in value]
        text = _json(replaced)
        if len(text) < MIN_SHARED_CHARACTERS:
            return replaced
        if text not in self.places:
            self.places[text] = len(self.places)
            self.new.append(f'{{"value":{text}}}\n')
        return {REFERENCE: self.places[text]}

    def pop_new_lines(self) -> list[str]:
        """Return the new lines and clear them."""
        new, self.new = self.new, []
        return new


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _references(value: Any) -> Iterator[int]:
    """Yield the line numbers that a value refers to."""
    if isinstance(value, dict) and isinstance(value.get(REFERENCE), int):
        if value[REFERENCE] < 0:
            raise ValueError("a reference is invalid")
        yield value[REFERENCE]
    elif isinstance(value, dict):
        for item in _inside(value).values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _resolve(value: Any, values: list[Any]) -> Any:
    """Return a value with resolved references."""
    if isinstance(value, list):
        return [_resolve(item, values) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get(REFERENCE), int):
        return values[value[REFERENCE]]
    return {key: _resolve(item, values) for key, item in _inside(value).items()}


def _inside(value: dict[str, Any]) -> dict[str, Any]:
    """Return the original mapping; mappings with the reserved name are nested under that name."""
    inside = value.get(REFERENCE)
    return inside if isinstance(inside, dict) else value
