"""Exports a run as one zip file: the run folder, and the small files of its artifacts.

The zip contains `run/...`, artifacts in `store/<kind>/<key>/...`, and `bundle.json` with the digests of all
files. The same run and store give the same bytes.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from bench_core.errors import StoreError, SuiteError
from bench_core.registry import sections
from bench_core.runs.manifest import FILE as MANIFEST
from bench_core.runs.manifest import files_of, problems, read_manifest, write_manifest
from bench_core.runs.results import Run, history_files
from bench_core.storage.artifact import Artifact, reason
from bench_core.storage.artifact import write_manifest as write_artifact_manifest
from bench_core.storage.contents import records
from bench_core.storage.predictions import read_lines
from bench_core.storage.store import Store
from bench_exchange.artifact_files import carried

FORMAT = "bench export 3"
CONTENTS = "bundle.json"
RUN_FILES = (
    "suite.yaml", "run.json", "cells.jsonl", "published.json", "costs.csv", "distributions.jsonl",
    "lengths.jsonl", "by_length.jsonl", "draws.safetensors", "permutations.json", "log", "parts.json",
    "stages.jsonl.gz", MANIFEST,
)  # fmt: skip
WITH_TEXTS = ("prepare", "decode", "score")  # kinds of artifacts with text from the data
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # earliest timestamp in a zip
ADDED_BY_MANIFEST = ("kind", "key", "files", "format", "seal")  # fields that `write_manifest` adds


def run_files() -> Sequence[str]:
    """Return the names of the exported files of runs, including files of plugin sections."""
    return [*RUN_FILES, *(name for section in sections() for name in section.files if name not in RUN_FILES)]


@dataclass
class Exported:
    """Summary of an export."""

    carried: Counter[str] = field(default_factory=Counter)  # number of artifacts by kind
    left_out: Counter[str] = field(default_factory=Counter)  # number of artifacts with text from the data, by kind
    missing: int = 0  # number of artifacts that are not in the store
    damaged: list[str] = field(default_factory=list)  # error messages


def export_run(run: Run, store: Store, path: Path, numbers_only: bool = False) -> Exported:
    """Write a run and its small artifacts to a new file.

    Raises SuiteError if the file exists or cannot be written, or if the run is damaged.
    """
    if wrong := [remark.text for remark in problems(run.folder) if remark.wrong]:
        raise SuiteError(f"{wrong[0]} The run cannot be exported. Run the suite again: stored results are reused.")
    exported = Exported()
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        _copy_run(run.folder, Path(folder) / "run")
        for kind, key in run.artifacts():
            _add(exported, store, kind, key, Path(folder) / "store", numbers_only)
        _write(path, Path(folder), run.folder.resolve().name)
    return exported


def _copy_run(source: Path, target: Path) -> None:
    (target / "history").mkdir(parents=True)
    for path in [*(source / name for name in run_files()), *history_files(source).values()]:
        if path.is_file():
            copyfile(path, target / path.relative_to(source))
    if {*files_of(target)} != {*read_manifest(target).files}:  # the export leaves out files of other plugins
        (target / MANIFEST).unlink()
        write_manifest(target, "run", read_manifest(source).name)


def _add(exported: Exported, store: Store, kind: str, key: str, target: Path, numbers_only: bool) -> None:
    """Copy the exported files of an artifact and count the artifact, or record why it is left out."""
    here = store.stored_kind(kind, key)
    if not os.path.lexists(store.path(here, key)):
        exported.missing += 1
        return
    try:
        artifact = store.get(here, key)
        if numbers_only and (kind in WITH_TEXTS or _has_texts(kind, artifact)):
            exported.left_out[kind] += 1
            return
        _copy(artifact, records().get(kind, kind), target)
        exported.carried[kind] += 1
    except StoreError as error:
        exported.damaged.append(str(error))


def _copy(artifact: Artifact, kind: str, target: Path) -> None:
    """Copy the small files of an artifact; its manifest keeps the digests of the other files."""
    known, key = artifact.manifest["files"], artifact.manifest["key"]
    sources = {name: artifact.file(name) for name in carried()[kind] if name in known}
    folder = target / kind / key
    folder.mkdir(parents=True)
    for name, path in sources.items():
        copyfile(path, folder / name)
    rest = {name: entry for name, entry in known.items() if name not in sources}
    record = {"left_out": rest} if artifact.manifest["kind"] != kind else {}
    write_artifact_manifest(folder, kind, key, {**about(artifact.manifest), **record})


def about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a manifest except name and files."""
    return {name: value for name, value in manifest.items() if name not in ADDED_BY_MANIFEST}


def _has_texts(kind: str, artifact: Artifact) -> bool:
    """Return whether a metric stores text of examples, such as n-grams, rather than only numbers."""
    return kind == "measure" and any(map(_is_text, read_lines(artifact.file("parts.jsonl.gz"))))


def _is_text(value: Any) -> bool:
    return any(map(_is_text, value)) if isinstance(value, list) else isinstance(value, (str, dict))


def _write(path: Path, folder: Path, run: str) -> None:
    """Pack a folder into a new zip file; raise SuiteError if the file exists or cannot be written."""
    digests = {}
    with new_file(path, "-o") as partial, ZipFile(partial, "w") as archive:
        for source in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, content = source.relative_to(folder).as_posix(), source.read_bytes()
            digests[name] = sha256(content).hexdigest()
            _pack(archive, name, content)
        contents = {"format": FORMAT, "run": run, "digests": digests}
        _pack(archive, CONTENTS, json.dumps(contents, indent=1).encode())


def _pack(archive: ZipFile, name: str, content: bytes) -> None:
    info = ZipInfo(name, ZIP_EPOCH)
    info.create_system, info.external_attr = 3, 0o100644 << 16  # Unix mode on every platform
    archive.writestr(info, content, ZIP_DEFLATED, 6)


@contextmanager
def new_file(path: Path, option: str) -> Iterator[Path]:
    """Yield a temporary path and rename it to `path` at the end, so that `path` is always complete.

    Raises SuiteError if the file exists or cannot be written; `option` is the option to choose another file.
    """
    if os.path.lexists(path):
        raise SuiteError(f"{path} already exists. Choose another file with {option}, or remove it.")
    partial = path.with_name(f".{path.name}-{token_hex(4)}")
    try:
        yield partial
        os.rename(partial, path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be written: {reason(error)}. Choose another file with {option}.") from None
    finally:
        partial.unlink(missing_ok=True)
