"""Merge several runs of one suite."""

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import counted, say

PREFER = "Whose result is taken where cells differ; the first before the others."


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--prefer", multiple=True, metavar="RUN", type=click.Path(path_type=Path), help=PREFER)
@options.runs
@options.out
def command(folders: tuple[Path, ...], prefer: tuple[Path, ...], runs: Path, out: Path) -> int:
    """Make one run of several of the same suite, and write its report.

    They may differ in seeds, skipped cells, names on axes, and hardware; the report says which cells were computed
    with what. A cell that is done is taken before one that failed, and that before one that was not run. A cell that
    was computed otherwise in two runs is refused, unless --prefer says whose is taken.
    """
    from bench_core.runs.reporting import home, reported
    from bench_exchange.merge import merge

    found = merge(folders, runs, prefer)
    text, report = reported(found, home(out, str(found.info["label"])))
    say(text)
    for note in found.info["notes"]:
        say(f"note: {note}", err=True)
    lacking = sum(cell.status != "done" for cell in found.cells)
    say(counted(len(found.cells), "cell") + (f", {lacking} of them failed or not run" if lacking else ""))
    say(f"run     {found.folder}\nreport  {report}")
    return 1 if lacking else 0
