"""Printing: text from names, samples and errors cannot control the terminal.

Everything is printed by `say`, which shows control and format characters as code points; the linter rejects `print`
and `click.echo`. Data for other programs are printed by `write`, which changes nothing of them in a pipe or a file.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}  # control and format characters, surrogates, separators of lines


def say(text: str, err: bool = False, end: str = "\n") -> None:
    """Print text, with invisible characters as code points; to standard error if `err`."""
    import click

    click.echo(legible(text) + end, err=err, nl=False)  # noqa: TID251 (the one place)


def write(text: str) -> None:
    """Write data to standard output as UTF-8, without a character changed; to a terminal as `say` shows them."""
    raw = None if sys.stdout.isatty() else getattr(sys.stdout, "buffer", None)
    if raw is None:
        say(text, end="")
    else:
        raw.write(text.encode("utf-8", "backslashreplace"))  # of lone surrogates, which UTF-8 has not


def to_json(value: Any, indent: int | None = None, default: Callable[[Any], str] | None = None) -> str:
    """Return JSON with everything but printable ASCII escaped, so that `say` leaves it unchanged."""
    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")


def legible(text: str) -> str:
    """Return text with invisible characters written as code points; line feeds stay."""
    return re.sub(r"[^ -~\n]", lambda found: _seen(found[0]), text)


def visible(text: str) -> str:
    """Return text on one line, with invisible characters written as code points."""
    return legible(re.sub(r"\r?\n", " ↵ ", text)).strip()


def size(number: int) -> str:
    """Return a number of bytes in readable units."""
    value, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 cell` or `1,200 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _seen(character: str) -> str:
    if character == "\t":
        return " "
    return f"[U+{ord(character):04X}]" if unicodedata.category(character) in UNSEEN else character
