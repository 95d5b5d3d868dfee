r"""Escape text for LaTeX."""

import re
import unicodedata

from bench_core.terminal import visible
from bench_reports.document import Markup


def latex(text: str) -> str:
    """Return text that LaTeX prints verbatim, in ASCII; characters that its fonts lack become code points."""
    special = r"-(?=-)|'(?=')|[^A-Za-z0-9 .,:;!?()/+=@'\"-]"
    return re.sub(special, lambda match: _latex(match[0]), unicodedata.normalize("NFC", visible(text)))


def _latex(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return f"\\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"{{[}}U+{ord(character):04X}{{]}}"


def in_utf_8(text: str) -> str:
    """Return LaTeX with characters in place of code points, for engines and packages that support UTF-8."""
    return CODE_POINT.sub(lambda match: match[0] if not _letter(match).isprintable() else _letter(match), text)


def _letter(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


CODE_POINT = re.compile(r"\{\[\}U\+([0-9A-F]{4,6})\{\]\}")

ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0326": "textcommabelow",
    "\u0327": "c", "\u0331": "b",
}  # fmt: skip

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
    "phi chi psi omega"
)

# Braces keep a character from combining with its neighbours: into a ligature, an option, or a starred command.
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
