"""Text and numbers as Markdown and LaTeX write them."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

from bench_core.suites.published import Value, number
from bench_core.terminal import visible
from bench_reports.content.grid import Comparison, Entry, Grid
from bench_reports.statistics.intervals import Summary


@dataclass(frozen=True)
class Markup:
    """How one format writes plain text, and text that is smaller or raised."""

    text: Callable[[str], str]
    small: str
    raised: str
    strong: str

    def table(self, grid: Grid) -> list[list[str]]:
        """Return a table with its headings first, and its labels first in each row."""
        digits = [column.number.digits for column in grid.columns]
        footnotes = {reason: f"[{place}]" for place, reason in enumerate(grid.reasons, 1)}
        headings = [grid.corner, *(column.heading for column in grid.columns)]
        rows = [
            [self.text(row.label), *(self.cell(*pair, footnotes) for pair in zip(entries, digits, strict=True))]
            for row, entries in zip(grid.rows, grid.entries, strict=True)
        ]
        return [[self.text(heading) for heading in headings], *rows]

    def differences(self, grid: Grid) -> list[list[str]]:
        """Return what ours are less the published, and verdicts, as a table; nothing where none stand together."""
        places = compared_places(grid)
        if not places:
            return []
        headings = [grid.corner, *(grid.columns[place].heading for place in places)]
        rows = [
            [row.label, *(judged(entries[place].comparison, grid.columns[place].number.digits) for place in places)]
            for row, entries in zip(grid.rows, grid.entries, strict=True)
        ]
        return [[self.text(word) for word in line] for line in [headings, *rows]]

    def cell(self, entry: Entry, digits: int, footnotes: Mapping[str, str]) -> str:
        """Return our number with its marks, and the published one beside it."""
        marks = [] if entry.complete or entry.summary is None else [f"†{entry.summary.n}/{entry.seeds}"]
        marks += [footnotes[reason] for reason in entry.reasons[:1]]
        raised = self.raised.format(self.text(" ".join(marks))) if marks else ""
        theirs = 0 if entry.text else digits
        small = self.small.format(self.text(printed(entry.published, theirs))) if entry.published else ""
        own = self.text(ours(entry, digits))
        return " ".join(word for word in ((self.strong.format(own) if entry.best else own) + raised, small) if word)


def compared_places(grid: Grid) -> list[int]:
    """Return the places of the columns in which ours and the published stand together."""
    return [place for place in range(len(grid.columns)) if any(row[place].comparison for row in grid.entries)]


def ours(entry: Entry, digits: int) -> str:
    """Return what we found, or the word for what became of it."""
    if entry.text:
        return entry.text
    if entry.summary is None:
        return "–" if entry.status == "none" else entry.status
    return summarized(entry.summary, digits)


def summarized(found: Summary, digits: int) -> str:
    """Return mean and standard deviation, such as `12.35 ± 5.18`."""
    spread = "" if found.std is None else f" ± {rounded(found.std, digits)}"
    return rounded(found.mean, digits) + spread


def judged(comparison: Comparison | None, digits: int) -> str:
    """Return a signed difference and its verdict, such as `+0.12 worse`."""
    if comparison is None:
        return "–"
    text = rounded(comparison.difference, digits)
    sign = "+" if comparison.difference > 0 and text.strip("0.") else ""
    return f"{sign}{text} {comparison.verdict}"


def printed(value: Value, digits: int) -> str:
    """Return a published value with no fewer digits than it was given, or its text if it is no number."""
    mean = number(value.mean)
    if mean is None:
        items = value.mean if isinstance(value.mean, list) else [value.mean]
        return ", ".join(str(item).lower() if isinstance(item, bool) else str(item) for item in items)
    digits = max(digits, _decimals(mean), _decimals(value.std or 0.0))
    return summarized(Summary(mean, value.std, 1), digits)


def rounded(value: float, digits: int) -> str:
    """Return a number with `digits` after the point; `–` where it is none."""
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}{'e' if abs(value) >= 1e10 else 'f'}}"
    return f"−{text}" if value < 0 and float(text) else text


def _decimals(value: float) -> int:
    """Return how many digits after the point a number was written with."""
    return 0 if not isfinite(value) or value == int(value) else len(f"{value:.12f}".rstrip("0").partition(".")[2])


def markdown(text: str) -> str:
    """Return text that Markdown shows as it is, in a table and at the start of a line too."""
    escaped = re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", html.escape(visible(text), quote=False))
    return re.sub(r"^(\d*)([.)+-])(?=[ -]|$)", r"\1\\\2", escaped)


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

MARKDOWN = Markup(markdown, "<sub>{}</sub>", "<sup>{}</sup>", "**{}**")
LATEX = Markup(latex, r"{{\scriptsize {}}}", r"\textsuperscript{{{}}}", r"\textbf{{{}}}")
PLAIN = Markup(visible, "({})", " {}", "*{}*")


def json_data(value: Any) -> Any:
    """Return JSON data; infinities and NaN become words."""
    if isinstance(value, Mapping):
        return {str(key): json_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_data(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
