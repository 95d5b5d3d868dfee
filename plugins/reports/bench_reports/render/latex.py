r"""Writes a document as LaTeX (`report.tex`), and its tables as files that a paper can `\input`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.document import Block, Document, Markup, Section

MOST_ROWS = 40  # of a table that does not break between pages
MOST_LINES = 55  # of such a table and its notes
LINE = 100  # characters of a note
TEXT_WIDTH = 345.0  # points; that of an article without settings
DIGIT = 4.3  # points, in \footnotesize
SPACE = 12.0  # points between columns
WHOLE = r"% Needs \usepackage{booktabs}. With \usepackage{graphicx} it shrinks to the line where it is wider."
BROKEN = r"% Needs \usepackage{booktabs,longtable}. It breaks between pages: not for floats, nor for two columns."
FITTED = r"\ifdim\wd\fitted>\linewidth\resizebox{\linewidth}{!}{\usebox{\fitted}}\else\usebox{\fitted}\fi"
PREAMBLE = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{longtable}
\usepackage[margin=2cm]{geometry}
\setlength{\emergencystretch}{3em}
\setlength{\belowcaptionskip}{4pt}
\newsavebox{\fitted}
\makeatletter
\newcommand{\captionabove}[2]{{\def\@captype{table}\caption{#1}\label{#2}}}
\makeatother
\begin{document}
"""


def latex_report(document: Document) -> str:
    """Return a document as LaTeX, which needs the files of its tables and figures beside it."""
    sections = "".join(map(_section, document.shown("latex")))
    title = f"\\section*{{{latex(document.title)}}}\n"
    return PREAMBLE + title + _blocks(document.opening) + sections + "\\end{document}\n"


def table_files(document: Document) -> dict[str, str]:
    """Return the texts of the files of tables, by their names."""
    tables = [one for section in document.sections for one in section.blocks if isinstance(one, doc.Table)]
    found = {one.file.name: _tabular(one) for one in tables if one.file}
    return {name: f"{BROKEN if tabular.long else WHOLE}\n{tabular}" for name, tabular in found.items()}


def latex(text: str) -> str:
    """Return text that LaTeX prints as it is, in ASCII; what its first fonts lack becomes a code point."""
    special = r"-(?=-)|'(?=')|[^A-Za-z0-9 .,:;!?()/+=@'\"-]"
    return re.sub(special, lambda found: _latex(found[0]), unicodedata.normalize("NFC", visible(text)))


def _latex(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return f"\\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"{{[}}U+{ord(character):04X}{{]}}"


ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0326": "textcommabelow",
    "\u0327": "c", "\u0331": "b",
}  # fmt: skip

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
    "phi chi psi omega"
)

# Braces keep a character from being read with its neighbours: as a ligature, an option, or the star of a command.
SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}", "-": "-{}", "'": "'{}",
    "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "≠": r"$\ne$",
    "≈": r"$\approx$", "∞": r"$\infty$", "†": r"$\dagger$", "→": r"$\rightarrow$", "←": r"$\leftarrow$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "↵": r"$\hookleftarrow$", "°": r"$^\circ$", "µ": r"$\mu$",
    "–": "{--}", "—": "{---}", "‘": "{`}", "’": "{'}", "“": "{``}", "”": "{''}", "…": r"\dots{}", "•": r"$\bullet$",
    "§": r"\S{}", "¶": r"\P{}", "©": r"\copyright{}", "£": r"\pounds{}", "\u00a0": "~",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}",
    **{letter: rf"$\{name}$" for letter, name in zip("αβγδεζηθικλμνξπρστυφχψω", GREEK.split(), strict=True)},
}  # fmt: skip

LATEX = Markup(
    latex,
    {
        "strong": r"\textbf{{{}}}", "raised": r"\textsuperscript{{{}}}", "small": r"{{\scriptsize {}}}",
        "code": r"\texttt{{{}}}",
    },
)  # fmt: skip


