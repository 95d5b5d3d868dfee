"""Readers of a report's tables in Markdown, LaTeX and HTML, as cells of comparable text."""

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TypeAlias

from bench_core.terminal import visible
from bench_reports.render.latex_text import CODE_POINT, SIGNS

Rows: TypeAlias = list[list[str]]  # headings first, labels first in each row

MARKS = re.compile(r"</?(?:sup|sub|code|br)>|(?<!\\)\*\*")
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|∞")
COMMANDS = re.compile(r"\\(?:textbf|textsuperscript|texttt|scriptsize)(?![A-Za-z]) ?")
ACCENT = re.compile(r"\\(?:[`'^~=u.\"rHvdc]|textcommabelow)\{(.)\}")
SPANNING = re.compile(r"\\multicolumn\{(\d+)\}\{[lc]\}\{(.*)\}")
BACK = {sign: letter for letter, sign in SIGNS.items()}
SIGN = re.compile("|".join(map(re.escape, sorted(BACK, key=len, reverse=True))))


def letters(text: str) -> str:
    """Return the characters that all formats write alike: letters, digits and the signs of numbers."""
    plain = unicodedata.normalize("NFKD", text).replace("−", "-")
    return "".join(letter for letter in plain if letter.isalnum() or letter in ".+-±%∞†")


def numbers(text: str) -> list[str]:
    """Return the numbers in a text, sorted."""
    return sorted(NUMBER.findall(text.replace("−", "-").replace(",", "")))


def plain_markdown(text: str) -> str:
    """Return the text of Markdown without markup."""
    return html.unescape(re.sub(r"\\(\W)", r"\1", MARKS.sub(" ", text)))


def plain_latex(text: str) -> str:
    """Return the text of LaTeX without commands."""
    plain = CODE_POINT.sub(lambda match: visible(chr(int(match[1], 16))), text)
    plain = SIGN.sub(lambda match: BACK[match[0]], COMMANDS.sub(" ", ACCENT.sub(r"\1", plain)))
    return re.sub(r"(?<!\\)[{}]", "", plain)


def markdown_tables(text: str) -> dict[str, Rows]:
    """Return the tables of a Markdown report, with unchanged cells, by the part of their heading before a colon.

    Parts of a split table, which have the same labels, are joined.
    """
    tables: dict[str, Rows] = {}
    name, rows = "", Rows()
    for line in [*text.split("\n"), "#"]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            continue
        if rows:
            _put(tables, name, [rows[0], *rows[2:]])  # without the alignment row
            rows = []
        if line.startswith("#"):
            name = plain_markdown(line.lstrip("# ")).partition(": ")[0]
    return tables


def _put(tables: dict[str, Rows], name: str, rows: Rows) -> None:
    """Add a table, or the columns that continue a table."""
    before = tables.setdefault(name, rows)
    if before is not rows and [row[0] for row in before] == [row[0] for row in rows]:
        tables[name] = [[*row, *more[1:]] for row, more in zip(before, rows, strict=True)]


def latex_rows(text: str) -> Rows:
    """Return the rows of a LaTeX table file, which may have several parts.

    Spanning headings are prepended to column headings, and the group of a row to its label.
    """
    table: Rows = []
    for piece in text.split(r"\toprule")[1:]:
        head, _, body = piece.partition(r"\bottomrule")[0].partition(r"\midrule")
        headings, rows = _headings(_lines(head)), _group_rows(_lines(body))
        table += rows if table else [headings, *rows]
    return table


def _lines(text: str) -> Rows:
    return [line.removesuffix(r" \\").split(" & ") for line in text.split("\n") if line.endswith(r" \\")]


def _headings(levels: Rows) -> list[str]:
    """Return the column headings, preceded by their spanning headings."""
    above = [[word for cell in level for word in _spread(cell)] for level in levels[:-1]]
    return ["".join(words) for words in zip(*above, map(plain_latex, levels[-1]), strict=True)]


def _spread(cell: str) -> list[str]:
    match = SPANNING.fullmatch(cell)
    return [plain_latex(match[2])] * int(match[1]) if match else [plain_latex(cell)]


def _group_rows(lines: Rows) -> Rows:
    """Return rows with labels that start with their group."""
    rows, group = Rows(), ""
    for line in lines:
        if len(line) == 1 and (match := SPANNING.fullmatch(line[0])):
            group = plain_latex(match[2])
        else:
            inside = line[0].startswith(r"\quad ")
            label = plain_latex(line[0].removeprefix(r"\quad "))
            rows.append([f"{group} {label}" if inside else label, *map(plain_latex, line[1:])])
    return rows


@dataclass
class Page(HTMLParser):
    """A parser that collects the tables of a page by id, and its text."""

    tables: dict[str, Rows] = field(default_factory=dict)
    values: dict[str, list[list[str | None]]] = field(default_factory=dict)  # sort keys
    text: list[str] = field(default_factory=list)
    row: list[tuple[list[str], str | None, int]] = field(default_factory=list)  # text, sort key and width of cells
    over: list[list[str]] = field(default_factory=list)  # spanning headings
    table: str = ""
    above: bool = False
    inside: bool = False
    hidden: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        self.hidden = tag == "style" or (tag == "script" and about.get("type") != "application/json")
        if tag == "table":
            self.table = about.get("id") or ""
            self.tables[self.table], self.values[self.table], self.over = [], [], []
        elif tag == "tr":
            self.row = []
            self.above = about.get("class") == "above"
        elif tag in ("th", "td"):
            self.row.append(([], about.get("data-value"), int(about.get("colspan") or 1)))
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False
        if tag in ("th", "td"):
            self.inside = False
        elif tag == "tr" and self.table:
            self._end_row(["".join(text) for text, _, _ in self.row])

    def _end_row(self, words: list[str]) -> None:
        if self.above:
            pairs = zip(words, self.row, strict=True)
            self.over.append([word for word, (_, _, width) in pairs for _ in range(width)])
            return
        if self.over:  # column headings, preceded by their spanning headings
            words, self.over = ["".join(parts) for parts in zip(*self.over, words, strict=True)], []
        self.tables[self.table].append(words)
        self.values[self.table].append([value for _, value, _ in self.row])

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.row[-1][0].append(data)
        if not self.hidden:
            self.text.append(data)


def read_html(text: str) -> Page:
    """Return the tables, sort keys and text of a page."""
    page = Page()
    page.feed(text)
    page.close()
    return page


def unlike(first: Rows, other: Rows) -> Iterator[tuple[int, int]]:
    """Yield row and column of the cells that differ between two tables; (0, 0) if their sizes differ."""
    if [len(row) for row in first] != [len(row) for row in other]:
        yield 0, 0
        return
    for place, (ours, theirs) in enumerate(zip(first, other, strict=True)):
        for column, pair in enumerate(zip(ours, theirs, strict=True)):
            if letters(pair[0]) != letters(pair[1]):
                yield place, column
