"""Export a run to one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, size
from bench_exchange.commands import counted

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", "file", type=click.Path(path_type=Path), help="File to write [default: RUN.zip].")
@click.option("--numbers-only", is_flag=True, help="Leave out outputs and all other texts that come from the data.")
@options.store
def command(run: Path, file: Path | None, numbers_only: bool, store: Store) -> int:
    """Write RUN and all that is small behind it to one file, for `bench import` on another machine.

    That is the run folder and, from the store, outputs, scores, numbers, probes, and how trainings went: no
    weights and no files of corpora. Outputs, scores and facts hold texts of the data: contexts, references, words.
    With --numbers-only the file holds none of it but the samples that reports show; a run where it is imported
    decodes and scores again, while reports and `bench merge` need no more.
    """
    from bench_core.runs.results import read_run
    from bench_exchange.exporting import export_run

    file = file or Path(f"{run.resolve().name}.zip")
    found = export_run(read_run(run), store, file, numbers_only)
    say(f"{file}: {size(file.stat().st_size)}: the run, {counted(found.carried)}")
    if found.left_out:
        say(f"left out, as they hold texts: {counted(found.left_out)}")
    if found.missing:
        say(f"not in the store: {found.missing:,} artifacts behind the cells of the run")
    for text in found.damaged:
        say(f"left out, as it is damaged: {text}", err=True)
    return 1 if found.damaged else 0
