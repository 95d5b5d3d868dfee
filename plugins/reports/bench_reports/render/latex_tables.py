r"""Write a table as LaTeX floats with caption, label and notes, as wide as a column or a page of a paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from textwrap import wrap
from typing import NamedTuple

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.render.latex_text import LATEX, latex

MAX_ROWS = 40  # rows per float; longer tables continue in further floats
MAX_LINES = 55  # lines of rows and notes per float
LINE = 100  # characters per line of a note
NARROW = 8  # minimum characters per line of a broken heading
NEGLIGIBLE = 0.01  # share of the font size: shrinking by less is not reported
LINE_INCHES = 6.7  # inches of a line in a report
INCH = 72.27  # points
NEEDS = r"% Needs \usepackage{booktabs} and \usepackage{graphicx}."
BREAKS = ("/", "+", r"\_", r"\textbar{}")  # a line of a note may end after these


class TypeSize(NamedTuple):
    """A font size: its command, and the widths in points of a digit and of the space between columns."""

    command: str
    digit: float
    space: float

    @property
    def before(self) -> str:
        """Return the commands that set it."""
        narrower = rf"\setlength{{\tabcolsep}}{{{self.space / 2:g}pt}}" if self.space != COLUMN_POINTS else ""
        return self.command + narrower


COLUMN_POINTS = 12.0
SIZES = (
    TypeSize(r"\small", 4.6, COLUMN_POINTS),
    TypeSize(r"\footnotesize", 4.25, COLUMN_POINTS),
    TypeSize(r"\scriptsize", 3.8, 8.0),
)


@dataclass(frozen=True)
class Tabular:
    """The rows of a table in LaTeX."""

    table: doc.TableBlock
    broken: bool = False  # whether headings wider than their columns are broken into lines

    @classmethod
    def fitting(cls, table: doc.TableBlock, inches: float) -> Tabular:
        """Return the rows of a table, with broken headings if it is otherwise too wide at the largest font size."""
        whole = cls(table)
        return whole if whole.width(SIZES[0]) <= inches * INCH else cls(table, broken=True)

    @property
    def columns(self) -> int:
        """Return the number of columns, including labels."""
        return len(self.table.headings)

    @property
    def head(self) -> list[str]:
        """Return the lines of the headings, with rules below headings that span columns."""
        lines = [r"\toprule"]
        for number, level in enumerate(self.table.above):
            spans = doc.spans_of(level, self.table.above[:number])
            words = [rf"\multicolumn{{{width}}}{{c}}{{{latex(word)}}}" if word else "" for word, width in spans]
            lines += [_line(words), "".join(_rules(spans))]
        return [*lines, *(_line([latex(word) for word in words]) for words in self.heading_lines), r"\midrule"]

    @property
    def heading_lines(self) -> list[list[str]]:
        """Return the headings of columns line by line."""
        if not self.broken:
            return [[*self.table.headings]]
        room = [max(map(len, column)) for column in zip(*self._cells(), strict=True)] or [0] * self.columns
        headings = [_wrap_heading(word, letters) for word, letters in zip(self.table.headings, room, strict=True)]
        depth = max(map(len, headings))
        return [
            list(words) for words in zip(*([""] * (depth - len(lines)) + lines for lines in headings), strict=True)
        ]

    def rows(self) -> list[list[str]]:
        """Return each row as lines; a group's first row begins with the name of the group."""
        cells = [[LATEX.line(cell.spans) for cell in row] for row in self.table.rows]
        if not any(group and group == other for (group, _), (other, _) in pairwise(self.table.within)):  # no groups
            return [[_line(row)] for row in cells]
        rows, before = list[list[str]](), ""
        for (group, label), row in zip(self.table.within, cells, strict=True):
            new = bool(group) and group != before
            above = [r"\addlinespace"] * bool(rows and new)
            above += [rf"\multicolumn{{{self.columns}}}{{l}}{{{latex(group)}}} \\"] if new else []
            rows.append([*above, _line([rf"\quad {latex(label)}", *row[1:]] if group else row)])
            before = group
        return rows

    def width(self, size: TypeSize) -> float:
        """Return its approximate width in points."""
        rows = [*self._cells(), *([visible(word) for word in words] for words in self.heading_lines)]
        letters = sum(max(map(len, column)) for column in zip(*rows, strict=True))
        return letters * size.digit + self.columns * size.space

    def _cells(self) -> list[list[str]]:
        """Return the cells of each row, about as long as in print."""
        lines = [line.removesuffix(r" \\").split(" & ") for row in self.rows() for line in row]
        return [[_bare(word) for word in words] for words in lines if len(words) == self.columns]

    def size(self, inches: float) -> TypeSize:
        """Return the largest font size at which it fits, or the smallest."""
        return next((size for size in SIZES if self.width(size) <= inches * INCH), SIZES[-1])

    def set(self, lines: Sequence[str], size: TypeSize) -> str:
        """Return a `tabular` with some of its rows, shrunk to the line width if it is still too wide."""
        columns = "l" + self.table.side[0] * (self.columns - 1)
        tabular = [rf"\begin{{tabular}}{{{columns}}}", *self.head, *lines, r"\bottomrule", r"\end{tabular}}%"]
        fitted = [
            r"\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
            r"\else\usebox0\fi%",
        ]
        return "\n".join([rf"\sbox0{{{size.before}%", *tabular, *fitted])


