"""`bench report RUN`."""

from __future__ import annotations

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("reports"), show_default=True, help="Folder of reports."
)
@options.as_json
def command(run: Path, out: Path, as_json: bool) -> None:
    """Write the tables of RUN, a folder that `bench run` left, as HTML, Markdown, LaTeX, CSV and JSON."""
    from bench_core.extras import need_reports

    need_reports()
    from bench_core.reporting.report import write_report
    from bench_core.runs.results import read_run

    found = read_run(run)
    files = [str(path) for path in write_report(found, home(out, str(found.info.get("label") or found.suite.suite)))]
    say(to_json(files) if as_json else "\n".join(files))


def home(out: Path, label: str) -> Path:
    """Return the folder of a report; raise SuiteError if its label leads out of the folder of reports."""
    from bench_core.errors import SuiteError

    folder = out / label
    if not folder.resolve().is_relative_to(out.resolve()):
        raise SuiteError(f"the report of {label!r} would lie outside of {out}. Rename the suite or its profile.")
    return folder
