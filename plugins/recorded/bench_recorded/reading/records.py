"""What a file of outputs says of an example, and errors that name the line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from operator import itemgetter
from pathlib import Path

from bench_core import DataError

UNLINED = {"json": "number", "coco": "number", "parquet": "row"}  #: formats whose records are no lines
ROUNDING = 1e-6  # above 0, which log-probabilities may be by rounding


@dataclass(frozen=True)
class Output:
    """One text of a system."""

    text: str
    log_prob: float | None = None  # in nats
    tokens: int = -1  # how many, as the system counts them; -1 if it did not say
    values: Mapping[str, float] = field(default_factory=dict)  # such as the score of a search
    finished: bool = True


@dataclass(frozen=True)
class Record:
    """The outputs for one example, best first."""

    line: int  # of the file, or its number in a list, from 1
    outputs: Sequence[Output]
    id: str | None = None  # as the file has it
    prompt: str | None = None  # what the system read, if the file says so


@dataclass(frozen=True)
class OutputFile:
    """A file of outputs, and how it is read."""

    path: Path
    lines: Sequence[str]
    format: str
    reason: str  # why it is read so, such as "by its ending"

    def place(self, line: int) -> str:
        """Return how messages call the place of a line."""
        return f"{self.path}: {self.called(line)}" if self.format in UNLINED else f"{self.path}:{line}"

    def called(self, line: int) -> str:
        """Return what a line is, such as an entry of a list."""
        return f"{UNLINED.get(self.format, 'line')} {line}"

    def error(self, line: int, text: str) -> DataError:
        """Return the error that a line is wrong."""
        return DataError(f"{self.place(line)} {text} (Read as {self.format}, {self.reason}.)")

    def log_prob(self, value: object, line: int, name: str) -> float:
        """Return a log-probability; raise DataError if it is none."""
        found = self.number(value, line, name)
        if found > ROUNDING or found == float("-inf"):
            raise self.error(
                line, f"has {name} {found:g}, which is no log-probability: these are at most 0, and finite."
            )
        return min(found, 0.0)

    def number(self, value: object, line: int, name: str) -> float:
        """Return a number; raise DataError if it is none, or NaN."""
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            found = float(value)
        except (ValueError, OverflowError):
            raise self.error(line, f"has {name} {str(value)[:40]!r}, which is no number.") from None
        if isnan(found):
            raise self.error(line, f"has {name} NaN. Leave it out where there is none.")
        return found


def contiguous(file: OutputFile, parts: Iterable[tuple[int, str, Output]]) -> Iterator[Record]:
    """Yield the records of (line, id, output) that stand together by id; raise DataError where an id comes again."""
    lines: dict[str, int] = {}
    for name, several in groupby(parts, key=itemgetter(1)):
        (line, _, first), *more = several
        if name in lines:
            raise file.error(line, f"has id {name} again: its other outputs are at line {lines[name]}.")
        lines[name] = line
        yield Record(line, [first, *(output for *_, output in more)], name)
