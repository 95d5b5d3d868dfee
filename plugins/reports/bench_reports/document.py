"""The document of a report: sections of blocks in plain text, between its content and the output formats.

A format is one file of `render/`: it writes every type of block in its own way, and escapes all text. A new type goes
into `Block`, and every format must say how it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Format: TypeAlias = Literal["html", "latex", "markdown", "terminal"]
#: raised and small: marks, and published numbers; sign: one of mathematics, such as +, which begins no list
Style: TypeAlias = Literal["", "strong", "raised", "small", "code", "sign"]
Side: TypeAlias = Literal["left", "right"]

FORMATS: Collection[Format] = ("html", "latex", "markdown", "terminal")


@dataclass(frozen=True)
class Span:
    """Some words in one style; a space stands between it and what comes before, unless it is `joined` to that."""

    text: str
    style: Style = ""
    joined: bool = False
    link: str = ""  # a file beside the report, to which it leads


@dataclass(frozen=True)
class Cell:
    """What stands in a row and a column of a table."""

    spans: Sequence[Span]
    value: float | None = None  # by which a reader may sort; cells without come last
    status: str = ""  # of what it shows, such as `failed`; in a colour where there are colours


@dataclass(frozen=True)
class TableFile:
    """A file that holds a table alone, for a paper to include."""

    name: str  # below `tables/`, without a suffix
    label: str  # by which a paper refers to it
    caption: str
    inches: float = 6.75  # that it may be wide
    in_column: bool = False  # of a page with two
    details: Sequence[str] = ()  # how it was measured: in it, but not printed


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences, each on a line of its own in what is written."""

    sentences: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Notes:
    """Notes on what stands above them, or a list of what there is to say."""

    items: Sequence[str]
    compact: bool = False  # on one line of a page's HTML


@dataclass(frozen=True)
class Facts:
    """Properties of a run by their names; those that cite papers may become links to these."""

    items: Mapping[str, str]
    cites: Collection[str] = ()


@dataclass(frozen=True)
class Table:
    """A table, with the notes below it."""

    id: str  # on a page
    caption: str
    headings: Sequence[str]  # of the labels, then of each column
    rows: Sequence[Sequence[Cell]]  # labels first
    side: Side = "right"  # to which all columns but the labels are aligned
    notes: Notes | None = None
    description: str = ""  # a sentence on what it shows
    above: Sequence[Sequence[str]] = ()  # headings above those, the widest first; neighbours may share one
    within: Sequence[tuple[str, str]] = ()  # of each row, the group that it is in, and its label there
    file: TableFile | None = None  # if it has one
    folded: str = ""  # the words below which it is folded away, for formats that can


@dataclass(frozen=True)
class Figure:
    """A figure, whose drawings are files beside the report, with the notes below it."""

    id: str
    heading: str
    caption: str
    kind: str
    folder: str  # of its files
    notes: Notes
    missing: str = ""  # why there is nothing to draw
    svg: bytes = b""
    details: Sequence[Block] = ()  # what it shows, in words, for formats that are read as plain text


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of a suite, its verdict, and the numbers behind that."""

    id: str
    verdict: str
    statement: str
    expression: str
    grounds: str


@dataclass(frozen=True)
class Claims:
    """What a suite claims, and what its numbers say of it."""

    items: Sequence[JudgedClaim]
    meaning: str  # of the verdicts

    @property
    def notes(self) -> Notes:
        """Return what each claim was judged by, and what the verdicts mean."""
        return Notes([*(f"{one.id}: {one.grounds}" for one in self.items), self.meaning])

    @property
    def table(self) -> Table:
        """Return the verdicts and statements as a table."""
        rows = [[text_cell(one.id), text_cell(one.verdict), text_cell(one.statement)] for one in self.items]
        return Table("claims", "Claims", ["claim", "verdict", "statement"], rows, "left", self.notes)


@dataclass(frozen=True)
class Example:
    """One example, and what each cell made of it."""

    name: str
    given: Mapping[str, str]  # prompt and reference
    outputs: Sequence[tuple[str, str]]  # cell and output
    courses: Sequence[tuple[str, Sequence[str]]] = ()  # cell, and its output after each step


@dataclass(frozen=True)
class SideBySide:
    """The outputs of all cells as JSON data of visible text, for a reader to compare two at a time."""

    data: Mapping[str, Any]


@dataclass(frozen=True)
class Files:
    """Links to files beside the report."""

    paths: Sequence[str]
    introduction: str = ""


Block: TypeAlias = Heading | Paragraph | Notes | Facts | Table | Figure | Claims | Example | SideBySide | Files


@dataclass(frozen=True)
class Section:
    """A part of a document under a heading."""

    heading: str
    blocks: Sequence[Block]
    anchor: str = ""  # on a page
    entry: str = ""  # in the contents, if it is listed there
    formats: Collection[Format] = FORMATS  # those that show it
    aside: bool = False  # beside the text where a format can

    @property
    def floats(self) -> bool:
        """Return whether it holds a figure, or a table with its own file: their captions can be its headings."""
        return any(isinstance(one, Figure) or (isinstance(one, Table) and one.file) for one in self.blocks)


@dataclass(frozen=True)
class Document:
    """A report, the page of its costs, or what a terminal shows of it."""

    title: str
    opening: Sequence[Block]  # before all sections
    sections: Sequence[Section]
    contents: bool = True  # whether its sections are to be listed, for formats that do

    def shown(self, name: Format) -> list[Section]:
        """Return the sections that a format shows."""
        return [one for one in self.sections if name in one.formats]


def text_cell(text: str, style: Style = "") -> Cell:
    """Return a cell of nothing but text."""
    return Cell([Span(text, style)])


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
            escape = self.sign if self.sign and span.style == "sign" else self.text
            word = self.styles.get(span.style, "{}").format(escape(span.text))
            word = self.link.format(text=word, link=self.text(span.link)) if span.link else word
            written += word if span.joined or not (written and word) else f" {word}"
        return written

    def rows(self, table: Table, between: str = "\n") -> list[list[str]]:
        """Return a table with its headings first, and its labels first in each row.

        Headings above others stand before them, `between` two.
        """
        parts = zip(*table.above, table.headings, strict=True)
        return [
            [between.join(self.text(word) for word in words if word) for words in parts],
            *([self.line(cell.spans) for cell in row] for row in table.rows),
        ]


def spans_of(level: Sequence[str], above: Sequence[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the headings of one level, and over how many columns each stands; none is wider than those above it."""
    found: list[tuple[str, int]] = []
    before: Sequence[str] | None = None
    for place, word in enumerate(level):
        path = [*(one[place] for one in above), word]
        if word and path == before:
            found[-1] = word, found[-1][1] + 1
        else:
            found.append((word, 1))
        before = path
    return found
