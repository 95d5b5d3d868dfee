"""Search for runs and reports below a folder; symbolic links are not followed."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from bench_core.errors import StoreError
from bench_core.runs.manifest import FILE as MANIFEST
from bench_core.runs.manifest import Manifest, read_manifest

MARK = ".bench-view"  #: marker file of folders that `bench view --out` wrote, which are skipped
SKIPPED = ("__pycache__", "node_modules")


@dataclass
class FoundFolders:
    """The runs and reports below a folder, as sorted paths relative to it."""

    runs: list[Path] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)  # symbolic links to folders
    unreadable: list[Path] = field(default_factory=list)


def find(root: Path) -> FoundFolders:
    """Return all runs and reports in `root` and below, except in hidden folders."""
    findings = FoundFolders()

    def note_error(error: OSError) -> None:
        findings.unreadable.append(Path(os.path.relpath(error.filename, root)))

    for place, folders, files in os.walk(root, onerror=note_error):
        path, folder = Path(place), Path(place).relative_to(root)
        if MARK in files:
            folders.clear()
        elif "cells.jsonl" in files or {"run.json", "suite.yaml"} <= {*files}:  # a run, possibly damaged
            findings.runs.append(folder)
            folders.clear()
        elif is_report(path, files):
            findings.reports.append(folder)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        findings.links += [folder / name for name in folders if (path / name).is_symlink()]
    return findings


def is_report(folder: Path, names: Collection[str]) -> bool:
    """Return whether a folder with these files is a report; reports of version 0.1 have no manifest."""
    if "report.html" not in names and "report.md" not in names:
        return False
    manifest = manifest_of(folder)
    return "results.json" in names or (manifest is not None and manifest.kind == "report")


def manifest_of(folder: Path) -> Manifest | None:
    """Return the manifest of a run or report; None if it is missing or unreadable."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return read_manifest(folder)
    except StoreError:
        return None
