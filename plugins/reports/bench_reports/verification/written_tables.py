"""Reads the tables of a report back from Markdown, LaTeX and HTML, as cells of comparable text."""

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
    """Return what formats cannot write differently: letters, digits and the signs of numbers."""
    plain = unicodedata.normalize("NFKD", text).replace("−", "-")
    return "".join(letter for letter in plain if letter.isalnum() or letter in ".+-±%∞†")


def numbers(text: str) -> list[str]:
    """Return the numbers in a text, sorted."""
    return sorted(NUMBER.findall(text.replace("−", "-").replace(",", "")))


def plain_markdown(text: str) -> str:
    """Return Markdown without its marks."""
    return html.unescape(re.sub(r"\\(\W)", r"\1", MARKS.sub(" ", text)))


def plain_latex(text: str) -> str:
    """Return LaTeX without its commands."""
    found = CODE_POINT.sub(lambda one: visible(chr(int(one[1], 16))), text)
    found = SIGN.sub(lambda one: BACK[one[0]], COMMANDS.sub(" ", ACCENT.sub(r"\1", found)))
    return re.sub(r"(?<!\\)[{}]", "", found)


def markdown_tables(text: str) -> dict[str, Rows]:
    """Return the tables of a report as Markdown, by their headings up to a colon; cells are as written.

    Pieces of one table, which have the same labels, are put together.
    """
    found: dict[str, Rows] = {}
    name, rows = "", Rows()
    for line in [*text.split("\n"), "#"]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            continue
        if rows:
            _put(found, name, [rows[0], *rows[2:]])  # the second line has the sides
            rows = []
        if line.startswith("#"):
            name = plain_markdown(line.lstrip("# ")).partition(": ")[0]
    return found


def _put(found: dict[str, Rows], name: str, rows: Rows) -> None:
    """Keep a table, or add what continues one."""
    before = found.setdefault(name, rows)
    if before is not rows and [row[0] for row in before] == [row[0] for row in rows]:
        found[name] = [[*one, *other[1:]] for one, other in zip(before, rows, strict=True)]


def latex_rows(text: str) -> Rows:
    """Return the rows of the file of a table, which may be in several pieces.

    What stands above several headings goes before each of them, and the group of a row before its label.
    """
    found: Rows = []
    for piece in text.split(r"\toprule")[1:]:
        head, _, body = piece.partition(r"\bottomrule")[0].partition(r"\midrule")
        headings, rows = _headings(_lines(head)), _grouped(_lines(body))
        found += rows if found else [headings, *rows]
    return found


def _lines(text: str) -> Rows:
    return [line.removesuffix(r" \\").split(" & ") for line in text.split("\n") if line.endswith(r" \\")]


def _headings(levels: Rows) -> list[str]:
    """Return the headings of columns after what stands above them."""
    above = [[word for cell in level for word in _spread(cell)] for level in levels[:-1]]
    return ["".join(words) for words in zip(*above, map(plain_latex, levels[-1]), strict=True)]


def _spread(cell: str) -> list[str]:
    found = SPANNING.fullmatch(cell)
    return [plain_latex(found[2])] * int(found[1]) if found else [plain_latex(cell)]


def _grouped(lines: Rows) -> Rows:
    """Return rows whose labels begin with their group."""
    found, group = Rows(), ""
    for line in lines:
        if len(line) == 1 and (one := SPANNING.fullmatch(line[0])):
            group = plain_latex(one[2])
        else:
            inside = line[0].startswith(r"\quad ")
            label = plain_latex(line[0].removeprefix(r"\quad "))
            found.append([f"{group} {label}" if inside else label, *map(plain_latex, line[1:])])
    return found


@dataclass
class Page(HTMLParser):
    """Collects the tables of a page, by their ids, and its text."""

    tables: dict[str, Rows] = field(default_factory=dict)
    values: dict[str, list[list[str | None]]] = field(default_factory=dict)  # by which a page sorts
    text: list[str] = field(default_factory=list)
    row: list[tuple[list[str], str | None, int]] = field(default_factory=list)  # text, value and width of each cell
    over: list[list[str]] = field(default_factory=list)  # headings above those of columns
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
        if self.over:  # the headings of columns, after what stands above them
            words, self.over = ["".join(parts) for parts in zip(*self.over, words, strict=True)], []
        self.tables[self.table].append(words)
        self.values[self.table].append([value for _, value, _ in self.row])

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.row[-1][0].append(data)
        if not self.hidden:
            self.text.append(data)


def read_html(text: str) -> Page:
    """Return the tables of a page, the values by which it sorts them, and all of its text."""
    page = Page()
    page.feed(text)
    page.close()
    return page


def unlike(one: Rows, other: Rows) -> Iterator[tuple[int, int]]:
    """Yield row and column of the cells that two tables write differently; (0, 0) if they have other sizes."""
    if [len(row) for row in one] != [len(row) for row in other]:
        yield 0, 0
        return
    for place, (ours, theirs) in enumerate(zip(one, other, strict=True)):
        for column, pair in enumerate(zip(ours, theirs, strict=True)):
            if letters(pair[0]) != letters(pair[1]):
                yield place, column
