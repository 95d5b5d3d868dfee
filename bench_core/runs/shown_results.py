"""The results of a run as a Python prompt and a notebook show them, without a report."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench_core.terminal import counted, visible

MOST = 50  # rows


def as_text(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as a table of plain text."""
    return "\n".join([visible(title), *_table(rows, visible, "simple"), *_more(rows)])


def as_markdown(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as a table of Markdown, in which all text is escaped."""
    return "\n\n".join([_markdown(title), *_table(rows, _markdown, "pipe"), *_more(rows)])


def as_html(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as a table of HTML, in which all text is escaped."""
    from html import escape

    about = [f"<p>{escape(visible(text))}</p>" for text in (title, *_more(rows))]
    return "\n".join([about[0], *_table(rows, visible, "html"), *about[1:]])


def _table(rows: Sequence[Mapping[str, Any]], text: Callable[[str], str], form: str) -> list[str]:
    """Return a table of the first rows; none if there are no rows."""
    from tabulate import tabulate

    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = [[_shown(row.get(name), text) for name in names] for row in rows[:MOST]]
    sides = ["left" if any(isinstance(row.get(name), str) for row in rows) else "right" for name in names]
    table = tabulate(shown, [*map(text, names)], tablefmt=form, colalign=sides, disable_numparse=True)
    return [str(table)]


def _shown(value: Any, text: Callable[[str], str]) -> str:
    return text(value) if isinstance(value, str) else "" if value is None else f"{value:.6g}"


def _more(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"and {counted(len(rows) - MOST, 'more row')}: see `rows()`."] if len(rows) > MOST else []


def _markdown(text: str) -> str:
    from html import escape

    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", escape(visible(text), quote=False))
