"""Merge several runs of one suite."""

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import count_of, say

PREFER = "Run whose result is used if cells differ; the first takes precedence."


@click.command()
@click.argument(
    "folders", metavar="RUN...", nargs=-1, required=True, type=options.FOLDER, shell_complete=options.complete_runs
)
@click.option("--prefer", multiple=True, metavar="RUN", type=click.Path(path_type=Path), help=PREFER)
@options.runs
@options.out
def command(folders: tuple[Path, ...], prefer: tuple[Path, ...], runs: Path, out: Path) -> int:
    """Merge several runs of one suite into one run and write its report.

    The runs may differ in seeds, skipped cells, names on axes, and hardware; the report shows how each cell was
    computed. Completed cells are preferred to failed cells, and failed cells to cells that were not run. If a cell
    was computed differently in two runs, merging fails unless --prefer selects a run.
    """
    from bench_core.runs.reporting import home, reported
    from bench_exchange.merge import merge

    merged = merge(folders, runs, prefer)
    text, report = reported(merged, home(out, str(merged.info["label"])))
    say(text)
    for note in merged.info["notes"]:
        say(f"note: {note}", err=True)
    lacking = sum(cell.status != "done" for cell in merged.cells)
    say(count_of(len(merged.cells), "cell") + (f", {lacking} of them failed or not run" if lacking else ""))
    say(f"run     {merged.folder}\nreport  {report}")
    return 1 if lacking else 0
