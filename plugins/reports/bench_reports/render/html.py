"""Writes a document as a self-contained HTML page (`report.html`, `costs.html`).

Its parts are macros of `templates/blocks.html.j2`, in which all text is escaped.
"""

import html
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, assert_never

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_mark_safe as as_html

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.document import Block, Document, Markup, Section

TEMPLATES = Path(__file__).parent / "templates"
PAPER = re.compile(r"https?://[^\s<>\"']*[\w/]|arXiv:\d{4}\.\d{4,5}(?:v\d+)?")
ESCAPED = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def html_page(document: Document) -> str:
    """Return a document as a page; it has contents if any of its sections is to be listed in them."""
    style, script = asset("page.css"), asset("words.js") + asset("page.js")
    inline = {"policy": security_policy(style, script), "style": as_html(style), "script": as_html(script)}
    sections = document.shown("html")
    contents = _contents(sections) if document.contents else []
    body = as_html(html_part(document.opening) + "".join(map(_section, sections)))
    page = _templates().get_template("page.html.j2")
    return page.render(title=document.title, contents=contents, body=body, **inline)


def html_part(blocks: Iterable[Block]) -> str:
    """Return blocks as a part of any page, without style and scripts of their own."""
    return "".join(map(_block, blocks))


def asset(name: str, folder: Path = TEMPLATES) -> str:
    """Return the style or a script of pages."""
    return (folder / name).read_text(encoding="utf-8")


def security_policy(style: str, script: str) -> str:
    """Return the content security policy of a page that loads nothing and runs this script alone."""
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    return f"{policy}; base-uri 'none'; form-action 'none'"


def html_text(text: str) -> str:
    """Return text that a page shows as it is; what is written from right to left turns nothing around it."""
    escaped = html.escape(visible(text))
    alien = not text.isascii() and any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"<bdi>{escaped}</bdi>" if alien else escaped


HTML = Markup(
    html_text,
    {
        "strong": "<strong>{}</strong>", "raised": "<sup>{}</sup>", "small": '<small class="published">{}</small>',
        "code": "<code>{}</code>",
    },
    '<a href="{link}">{text}</a>',
)  # fmt: skip


def _contents(sections: Sequence[Section]) -> list[list[Section]]:
    """Return the lines of contents: one for each table and figure, and one for all other sections."""
    listed = [one for one in sections if one.entry]
    others = [one for one in listed if not one.floats]
    return [*([one] for one in listed if one.floats), others] if listed else []


def _section(section: Section) -> str:
    space = "\n" * any(isinstance(one, doc.Figure) for one in section.blocks)
    return _macro("section", section, as_html(html_part(section.blocks))) + space


def _block(block: Block) -> str:
    match block:
        case doc.Heading() | doc.Paragraph() | doc.Notes() | doc.Facts() | doc.Table() | doc.Figure():
            return _macro(type(block).__name__.lower(), block)
        case doc.Files() | doc.SideBySide():
            return _macro(type(block).__name__.lower(), block)
        case doc.Claims(items, meaning):
            return _macro("table", _claims(items)) + _macro("notes", doc.Notes([meaning]))
        case doc.Example():  # a page has all outputs side by side
            return ""
    assert_never(block)


def _claims(claims: Iterable[doc.JudgedClaim]) -> doc.Table:
    """Return claims with their expressions, and what they were judged by."""
    rows = []
    for one in claims:
        verdict = doc.Cell([doc.Span(one.verdict)], status=one.verdict.partition(" (")[0])
        statement = doc.Cell([doc.Span(one.statement), doc.Span(one.expression, "code")])
        rows.append([doc.text_cell(one.id), verdict, statement, doc.text_cell(one.grounds)])
    headings = ["claim", "verdict", "statement", "judged by"]
    return doc.Table("claims", "What the suite claims, and what its numbers say of it", headings, rows, "left")


def _macro(name: str, *arguments: Any) -> str:
    return str(getattr(_templates().get_template("blocks.html.j2").module, name)(*arguments))


@cache
def _templates() -> Environment:
    return templates(
        TEMPLATES, text=lambda text: as_html(html_text(text)), line=lambda spans: as_html(HTML.line(spans)),
        visible=visible, spans=doc.spans_of, breaking=_breaking, linked=_linked, json=json_in_page,
        base64=lambda content: b64encode(content).decode(),
    )  # fmt: skip


def templates(folder: Path, **filters: Callable[..., Any]) -> Environment:
    """Return the templates in a folder, in which whatever is not HTML already is escaped."""
    found = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found.filters.update(filters)
    return found


def _digest(text: str) -> str:
    """Return what a policy calls a style or a script that it allows."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _breaking(text: str) -> str:
    """Return HTML in which a line may end after a slash."""
    return as_html(re.sub("/(?!bdi>)", "/<wbr>", text))


def _linked(text: str, cites: bool) -> Iterable[tuple[str, str]]:
    """Yield the parts of a text with the addresses of those that name a paper, if it cites any."""
    text, rest = visible(text), 0
    for found in PAPER.finditer(text) if cites else ():
        yield text[rest : found.start()], ""
        yield found[0], re.sub("^arXiv:", "https://arxiv.org/abs/", found[0])
        rest = found.end()
    yield text[rest:], ""


def json_in_page(data: Any) -> str:
    """Return JSON that can stand inside of a page's script: nothing in it ends that, or begins a comment."""
    return as_html(json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED))
