"""Lists the runs in a folder, and removes runs."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex

from bench_core.errors import StoreError, SuiteError
from bench_core.runs.manifest import FILE, notes, read_manifest, strangers
from bench_core.runs.results import read_run
from bench_core.storage.artifact import reason
from bench_core.storage.store import REMOVED, Store
from bench_upkeep.garbage import collect, weight

CELLS = "cells.jsonl"
FILES = (CELLS, "run.json", "suite.yaml")  # without which a folder is no run
SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".csv", ".yaml", ".safetensors", "log")  # of the files of runs
TIME = re.compile(r"-(\d{8}-\d{6})(-\d+)?$")  # at the end of the name of a run


@dataclass(frozen=True)
class RunEntry:
    """A run folder, intact or damaged."""

    name: str
    suite: str
    profile: str | None
    time: str  # when it began, by its name, else when it was written; local time in ISO 8601
    done: int  # cells
    failed: int
    not_run: int
    size: int  # bytes
    damaged: str = ""  # why it cannot be read


def run_folders(runs: Path) -> list[Path]:
    """Return the run folders in a folder, sorted; raise SuiteError if it cannot be listed."""
    try:
        inside = sorted(runs.iterdir())
    except OSError as error:
        raise SuiteError(f"{runs}: no runs can be listed here: {reason(error)}. Name a folder by --runs.") from None
    return [one for one in inside if not one.name.startswith(".") and (one / CELLS).is_file()]


def run_entries(runs: Path) -> Iterator[RunEntry]:
    """Yield the runs in a folder, in order of their names."""
    for folder in run_folders(runs):
        begun, size = _time(folder), weight(folder)
        try:
            run = read_run(folder)
        except (StoreError, SuiteError) as error:
            yield RunEntry(folder.name, "", None, begun, 0, 0, 0, size, str(error))
            continue
        cells = Counter(one.status for one in run.cells)
        counts = cells["done"], cells["failed"], cells["not run"]
        yield RunEntry(folder.name, run.suite.suite, run.info.get("profile"), begun, *counts, size)


def _time(folder: Path) -> str:
    named = TIME.search(folder.name)
    if named:
        with suppress(ValueError):
            return datetime.strptime(named[1], "%Y%m%d-%H%M%S").isoformat()
    return datetime.fromtimestamp(int((folder / CELLS).stat().st_mtime)).isoformat()


def check_run_folder(folder: Path) -> Path:
    """Return the absolute path of a run that may be removed; raise SuiteError for anything else."""
    folder = Path(os.path.abspath(folder))
    if folder.is_symlink():
        raise SuiteError(f"{folder} is a link. Nothing is removed; name the folder behind it.")
    if folder.name.startswith("."):
        raise SuiteError(f"{folder} is no finished run: one is being written there, or was. Nothing is removed.")
    for name in FILES:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise SuiteError(f"{folder} is not a run: it has no {name}. Nothing is removed.")
    if others := _strangers(folder):
        raise SuiteError(
            f"{folder / others[0]} is not a file that the run left. Nothing is removed; move it elsewhere first."
        )
    return folder


def _strangers(folder: Path) -> list[str]:
    """Return what is in a folder besides a run: files that its manifest does not list, and notes of people."""
    found = [*notes(folder)]
    if os.path.lexists(folder / FILE):
        with suppress(StoreError):
            return [*strangers(folder, read_manifest(folder)), *found]
    inside = (path.name for path in sorted(folder.iterdir()) if path.name != "history")  # of an old or damaged run
    return [*(name for name in inside if not name.endswith(SUFFIXES)), *found]


def remove_run(folder: Path) -> int:
    """Remove a run and return how many bytes it had; raise SuiteError if it is no run, StoreError if it stays.

    It is renamed first, so that no part of it is ever taken for a run.
    """
    folder = check_run_folder(folder)
    size, place = weight(folder), folder.with_name(f".{REMOVED}{token_hex(4)}")
    try:
        os.rename(folder, place)
        shutil.rmtree(place)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be removed: {reason(error)}.") from None
    return size


def collectable(store: Store, folders: Iterable[Path]) -> int:
    """Return how many bytes of a store no run in the folders needs; raise StoreError where nobody can say."""
    runs = [read_run(run) for folder in folders for run in run_folders(folder)]
    if not runs:
        return weight(store.root)
    found = collect(store, {key for run in runs for key in run.named_keys()}, dry=True)
    return sum(map(sum, found.sizes.values()))
