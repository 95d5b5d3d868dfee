"""Records of files: JSON, CSV, Parquet, and plain files side by side; each with its place, for messages."""

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
from bench_data.settings import Lines
from bench_text.api import corpora, once, placed_records


@dataclass(frozen=True)
class Record:
    """What stands in one place of the data."""

    place: str  # such as `a.jsonl:7`
    values: Mapping[str, Any]  # by field
    references: Sequence[str] = ()  # further references, where the data have such beside the target
    places: Mapping[str, str] = field(default_factory=dict)  # of fields, where each has a file of its own

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
        rows = csv.reader(corpora.whole_lines(path), **form)
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
        for number, line in enumerate(corpora.lines(path), 1):
            yield f"{path}:{number}", line


def side_by_side(origin: Lines) -> Iterator[Record]:
    """Yield the lines of files that belong together; raise DataError if these have not equally many."""
    given = {"source": origin.source, "prompt": origin.prompt, "target": origin.target}
    columns = {name: paths for name, paths in given.items() if paths}
    sides = [*columns.values(), *([path] for path in origin.references)]
    for number, row in enumerate(zip_longest(*map(_lines, sides), fillvalue=("", None)), 1):
        places, lines = zip(*row, strict=True)
        if None in lines:
            raise _unlike_sides(sides)
        values = dict(zip(columns, lines, strict=False))
        yield Record(
            places[0], {**values, "line": number}, lines[len(columns) :], dict(zip(columns, places, strict=False))
        )


def _unlike_sides(sides: Sequence[Sequence[Path]]) -> DataError:
    """Return the error for sides of which one ended first, file by file where they can be compared."""
    numbers = [[sum(1 for _ in corpora.lines(path)) for path in paths] for paths in sides]
    for paths, found in zip(sides[1:], numbers[1:], strict=True):
        pairs = zip(sides[0], numbers[0], paths, found, strict=True) if len(paths) == len(sides[0]) else ()
        for one, here, other, there in pairs:
            if here != there:
                return _unlike(str(one), here, str(other), there)
        if sum(found) != sum(numbers[0]):
            return _unlike(
                " and ".join(map(str, sides[0])), sum(numbers[0]), " and ".join(map(str, paths)), sum(found)
            )
    raise AssertionError("sides have equally many lines")


def _unlike(one: str, here: int, other: str, there: int) -> DataError:
    return DataError(
        f"{one} has {here:,} lines and {other} {there:,}: line n of one must belong to line n of the other. Lines "
        "end with a line feed alone. Correct the files."
    )
