"""Verify runs, reports and exported files."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import count_of, say, visible

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--again",
    is_flag=True,
    help="Also decode and score again from the stored weights and recompute metrics from the stored predictions, "
    "each in its own process, with the installed code.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Decode and score only N rows again (rounded up to full batches).",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@click.option("--require-run", is_flag=True, help="Exit with 1 for a report whose run is missing.")
@options.data
@options.store
@options.runs
def command(
    paths: tuple[Path, ...],
    again: bool,
    limit: int | None,
    workers: int,
    require_run: bool,
    data: Path,
    store: Store,
    runs: Path,
) -> int:
    """Check that every number in PATH can be traced to its inputs.

    A PATH is a run, a report, a folder of runs or reports, or a file written by `bench export`. Reports are traced
    to their run, cells to keys, and keys to artifacts in the store. Each contradiction names a file or a cell, and
    the exit code is 1. Items that could not be checked are listed at the end with the reason. Anything without a
    manifest is unverified, and the exit code is 1, except for reports of version 0.1 with known digests.
    """
    from bench_exchange.verifying import Verifier, repeat_stages

    if limit is not None and not again:
        raise click.UsageError("--limit N requires --again.")
    verifier, left, wrong = Verifier(store, runs, require_run), list[str](), 0
    remarks = chain.from_iterable(map(verifier.verify, paths))
    more = (
        repeat_stages(run, store, data, workers, limit) for run in (verifier.seen if again else ())
    )  # lazy: `seen` is filled by the verifier
    for remark in chain(remarks, chain.from_iterable(more)):
        if remark.wrong:
            say(visible(remark.text))
            wrong += 1
        else:
            left.append(f"  {visible(remark.text)}")
    if left:
        say("\n".join(["not checked:", *left]))
    about = ", ".join(count_of(number, what) for what, number in verifier.counts.items()) or "nothing verified"
    say(f"{about}: {count_of(wrong, 'contradiction') if wrong else 'no contradictions'}")
    return int(bool(wrong) or not verifier.counts)
