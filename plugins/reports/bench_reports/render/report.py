"""Writes the files of a report from a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench_core.errors import StoreError
from bench_core.runs.results import COST_COLUMNS, Run
from bench_core.storage.csv_files import to_csv
from bench_reports.content.claims import judge
from bench_reports.content.cost_tables import stages_of
from bench_reports.content.report_document import Drawn, costs_document, report_document, summary
from bench_reports.content.tables import grids, whole_grids
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_data import Picture
from bench_reports.figures.figures import cost_pictures, pictures
from bench_reports.render.html import html_page
from bench_reports.render.latex import latex_report, table_files
from bench_reports.render.markdown import markdown_report
from bench_reports.render.records import csv_text, records, results_text
from bench_reports.render.terminal import terminal_text


def write_report(run: Run, folder: Path) -> list[Path]:
    """Write all that a report consists of; return the files written.

    Nothing in them but costs depends on the clock, the machine or the place of the run.
    """
    costs = run.folder / "costs.csv"
    contents = _report(run, costs.is_file())
    if costs.is_file():
        contents |= _costs(run, costs.read_bytes().decode("utf-8", "replace"))
    for name, content in contents.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        except OSError as error:
            why = str(error.strerror or error).lower()
            raise StoreError(f"{folder / name}: cannot be written: {why}. Name another folder by --out.") from None
    return [folder / name for name in contents]


def screen(run: Run) -> str:
    """Return the tables and claims of a run with their footnotes, for a terminal."""
    return terminal_text(summary(run))


def _report(run: Run, costs: bool) -> dict[str, bytes]:
    """Return the files of a report but for what depends on clocks, by their paths."""
    filled, judged, drawn = [*grids(run), *whole_grids(run)], judge(run), _drawn(pictures(run))
    document = report_document(run, filled, judged, drawn, costs)
    files = {
        "report.html": html_page(document),
        "report.md": markdown_report(document),
        "report.tex": latex_report(document),
        **{f"tables/{grid.table.id}.csv": csv_text(records(grid)) for grid in filled},
        **{f"tables/{name}.tex": text for name, text in table_files(document).items()},
        "results.json": results_text(run, filled, judged),
    }
    return _encoded(files) | _figure_files("figures", drawn)


def _costs(run: Run, table: str) -> dict[str, bytes]:
    """Return all that depends on clocks: what stages cost, a page of that, and the files of its figures."""
    drawn, stages = _drawn(cost_pictures(run)), stages_of(table)
    columns = list(dict.fromkeys(name for one in stages for name in one)) or COST_COLUMNS
    files = {"costs.csv": to_csv(stages, columns), "costs.html": html_page(costs_document(run, stages, drawn))}
    return _encoded(files) | _figure_files("costs", drawn)


def _drawn(shown: Iterable[Picture]) -> list[Drawn]:
    return [(one, {} if one.empty else draw(one)) for one in shown]


def _figure_files(folder: str, drawn: Iterable[Drawn]) -> dict[str, bytes]:
    """Return the files of figures, by their paths: what is drawn of each, and its numbers."""
    numbers = {f"{folder}/{one.figure.id}.csv": csv_text(one.records()) for one, files in drawn if files}
    drawings = {f"{folder}/{one.figure.id}.{kind}": found for one, files in drawn for kind, found in files.items()}
    return drawings | _encoded(numbers)


def _encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode("utf-8", "backslashreplace") for name, text in files.items()}
