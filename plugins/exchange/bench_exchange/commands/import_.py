"""Import an exported file into a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, visible
from bench_exchange.commands import counted

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@options.store
@options.runs
@click.option(
    "--limit", type=click.IntRange(1), default=8, show_default=True, help="Most GiB that FILE may unpack to."
)
@click.option("--trust", is_flag=True, help="Also take stages whose code is not installed here, unverified.")
def command(file: Path, store: Store, runs: Path, limit: int, trust: bool) -> None:
    """Add FILE, which `bench export` wrote on another machine, to a store and to the runs.

    All of it is checked before any of it is written: sizes, digests, keys, that there is nothing else in it, that its
    cells, artifacts and numbers fit each other, and that its outcomes measure as it says, where the same metrics are
    installed. What no check can tell is whether outcomes are those of a training: import files of people whom you
    would believe their numbers. Not even that much can be said of stages whose code is not installed here: they are
    refused, or taken with --trust, and tables then say which numbers are unverified.
    A run of the same suite, code, libraries and kind of hardware then computes nothing of it again. Trainings come
    without weights: they are done again where these are needed.
    """
    from bench_exchange.importing import import_run

    imported = import_run(file, store, runs, limit * 2**30, trust)
    say(f"{store.root}: {counted(imported.added)} new, {imported.known:,} were there")
    for text in imported.left_out.values():
        say(f"warning: {text}", err=True)
    for text in imported.unchecked:
        say(f"not checked: {visible(text)}", err=True)
    say(f"run     {imported.run}")
