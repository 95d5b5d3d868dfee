"""Records of files: JSON, CSV, Parquet, and plain files side by side; each with its place, for messages."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_data.settings import Lines
from bench_text.api import corpora, once, placed_records


@dataclass(frozen=True)
class Record:
    """What stands in one place of the data."""

    place: str  # such as `a.jsonl:7`
    values: Mapping[str, Any]  # by field
    references: Sequence[str] = ()  # further references, where the data have such beside the target

    @property
    def number(self) -> int:
        """Return the line, row or number in a list that its place ends with."""
        return int(re.findall(r"\d+", self.place)[-1])


def of_file(path: Path, names: Sequence[str] | None, suffix: str = "") -> Iterator[Record]:
    """Yield the records of a file, packed or not, as its suffix says; of Parquet, only the fields `names` are read.

    Without `names` all are; another `suffix` may be given.

    Raises DataError that names file and line of what is wrong, and for a file without records.
    """
    _check_full(path)
    suffix = suffix or (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return (Record(place, values) for place, values in placed_records(path))
    if suffix == ".json":
        return _of_list(path)
    if suffix in (".csv", ".tsv"):
        return _of_table(path, suffix == ".tsv")
    if suffix == ".parquet":
        return _of_parquet(path, names)
    return (Record(place, {"text": line, "line": number}) for number, (place, line) in enumerate(_lines([path]), 1))


def _check_full(path: Path) -> None:
    """Raise DataError for a file that is missing or empty."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}). Correct its path.") from None
    if size == 0:
        raise DataError(f"{path} is empty. Put examples there, or leave it out of `data:`.")


def _of_list(path: Path) -> Iterator[Record]:
    """Yield the objects of the list that a JSON file is."""
    try:
        found = json.loads(corpora.read_text(path), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.") from None
    if not isinstance(found, list):
        raise DataError(f"{path} is no list of objects. Call it .jsonl if each of its lines is an object.")
    for number, values in enumerate(found, 1):
        if not isinstance(values, dict):
            raise DataError(f"{path}: number {number} of its list is {values!r:.60}, which is no object.")
        yield Record(f"{path}: number {number}", values)


def _of_table(path: Path, tabs: bool) -> Iterator[Record]:
    """Yield the rows of a table with a header; quotes count in `.csv` alone, where they may hold line breaks."""
    form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    with _any_size():
        rows = csv.reader(io.StringIO(corpora.read_text(path), newline=""), **form)
        header = _next(rows, path) or []
        if not header:
            raise DataError(f"{path}:1 is empty, and must have the names of the columns. Take the empty line out.")
        if len({*header}) < len(header) or not all(header):
            raise DataError(f"{path}:1: the header {header!r:.80} has a name twice, or a blank one. Correct it.")
        start = rows.line_num + 1
        while (row := _next(rows, path)) is not None:
            if row and len(row) != len(header):
                raise DataError(
                    f"{path}:{start} has {len(row)} cells, and the header {len(header)}: {', '.join(header)}. "
                    f"Correct the {'tabs' if tabs else 'commas or quotes'} of the line."
                )
            if row:
                yield Record(f"{path}:{start}", dict(zip(header, row, strict=True)))
            start = rows.line_num + 1


def _next(rows: Any, path: Path) -> list[str] | None:
    start = rows.line_num + 1
    try:
        row: list[str] | None = next(rows, None)
    except csv.Error as error:
        raise DataError(f"{path}:{start}: {error}. A quote inside of a cell is written twice.") from None
    return row


@contextmanager
def _any_size() -> Iterator[None]:
    """Let cells be of any size."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _of_parquet(path: Path, names: Sequence[str] | None) -> Iterator[Record]:
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        file = parquet.ParquetFile(path)
        columns = None if names is None else columns_of(names, file.schema_arrow.names, str(path))
        for batch in file.iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield Record(f"{path}: row {number}", values)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())[:200]}.") from None


def columns_of(names: Iterable[str], known: Sequence[str], place: str) -> list[str]:
    """Return the columns in which fields are; raise DataError for a field that is in none."""
    found: dict[str, None] = {}
    for name in names:
        column = name if name in known else name.split(".")[0]
        if column not in known:
            raise DataError(f"{place} has no field {name!r}; it has {', '.join(map(repr, known))}. Correct it.")
        found[column] = None
    return [*found]


def _lines(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the place of each line of files, and the line."""
    for path in paths:
        _check_full(path)
        for number, line in enumerate(corpora.read_lines(path), 1):
            yield f"{path}:{number}", line


def side_by_side(origin: Lines) -> Iterator[Record]:
    """Yield the lines of files that belong together; raise DataError if these have not equally many."""
    given = {"source": origin.source, "prompt": origin.prompt, "target": origin.target}
    columns = {name: paths for name, paths in given.items() if paths}
    further = [[path] for path in origin.references]
    found = [[*_lines(paths)] for paths in (*columns.values(), *further)]
    _check_alike([*columns.values(), *further], found)
    for number, row in enumerate(zip(*found, strict=True), 1):
        values = {name: line for name, (_, line) in zip(columns, row, strict=False)}
        yield Record(row[0][0], {**values, "line": number}, [line for _, line in row[len(columns) :]])


def _check_alike(files: Sequence[Sequence[Path]], found: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Raise DataError unless all columns have as many lines as the first one, file by file where they can be."""
    for paths, lines in zip(files[1:], found[1:], strict=True):
        pairs = [*zip(files[0], paths, strict=True)] if len(paths) == len(files[0]) else []
        for one, other in pairs:
            here, there = (len(corpora.read_lines(path)) for path in (one, other))
            if here != there:
                raise _unlike(str(one), here, str(other), there)
        if len(lines) != len(found[0]):
            raise _unlike(" and ".join(map(str, files[0])), len(found[0]), " and ".join(map(str, paths)), len(lines))


def _unlike(one: str, here: int, other: str, there: int) -> DataError:
    return DataError(
        f"{one} has {here:,} lines and {other} {there:,}: line n of one must belong to line n of the other. Lines "
        "end with a line feed alone. Correct the files."
    )
