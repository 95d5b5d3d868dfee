"""Reads JSON lines: files with an object on each line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_text.corpora import lines


def records(path: Path, *fields: str) -> Iterator[dict[str, Any]]:
    """Yield the object on each line of a UTF-8 file, which may be a `.gz` file; skip empty lines.

    Raises DataError with file and line for invalid JSON objects and for objects that lack one of `fields`.
    """
    return (record for _, record in placed_records(path, *fields))


def placed_records(path: Path, *fields: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of `records`, each with its `FILE:LINE`."""
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            yield f"{path}:{number}", _record(line, f"{path}:{number}", fields)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if a field is duplicated."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is duplicated in a JSON object")
    return record


def _record(line: str, place: str, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}. Each line must be a JSON object.") from None
    if not isinstance(record, dict):
        raise DataError(
            f'{place} is {_excerpt(record)}. Each line must be a JSON object, such as {{"target": "a text"}}.'
        )
    missing = [field for field in fields if field not in record]
    if missing:
        available = ", ".join(map(repr, record)) or "no fields"
        raise DataError(
            f"{place} has no {' and no '.join(map(repr, missing))}; it has {available}. Correct the line."
        )
    return record


def _excerpt(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
