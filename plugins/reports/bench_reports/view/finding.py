"""Finds the runs and reports below a folder; links are not followed."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from bench_core.errors import StoreError
from bench_core.runs.manifest import FILE as MANIFEST
from bench_core.runs.manifest import Manifest, read_manifest

MARK = ".bench-view"  #: a file in folders that `bench view --out` wrote; nothing in them is looked at
SKIPPED = ("__pycache__", "node_modules")


@dataclass
class Findings:
    """What is below a folder: paths relative to it, sorted."""

    runs: list[Path] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)  # to folders, which were not followed
    unreadable: list[Path] = field(default_factory=list)


def find(root: Path) -> Findings:
    """Find every run and report in `root` and below; what is in a hidden folder is not looked at."""
    found = Findings()

    def failed(error: OSError) -> None:
        found.unreadable.append(Path(os.path.relpath(error.filename, root)))

    for place, folders, files in os.walk(root, onerror=failed):
        here, folder = Path(place), Path(place).relative_to(root)
        if MARK in files:
            folders.clear()
        elif "cells.jsonl" in files or {"run.json", "suite.yaml"} <= {*files}:  # a run, perhaps a damaged one
            found.runs.append(folder)
            folders.clear()
        elif is_report(here, files):
            found.reports.append(folder)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        found.links += [folder / name for name in folders if (here / name).is_symlink()]
    return found


def is_report(folder: Path, names: Collection[str]) -> bool:
    """Return whether a folder with files of these names is a report; those of version 0.1 have no manifest."""
    if "report.html" not in names and "report.md" not in names:
        return False
    manifest = manifest_of(folder)
    return "results.json" in names or (manifest is not None and manifest.kind == "report")


def manifest_of(folder: Path) -> Manifest | None:
    """Return the manifest of a run or report; None if it has none, or one that cannot be read."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return read_manifest(folder)
    except StoreError:
        return None
