"""`report.html`: a page that loads nothing, to read, to print, and to set outputs side by side."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_mark_safe as as_html

from bench_core.runs.results import Run
from bench_core.terminal import visible
from bench_reports.content.choices import choices, told
from bench_reports.content.claims import MEANING, Judgement
from bench_reports.content.cost_tables import by_kind, dearest, stages_of
from bench_reports.content.environments import environments
from bench_reports.content.grid import Grid
from bench_reports.content.outputs import side_by_side
from bench_reports.content.page import figure_notes, footnotes, page, rules
from bench_reports.figures.figure_data import Picture
from bench_reports.render import html_tables as sheets
from bench_reports.render.latex import TableFile

TEMPLATES = Path(__file__).parent / "templates"
PAPER = re.compile(r"https?://[^\s<>\"']*[\w/]|arXiv:\d{4}\.\d{4,5}(?:v\d+)?")
ESCAPED = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def html_report(
    run: Run,
    filled: Sequence[Grid],
    judged: Sequence[Judgement],
    shown: Sequence[Picture],
    drawn: Mapping[str, Mapping[str, bytes]],
    papers: Sequence[Sequence[TableFile]],
    costs: bool,
) -> str:
    """Return the page of a report, from its tables, its judgements, and its figures as `drawn`, by their ids.

    It refers to the files of tables for LaTeX, `papers`, by table.
    What stages cost depends on clocks: `costs` says whether there is a page of them to refer to.
    """
    said = page(run)
    facts = [fact.partition(": ") for fact in said.facts]
    return _rendered(
        "report.html.j2",
        title=said.title,
        facts=[(name, _linked(visible(text), name == "Source")) for name, _, text in facts],
        comparability=said.comparability,
        statistics=said.statistics and sheets.plain("statistics", "Statistics of the data", said.statistics),
        tables=[(one.table, sheets.results(one), footnotes(run, one)) for one in filled],
        files={
            one.table.id: [f"{one.table.id}.csv", *(f"{file.name}.tex" for file in files)]
            for one, files in zip(filled, papers, strict=True)
        },
        beside={one.table.id: (sheet, rules(run, one)) for one in filled if (sheet := sheets.differences(one))},
        figures=[(one, _address(one, drawn), figure_notes(run, one)) for one in shown],
        claims=judged and sheets.claims(judged),
        meaning=MEANING,
        probed=said.probed and sheets.plain("probed", "What probes found", said.probed, "left"),
        statements=said.statements
        and sheets.plain("statements", "What is known, and what was measured", said.statements, "left"),
        probe_notes=said.probe_notes,
        choices=[told(run, one) for one in choices(run)],
        incomplete=said.incomplete,
        outputs=said.samples and side_by_side(said.samples),
        environments=sheets.together(environments(run)),
        costs=costs,
    )


def html_costs(
    run: Run, text: str, shown: Sequence[Picture] = (), drawn: Mapping[str, Mapping[str, bytes]] | None = None
) -> str:
    """Return the page of what stages cost, from the text of `costs.csv` and the figures of that as `drawn`."""
    figures = [(one, _address(one, drawn or {}), figure_notes(run, one)) for one in shown]
    stages = stages_of(text)
    listed = sheets.plain("dearest", "The stages that took longest", dearest(stages))
    kinds = sheets.plain("kinds", "Costs by kind of stage", by_kind(stages))
    title = run.info.get("title") or run.suite.title or run.suite.suite
    about = {"title": f"Costs: {title}", "number": len(stages)}
    return _rendered("costs.html.j2", **about, kinds=kinds, listed=listed, figures=figures)


def _rendered(template: str, **words: Any) -> str:
    """Fill a template, in which whatever is not HTML already is escaped."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters.update(text=lambda text: as_html(sheets.html_text(text)), visible=visible, block=_block)
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    inline = {"style": as_html(style), "script": as_html(script)}
    policy += "; base-uri 'none'; form-action 'none'"
    return templates.get_template(template).render(**inline, policy=policy, **words)


def _digest(text: str) -> str:
    """Return what a policy calls the only style, or the only script, that it lets in."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _block(data: Any) -> str:
    """Return JSON that can stand inside of a page's script: nothing in it ends that, or begins a comment."""
    return as_html(json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED))


def _linked(text: str, source: bool) -> Iterable[tuple[str, str]]:
    """Yield the parts of a text with the addresses of those that name a paper, if it tells a source."""
    rest = 0
    for found in PAPER.finditer(text) if source else ():
        yield text[rest : found.start()], ""
        yield found[0], re.sub("^arXiv:", "https://arxiv.org/abs/", found[0])
        rest = found.end()
    yield text[rest:], ""


def _address(one: Picture, drawn: Mapping[str, Mapping[str, bytes]]) -> str:
    """Return a figure as an address that holds all of it; as an image it can run nothing, whatever is in it."""
    return "" if one.empty else f"data:image/svg+xml;base64,{b64encode(drawn[one.figure.id]['svg']).decode()}"
