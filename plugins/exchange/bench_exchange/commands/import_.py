"""Import an exported file into a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, visible
from bench_exchange.commands import format_counts

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@options.store
@options.runs
@click.option(
    "--limit", type=click.IntRange(1), default=8, show_default=True, help="Maximum unpacked size of FILE in GiB."
)
@click.option(
    "--trust", is_flag=True, help="Also import stages whose code is not installed here, marked as unverified."
)
def command(file: Path, store: Store, runs: Path, limit: int, trust: bool) -> None:
    """Add FILE, written by `bench export` on another machine, to a store and to the folder of runs.

    Everything is checked before anything is written: sizes, digests, keys, unexpected entries, consistency of cells,
    artifacts and numbers. If the same metrics are installed, numbers are also recomputed from the predictions. No
    check can show that predictions come from a trained model: import only files from people whose numbers you
    trust. Stages whose code is not installed here cannot be checked to this extent: they are rejected, or imported
    with --trust, and tables then mark their numbers as unverified.

    A run of the same suite, code, libraries and kind of hardware then reuses all imported results. Weights are not
    included: models are trained again if their weights are needed.
    """
    from bench_exchange.importing import import_run

    imported = import_run(file, store, runs, limit * 2**30, trust)
    say(f"{store.root}: {format_counts(imported.added)} new, {imported.known:,} already present")
    for text in imported.left_out.values():
        say(f"warning: {text}", err=True)
    for text in imported.unchecked:
        say(f"not checked: {visible(text)}", err=True)
    say(f"run     {imported.run}")
