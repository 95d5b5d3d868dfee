"""List and remove runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import count_of, say, size, to_json, visible

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

    entries = [*run_entries(runs)]
    if as_json:
        say(to_json({"runs": str(runs), "found": [asdict(entry) for entry in entries]}))
        return
    if entries:
        say(_listing(entries))
    say(f"{count_of(len(entries), 'run')}, {size(sum(entry.size for entry in entries))}, in {runs}")


def _listing(entries: Sequence[RunEntry]) -> str:
    from tabulate import tabulate

    headings = ["run", "suite", "profile", "time", "done", "failed", "not run", "size"]
    rows = [
        [
            entry.name,
            entry.suite,
            entry.profile or "",
            entry.time.replace("T", " "),
            entry.done,
            entry.failed,
            entry.not_run,
        ]
        if not entry.damaged
        else [entry.name, "damaged: see `bench verify`", "", entry.time.replace("T", " "), "", "", ""]
        for entry in entries
    ]
    lines = [
        [*(visible(str(word)) for word in row), size(entry.size)] for row, entry in zip(rows, entries, strict=True)
    ]
    return str(tabulate(lines, headings, disable_numparse=True))


@command.command("rm")
@click.argument("run", nargs=-1, required=True, type=options.FOLDER, shell_complete=options.complete_runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.runs
@options.store
def remove_runs(run: tuple[Path, ...], yes: bool, runs: Path, store: Store) -> None:
    """Remove each RUN, given as a folder or as a name in the folder of runs; artifacts and reports are kept.

    Nothing is removed unless every RUN is a run folder without other files.
    """
    from bench_core.runs.selecting import run_folder
    from bench_upkeep.run_folders import check_run_folder, remove_run

    folders = [*dict.fromkeys(check_run_folder(run_folder(name, runs)) for name in run)]
    if not yes:
        _ask(folders)
    freed = sum(remove_run(folder) for folder in folders)
    say(
        f"removed {count_of(len(folders), 'run')}, {size(freed)}. Reports stay, but `bench verify` cannot trace them."
    )
    say(_advice(store, [*dict.fromkeys(folder.parent for folder in folders)]))


def _ask(folders: Sequence[Path]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("confirmation needs a terminal. Use --yes to remove the runs.")
    names = "".join(f"  {visible(str(folder))}\n" for folder in folders)
    click.confirm(f"{names}Remove {count_of(len(folders), 'run')}?", abort=True)


def _advice(store: Store, folders: Sequence[Path]) -> str:
    """Describe how to free space in the store."""
    from bench_core.errors import BenchError
    from bench_upkeep.run_folders import collectable, run_folders

    if not store.root.is_dir():
        return f"There is no store {store.root}."
    try:
        freed = size(collectable(store, folders))
        if not any(map(run_folders, folders)):
            return (
                f"No other runs are left. Unless it is used elsewhere, all of {store.root} can be removed: {freed}."
            )
        patterns = " ".join(f"{folder}/*" for folder in folders)
        return f"`bench store gc --keep {patterns}` would free {freed} in {store.root}."
    except BenchError as error:
        return f"The space to free in {store.root} is unknown: {error}"
