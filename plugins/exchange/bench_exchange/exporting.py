"""Exports a run as one zip file: the run folder, and the small files of its artifacts.

It is a zip of `run/...`, of artifacts in `store/<kind>/<key>/...`, and of `bundle.json` with the digest of each of
these files. The same run and store give the same bytes.
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
from bench_core.storage.outcomes import read_lines
from bench_core.storage.store import Store
from bench_exchange.artifact_files import carried

FORMAT = "bench export 3"
CONTENTS = "bundle.json"
RUN_FILES = (
    "suite.yaml", "run.json", "cells.jsonl", "published.json", "costs.csv", "distributions.jsonl",
    "lengths.jsonl", "by_length.jsonl", "draws.safetensors", "permutations.json", "log", "parts.json",
    "stages.jsonl.gz", MANIFEST,
)  # fmt: skip
WITH_TEXTS = ("prepare", "decode", "score")  # kinds of artifacts that hold texts of the data
NEVER = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can tell
OF_FOLDER = ("kind", "key", "files", "format", "seal")  # what `write_manifest` adds to a manifest


def run_files() -> Sequence[str]:
    """Return the names of the files of runs that are exported, with those of sections that plugins add."""
    return [*RUN_FILES, *(name for section in sections() for name in section.files if name not in RUN_FILES)]


@dataclass
class Exported:
    """What went into a file, and what did not."""

    carried: Counter[str] = field(default_factory=Counter)  # artifacts by kind
    left_out: Counter[str] = field(default_factory=Counter)  # those that hold texts
    missing: int = 0  # artifacts that are not in the store
    damaged: list[str] = field(default_factory=list)  # what is wrong with those that are


def export_run(run: Run, store: Store, path: Path, numbers_only: bool = False) -> Exported:
    """Write a run and what is small behind its cells; raise SuiteError where the file is there or cannot be."""
    if wrong := [remark.text for remark in problems(run.folder) if remark.wrong]:
        raise SuiteError(
            f"{wrong[0]} The run cannot be exported. Run the suite again: what is stored is not computed."
        )
    found = Exported()
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        _copy_run(run.folder, Path(folder) / "run")
        for kind, key in run.artifacts():
            _add(found, store, kind, key, Path(folder) / "store", numbers_only)
        _write(path, Path(folder), run.folder.resolve().name)
    return found


def _copy_run(source: Path, target: Path) -> None:
    (target / "history").mkdir(parents=True)
    for path in [*(source / name for name in run_files()), *history_files(source).values()]:
        if path.is_file():
            copyfile(path, target / path.relative_to(source))
    if {*files_of(target)} != {*read_manifest(target).files}:  # not what other plugins have added
        (target / MANIFEST).unlink()
        write_manifest(target, "run", read_manifest(source).name)


def _add(found: Exported, store: Store, kind: str, key: str, target: Path, numbers_only: bool) -> None:
    """Copy what is carried of an artifact; count it, or note why it is not."""
    here = store.kept_as(kind, key)
    if not os.path.lexists(store.path(here, key)):
        found.missing += 1
        return
    try:
        artifact = store.get(here, key)
        if numbers_only and (kind in WITH_TEXTS or _has_texts(kind, artifact)):
            found.left_out[kind] += 1
            return
        _copy(artifact, records().get(kind, kind), target)
        found.carried[kind] += 1
    except StoreError as error:
        found.damaged.append(str(error))


def _copy(artifact: Artifact, kind: str, target: Path) -> None:
    """Copy the small files of an artifact; its manifest tells the digests of the others."""
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
    """Return what a manifest tells of an artifact besides its name and its files."""
    return {name: value for name, value in manifest.items() if name not in OF_FOLDER}


def _has_texts(kind: str, artifact: Artifact) -> bool:
    """Return whether a metric keeps more of an example than numbers, such as its n-grams."""
    return kind == "measure" and any(map(_is_text, read_lines(artifact.file("parts.jsonl.gz"))))


def _is_text(value: Any) -> bool:
    return any(map(_is_text, value)) if isinstance(value, list) else isinstance(value, (str, dict))


def _write(path: Path, folder: Path, run: str) -> None:
    """Pack a folder; raise SuiteError if the file is there, or cannot be written."""
    digests = {}
    with whole(path, "-o") as partial, ZipFile(partial, "w") as archive:
        for source in sorted(one for one in folder.rglob("*") if one.is_file()):
            name, content = source.relative_to(folder).as_posix(), source.read_bytes()
            digests[name] = sha256(content).hexdigest()
            _pack(archive, name, content)
        contents = {"format": FORMAT, "run": run, "digests": digests}
        _pack(archive, CONTENTS, json.dumps(contents, indent=1).encode())


def _pack(archive: ZipFile, name: str, content: bytes) -> None:
    info = ZipInfo(name, NEVER)
    info.create_system, info.external_attr = 3, 0o100644 << 16  # as on Unix, wherever it is written
    archive.writestr(info, content, ZIP_DEFLATED, 6)


@contextmanager
def whole(path: Path, option: str) -> Iterator[Path]:
    """Give another name for a new file, which gets its own at the end; others are named by an option of a command.

    Raises SuiteError if the file is there, or cannot be written.
    """
    if os.path.lexists(path):
        raise SuiteError(f"{path} already exists. Choose another file by {option}, or remove it.")
    partial = path.with_name(f".{path.name}-{token_hex(4)}")
    try:
        yield partial
        os.rename(partial, path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be written: {reason(error)}. Name another file by {option}.") from None
    finally:
        partial.unlink(missing_ok=True)
