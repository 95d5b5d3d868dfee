"""The document of a report: sections of plain-text blocks, independent of output formats.

Each format is a file in `render/` that writes all types of blocks and escapes all text. A new type of block is added
to `Block` and to every format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

Format: TypeAlias = Literal["html", "latex", "markdown", "terminal"]
#: raised: marks; small: published numbers; sign: a mathematical sign such as +, which must not start a list
Style: TypeAlias = Literal["", "strong", "raised", "small", "code", "sign"]
Side: TypeAlias = Literal["left", "right"]

FORMATS: Collection[Format] = ("html", "latex", "markdown", "terminal")


@dataclass(frozen=True)
class Span:
    """Words in one style, separated by a space from the preceding span unless `joined`."""

    text: str
    style: Style = ""
    joined: bool = False
    link: str = ""  # a file of the report


@dataclass(frozen=True)
class TableCell:
    """A cell of a table."""

    spans: Sequence[Span]
    value: float | None = None  # sort key; cells without a value come last
    status: str = ""  # such as `failed`; shown in colour if the format has colours


@dataclass(frozen=True)
class TableFile:
    """A file with a single table, to include in a paper."""

    name: str  # path below `tables/` without suffix
    label: str  # LaTeX label
    caption: str
    inches: float = 6.75  # maximum width
    in_column: bool = False  # whether it fits a column of a two-column page
    details: Sequence[str] = ()  # comments on the measurement
    notes: Sequence[str] = ()  # all notes, if a report shows some of them elsewhere


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences, each written on its own line."""

    sentences: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Notes:
    """Notes on the preceding block, or a list."""

    items: Sequence[str]
    compact: bool = False  # one line in HTML source


@dataclass(frozen=True)
class Facts:
    """Properties of a run by name; properties in `cites` may become links to the cited papers."""

    items: Mapping[str, str]
    cites: Collection[str] = ()


@dataclass(frozen=True)
class TableBlock:
    """A table, with the notes below it."""

    id: str  # HTML id
    caption: str
    headings: Sequence[str]  # label column first
    rows: Sequence[Sequence[TableCell]]  # label column first
    side: Side = "right"  # alignment of all columns except the labels
    notes: Notes | None = None
    description: str = ""
    above: Sequence[Sequence[str]] = ()  # spanning headings above the column headings, the widest first
    within: Sequence[tuple[str, str]] = ()  # group of each row, and the row's label in its group
    file: TableFile | None = None
    folded: str = ""  # summary under which formats may collapse the table

    @property
    def all_notes(self) -> Sequence[str]:
        """All of its notes, including notes that a report shows elsewhere."""
        return (self.file.notes if self.file else ()) or (self.notes.items if self.notes else ())

    def without(self, notes: Collection[str]) -> TableBlock:
        """Return the table without these notes; its file keeps them."""
        file = replace(self.file, notes=self.all_notes) if self.file else None
        return replace(self, notes=Notes([note for note in self.all_notes if note not in notes]), file=file)


@dataclass(frozen=True)
class FigureBlock:
    """A figure, whose drawings are files of the report, with the notes below it."""

    id: str
    heading: str
    caption: str
    kind: str
    folder: str
    notes: Notes
    missing: str = ""  # why there is no drawing
    svg: bytes = b""
    details: Sequence[Block] = ()  # its content as text, for plain-text formats


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of a suite with its verdict and the numbers behind it."""

    id: str
    verdict: str
    statement: str
    expression: str
    grounds: str


@dataclass(frozen=True)
class Claims:
    """The claims of a suite with their verdicts."""

    items: Sequence[JudgedClaim]
    meaning: str  # explanation of the verdicts

    @property
    def notes(self) -> Notes:
        """The grounds of each claim, and the explanation of the verdicts."""
        return Notes([*(f"{claim.id}: {claim.grounds}" for claim in self.items), self.meaning])

    @property
    def table(self) -> TableBlock:
        """The verdicts and statements as a table."""
        rows = [[text_cell(claim.id), text_cell(claim.verdict), text_cell(claim.statement)] for claim in self.items]
        return TableBlock("claims", "Claims", ["claim", "verdict", "statement"], rows, "left", self.notes)


@dataclass(frozen=True)
class ExampleBlock:
    """One example with the outputs of all cells."""

    name: str
    given: Mapping[str, str]  # prompt and reference
    outputs: Sequence[tuple[str, str]]  # cell and output
    courses: Sequence[tuple[str, Sequence[str]]] = ()  # cell and its output after each step


@dataclass(frozen=True)
class SideBySide:
    """The outputs of all cells as JSON data of visible text, for interactive comparison of two cells."""

    data: Mapping[str, Any]


@dataclass(frozen=True)
class FileList:
    """Links to files of the report."""

    paths: Sequence[str]
    introduction: str = ""


Block: TypeAlias = (
    Heading | Paragraph | Notes | Facts | TableBlock | FigureBlock | Claims | ExampleBlock | SideBySide | FileList
)


@dataclass(frozen=True)
class DocumentSection:
    """A part of a document under a heading."""

    heading: str
    blocks: Sequence[Block]
    anchor: str = ""  # HTML id
    entry: str = ""  # entry in the table of contents; not listed if empty
    formats: Collection[Format] = FORMATS

    @property
    def floats(self) -> bool:
        """Whether it has a figure or a table with a file, whose captions can replace the heading."""
        return any(
            isinstance(block, FigureBlock) or (isinstance(block, TableBlock) and block.file) for block in self.blocks
        )


@dataclass(frozen=True)
class Document:
    """A report, its page of costs, or its summary for the terminal."""

    title: str
    prompt: Sequence[Block]  # before the sections
    sections: Sequence[DocumentSection]
    contents: bool = True  # whether to write a table of contents, if the format has one

    def sections_for(self, name: Format) -> list[DocumentSection]:
        """Return the sections of a format."""
        return [section for section in self.sections if name in section.formats]


def text_cell(text: str, style: Style = "") -> TableCell:
    """Return a cell with text only."""
    return TableCell([Span(text, style)])


@dataclass(frozen=True)
class Markup:
    """The text escapes, styles and links of an output format."""

    text: Callable[[str], str]
    styles: Mapping[Style, str]  # format strings for escaped words; other styles leave words unchanged
    link: str = "{text}"  # format string for the escaped words and the escaped address
    sign: Callable[[str], str] | None = None  # escape for mathematical signs; None: like other text

    def line(self, spans: Sequence[Span]) -> str:
        """Return spans separated by spaces, except before joined spans."""
        written = ""
        for span in spans:
            escape = self.sign if self.sign and span.style == "sign" else self.text
            word = self.styles.get(span.style, "{}").format(escape(span.text))
            word = self.link.format(text=word, link=self.text(span.link)) if span.link else word
            written += word if span.joined or not (written and word) else f" {word}"
        return written

    def rows(self, table: TableBlock, between: str = "\n") -> list[list[str]]:
        """Return the headings and rows of a table, labels first; spanning headings are joined by `between`."""
        parts = zip(*table.above, table.headings, strict=True)
        return [
            [between.join(self.text(word) for word in words if word) for words in parts],
            *([self.line(cell.spans) for cell in row] for row in table.rows),
        ]


def spans_of(level: Sequence[str], above: Sequence[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the headings of a level and the number of columns each spans, at most that of the heading above it."""
    spans: list[tuple[str, int]] = []
    before: Sequence[str] | None = None
    for place, word in enumerate(level):
        path = [*(upper[place] for upper in above), word]
        if word and path == before:
            spans[-1] = word, spans[-1][1] + 1
        else:
            spans.append((word, 1))
        before = path
    return spans
