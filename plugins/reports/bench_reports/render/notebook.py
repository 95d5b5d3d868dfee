"""Write the tables and claims of a run as HTML that adopts the style of a notebook."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from bench_core.runs.results import Run
from bench_reports import document as doc
from bench_reports.content.claims import judge
from bench_reports.content.page import incomplete
from bench_reports.content.tables import grids, tables_of
from bench_reports.document import Block, DocumentSection
from bench_reports.render.html import html_part
from bench_reports.render.report_document import summary

DIGEST_CHARACTERS = 8  # distinguish the tables of two outputs on one page


def notebook_html(run: Run) -> str:
    """Return the tables and claims of a run, and why cells have no numbers, as self-contained HTML.

    It is empty if the run has neither tables nor metrics.
    """
    if not tables_of(run):
        return ""
    sections = [*summary(run, grids(run), judge(run)).sections]
    if missing := incomplete(run):
        sections.insert(0, DocumentSection("Incomplete cells", [doc.Notes(missing)]))
    blocks = [block for section in sections for block in _with_heading(section)]
    mark = sha256(html_part(blocks).encode("utf-8", "backslashreplace")).hexdigest()[:DIGEST_CHARACTERS]
    return html_part(
        replace(block, id=f"{block.id}-{mark}") if isinstance(block, doc.TableBlock) else block for block in blocks
    )


def _with_heading(section: DocumentSection) -> Iterator[Block]:
    """Yield the blocks of a section below its heading, unless a table has the same caption."""
    captions = [block.caption for block in section.blocks if isinstance(block, doc.TableBlock)]
    if section.heading and section.heading not in captions:
        yield doc.Heading(section.heading)
    yield from section.blocks
