r"""Writes a table as floats of LaTeX: with caption, label and notes, as wide as a column or a page of a paper."""

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

MOST_ROWS = 40  # of one float; a longer table continues in others
MOST_LINES = 55  # of rows and notes in one float
LINE = 100  # characters of a note
NARROW = 8  # letters of a line in a heading that is broken, if it has as many
HARDLY = 0.01  # of the size of type, by which shrinking is not worth a word
PAGE = 6.7  # inches of a line in a report
INCH = 72.27  # points
NEEDS = r"% Needs \usepackage{booktabs} and \usepackage{graphicx}."
BREAKS = ("/", "+", r"\_", r"\textbar{}")  # after which a line of a note may end


class Size(NamedTuple):
    """A size of type: its command, and the points of a digit and between columns."""

    command: str
    digit: float
    space: float

    @property
    def before(self) -> str:
        """Return the commands that set it."""
        narrower = rf"\setlength{{\tabcolsep}}{{{self.space / 2:g}pt}}" if self.space != SPACE else ""
        return self.command + narrower


SPACE = 12.0
SIZES = (Size(r"\small", 4.6, SPACE), Size(r"\footnotesize", 4.25, SPACE), Size(r"\scriptsize", 3.8, 8.0))


@dataclass(frozen=True)
class Tabular:
    """The rows of a table in LaTeX."""

    table: doc.Table
    broken: bool = False  # whether headings that are wider than their columns stand on several lines

    @classmethod
    def fitting(cls, table: doc.Table, inches: float) -> Tabular:
        """Return the rows of a table, with broken headings if it is too wide in large type otherwise."""
        whole = cls(table)
        return whole if whole.width(SIZES[0]) <= inches * INCH else cls(table, broken=True)

    @property
    def columns(self) -> int:
        """Return the number of columns, labels included."""
        return len(self.table.headings)

    @property
    def head(self) -> list[str]:
        """Return the lines of the headings, ruled below what stands above several."""
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
        found = [_wrapped(word, letters) for word, letters in zip(self.table.headings, room, strict=True)]
        depth = max(map(len, found))
        return [list(words) for words in zip(*([""] * (depth - len(one)) + one for one in found), strict=True)]

    def rows(self) -> list[list[str]]:
        """Return each row as lines; the first of a group begins with that."""
        cells = [[LATEX.line(cell.spans) for cell in row] for row in self.table.rows]
        if not any(one and one == other for (one, _), (other, _) in pairwise(self.table.within)):  # no groups
            return [[_line(row)] for row in cells]
        found, before = list[list[str]](), ""
        for (group, label), row in zip(self.table.within, cells, strict=True):
            new = bool(group) and group != before
            above = [r"\addlinespace"] * bool(found and new)
            above += [rf"\multicolumn{{{self.columns}}}{{l}}{{{latex(group)}}} \\"] if new else []
            found.append([*above, _line([rf"\quad {latex(label)}", *row[1:]] if group else row)])
            before = group
        return found

    def width(self, size: Size) -> float:
        """Return about how many points it is wide."""
        rows = [*self._cells(), *([visible(word) for word in words] for words in self.heading_lines)]
        letters = sum(max(map(len, column)) for column in zip(*rows, strict=True))
        return letters * size.digit + self.columns * size.space

    def _cells(self) -> list[list[str]]:
        """Return the cells of each row about as long as they are in print."""
        lines = [line.removesuffix(r" \\").split(" & ") for one in self.rows() for line in one]
        return [[_bare(word) for word in words] for words in lines if len(words) == self.columns]

    def size(self, inches: float) -> Size:
        """Return the largest size of type in which it fits, or the smallest."""
        return next((size for size in SIZES if self.width(size) <= inches * INCH), SIZES[-1])

    def set(self, lines: Sequence[str], size: Size) -> str:
        """Return some of its rows as a `tabular`, which shrinks to the line if it is wider after all."""
        columns = "l" + self.table.side[0] * (self.columns - 1)
        tabular = [rf"\begin{{tabular}}{{{columns}}}", *self.head, *lines, r"\bottomrule", r"\end{tabular}}%"]
        fitted = [
            r"\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
            r"\else\usebox0\fi%",
        ]
        return "\n".join([rf"\sbox0{{{size.before}%", *tabular, *fitted])


