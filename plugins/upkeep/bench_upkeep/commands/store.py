"""List, verify and clean up the artifact store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import count_of, say, size, to_json

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_upkeep.garbage import StoreEntry

MAX_WIDTHS = {"kind": 20, "key": 16, "what": 100}  # maximum characters in each column


@click.group()
def command() -> None:
    """List, verify and clean up the artifact store."""


@command.command("ls")
@click.option("--kind", help="Only this kind, such as train.")
@options.store
@options.as_json
def list_artifacts(kind: str | None, store: Store, as_json: bool) -> None:
    """List artifacts: kind, key, description, size."""
    from bench_upkeep.garbage import entries

    listed = list(entries(store, kind))
    if as_json:
        say(to_json({"store": str(store.root), "artifacts": [asdict(entry) for entry in listed]}))
        return
    if listed:
        say("\n".join(_listing(listed)))
    say(f"{count_of(len(listed), 'artifact')}, {size(sum(entry.size for entry in listed))}, in {store.root}")


def _listing(entries: Sequence[StoreEntry]) -> Iterator[str]:
    """Yield the lines of a table of artifacts; long descriptions continue on the next line."""
    from textwrap import wrap

    from bench_core.terminal import visible

    widths = [
        *(
            min(max_width, max(len(getattr(entry, name)) for entry in entries))
            for name, max_width in MAX_WIDTHS.items()
        ),
        10,
    ]
    line = "  ".join(f"{{:{max(width, 4)}}}" for width in widths).format
    yield line(*MAX_WIDTHS, "size").rstrip()
    yield line(*("-" * max(width, 4) for width in widths))
    for entry in entries:
        first, *more = wrap(visible(entry.what), MAX_WIDTHS["what"]) or [""]
        kind, key = visible(entry.kind)[: MAX_WIDTHS["kind"]], visible(entry.key)[: MAX_WIDTHS["key"]]
        yield line(kind, key, first, size(entry.size)).rstrip()
        yield from (line("", "", text, "").rstrip() for text in more)


@command.command("verify")
@click.option(
    "--repair", is_flag=True, help="Move damaged artifacts to `set-aside`; the next run computes them again."
)
@options.store
def verify_artifacts(repair: bool, store: Store) -> int:
    """Read every artifact and report files that changed since they were written."""
    from bench_core.terminal import visible
    from bench_upkeep.garbage import damages

    number = damaged = 0
    for _, wrong, place in damages(store, repair):
        number += 1
        damaged += bool(wrong)
        for problem in wrong:
            say(visible(str(problem)))
        if place:
            say(f"    set aside: moved to {visible(str(place))}")
    say(f"{count_of(number, 'artifact')} read, " + (f"{damaged} damaged" if damaged else "all intact"))
    return 1 if damaged else 0


@command.command("gc")
@click.option(
    "--keep",
    "runs",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="RUN...",
    help="Runs whose artifacts and inputs are kept.",
)
@click.argument("more", type=click.Path(path_type=Path), nargs=-1, metavar="")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--set-aside", is_flag=True, help="Also remove damaged artifacts in `set-aside`.")
@options.store
def collect_garbage(
    runs: tuple[Path, ...], more: tuple[Path, ...], dry_run: bool, set_aside: bool, store: Store
) -> None:
    """Remove artifacts that no kept run refers to, and leftovers of killed runs.

    Does nothing while a run uses the store.
    """
    from bench_core.runs.results import read_run
    from bench_core.terminal import visible
    from bench_upkeep.garbage import collect

    kept_runs = [read_run(run) for run in (*runs, *more)]
    keys = {key for run in kept_runs for key in run.named_keys()}
    result = collect(store, keys, dry_run, set_aside)
    for what, sizes in sorted(result.sizes.items()):
        say(f"{visible(what)}: {len(sizes)}, {size(sum(sizes))}")
    for text in result.left:
        say(f"left: {visible(text)}")
    freed = size(sum(map(sum, result.sizes.values())))
    say(f"would free {freed}; nothing was removed" if dry_run else f"freed {freed}")
