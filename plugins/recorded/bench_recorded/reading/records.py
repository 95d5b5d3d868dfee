"""The records of a file of outputs, and errors with line numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from operator import itemgetter
from pathlib import Path

from bench_core import DataError

ENTRY_NAMES = {"json": "number", "coco": "number", "parquet": "row"}  #: entry names for formats without lines
ROUNDING = 1e-6  # nats by which rounded log-probabilities may exceed 0


@dataclass(frozen=True)
class Output:
    """An output text of a system."""

    text: str
    log_prob: float | None = None  # nats
    tokens: int = -1  # number of tokens by the system's own tokenizer; -1 if unknown
    values: Mapping[str, float] = field(default_factory=dict)  # such as the search's `score`
    finished: bool = True


@dataclass(frozen=True)
class OutputRecord:
    """The outputs for an example, best first."""

    line: int  # line, row or list index, from 1
    outputs: Sequence[Output]
    id: str | None = None
    prompt: str | None = None  # prompt that the system read; None if unknown


@dataclass(frozen=True)
class OutputFile:
    """A file of outputs and its format."""

    path: Path
    lines: Sequence[str]
    format: str
    reason: str  # how the format was chosen, such as "by its extension"

    def place(self, line: int) -> str:
        """Return the file and the line, row or index for messages."""
        return f"{self.path}: {self.line_name(line)}" if self.format in ENTRY_NAMES else f"{self.path}:{line}"

    def line_name(self, line: int) -> str:
        """Return the line, row or index for messages, such as `line 3`."""
        return f"{ENTRY_NAMES.get(self.format, 'line')} {line}"

    def error(self, line: int, text: str) -> DataError:
        """Return an error about a line."""
        return DataError(f"{self.place(line)} {text} (Read as {self.format}, {self.reason}.)")

    def log_prob(self, value: object, line: int, name: str) -> float:
        """Return a log-probability, at most 0; raise DataError for an invalid value."""
        log_prob = self.number(value, line, name)
        if log_prob > ROUNDING or log_prob == float("-inf"):
            raise self.error(
                line, f"has {name} {log_prob:g}, which is not a log-probability: these are finite and at most 0."
            )
        return min(log_prob, 0.0)

    def number(self, value: object, line: int, name: str) -> float:
        """Return a number; raise DataError for other values and NaN."""
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            number = float(value)
        except (ValueError, OverflowError):
            raise self.error(line, f"has {name} {str(value)[:40]!r}, which is not a number.") from None
        if isnan(number):
            raise self.error(line, f"has {name} NaN. Omit unknown values.")
        return number


def group_by_id(file: OutputFile, parts: Iterable[tuple[int, str, Output]]) -> Iterator[OutputRecord]:
    """Group consecutive (line, id, output) with the same id into records; raise DataError if an id recurs later."""
    lines: dict[str, int] = {}
    for name, several in groupby(parts, key=itemgetter(1)):
        (line, _, first), *more = several
        if name in lines:
            raise file.error(line, f"has id {name} again; its other outputs start at line {lines[name]}. Group them.")
        lines[name] = line
        yield OutputRecord(line, [first, *(output for *_, output in more)], name)
