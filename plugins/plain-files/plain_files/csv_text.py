"""CSV files that are safe to open in a spreadsheet: no text is evaluated as a formula."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def to_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return CSV text with a header; text that a spreadsheet would evaluate is prefixed with an apostrophe."""
    return "".join(csv_lines(rows, columns))


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of CSV text as in `to_csv`, each as soon as its row is available."""
    buffer = _CsvLines()
    writer = csv.writer(buffer, lineterminator="\r\n")  # quotes both characters in fields
    for line in chain([columns], ([row.get(column) for column in columns] for row in rows)):
        writer.writerow([_escape(value) for value in line])
        yield from buffer
        buffer.clear()


class _CsvLines(list[str]):
    """CSV lines that end with a line feed only; the csv module writes one line at a time."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def from_csv(text: str) -> list[dict[str, str]]:
    """Return the rows of CSV text, without missing fields; raise ValueError if it is not CSV."""
    try:
        lines = [[_unescape(field) for field in line] for line in csv.reader(io.StringIO(text, newline=""))]
    except csv.Error as error:
        raise ValueError(error) from None
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:] if line]


def _escape(value: Any) -> Any:
    formula = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if formula else value


def _unescape(field: str) -> str:
    return field[1:] if field.startswith("'") and FORMULA.match(field) else field
