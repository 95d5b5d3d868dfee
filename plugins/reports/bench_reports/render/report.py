"""Write the files of a report from a run folder."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from bench_core.errors import StoreError
from bench_core.runs.manifest import FILE, NamedVersion, inside, read_manifest, write_manifest
from bench_core.runs.reporting import identity
from bench_core.runs.results import COST_COLUMNS, Run
from bench_reports.content.claims import judge
from bench_reports.content.cost_tables import stages_of
from bench_reports.content.pairs import pairs_of
from bench_reports.content.tables import grids, whole_grids
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_data import Picture
from bench_reports.figures.figures import cost_pictures, pictures
from bench_reports.render.code import code_digest
from bench_reports.render.html import html_page
from bench_reports.render.latex import latex_report, table_files, too_wide_tables
from bench_reports.render.latex_text import in_utf_8
from bench_reports.render.markdown import markdown_report
from bench_reports.render.records import csv_text, records, results_text
from bench_reports.render.report_document import DrawnFigure, costs_document, report_document, summary
from bench_reports.render.terminal import LINE_CHARACTERS, SCREEN, notes_text, terminal_text
from plain_files import to_csv


def write_report(run: Run, folder: Path, utf_8: bool = False) -> list[Path]:
    """Write all files of a report and its manifest; return the files written.

    LaTeX is written in ASCII, or in UTF-8 if `utf_8` is set. Only costs and the manifest depend on the clock, the
    machine or the place of the run.
    """
    files, place = contents(run, utf_8), folder
    try:
        _remove_former(folder, files)
        for name, content in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except OSError as error:
        why = str(error.strerror or error).lower()
        raise StoreError(f"{place}: cannot be written: {why}. Choose another folder with --out.") from None
    named = NamedVersion(run.folder.resolve().name, run_digest(run), **identity(run))
    write_manifest(folder, "report", named.name, files, run=named, code=code_digest())
    return [folder / name for name in (*files, FILE)]


def contents(run: Run, utf_8: bool = False) -> dict[str, bytes]:
    """Return the files of a report by path; its manifest lists their digests."""
    costs = run.folder / "costs.csv"
    files = _report(run, costs.is_file())
    if costs.is_file():
        files |= _costs(run, costs.read_bytes().decode("utf-8", "replace"))
    latex = [name for name in files if utf_8 and name.endswith(".tex")]
    return files | {name: in_utf_8(files[name].decode()).encode() for name in latex}


def screen(run: Run, width: int = LINE_CHARACTERS) -> str:
    """Return the tables and claims of a run with their footnotes, for a terminal of this width."""
    return terminal_text(summary(run, grids(run), judge(run)), width)


def _remove_former(folder: Path, files: Collection[str]) -> None:
    """Remove the manifest of a previous report in this folder, and the files it lists that are no longer written."""
    with suppress(StoreError):
        former = read_manifest(folder).files
        for name in {*former} - {*files} if all(inside(folder, name) for name in former) else ():
            (folder / name).unlink(missing_ok=True)
    (folder / FILE).unlink(missing_ok=True)


def run_digest(run: Run) -> str | None:
    """Return the digest of a run's manifest; None if it has none, or if the manifest was changed."""
    try:
        return read_manifest(run.folder).digest
    except StoreError:
        return None


def _report(run: Run, costs: bool) -> dict[str, bytes]:
    """Return the files of a report that do not depend on clocks, by path."""
    tables, judged, drawn = grids(run), judge(run), _draw_all(pictures(run))
    filled = [*tables, *whole_grids(run)]
    document = report_document(run, filled, judged, drawn, costs)
    screen_text = [terminal_text(summary(run, tables, judged)), notes_text(too_wide_tables(document))]
    pairs = {grid.table.id: [pair.record() for pair in pairs_of(grid)] for grid in filled}
    files = {
        "report.html": html_page(document),
        "report.md": markdown_report(document),
        "report.tex": latex_report(document),
        SCREEN: "\n".join(filter(None, screen_text)),
        **{f"tables/{grid.table.id}.csv": csv_text(records(grid)) for grid in filled},
        **{f"tables/{name}-pairs.csv": csv_text(rows) for name, rows in pairs.items() if rows},
        **{f"tables/{name}.tex": text for name, text in table_files(document).items()},
        "results.json": results_text(run, filled, judged),
    }
    return _encode(files) | _figure_files("figures", drawn)


def _costs(run: Run, table: str) -> dict[str, bytes]:
    """Return all files that depend on clocks, by path: the costs of stages, their page, and their figures."""
    drawn, stages = _draw_all(cost_pictures(run)), stages_of(table)
    columns = list(dict.fromkeys(name for stage in stages for name in stage)) or COST_COLUMNS
    files = {"costs.csv": to_csv(stages, columns), "costs.html": html_page(costs_document(run, stages, drawn))}
    return _encode(files) | _figure_files("costs", drawn)


def _draw_all(shown: Iterable[Picture]) -> list[DrawnFigure]:
    return [(picture, {} if picture.empty else draw(picture)) for picture in shown]


def _figure_files(folder: str, drawn: Iterable[DrawnFigure]) -> dict[str, bytes]:
    """Return the files of figures, by path: their drawings and their numbers."""
    numbers = {f"{folder}/{picture.figure.id}.csv": csv_text(picture.records()) for picture, files in drawn if files}
    drawings = {
        f"{folder}/{picture.figure.id}.{kind}": content for picture, files in drawn for kind, content in files.items()
    }
    return drawings | _encode(numbers)


def _encode(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode("utf-8", "backslashreplace") for name, text in files.items()}
