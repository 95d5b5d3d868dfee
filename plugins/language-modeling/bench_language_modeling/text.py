"""The text of a corpus, as lines of words separated by white space."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench_core import Split


@dataclass(frozen=True)
class Text:
    """A corpus, whose lines are read on request."""

    name: str  # shown in reports
    read: Callable[[Split], list[str]]  # returns all lines, including empty ones, with single spaces between words
    sentences: bool = False  # whether each line is a sentence, rather than a paragraph, a heading or empty
    stops: bool = True  # whether EOS follows each line of a stream, by default
    nats: Mapping[Split, float] = field(default_factory=dict)  # cost of all lines under an optimal model, in nats
    embedded: bool = True  # whether the text is available without files
    notice: str = ""  # a note for readers of reports
    labels: Mapping[Split, str] = field(default_factory=dict)  # names of splits in reports; default: `name`

    @property
    def about(self) -> dict[str, Any]:
        """The description of the corpus in reports."""
        labels = self.labels or self.name
        return {"corpus": labels, "embedded": self.embedded, **({"notice": self.notice} if self.notice else {})}

    def paragraphs(self, split: Split) -> list[str]:
        """Return the lines that are neither empty nor headings such as `= = History = =`."""
        return [*filter(is_paragraph, self.read(split))]


def is_paragraph(line: str) -> bool:
    """Return whether a line is neither empty nor a heading such as `= = History = =`."""
    return bool(line) and not (line.startswith("= ") and line.endswith(" ="))
