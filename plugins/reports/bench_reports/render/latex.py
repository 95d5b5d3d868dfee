r"""Tables of LaTeX: files that a paper can `\input` as they stand, and their places in a report."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from bench_core.runs.results import Run
from bench_core.suites.cells import join
from bench_core.suites.schema import Table
from bench_reports.content.grid import Column, Grid, Names
from bench_reports.content.page import footnotes, rules
from bench_reports.render.markup import LATEX, compared_places, latex

MOST_ROWS = 40  # of a table that does not break between pages
MOST_LINES = 55  # of such a table and its notes
WHOLE = r"% Needs \usepackage{booktabs}. With \usepackage{graphicx} it shrinks to the line where it is wider."
BROKEN = r"% Needs \usepackage{booktabs,longtable}. It breaks between pages: not for floats, nor for two columns."
LINE = 100  # characters of a note
TEXT_WIDTH = 345.0  # points; that of an article without settings
DIGIT = 4.3  # points, in \footnotesize
SPACE = 12.0  # points between columns


@dataclass(frozen=True)
class Tabular:
    """A table to set: text that is marked up already, and how headings stand in groups."""

    rows: Sequence[Sequence[str]]  # headings first
    notes: Sequence[str] = ()
    groups: Sequence[tuple[str, int]] = ()  # headings above those of columns, and how many these are; "" for none
    side: str = "r"  # to which all columns but the first lean

    @property
    def long(self) -> bool:
        """Return whether it, or what it says below, is too long to stand on one page."""
        rows, notes = len(self.rows) - 1, sum(1 + len(note) // LINE for note in self.notes)
        return rows > MOST_ROWS or rows + notes > MOST_LINES

    def __str__(self) -> str:
        """Return LaTeX that needs booktabs, longtable if it is long, and neither caption nor float."""
        return "\n".join(self._broken() if self.long else self._whole()) + "\n"

    def _whole(self) -> list[str]:
        r"""Return a `minipage`; one too wide shrinks where there is a `\resizebox`."""
        return [
            r"\begin{minipage}{\linewidth}",
            r"\centering",
            r"\sbox0{%",
            rf"\begin{{tabular}}{{{self._columns}}}",
            *self._head,
            *map(_line, self.rows[1:]),
            r"\bottomrule",
            r"\end{tabular}}%",
            r"\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\usebox0}"
            r"\else\usebox0\fi\else\usebox0\fi",
            *self._below,
            r"\end{minipage}%",
        ]

    def _broken(self) -> list[str]:
        """Return a `longtable`, which cannot shrink to the line: a wide one is set in smaller type.

        It leaves the number of tables as it was, so that a caption above it may be any.
        """
        return [
            r"\begingroup",
            # What is smaller than its neighbours stays so.
            r"\footnotesize" if _fits(self.rows) else r"\scriptsize\let\scriptsize\tiny\setlength{\tabcolsep}{3pt}",
            r"\addtocounter{table}{-1}",
            rf"\begin{{longtable}}{{{self._columns}}}",
            *self._head,
            r"\endfirsthead",
            *self._head,
            r"\endhead",
            r"\midrule",
            rf"\multicolumn{{{len(self.rows[0])}}}{{r}}{{continued on the next page}} \\",
            r"\endfoot",
            r"\bottomrule",
            r"\endlastfoot",
            *map(_line, self.rows[1:]),
            r"\end{longtable}",
            *self._below,
            r"\endgroup",
        ]

    @property
    def _columns(self) -> str:
        return "l" + self.side * (len(self.rows[0]) - 1)

    @property
    def _head(self) -> list[str]:
        return [r"\toprule", *_grouped(self.groups), _line(self.rows[0]), r"\midrule"]

    @property
    def _below(self) -> list[str]:
        notes = [rf"{note}\par" for note in self.notes]
        return [r"\par\smallskip", r"\footnotesize\raggedright\noindent\ignorespaces", *notes] if notes else []


@dataclass(frozen=True)
class TableFile:
    """A table's own file, and what a report says above it."""

    name: str  # below `tables/`, without `.tex`
    caption: str  # marked up
    label: str
    tabular: Tabular

    def __str__(self) -> str:
        """Return the text of the file."""
        return f"{BROKEN if self.tabular.long else WHOLE}\n{self.tabular}"


