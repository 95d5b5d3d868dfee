"""Records of files (JSON, CSV, Parquet, aligned plain files), each with its place, for messages."""

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_data.settings import AlignedFiles
from bench_text.api import corpora, once, placed_records


@dataclass(frozen=True)
class DataRecord:
    """A record, and its place in the data."""

    place: str  # such as `a.jsonl:7`
    values: Mapping[str, Any]  # field -> value
    references: Sequence[str] = ()  # references in addition to the target
    places: Mapping[str, str] = field(default_factory=dict)  # field -> place, if fields have separate files

    @property
    def number(self) -> int:
        """Return the line, row or list index at the end of the record's place."""
        return int(re.findall(r"\d+", self.place)[-1])


def of_file(path: Path, names: Sequence[str] | None, suffix: str = "") -> Iterator[DataRecord]:
    """Yield the records of a file, compressed or not; its suffix, or `suffix` if given, determines the format.

    From Parquet, only the fields `names` are read, or all fields if `names` is None.

    Raises DataError with file and line of an error, and for a file without records.
    """
    _check_full(path)
    suffix = suffix or (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return (DataRecord(place, values) for place, values in placed_records(path))
    if suffix == ".json":
        return _of_list(path)
    if suffix in (".csv", ".tsv"):
        return _of_table(path, suffix == ".tsv")
    if suffix == ".parquet":
        return _of_parquet(path, names)
    return (
        DataRecord(place, {"text": line, "line": number}) for number, (place, line) in enumerate(_lines([path]), 1)
    )


def _check_full(path: Path) -> None:
    """Raise DataError for a missing or empty file."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}). Correct its path.") from None
    if size == 0:
        raise DataError(f"{path} is empty. Add examples, or remove it from `data:`.")


def _of_list(path: Path) -> Iterator[DataRecord]:
    """Yield the objects of the list in a JSON file."""
    try:
        content = json.loads(corpora.read_text(path), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}. Correct it.") from None
    if not isinstance(content, list):
        raise DataError(f"{path} is not a list of objects. Name it .jsonl if each line is an object.")
    for number, values in enumerate(content, 1):
        if not isinstance(values, dict):
            raise DataError(f"{path}: number {number} of its list is {values!r:.60}, which is not an object.")
        yield DataRecord(f"{path}: number {number}", values)


def _of_table(path: Path, tabs: bool) -> Iterator[DataRecord]:
    """Yield the rows of a table with a header; only `.csv` has quoted cells, which may contain line breaks."""
    form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    with _any_size():
        rows = csv.reader(corpora.whole_lines(path), **form)
        header = _next(rows, path) or []
        if not header:
            raise DataError(f"{path}:1 is empty, but must contain the column names. Remove the empty line.")
        if len({*header}) < len(header) or not all(header):
            raise DataError(f"{path}:1: the header {header!r:.80} has a duplicate or a blank name. Correct it.")
        start = rows.line_num + 1
        while (row := _next(rows, path)) is not None:
            if row and len(row) != len(header):
                raise DataError(
                    f"{path}:{start} has {len(row)} cells, but the header has {len(header)}: {', '.join(header)}. "
                    f"Correct the {'tabs' if tabs else 'commas or quotes'} of the line."
                )
            if row:
                yield DataRecord(f"{path}:{start}", dict(zip(header, row, strict=True)))
            start = rows.line_num + 1


def _next(rows: Any, path: Path) -> list[str] | None:
    start = rows.line_num + 1
    try:
        row: list[str] | None = next(rows, None)
    except csv.Error as error:
        raise DataError(f"{path}:{start}: {error}. Double the quotes inside cells.") from None
    return row


@contextmanager
def _any_size() -> Iterator[None]:
    """Allow cells of any size."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _of_parquet(path: Path, names: Sequence[str] | None) -> Iterator[DataRecord]:
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        file = parquet.ParquetFile(path)
        columns = None if names is None else columns_of(names, file.schema_arrow.names, str(path))
        for batch in file.iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield DataRecord(f"{path}: row {number}", values)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet: {' '.join(str(error).split())[:200]}. Save it again."
        ) from None


def columns_of(names: Iterable[str], known: Sequence[str], place: str) -> list[str]:
    """Return the columns that contain fields; raise DataError for a field without a column."""
    columns: dict[str, None] = {}
    for name in names:
        column = name if name in known else name.split(".")[0]
        if column not in known:
            raise DataError(f"{place} has no field {name!r}; it has {', '.join(map(repr, known))}. Correct it.")
        columns[column] = None
    return [*columns]


def _lines(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each line of files."""
    for path in paths:
        _check_full(path)
        for number, line in enumerate(corpora.lines(path), 1):
            yield f"{path}:{number}", line


def side_by_side(origin: AlignedFiles) -> Iterator[DataRecord]:
    """Yield aligned lines of files; raise DataError if their numbers of lines differ."""
    files = {"source": origin.source, "prompt": origin.prompt, "target": origin.target}
    columns = {name: paths for name, paths in files.items() if paths}
    sides = [*columns.values(), *([path] for path in origin.references)]
    for number, row in enumerate(zip_longest(*map(_lines, sides), fillvalue=("", None)), 1):
        places, lines = zip(*row, strict=True)
        if None in lines:
            raise _alignment_error(sides)
        values = dict(zip(columns, lines, strict=False))
        yield DataRecord(
            places[0], {**values, "line": number}, lines[len(columns) :], dict(zip(columns, places, strict=False))
        )


def _alignment_error(sides: Sequence[Sequence[Path]]) -> DataError:
    """Return the error for sides of different lengths, naming single files if they correspond."""
    numbers = [[sum(1 for _ in corpora.lines(path)) for path in paths] for paths in sides]
    for paths, counts in zip(sides[1:], numbers[1:], strict=True):
        pairs = zip(sides[0], numbers[0], paths, counts, strict=True) if len(paths) == len(sides[0]) else ()
        for first, first_lines, second, second_lines in pairs:
            if first_lines != second_lines:
                return _line_counts_differ(str(first), first_lines, str(second), second_lines)
        if sum(counts) != sum(numbers[0]):
            return _line_counts_differ(
                " and ".join(map(str, sides[0])), sum(numbers[0]), " and ".join(map(str, paths)), sum(counts)
            )
    raise AssertionError("all sides have the same number of lines")


def _line_counts_differ(first: str, first_lines: int, second: str, second_lines: int) -> DataError:
    return DataError(
        f"{first} has {first_lines:,} lines, but {second} has {second_lines:,}: line n of one must belong "
        "to line n of the other. Only line feeds end lines. Correct the files."
    )
