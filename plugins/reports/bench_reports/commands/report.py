"""Write the report of a run."""

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json


@click.command()
@options.run
@options.out
@click.option(
    "--utf-8", "utf_8", is_flag=True, help="Write LaTeX in UTF-8 with all scripts, for XeLaTeX and LuaLaTeX."
)
@options.as_json
def command(run: Path, out: Path, utf_8: bool, as_json: bool) -> None:
    """Write the report of RUN, a folder written by `bench run`, as HTML, Markdown, LaTeX, CSV and JSON."""
    from bench_core.runs.reporting import place
    from bench_core.runs.results import read_run
    from bench_reports.render.report import write_report

    whole = read_run(run)
    folder, _ = place(whole, out)
    files = [str(path) for path in write_report(whole, folder, utf_8)]
    say(to_json(files) if as_json else "\n".join(files))
