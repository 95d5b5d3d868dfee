"""Write outputs and scores of a run as JSON lines, CSV or text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, visible

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_exchange.outputs import Format


@click.command()
@options.run
@click.argument("cells", metavar="[CELL]...", nargs=-1, shell_complete=options.complete_cells)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "text"]),
    default="jsonl",
    show_default=True,
    help="One line per example, one row per output, or the first output of each example of one cell, one per line.",
)
@click.option("--kind", type=click.Choice(["decode", "score"]), help="Only outputs, or only scores.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write [default: standard output].")
@options.runs
@options.store
def command(
    run: Path, cells: tuple[str, ...], form: Format, kind: str | None, out: Path | None, runs: Path, store: Store
) -> int:
    """Write all predictions and scores of RUN, or of each CELL, such as `model=lstm` or 'lstm/greedy'.

    Cells are written one after another, with examples sorted by id; scores shared by several decoders are written
    once. If artifacts are missing or damaged, they are reported, the others are written, and the exit code is 1.
    """
    from bench_core.runs.results import read_run
    from bench_core.runs.selecting import run_folder
    from bench_exchange.outputs import KINDS, Outputs, write_lines

    kinds = [name for name in KINDS if kind in (None, name)]
    selection = Outputs(read_run(run_folder(run, runs)), store, ",".join(cells), kinds)
    write_lines(selection.lines(form), out)
    for text in selection.problems:
        say(f"bench: {visible(text)}", err=True)
    return 1 if selection.problems else 0
