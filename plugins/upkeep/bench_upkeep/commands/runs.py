"""List and remove runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import counted, say, size, to_json, visible

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_upkeep.run_folders import RunEntry


@click.group()
def command() -> None:
    """List and remove runs."""


@command.command("ls")
@options.runs
@options.as_json
def list_runs(runs: Path, as_json: bool) -> None:
    """List the runs of a folder: name, suite, profile, time, cells, size."""
    from bench_upkeep.run_folders import run_entries

    found = [*run_entries(runs)]
    if as_json:
        say(to_json({"runs": str(runs), "found": [asdict(one) for one in found]}))
        return
    if found:
        say(_listing(found))
    say(f"{counted(len(found), 'run')}, {size(sum(one.size for one in found))}, in {runs}")


def _listing(found: Sequence[RunEntry]) -> str:
    from tabulate import tabulate

    headings = ["run", "suite", "profile", "time", "done", "failed", "not run", "size"]
    rows = [
        [one.name, one.suite, one.profile or "", one.time.replace("T", " "), one.done, one.failed, one.not_run]
        if not one.damaged
        else [one.name, "damaged: see `bench verify`", "", one.time.replace("T", " "), "", "", ""]
        for one in found
    ]
    lines = [[*(visible(str(word)) for word in row), size(one.size)] for row, one in zip(rows, found, strict=True)]
    return str(tabulate(lines, headings, disable_numparse=True))


@command.command("rm")
@click.argument("run", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.runs
@options.store
def remove_runs(run: tuple[Path, ...], yes: bool, runs: Path, store: Store) -> None:
    """Remove each RUN, a folder or a name in the folder of runs; its artifacts and its reports stay.

    Nothing is removed unless all of them are run folders that hold nothing else.
    """
    from bench_core.runs.selecting import run_folder
    from bench_upkeep.run_folders import check_run_folder, remove_run

    folders = [*dict.fromkeys(check_run_folder(run_folder(one, runs)) for one in run)]
    if not yes:
        _ask(folders)
    freed = sum(remove_run(folder) for folder in folders)
    say(
        f"removed {counted(len(folders), 'run')}, {size(freed)}. Reports stay; `bench verify` cannot follow them now."
    )
    say(_advice(store, [*dict.fromkeys(folder.parent for folder in folders)]))


def _ask(folders: Sequence[Path]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes to remove the runs.")
    names = "".join(f"  {visible(str(folder))}\n" for folder in folders)
    click.confirm(f"{names}Remove {counted(len(folders), 'run')}?", abort=True)


def _advice(store: Store, folders: Sequence[Path]) -> str:
    """Return what can be freed of the store now."""
    from bench_core.errors import BenchError
    from bench_upkeep.run_folders import collectable, run_folders

    if not store.root.is_dir():
        return f"There is no store {store.root}."
    try:
        freed = size(collectable(store, folders))
        if not any(map(run_folders, folders)):
            return f"No run is left beside them. Unless others use it, all of {store.root} can be removed: {freed}."
        kept = " ".join(f"{folder}/*" for folder in folders)
        return f"`bench store gc --keep {kept}` would free {freed} in {store.root}."
    except BenchError as error:
        return f"What can be freed in {store.root} is not known: {error}"
