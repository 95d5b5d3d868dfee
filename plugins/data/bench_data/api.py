"""Public interface for other plugins: the records of a file, in every supported format."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_data.records import of_file


def numbered_records(path: Path, suffix: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a file, read as if its suffix were `suffix`, each with its line, row or list index from 1.

    Raises DataError with file and line of an error, and for a file without records.
    """
    return ((record.number, dict(record.values)) for record in of_file(path, None, suffix))