def table_file(table: doc.TableBlock) -> str:
    """Return the file of a table: floats with caption, label and notes, and measurement details in comments."""
    assert table.file
    tabular = Tabular.fitting(table, table.file.inches)
    size = tabular.size(table.file.inches)
    remarks = [*filter(None, [too_wide(table)]), *table.file.details]
    ascii_only = (visible(remark).encode("ascii", "backslashreplace").decode() for remark in remarks)
    comments = "".join(f"% {' '.join(remark.split())}\n" for remark in ascii_only)
    pieces = [*_pieces(table, tabular.rows())]
    floats = [
        _float(table, table.file, tabular.set(lines, size), number, number == len(pieces) - 1)
        for number, lines in enumerate(pieces)
    ]
    return f"{NEEDS}\n{comments}{''.join(floats)}"


def plain_table(table: doc.TableBlock) -> str:
    """Return a table in place, without a caption."""
    tabular = Tabular.fitting(table, LINE_INCHES)
    lines = [line for row in tabular.rows() for line in row]
    return f"{tabular.set(lines, tabular.size(LINE_INCHES))}\n\\par\n"


def too_wide(table: doc.TableBlock) -> str:
    """Return a message if a table is wider than its place even at the smallest font size; else an empty string."""
    if not table.file:
        return ""
    room = table.file.inches
    wide = Tabular.fitting(table, room).width(SIZES[-1]) / INCH
    share = room / wide  # of the smallest font size
    if share > 1 - NEGLIGIBLE:
        return ""
    advice = "Set `transpose: true`, `width: page`, shorter `labels`, or split the table."
    shrunk = f"it is shrunk to about {100 * share:.0f} % of \\scriptsize"
    return f"tables/{table.file.name}.tex is about {wide:.1f} in wide, for a place of {room:g} in: {shrunk}. {advice}"


def _pieces(table: doc.TableBlock, rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the lines of each float; the last has room for the notes."""
    below = sum(1 + len(note) // LINE for note in table.all_notes)
    number = max(1, ceil(len(rows) / MAX_ROWS))
    if number == 1 and len(rows) + below > MAX_LINES and len(rows) > 1:
        number = 2
    each = ceil(len(rows) / number) or 1
    for start in range(0, max(1, len(rows)), each):
        yield [line for row in rows[start : start + each] for line in row]


def _float(table: doc.TableBlock, file: doc.TableFile, rows: str, number: int, last: bool) -> str:
    """Return one float; every float after the first is marked as continued."""
    kind = "table" if file.in_column else "table*"
    more = r" (continued)" if number else ""
    above = rf"\caption{{{latex(file.caption)}{more}}}"
    head = [r"\addtocounter{table}{-1}", above] if number else [above, rf"\label{{{file.label}}}"]
    notes = _notes(table) if last else []
    lines = [rf"\begin{{{kind}}}[tbp]", r"\centering", *head, r"\par\medskip", rows, *notes, rf"\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def _notes(table: doc.TableBlock) -> list[str]:
    notes = [breakable(latex(note)) for note in [table.description, *table.all_notes] if note]
    if not notes:
        return []
    begin = [r"\par\smallskip", r"\begin{minipage}{\linewidth}", r"\footnotesize\raggedright"]
    return [*begin, *notes, r"\end{minipage}"]


def breakable(text: str) -> str:
    """Return LaTeX whose lines may break within names, such as file names."""
    for mark in BREAKS:
        text = text.replace(mark, rf"{mark}\allowbreak{{}}")
    return re.sub(r"([:=])(?=[^\s:=])", r"\1\\allowbreak{}", text)


def _wrap_heading(heading: str, letters: int) -> list[str]:
    """Return a heading in lines as wide as a column; an arrow stays on the line of its metric."""
    unbroken = re.sub(r" (?=[↑↓])|(?<=[~≤≥]) ", "\N{NO-BREAK SPACE}", visible(heading))
    lines = wrap(unbroken, max(letters, NARROW), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [""]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _rules(spans: Sequence[tuple[str, int]]) -> Iterator[str]:
    place = 1
    for word, width in spans:
        if word:
            yield rf"\cmidrule(lr){{{place}-{place + width - 1}}}"
        place += width


def _bare(text: str) -> str:
    """Return LaTeX with one letter per sign, without braces and font commands."""
    plain = re.sub(r"\\(scriptsize |textbf|textsuperscript|quad )", "", text)
    return re.sub(r"[{}$]", "", re.sub(r"\\([A-Za-z]+|.)", "x", plain))
