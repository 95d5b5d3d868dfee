"""Reads JSON lines: files with an object in each line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_text.corpora import lines


def records(path: Path, *fields: str) -> Iterator[dict[str, Any]]:
    """Yield the object in each line of a UTF-8 file, which may be packed as `.gz`; empty lines are skipped.

    Raises DataError, with file and line, for what is no JSON object, or an object without one of `fields`.
    """
    return (record for _, record in placed_records(path, *fields))


def placed_records(path: Path, *fields: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the file and line of each object, and the object, as `records` does."""
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            yield f"{path}:{number}", _record(line, f"{path}:{number}", fields)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if a field stands there twice, of which one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands in an object twice")
    return found


def _record(line: str, place: str, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}. Each line must be a JSON object.") from None
    if not isinstance(found, dict):
        raise DataError(
            f'{place} is {_shown(found)}. Each line must be a JSON object, such as {{"target": "a text"}}.'
        )
    missing = [field for field in fields if field not in found]
    if missing:
        known = ", ".join(map(repr, found)) or "no field"
        raise DataError(f"{place} has no {' and no '.join(map(repr, missing))}; it has {known}. Correct the line.")
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
