"""Corpus text as lines of white-space separated words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench_core import Split


@dataclass(frozen=True)
class Text:
    """One corpus, read when its lines are asked for."""

    name: str  # in reports
    read: Callable[[Split], list[str]]  # all lines, the empty ones too, words separated by single spaces
    sentences: bool = False  # whether a line is a sentence; if not, it is a paragraph, a heading, or empty
    stops: bool = True  # whether, as a stream, each line is followed by a stop
    nats: Mapping[Split, float] = field(default_factory=dict)  # what the best possible model pays for all lines
    embedded: bool = True  # whether it is read from no files
    notice: str = ""  # what a reader of reports should know
    labels: Mapping[Split, str] = field(default_factory=dict)  # of splits in reports, unless all are called `name`

    @property
    def about(self) -> dict[str, Any]:
        """What reports show of it."""
        found = self.labels or self.name
        return {"corpus": found, "embedded": self.embedded, **({"notice": self.notice} if self.notice else {})}

    def paragraphs(self, split: Split) -> list[str]:
        """Return the lines that are neither empty nor headings such as `= = History = =`."""
        return [*filter(is_paragraph, self.read(split))]


def is_paragraph(line: str) -> bool:
    """Return whether a line is neither empty nor a heading such as `= = History = =`."""
    return bool(line) and not (line.startswith("= ") and line.endswith(" ="))
