"""What other plugins may import: the records of a file, in every form that data may have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_data.records import of_file


def numbered_records(path: Path, suffix: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a file, read as its suffix were `suffix`, each with its line, row or number in a list.

    Raises DataError that names file and line of what is wrong, and for a file without records.
    """
    return ((record.number, dict(record.values)) for record in of_file(path, None, suffix))
