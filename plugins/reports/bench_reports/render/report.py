"""A report of a run, from the run's folder alone: tables for people, papers and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tabulate import tabulate

from bench_core.errors import StoreError
from bench_core.runs.results import COST_COLUMNS, Run
from bench_core.storage.csv_files import to_csv
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.choices import choices
from bench_reports.content.claims import Judgement, grounds, judge, told
from bench_reports.content.cost_tables import stages_of
from bench_reports.content.environments import environments
from bench_reports.content.grid import Column, Entry, Grid, Row
from bench_reports.content.page import figure_notes, footnotes, page, rules
from bench_reports.content.sorting import ordered
from bench_reports.content.tables import grids, whole_grids
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_data import Picture
from bench_reports.figures.figures import cost_pictures, pictures
from bench_reports.figures.kinds import kind_of
from bench_reports.render.html import html_costs, html_report
from bench_reports.render.latex import TableFile, Tabular, table_files
from bench_reports.render.markup import LATEX, MARKDOWN, PLAIN, Markup, json_data
from bench_reports.statistics.intervals import rounded


def write_report(run: Run, folder: Path) -> list[Path]:
    """Write all that a report consists of; return the files written.

    Nothing in them but costs depends on the clock, the machine or the place of the run.
    """
    filled, judged, shown = [*grids(run), *whole_grids(run)], judge(run), pictures(run)
    papers = table_files(run, filled)
    drawn, costs = {one.figure.id: draw(one) for one in shown if not one.empty}, run.folder / "costs.csv"
    files = {
        "report.html": html_report(run, filled, judged, shown, drawn, papers, costs.is_file()),
        "report.md": _rendered("report.md.j2", MARKDOWN, run, filled, judged, shown),
        "report.tex": _rendered("report.tex.j2", LATEX, run, filled, judged, shown, papers),
        **{f"tables/{grid.table.id}.csv": _csv(records(grid)) for grid in filled},
        **{f"tables/{one.name}.tex": str(one) for files in papers for one in files},
        "results.json": json.dumps(_results(run, filled, judged), sort_keys=True, indent=1, allow_nan=False) + "\n",
    }
    contents = {name: text.encode("utf-8", "backslashreplace") for name, text in files.items()}
    contents |= _figure_files("figures", shown, drawn)
    if costs.is_file():
        contents |= _costs(run, costs.read_bytes())
    for name, content in contents.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        except OSError as error:
            why = str(error.strerror or error).lower()
            raise StoreError(f"{folder / name}: cannot be written: {why}. Name another folder by --out.") from None
    return [folder / name for name in contents]


def _figure_files(
    folder: str, shown: Iterable[Picture], drawn: Mapping[str, Mapping[str, bytes]]
) -> dict[str, bytes]:
    """Return the files of figures, by their paths: what is drawn of each, and its numbers."""
    files = {f"{folder}/{name}.{kind}": content for name, kinds in drawn.items() for kind, content in kinds.items()}
    numbers = {
        f"{folder}/{one.figure.id}.csv": _csv(one.records()).encode("utf-8", "backslashreplace")
        for one in shown
        if not one.empty
    }
    return files | numbers


def _costs(run: Run, table: bytes) -> dict[str, bytes]:
    """Return all that depends on clocks: what stages cost, a page of that, and the files of its figures."""
    shown = cost_pictures(run)
    drawn = {one.figure.id: draw(one) for one in shown if not one.empty}
    text = table.decode("utf-8", "replace")
    content, stages = html_costs(run, text, shown, drawn).encode(), stages_of(text)
    columns = list(dict.fromkeys(name for one in stages for name in one)) or COST_COLUMNS
    return {
        "costs.csv": to_csv(stages, columns).encode(),
        "costs.html": content,
        **_figure_files("costs", shown, drawn),
    }


def screen(run: Run) -> str:
    """Return the tables and claims of a run with their footnotes, for a terminal."""
    parts = []
    for grid in grids(run):
        parts += _screened(grid.table.caption or grid.table.id, PLAIN.table(grid), footnotes(run, grid))
        if differences := PLAIN.differences(grid):
            parts += _screened("Beside the published", differences, rules(run, grid))
    if judged := judge(run):
        rows = [[visible(word) for word in row] for row in told(judged)]
        parts += _screened("Claims", rows, grounds(judged), "left")
    return "\n".join(parts)


def _screened(heading: str, rows: Sequence[Sequence[str]], notes: Iterable[str], side: str = "right") -> list[str]:
    """Lay out a table for a terminal, its own headings first; all columns but the first lean to `side`."""
    sides = ["left", *[side] * (len(rows[0]) - 1)]
    table = tabulate(rows[1:], rows[0], colalign=sides, disable_numparse=True)
    return [visible(heading), table, *(f"  {visible(note)}" for note in notes), ""]


def records(grid: Grid) -> list[dict[str, Any]]:
    """Return one flat mapping for each row, column and value: what a table shows, unrounded but for p-values."""
    return [
        _record(row, column, entry)
        for row, entries in zip(grid.rows, grid.entries, strict=True)
        for column, entry in zip(grid.columns, entries, strict=True)
    ]


def _record(row: Row, column: Column, entry: Entry) -> dict[str, Any]:
    found, printed, compared = entry.summary, entry.published, entry.comparison
    low, high = entry.interval or (None, None)
    return {
        "row": row.label,
        "column": column.label if column.names is None else join(*column.names),
        "value": column.value,
        "kind": column.number.kind,
        "signature": column.number.signature,
        "unit": column.number.unit,
        "status": entry.status,
        "mean": found.mean if found else entry.text or None,
        "std": found.std if found else None,
        "n": found.n if found else 0,
        "seeds": entry.seeds,
        "low": low,
        "high": high,
        "best": entry.best,
        "p": rounded(entry.p),
        "published_mean": printed.mean if printed else None,
        "published_std": printed.std if printed else None,
        "difference": compared.difference if compared else None,
        "verdict": compared.verdict if compared else "",
        "reason": "; ".join(entry.reasons),
    }


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    return to_csv(rows, list(rows[0]) if rows else [])


def _results(run: Run, filled: Iterable[Grid], judged: Iterable[Judgement]) -> Any:
    head = {key: run.info.get(key) for key in ("label", "suite", "profile", "title", "source", "tasks", "models")}
    return json_data(
        {
            **head,
            "environments": environments(run),
            "cells": [asdict(one) for one in ordered(run)],
            "tables": {grid.table.id: records(grid) for grid in filled},
            "claims": [one.record() for one in judged],
            "note": run.suite.note,
            "choices": [one.record() for one in choices(run)],
        }
    )


def _rendered(
    template: str,
    markup: Markup,
    run: Run,
    filled: Sequence[Grid],
    judged: Sequence[Judgement],
    shown: Sequence[Picture],
    papers: Sequence[Sequence[TableFile]] = (),
) -> str:
    """Fill a template, in which the filter `text` escapes what others wrote.

    The tables of a suite are in files of their own for LaTeX: `papers`, by table.
    """
    templates = Environment(
        # Unlike the usual braces, these mean nothing in LaTeX.
        variable_start_string="<<", variable_end_string=">>", block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    marked = lambda rows: [[markup.text(word) for word in row] for row in rows]  # noqa: E731
    templates.filters.update(text=markup.text, marked=marked, pipe_table=_pipe_table, tabular=_tabular)
    said = page(run)
    statistics = [[markup.text(word) for word in row] for row in said.statistics]
    tables = [(grid.table, markup.table(grid), footnotes(run, grid)) for grid in filled]
    differences = {grid.table.id: (rows, rules(run, grid)) for grid in filled if (rows := markup.differences(grid))}
    samples = [
        (one, [["by", "output"], *([markup.text(word) for word in row] for row in one.outputs)])
        for one in said.samples
    ]
    return templates.get_template(template).render(
        page=said, statistics=statistics, tables=tables, samples=samples, differences=differences, papers=papers,
        claims=judged, claimed=told(judged), grounds=grounds(judged),
        figures=[(one.figure, one.empty, figure_notes(run, one), _tables(one, markup)) for one in shown],
    )  # fmt: skip


def _tables(picture: Picture, markup: Markup) -> Sequence[Any]:
    kind = kind_of(picture.figure.kind)
    return kind.tables(picture, markup) if kind else ()


def _tabular(rows: Sequence[Sequence[str]], side: str = "r") -> str:
    """Lay out a LaTeX table of marked-up text, headings first."""
    return str(Tabular(rows, side=side))


def _pipe_table(rows: Sequence[Sequence[str]], side: str = "right") -> str:
    """Lay out a Markdown table of marked-up text, headings first; all columns but the first lean to `side`."""
    sides = ["left", *[side] * (len(rows[0]) - 1)]
    return str(tabulate(rows[1:], rows[0], tablefmt="pipe", colalign=sides, disable_numparse=True))
