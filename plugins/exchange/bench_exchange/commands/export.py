"""Write a run to one file, for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say

if TYPE_CHECKING:
    from bench_exchange.bundle import Exported

NAMES = {
    "decode": "outputs of cells", "score": "scores of cells", "measure": "numbers", "probe": "probes",
    "train": "trainings without weights", "prepare": "facts of tasks",
}  # fmt: skip


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    help="File to write [default: the run's name and .zip].",
)
@click.option("--numbers-only", is_flag=True, help="Leave out outputs and all other texts that come from the data.")
@options.store
def command(run: Path, file: Path | None, numbers_only: bool, store: Path) -> int:
    """Write RUN and all that is small behind it to one file, for `bench import` on another machine.

    That is the run folder and, from the store, outputs, scores, numbers, probes, and how trainings went: no
    weights and no files of corpora. Outputs, scores and facts hold texts of the data: contexts, references, words.
    With --numbers-only the file holds none of it but the samples that reports show; a run where it is imported
    decodes and scores again, while reports and `bench merge` need no more.
    """
    from bench_core.runs.results import read_run
    from bench_core.storage.store import Store
    from bench_exchange.bundle import export

    found = read_run(run)
    told = export(found, Store(store), file or Path(f"{run.resolve().name}.zip"), numbers_only)
    tell(told)
    for text in told.damaged:
        say(f"left out, as it is damaged: {text}", err=True)
    return 1 if told.damaged else 0


def tell(told: Exported) -> None:
    """Say what went into a file, and what did not."""
    from bench_core.terminal import size

    parts = [f"{told.counts[kind]:,} {name}" for kind, name in NAMES.items() if told.counts[kind]]
    say(f"{told.path}: {size(told.path.stat().st_size)}: {', '.join(['the run', *parts])}")
    left = [f"{what} ({len(sizes):,}, {size(sum(sizes))})" for what, sizes in told.left_out.items()]
    if left:
        say(f"left out: {', '.join(left)}")
    if told.missing:
        say(f"not in the store: {told.missing:,} artifacts behind the cells of the run")