def table_files(run: Run, filled: Sequence[Grid]) -> list[list[TableFile]]:
    """Return the files of each table: its own, and that of its differences from the published if it has some."""
    taken, found = {grid.table.id for grid in filled}, []
    for grid in filled:
        table = grid.table
        caption = latex(": ".join(filter(None, [table.id, table.caption])))
        tabular = _tabular(table, LATEX.table(grid), footnotes(run, grid), grid.columns)
        found.append([TableFile(table.id, caption, f"tab:{table.id}", tabular)])
        if rows := LATEX.differences(grid):
            name = f"{table.id}-published"
            while name in taken:  # by another table, as ids may end so
                name += "-published"
            taken.add(name)
            columns = [grid.columns[place] for place in compared_places(grid)]
            tabular = _tabular(table, rows, rules(run, grid), columns)
            caption = f"{latex(table.id)} beside the published"
            found[-1].append(TableFile(name, caption, f"tab:{table.id}:published", tabular))
    return found


def _tabular(table: Table, rows: Sequence[Sequence[str]], notes: Sequence[str], columns: Sequence[Column]) -> Tabular:
    """Put what neighbouring headings have in common above them, where any two have."""
    groups, headings = [], [rows[0][0]]
    for group, members in groupby(_divided(table, columns), lambda one: one[0]):
        same = list(members)
        shared = group if len(same) > 1 else ()
        groups.append((latex(join(*shared)), len(same)))
        headings += [latex(leaf if shared else column.heading) for _, leaf, column in same]
    return Tabular(
        [headings, *rows[1:]], [latex(note) for note in notes], groups if any(text for text, _ in groups) else ()
    )


def _divided(table: Table, columns: Sequence[Column]) -> list[tuple[Names, str, Column]]:
    """Return what each column is told by but the last, the last with its mark, and the column.

    A heading that only the published table has is divided where it begins as one of ours.
    """
    known = {_group(table, column) for column in columns if column.names is not None} - {()}
    found = []
    for column in columns:
        group = _beginning(column.label, known) if column.names is None else _group(table, column)
        begin = join(*group) + "/" * bool(group)
        found.append((group, column.heading.removeprefix(begin), column))
    return found


def _group(table: Table, column: Column) -> Names:
    """Return all but the last of the names that a label was joined from; where it has no axes, its text up to `/`."""
    if table.of != "results":
        return tuple(filter(None, [column.label.rpartition("/")[0]]))
    names = tuple(filter(None, column.names or ()))
    return names[:-1] if column.label == join(*names) else names


def _beginning(label: str, known: Collection[Names]) -> Names:
    """Return the longest of the groups that a label begins with."""
    return max((names for names in known if label.startswith(join(*names) + "/")), key=_length, default=())


def _length(names: Names) -> tuple[int, Names]:
    return len(join(*names)), names


def _grouped(groups: Sequence[tuple[str, int]]) -> list[str]:
    """Return the line of headings above those of columns, ruled below each."""
    if not groups:
        return []
    cells, rules, place = [""], [], 2
    for text, width in groups:
        cells += [rf"\multicolumn{{{width}}}{{c}}{{{text}}}"] if text else [""] * width
        rules += [rf"\cmidrule(lr){{{place}-{place + width - 1}}}"] if text else []
        place += width
    return [_line(cells), "".join(rules)]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _fits(rows: Sequence[Sequence[str]]) -> bool:
    r"""Return whether a table in `\footnotesize` is about as wide as the text, or less."""
    widths = [max(len(_bare(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return sum(widths) * DIGIT + len(widths) * SPACE <= TEXT_WIDTH


def _bare(text: str) -> str:
    """Return marked-up text with a letter for each sign and nothing for braces and what changes type."""
    plain = re.sub(r"\\(scriptsize |textbf|textsuperscript)", "", text)
    return re.sub(r"[{}$]", "", re.sub(r"\\([A-Za-z]+|.)", "x", plain))
