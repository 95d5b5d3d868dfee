"""How a format writes spans of text, and the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench_reports.document import Span, Style, Table


@dataclass(frozen=True)
class Markup:
    """How one format escapes text, and what it writes around words of each style and around links."""

    text: Callable[[str], str]
    styles: Mapping[Style, str]  # formats of the escaped words; a style that is not there changes nothing
    link: str = "{text}"  # a format of the escaped words and the escaped address
    sign: Callable[[str], str] | None = None  # escapes signs of mathematics, if not as other text

    def line(self, spans: Sequence[Span]) -> str:
        """Return spans with spaces between them, but before those that are joined to others."""
        written = ""
        for span in spans:
            word = self._span(span)
            written += word if span.joined or not (written and word) else f" {word}"
        return written

    def rows(self, table: Table) -> list[list[str]]:
        """Return a table with its headings first, and its labels first in each row."""
        return [
            [self.text(word) for word in table.headings],
            *([self.line(cell.spans) for cell in row] for row in table.rows),
        ]

    def _span(self, span: Span) -> str:
        escape = self.sign if self.sign and span.style == "sign" else self.text
        word = self.styles.get(span.style, "{}").format(escape(span.text))
        return self.link.format(text=word, link=self.text(span.link)) if span.link else word
