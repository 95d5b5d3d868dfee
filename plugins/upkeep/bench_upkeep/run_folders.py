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
FILES = (CELLS, "run.json", "suite.yaml")  # files required in a run folder
SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".csv", ".yaml", ".safetensors", "log")  # suffixes of run files
TIME = re.compile(r"-(\d{8}-\d{6})(-\d+)?$")  # suffix of run names


@dataclass(frozen=True)
class RunEntry:
    """A run folder, intact or damaged."""

    name: str
    suite: str
    profile: str | None
    time: str  # start time from the name, or else the file's time; ISO 8601, local time
    done: int  # number of completed cells
    failed: int
    not_run: int
    size: int  # bytes
    damaged: str = ""  # error message


def run_folders(runs: Path) -> list[Path]:
    """Return the sorted run folders in a folder; raise SuiteError if it cannot be listed."""
    try:
        inside = sorted(runs.iterdir())
    except OSError as error:
        raise SuiteError(f"{runs}: runs cannot be listed: {reason(error)}. Choose a folder with --runs.") from None
    return [path for path in inside if not path.name.startswith(".") and (path / CELLS).is_file()]


def run_entries(runs: Path) -> Iterator[RunEntry]:
    """Yield the runs in a folder, sorted by name."""
    for folder in run_folders(runs):
        begun, size = _time(folder), weight(folder)
        try:
            run = read_run(folder)
        except (StoreError, SuiteError) as error:
            yield RunEntry(folder.name, "", None, begun, 0, 0, 0, size, str(error))
            continue
        cells = Counter(cell.status for cell in run.cells)
        counts = cells["done"], cells["failed"], cells["not run"]
        yield RunEntry(folder.name, run.suite.suite, run.info.get("profile"), begun, *counts, size)


def _time(folder: Path) -> str:
    match = TIME.search(folder.name)
    if match:
        with suppress(ValueError):
            return datetime.strptime(match[1], "%Y%m%d-%H%M%S").isoformat()
    return datetime.fromtimestamp(int((folder / CELLS).stat().st_mtime)).isoformat()


def check_run_folder(folder: Path) -> Path:
    """Return the absolute path of a removable run; raise SuiteError for anything else."""
    folder = Path(os.path.abspath(folder))
    if folder.is_symlink():
        raise SuiteError(f"{folder} is a link. Nothing is removed; give the folder that it links to.")
    if folder.name.startswith("."):
        raise SuiteError(f"{folder} is an unfinished run. Nothing is removed.")
    for name in FILES:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise SuiteError(f"{folder} is not a run: it has no {name}. Nothing is removed.")
    if others := _strangers(folder):
        raise SuiteError(
            f"{folder / others[0]} is not a file of the run. Nothing is removed; move it elsewhere first."
        )
    return folder


def _strangers(folder: Path) -> list[str]:
    """Return the entries of a folder that do not belong to a run: files missing in the manifest, and users' notes."""
    user_notes = [*notes(folder)]
    if os.path.lexists(folder / FILE):
        with suppress(StoreError):
            return [*strangers(folder, read_manifest(folder)), *user_notes]
    inside = (path.name for path in sorted(folder.iterdir()) if path.name != "history")  # old or damaged run
    return [*(name for name in inside if not name.endswith(SUFFIXES)), *user_notes]


def remove_run(folder: Path) -> int:
    """Remove a run and return its size in bytes.

    The folder is renamed first, so that a partly removed run is never used. Raises SuiteError if the folder is not a
    run, and StoreError if it cannot be removed.
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
    """Return the bytes of a store that no run in the folders needs; raise StoreError if this is undecidable."""
    runs = [read_run(run) for folder in folders for run in run_folders(folder)]
    if not runs:
        return weight(store.root)
    collected = collect(store, {key for run in runs for key in run.named_keys()}, dry=True)
    return sum(map(sum, collected.sizes.values()))
