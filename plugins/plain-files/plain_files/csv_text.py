"""CSV files, safe to open in a spreadsheet: no text is read as a formula."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def to_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return CSV text with a header; text that a spreadsheet would evaluate gets an apostrophe in front."""
    return "".join(csv_lines(rows, columns))


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of CSV text as `to_csv` returns it, each as soon as its row comes."""
    written = _Lines()
    writer = csv.writer(written, lineterminator="\r\n")  # which has either character quoted inside a field
    for line in chain([columns], ([row.get(column) for column in columns] for row in rows)):
        writer.writerow([_inert(value) for value in line])
        yield from written
        written.clear()


class _Lines(list[str]):
    """Lines of CSV that end as they do here; the csv module writes one at a time."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def from_csv(text: str) -> list[dict[str, str]]:
    """Return the rows of CSV text, without missing fields; raise ValueError if it is not CSV."""
    try:
        lines = [[_as_it_was(field) for field in line] for line in csv.reader(io.StringIO(text, newline=""))]
    except csv.Error as error:
        raise ValueError(error) from None
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:] if line]


def _inert(value: Any) -> Any:
    formula = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if formula else value


def _as_it_was(field: str) -> str:
    return field[1:] if field.startswith("'") and FORMULA.match(field) else field
