"""Safe printing: text from names, samples and errors cannot control the terminal.

All text is printed by `say`, which replaces control and format characters with their code points; the linter rejects
`print` and `click.echo`. Data for other programs are printed by `write`, unchanged if the output is a pipe or file.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

#: Control and format characters, private use, surrogates, line and paragraph separators.
UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def say(text: str, err: bool = False, end: str = "\n") -> None:
    """Print text with invisible characters as code points, to standard error if `err`."""
    import click

    click.echo(legible(text) + end, err=err, nl=False)  # noqa: TID251 (the only exception)


def write(text: str) -> None:
    """Write data unchanged to standard output as UTF-8; on a terminal, print them like `say`."""
    raw = None if sys.stdout.isatty() else getattr(sys.stdout, "buffer", None)
    if raw is None:
        say(text, end="")
    else:
        raw.write(text.encode("utf-8", "backslashreplace"))  # lone surrogates have no UTF-8


def to_json(value: Any, indent: int | None = None, default: Callable[[Any], str] | None = None) -> str:
    """Return JSON with all characters except printable ASCII escaped, so that `say` does not change it."""
    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")


def legible(text: str) -> str:
    """Return text with invisible characters as code points; keeps line feeds."""
    return re.sub(r"[^ -~\n]", lambda match: _visible_character(match[0]), text)


def visible(text: str) -> str:
    """Return text on a single line, with invisible characters as code points."""
    return legible(re.sub(r"\r?\n", " ↵ ", text)).strip()


def size(number: int) -> str:
    """Format a number of bytes with a readable unit."""
    value, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def count_of(number: int, noun: str) -> str:
    """Format a number with a noun, such as `1 cell` or `1,200 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _visible_character(character: str) -> str:
    if character == "\t":
        return " "
    return f"[U+{ord(character):04X}]" if unicodedata.category(character) in UNSEEN else character
