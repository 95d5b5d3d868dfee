"""Check the artifacts and numbers of a run against the store."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import counted, say

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--again",
    is_flag=True,
    help="Also decode and score again from the stored weights, and recompute metrics from the stored outcomes, each "
    "in its own process, with the installed code.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Decode and score only N rows again (a few more for a full batch).",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@options.data
@options.store
def command(run: Path, again: bool, limit: int | None, workers: int, data: Path, store: Store) -> int:
    """Check that the artifacts of RUN are intact, and that its numbers are those in the store."""
    from bench_core.runs.results import read_run
    from bench_core.terminal import visible
    from bench_exchange.repeating import Remark
    from bench_exchange.verifying import damaged, differing, repeated

    if limit is not None and not again:
        raise click.UsageError("--limit N requires --again.")
    found = read_run(run)
    wrong, left = 0, 0
    whole = (Remark(text) for text in chain(damaged(found, store), differing(found, store)))
    for remark in chain(whole, repeated(found, store, data, workers, limit) if again else ()):
        say(visible(remark.text))
        wrong, left = wrong + remark.differs, left + (not remark.differs)
    number, behind = sum(len(cell.numbers) for cell in found.cells), len(found.artifacts())
    about = ", ".join([counted(len(found.cells), "cell"), counted(number, "number"), counted(behind, "artifact")])
    more = f"; {counted(left, 'stage')} could not be repeated" if left else ""
    say(f"{about}: {counted(wrong, 'difference') if wrong else 'all as stored'}{more}")
    return 1 if wrong else 0
