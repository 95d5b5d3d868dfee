"""Export a run to one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, size
from bench_exchange.commands import format_counts

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command()
@options.run
@click.option("-o", "--output", "file", type=click.Path(path_type=Path), help="File to write [default: RUN.zip].")
@click.option("--numbers-only", is_flag=True, help="Leave out outputs and all other text from the data.")
@options.store
def command(run: Path, file: Path | None, numbers_only: bool, store: Store) -> int:
    """Write RUN and its small artifacts to one file, for `bench import` on another machine.

    The file contains the run folder and, from the store, outputs, scores, numbers, probes and training histories, but
    no weights and no corpora. Outputs, scores and task info contain text from the data: prompts, references, words.
    With --numbers-only, the file contains no text from the data except the samples shown in reports; after import,
    decoding and scoring have to run again, but reports and `bench merge` work without them.
    """
    from bench_core.runs.results import read_run
    from bench_exchange.exporting import export_run

    file = file or Path(f"{run.resolve().name}.zip")
    export = export_run(read_run(run), store, file, numbers_only)
    say(f"{file}: {size(file.stat().st_size)}: the run, {format_counts(export.carried)}")
    if export.left_out:
        say(f"left out because they contain text:  {format_counts(export.left_out)}")
    if export.missing:
        say(f"not in the store: {export.missing:,} artifacts of the run")
    for text in export.damaged:
        say(f"left out because it is damaged: {text}", err=True)
    return 1 if export.damaged else 0
