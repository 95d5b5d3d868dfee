"""Take in such a file, after checking all of it."""

from __future__ import annotations

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import say


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@options.store
@options.runs
@click.option(
    "--limit", type=click.IntRange(min=1), default=8, show_default=True, help="Most GiB that FILE may hold unpacked."
)
def command(file: Path, store: Path, runs: Path, limit: int) -> None:
    """Take in FILE, which `bench export` wrote on another machine.

    All of it is checked before any of it is written: sizes, digests, keys, and that there is nothing else in it. What
    no check can tell is whether its numbers are true: take in files of people whom you would believe their numbers.
    A run of the same suite, code, libraries and kind of hardware then computes nothing of it again. Trainings come
    without weights: they are done again where these are needed.
    """
    from bench_core.storage.contents import SCHEME
    from bench_core.storage.store import Store
    from bench_exchange.commands.export import NAMES
    from bench_exchange.importing import take_in
    from bench_exchange.unbundle import opened

    with opened(file, limit * 2**30) as bundle:
        told = take_in(bundle, Store(store), runs)
    parts = [f"{told.added[kind]:,} {name}" for kind, name in NAMES.items() if told.added[kind]]
    if told.scheme == SCHEME:
        say(f"{store}: {', '.join(parts) or 'nothing'} new, {told.known:,} artifacts were there")
    else:
        say(
            f"{file}: its keys are of scheme {told.scheme}, and those of this bench of scheme {SCHEME}: no run "
            "would find its artifacts, which are left out. `bench report` and `bench merge` need but the run.",
            err=True,
        )
    for text in told.aside:
        say(f"warning: {text}", err=True)
    say(f"run     {told.run}")
