"""Tables of the results of a run, for Python prompts and notebooks."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench_core.terminal import count_of, visible

MAX_ROWS = 50


def as_text(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as a plain-text table."""
    return "\n".join([visible(title), *_table(rows, visible, "simple"), *_more(rows)])


def as_markdown(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as a Markdown table, with all text escaped."""
    return "\n\n".join([_escape_markdown(title), *_table(rows, _escape_markdown, "pipe"), *_more(rows)])


def as_html(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a run as an HTML table, with all text escaped."""
    from html import escape

    paragraphs = [f"<p>{escape(visible(text))}</p>" for text in (title, *_more(rows))]
    return "\n".join([paragraphs[0], *_table(rows, visible, "html"), *paragraphs[1:]])


def _table(rows: Sequence[Mapping[str, Any]], text: Callable[[str], str], form: str) -> list[str]:
    """Return a table of the first rows, or an empty list if there are no rows."""
    from tabulate import tabulate

    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell_text(row.get(name), text) for name in names] for row in rows[:MAX_ROWS]]
    alignments = ["left" if any(isinstance(row.get(name), str) for row in rows) else "right" for name in names]
    table = tabulate(cells, [*map(text, names)], tablefmt=form, colalign=alignments, disable_numparse=True)
    return [str(table)]


def _cell_text(value: Any, text: Callable[[str], str]) -> str:
    return text(value) if isinstance(value, str) else "" if value is None else f"{value:.6g}"


def _more(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"and {count_of(len(rows) - MAX_ROWS, 'more row')}: see `rows()`."] if len(rows) > MAX_ROWS else []


def _escape_markdown(text: str) -> str:
    from html import escape

    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", escape(visible(text), quote=False))
