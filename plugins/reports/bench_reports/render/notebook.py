"""Writes the tables and claims of a run as HTML for a notebook, whose style they take."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from bench_core.runs.results import Run
from bench_reports import document as doc
from bench_reports.content.claims import judge
from bench_reports.content.default_tables import tables_of
from bench_reports.content.page import incomplete
from bench_reports.content.tables import grids
from bench_reports.document import Block, Section
from bench_reports.render.html import html_part
from bench_reports.render.report_document import summary

LETTERS = 8  # of what tells the tables of two outputs on one page apart


def notebook_html(run: Run) -> str:
    """Return the tables and claims of a run, and why cells have no numbers, as HTML that needs nothing else.

    Empty if it has neither tables nor metrics.
    """
    if not tables_of(run):
        return ""
    sections = [*summary(run, grids(run), judge(run)).sections]
    if lacking := incomplete(run):
        sections.insert(0, Section("Incomplete cells", [doc.Notes(lacking)]))
    blocks = [block for one in sections for block in _headed(one)]
    mark = sha256(html_part(blocks).encode("utf-8", "backslashreplace")).hexdigest()[:LETTERS]
    return html_part(replace(one, id=f"{one.id}-{mark}") if isinstance(one, doc.Table) else one for one in blocks)


def _headed(section: Section) -> Iterator[Block]:
    """Yield the blocks of a section below its heading, unless a table says the same."""
    captions = [one.caption for one in section.blocks if isinstance(one, doc.Table)]
    if section.heading and section.heading not in captions:
        yield doc.Heading(section.heading)
    yield from section.blocks
