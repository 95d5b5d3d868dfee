"""Write a document as a self-contained HTML page (`report.html`, `costs.html`).

Its parts are macros of `templates/blocks.html.j2`, which escape all text.
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
from bench_reports.document import Block, Document, DocumentSection, Markup

TEMPLATES = Path(__file__).parent / "templates"
PAPER = re.compile(r"https?://[^\s<>\"']*[\w/]|arXiv:\d{4}\.\d{4,5}(?:v\d+)?")
ESCAPED = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def html_page(document: Document) -> str:
    """Return a document as a page, with a table of contents if any section has an entry in it."""
    style, script = asset("page.css"), asset("words.js") + asset("page.js")
    inline = {"policy": security_policy(style, script), "style": as_html(style), "script": as_html(script)}
    sections = document.sections_for("html")
    contents = _contents(sections) if document.contents else []
    body = as_html(html_part(document.prompt) + "".join(map(_section, sections)))
    page = _templates().get_template("page.html.j2")
    return page.render(title=document.title, contents=contents, body=body, **inline)


def html_part(blocks: Iterable[Block]) -> str:
    """Return blocks as a part of any page, without styles and scripts."""
    return "".join(map(_block, blocks))


def asset(name: str, folder: Path = TEMPLATES) -> str:
    """Return a style sheet or script for pages."""
    return (folder / name).read_text(encoding="utf-8")


def security_policy(style: str, script: str) -> str:
    """Return the content security policy of a page that loads nothing and runs only this script."""
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    return f"{policy}; base-uri 'none'; form-action 'none'"


def html_text(text: str) -> str:
    """Return text to be shown verbatim; right-to-left text does not affect its surroundings."""
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


def _contents(sections: Sequence[DocumentSection]) -> list[list[DocumentSection]]:
    """Return the lines of contents: one for each table and figure, and one for all other sections."""
    listed = [section for section in sections if section.entry]
    others = [section for section in listed if not section.floats]
    return [*([section] for section in listed if section.floats), others] if listed else []


def _section(section: DocumentSection) -> str:
    space = "\n" * any(isinstance(block, doc.FigureBlock) for block in section.blocks)
    return _macro("section", section, as_html(html_part(section.blocks))) + space


def _block(block: Block) -> str:
    match block:
        case doc.Heading() | doc.Paragraph() | doc.Notes() | doc.Facts() | doc.TableBlock() | doc.FigureBlock():
            return _macro(type(block).__name__.lower(), block)
        case doc.FileList() | doc.SideBySide():
            return _macro(type(block).__name__.lower(), block)
        case doc.Claims(items, meaning):
            return _macro("tableblock", _claims(items)) + _macro("notes", doc.Notes([meaning]))
        case doc.ExampleBlock():  # pages show outputs side by side
            return ""
    assert_never(block)


def _claims(claims: Iterable[doc.JudgedClaim]) -> doc.TableBlock:
    """Return claims with their expressions and the grounds of their verdicts."""
    rows = []
    for claim in claims:
        verdict = doc.TableCell([doc.Span(claim.verdict)], status=claim.verdict.partition(" (")[0])
        statement = doc.TableCell([doc.Span(claim.statement), doc.Span(claim.expression, "code")])
        rows.append([doc.text_cell(claim.id), verdict, statement, doc.text_cell(claim.grounds)])
    headings = ["claim", "verdict", "statement", "judged by"]
    return doc.TableBlock("claims", "Claims of the suite and their verdicts", headings, rows, "left")


def _macro(name: str, *arguments: Any) -> str:
    return str(getattr(_templates().get_template("blocks.html.j2").module, name)(*arguments))


@cache
def _templates() -> Environment:
    return templates(
        TEMPLATES, text=lambda text: as_html(html_text(text)), line=lambda spans: as_html(HTML.line(spans)),
        visible=visible, spans=doc.spans_of, breaking=_breaking, linked=_link_papers, json=json_in_page,
        base64=lambda content: b64encode(content).decode(),
    )  # fmt: skip


def templates(folder: Path, **filters: Callable[..., Any]) -> Environment:
    """Return the templates in a folder; they escape everything that is not already HTML."""
    environment = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(filters)
    return environment


def _digest(text: str) -> str:
    """Return the hash by which a policy allows a style or a script."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _breaking(text: str) -> str:
    """Return HTML in which lines may break after a slash."""
    return as_html(re.sub("/(?!bdi>)", "/<wbr>", text))


def _link_papers(text: str, cites: bool) -> Iterable[tuple[str, str]]:
    """Yield the parts of a text with the addresses of the papers they name, if the text cites any."""
    text, rest = visible(text), 0
    for match in PAPER.finditer(text) if cites else ():
        yield text[rest : match.start()], ""
        yield match[0], re.sub("^arXiv:", "https://arxiv.org/abs/", match[0])
        rest = match.end()
    yield text[rest:], ""


def json_in_page(data: Any) -> str:
    """Return JSON for a script in a page: nothing in it ends the script, or starts a comment."""
    return as_html(json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED))
