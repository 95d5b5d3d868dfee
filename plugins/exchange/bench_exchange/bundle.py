"""One file that carries a run between machines: its folder, and all that is small of what the store has behind it.

It is a zip of `bundle.json`, which lists every other entry with its size and digest, of `run/...` and of
`store/<kind>/<key>/...`. The same run and store give the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from bench_core.errors import StoreError, SuiteError
from bench_core.storage.artifact import MANIFEST, reason, write_manifest
from bench_core.storage.contents import FILES, RECORDS, SCHEME
from bench_core.storage.file_formats import lines
from bench_core.storage.garbage import artifacts
from bench_core.storage.partial import kept_as

if TYPE_CHECKING:
    from bench_core.runs.results import Run
    from bench_core.storage.artifact import Artifact
    from bench_core.storage.store import Store

FORMAT, VERSION = "bench export", 1
CONTENTS = "bundle.json"
RUN_FILES = (
    "suite.yaml",
    "run.json",
    "cells.jsonl",
    "published.json",
    "costs.csv",
    "distributions.jsonl",
    "draws.safetensors",
    "permutations.json",
    "log",
)
HISTORY = re.compile(r"history/[\w.-]{1,250}\.jsonl")
TEXTS = {"prepare": "facts of tasks", "decode": "outputs", "score": "scores"}  # in which texts of the corpus are
NEVER = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can tell
SEALED = ("kind", "key", "files", "format", "scheme", "seal")  # what a manifest says of itself


@dataclass
class Exported:
    """What went into a file, and what did not."""

    path: Path
    counts: Counter[str] = field(default_factory=Counter)  # artifacts by kind
    left_out: dict[str, list[int]] = field(default_factory=dict)  # what -> bytes of each
    missing: int = 0  # artifacts that are not in the store
    damaged: list[str] = field(default_factory=list)  # what is wrong with those that are

    def leave_out(self, what: str, files: Mapping[str, Any]) -> None:
        """Count something that stays behind."""
        if files:
            self.left_out.setdefault(what, []).append(sum(entry["bytes"] for entry in files.values()))


def export(run: Run, store: Store, path: Path, numbers_only: bool = False) -> Exported:
    """Write a run and what is small behind its cells; raise SuiteError where the file is there, or cannot be made."""
    if path.exists():
        raise SuiteError(f"{path} is there already. Name another file by -o, or remove that one.")
    told = Exported(path)
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        writer = _Writer(store, told, Path(folder), numbers_only)
        writer.add_run(run.folder)
        for kind, key in artifacts(run):
            writer.add_artifact(kind, key)
        about = {"run": run.folder.resolve().name, "content": "numbers" if numbers_only else "outcomes"}
        _write(path, writer.entries, about)
    return told


@dataclass
class _Writer:
    """Gathers what goes into a file: the name of each entry, and where its content is."""

    store: Store
    told: Exported
    folder: Path  # for manifests that no artifact has
    numbers_only: bool
    entries: dict[str, Path] = field(default_factory=dict)

    def add_run(self, folder: Path) -> None:
        """Add a run folder."""
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if not path.is_dir() and (name in RUN_FILES or HISTORY.fullmatch(name)):
                self.entries[f"run/{name}"] = path

    def add_artifact(self, kind: str, key: str) -> None:
        """Add what is carried of an artifact; note what is not, or why nothing is."""
        found = kept_as(self.store, kind, key)
        if not os.path.lexists(self.store.path(found, key)):
            self.told.missing += 1
            return
        try:
            artifact = self.store.get(found, key)
            if self.numbers_only and (kind in TEXTS or _holds_words(kind, artifact)):
                self.told.leave_out(TEXTS.get(kind, "numbers whose parts hold words"), _files(artifact))
                return
            files = {name: artifact.file(name) for name in FILES[RECORDS.get(kind, kind)] if name in _files(artifact)}
        except StoreError as error:
            self.told.damaged.append(str(error))
            return
        self._add(kind, key, artifact, files)

    def _add(self, kind: str, key: str, artifact: Artifact, files: Mapping[str, Path]) -> None:
        target = RECORDS.get(kind, kind)
        manifest, rest = artifact.folder / MANIFEST, {}
        if artifact.manifest["kind"] != target:
            rest = {name: entry for name, entry in _files(artifact).items() if name not in files}
            manifest = self._record(target, key, artifact, files, rest)
        self.told.counts[kind] += 1
        self.told.leave_out("weights" if kind == "train" else "data of tasks", rest)
        for name, path in {MANIFEST: manifest, **files}.items():
            self.entries[f"store/{target}/{key}/{name}"] = path

    def _record(
        self, kind: str, key: str, artifact: Artifact, files: Mapping[str, Path], rest: Mapping[str, Any]
    ) -> Path:
        """Write the manifest of what is carried of an artifact, which tells the digests of the rest."""
        folder = self.folder / kind / key
        folder.mkdir(parents=True)
        for name, path in files.items():
            copyfile(path, folder / name)
        write_manifest(folder, kind, key, {**about(artifact.manifest), "left_out": rest})
        return folder / MANIFEST


def about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest says besides what every manifest does."""
    return {name: value for name, value in manifest.items() if name not in SEALED}


def _files(artifact: Artifact) -> Mapping[str, Any]:
    found: Mapping[str, Any] = artifact.manifest["files"]
    return found


def _holds_words(kind: str, artifact: Artifact) -> bool:
    """Return whether a metric kept more of an example than numbers, such as n-grams of it."""
    parts = lines(artifact.file("parts.jsonl.gz").read_bytes()) if kind == "measure" else ()
    return any(_is_text(json.loads(part)) for part in parts)


def _is_text(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_text, value))
    return isinstance(value, (str, dict))


def _write(path: Path, entries: Mapping[str, Path], about: Mapping[str, str]) -> None:
    """Write a zip of some files under a name of its own, then give it its name; raise SuiteError if that fails."""
    files = {}
    partial = path.with_name(f".{path.name}-{token_hex(4)}")
    try:
        for name, source in entries.items():
            content = source.read_bytes()
            files[name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        contents = {"format": FORMAT, "version": VERSION, "scheme": SCHEME, **about, "files": files}
        with ZipFile(partial, "w") as archive:
            for name, content in _contents(contents, entries):
                info = ZipInfo(name, NEVER)
                info.create_system, info.external_attr = 3, 0o100644 << 16  # as on Unix, wherever it is written
                info.compress_type = ZIP_STORED if name.endswith(".gz") else ZIP_DEFLATED
                archive.writestr(info, content, compresslevel=6)
        os.rename(partial, path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be written: {reason(error)}. Name another file by -o.") from None
    finally:
        partial.unlink(missing_ok=True)


def _contents(contents: Mapping[str, Any], entries: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the entries of a zip, sorted by name."""
    yield CONTENTS, json.dumps(contents, indent=1, sort_keys=True).encode()
    for name in sorted(entries):
        yield name, entries[name].read_bytes()