def table_file(table: doc.Table) -> str:
    """Return the file of a table: floats with its caption, label and notes; how it was measured, in comments."""
    assert table.file
    tabular = Tabular.fitting(table, table.file.inches)
    size = tabular.size(table.file.inches)
    remarks = [*filter(None, [too_wide(table)]), *table.file.details]
    ascii_only = (visible(one).encode("ascii", "backslashreplace").decode() for one in remarks)
    comments = "".join(f"% {' '.join(one.split())}\n" for one in ascii_only)
    pieces = [*_pieces(table, tabular.rows())]
    floats = [
        _float(table, table.file, tabular.set(lines, size), number, number == len(pieces) - 1)
        for number, lines in enumerate(pieces)
    ]
    return f"{NEEDS}\n{comments}{''.join(floats)}"


def plain_table(table: doc.Table) -> str:
    """Return a table where it stands, without caption."""
    tabular = Tabular.fitting(table, PAGE)
    lines = [line for one in tabular.rows() for line in one]
    return f"{tabular.set(lines, tabular.size(PAGE))}\n\\par\n"


def too_wide(table: doc.Table) -> str:
    """Say that a table is wider than its place in print, even in small type; nothing if it fits."""
    if not table.file:
        return ""
    room = table.file.inches
    wide = Tabular.fitting(table, room).width(SIZES[-1]) / INCH
    share = room / wide  # of the smallest type, to which it is shrunk
    if share > 1 - HARDLY:
        return ""
    advice = "Set `transpose: true`, `width: page`, shorter `labels`, or make it several tables."
    shrunk = f"it is shrunk to about {100 * share:.0f} % of \\scriptsize"
    return f"tables/{table.file.name}.tex is about {wide:.1f} in wide, and its place {room:g} in: {shrunk}. {advice}"


def _pieces(table: doc.Table, rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the lines of each float; the last has room for the notes."""
    below = sum(1 + len(note) // LINE for note in (table.notes.items if table.notes else ()))
    number = max(1, ceil(len(rows) / MOST_ROWS))
    if number == 1 and len(rows) + below > MOST_LINES and len(rows) > 1:
        number = 2
    each = ceil(len(rows) / number) or 1
    for start in range(0, max(1, len(rows)), each):
        yield [line for one in rows[start : start + each] for line in one]


def _float(table: doc.Table, file: doc.TableFile, rows: str, number: int, last: bool) -> str:
    """Return one float; those after the first continue it."""
    kind = "table" if file.in_column else "table*"
    more = r" (continued)" if number else ""
    above = rf"\caption{{{latex(file.caption)}{more}}}"
    head = [r"\addtocounter{table}{-1}", above] if number else [above, rf"\label{{{file.label}}}"]
    notes = _notes(table) if last else []
    lines = [rf"\begin{{{kind}}}[tbp]", r"\centering", *head, r"\par\medskip", rows, *notes, rf"\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def _notes(table: doc.Table) -> list[str]:
    notes = [breakable(latex(note)) for note in (table.notes.items if table.notes else ())]
    if not notes:
        return []
    begin = [r"\par\smallskip", r"\begin{minipage}{\linewidth}", r"\footnotesize\raggedright"]
    return [*begin, *notes, r"\end{minipage}"]


def breakable(text: str) -> str:
    """Return marked-up text whose lines may end within names, such as those of files."""
    for mark in BREAKS:
        text = text.replace(mark, rf"{mark}\allowbreak{{}}")
    return re.sub(r"([:=])(?=[^\s:=])", r"\1\\allowbreak{}", text)


def _wrapped(heading: str, letters: int) -> list[str]:
    """Return a heading in lines as wide as a column; an arrow stays with what it is of."""
    kept = re.sub(r" (?=[↑↓])|(?<=[~≤≥]) ", "\N{NO-BREAK SPACE}", visible(heading))
    lines = wrap(kept, max(letters, NARROW), break_long_words=False, break_on_hyphens=False)
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
    """Return marked-up text with a letter for each sign and nothing for braces and what changes type."""
    plain = re.sub(r"\\(scriptsize |textbf|textsuperscript|quad )", "", text)
    return re.sub(r"[{}$]", "", re.sub(r"\\([A-Za-z]+|.)", "x", plain))