def _section(section: Section) -> str:
    """Return a section; captions are the headings of one that floats, and the next begins on a page of its own."""
    if section.floats:
        return _blocks(one for one in section.blocks if not isinstance(one, doc.Heading)) + "\\clearpage\n"
    return f"\\subsection*{{{latex(section.heading)}}}\n{_blocks(section.blocks)}"


def _blocks(blocks: Iterable[Block]) -> str:
    return "".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case doc.Heading(text):
            return f"\\subsubsection*{{{latex(text)}}}\n"
        case doc.Paragraph(sentences):
            return "".join(f"{LATEX.line(sentence)}\n" for sentence in sentences)
        case doc.Facts(items):
            return _list([f"{name}: {text}" for name, text in items.items()])
        case doc.Notes(items):
            return _list(items) if items else ""
        case doc.Table():
            return _float(block, block.file) if block.file else _table(block)
        case doc.Figure():
            return _figure(block) + _block(block.notes)
        case doc.Claims(items):
            claims = [(f"{latex(one.id)}, {latex(one.verdict)}", latex(one.text)) for one in items]
            return _descriptions(claims) + _block(block.notes)
        case doc.Example():
            return _example(block)
        case doc.Files() | doc.SideBySide():
            return ""
    assert_never(block)


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"\\item {latex(item)}\n" for item in items)
    return f"\\begin{{itemize}}\n{lines}\\end{{itemize}}\n\n"


def _descriptions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of marked-up names, and of what there is to say of each."""
    lines = "".join(f"\\item[{name}] {text}\n" for name, text in pairs)
    return f"\\begin{{description}}\n{lines}\\end{{description}}\n"


def _tabular(table: doc.Table) -> Tabular:
    """Return a table marked up; what neighbouring headings have in common stands above them."""
    rows, notes = LATEX.rows(table), [latex(note) for note in (table.notes.items if table.notes else ())]
    if table.groups:
        rows[0][1:] = [latex(heading) for _, headings in table.groups for heading in headings]
    groups = [(latex(text), len(headings)) for text, headings in table.groups]
    return Tabular(rows, notes, groups, table.side[0])


def _float(table: doc.Table, file: doc.TableFile) -> str:
    """Return the place of a table that has its own file; a long one does not float."""
    caption, place = latex(file.caption), f"\\input{{tables/{file.name}.tex}}\n"
    if _tabular(table).long:
        return f"\\clearpage\n\\captionabove{{{caption}}}{{{file.label}}}\n{place}"
    head = f"\\centering\n\\small\n\\caption{{{caption}}}\n\\label{{{file.label}}}\n"
    return f"\\begin{{table}}[htbp]\n{head}{place}\\end{{table}}\n"


def _table(table: doc.Table) -> str:
    """Return a table where it stands, with what describes it above; one of text needs some space."""
    tabular = _tabular(table)
    above = f"{latex(table.description)}\n" if table.description else ""
    space = "\n\\medskip" if table.side == "left" else ""
    below = _block(table.notes) if table.notes else ""
    return f"{above}{space}\\noindent\n{Tabular(tabular.rows, side=tabular.side)}\n{below}"


def _figure(figure: doc.Figure) -> str:
    if figure.missing:
        return f"\\subsection*{{{latex(figure.heading)}}}\nNot drawn: {latex(figure.missing)}\n"
    drawing = f"\\sbox{{\\fitted}}{{\\includegraphics{{{figure.folder}/{figure.id}.pdf}}}}%\n{FITTED}\n"
    caption = f"\\caption{{{latex(figure.heading)}}}\n\\label{{fig:{figure.id}}}\n"
    return f"\\begin{{figure}}[htbp]\n\\centering\n{drawing}{caption}\\end{{figure}}\n"


def _example(example: doc.Example) -> str:
    given = [(latex(name), latex(text)) for name, text in example.given.items()]
    outputs = [(latex(cell), latex(output)) for cell, output in example.outputs]
    return f"\\subsubsection*{{{latex(example.name)}}}\n{_descriptions([*given, *outputs])}"


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
