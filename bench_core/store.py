"""Where artifacts are kept: a folder each, under a key made of everything that it depends on."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from bench_core.corpora import digest
from bench_core.errors import StoreError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Artifact:
    """One stored folder; every file is checked against the manifest when it is read."""

    folder: Path
    manifest: Mapping[str, Any]

    def file(self, name: str) -> Path:
        """Return the path of a file after checking its digest; raise StoreError if it is damaged."""
        known = self.manifest["files"].get(name)
        path = self.folder / name
        if known is None or not path.is_file():
            raise StoreError(f"{path}: the artifact has no such file. Run the suite again.")
        if digest(path) != known["sha256"]:
            raise StoreError(f"{path}: the file is damaged: its digest is not the manifest's.")
        return path

    def json(self, name: str) -> Any:
        """Return the content of a JSON file."""
        return json.loads(self.file(name).read_text())

    def check(self) -> None:
        """Check every file; raise StoreError for the first that is damaged."""
        for name in self.manifest["files"]:
            self.file(name)


@dataclass(frozen=True)
class Store:
    """A folder of artifacts: <kind>/<key>/, logs of failures, and what was set aside."""

    root: Path

    def path(self, kind: str, key: str) -> Path:
        """Return where an artifact is or would be."""
        return self.root / kind / key

    def has(self, kind: str, key: str) -> bool:
        """Return whether an artifact is there, without reading it."""
        return (self.path(kind, key) / MANIFEST).is_file()

    def get(self, kind: str, key: str) -> Artifact:
        """Return an artifact; raise StoreError if there is none or its manifest cannot be read."""
        folder = self.path(kind, key)
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            if manifest["key"] != key or not isinstance(manifest["files"], dict):
                raise ValueError("it is another artifact's")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{folder}: the manifest cannot be read: {error}.") from None
        return Artifact(folder, manifest)

    def typical_seconds(self, kind: str, most: int = 200) -> float | None:
        """Return the median cost of the stored artifacts of a kind, or None where there is none."""
        known = []
        for path in islice((self.root / kind).glob(f"*/{MANIFEST}"), most):
            try:
                known.append(float(json.loads(path.read_text())["cost"]["seconds"]))
            except (OSError, ValueError, KeyError, TypeError):  # not this function's to complain about
                continue
        return median(known) if known else None

    def set_aside(self, kind: str, key: str) -> Path:
        """Move a damaged artifact out of the way, never deleting it; return where it went."""
        (self.root / "set-aside").mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f"{kind}-{key[:12]}-", dir=self.root / "set-aside"))
        os.rename(self.path(kind, key), place / key)
        return place / key

    @contextmanager
    def writing(self, kind: str, key: str, about: dict[str, Any]) -> Iterator[Path]:
        """Give a folder to fill, which becomes the artifact when the block ends without an error.

        The folder is written under another name, synced, and renamed: an artifact is there as a whole or not at all.
        `about` (ingredients, provenance, cost) goes into the manifest; it may be filled inside the block.
        """
        (self.root / "unfinished").mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{key[:12]}-", dir=self.root / "unfinished"))
        try:
            yield folder
            self._seal(folder, kind, key, about)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _seal(self, folder: Path, kind: str, key: str, about: Mapping[str, Any]) -> None:
        files = {
            str(path.relative_to(folder)): {"sha256": digest(path), "bytes": path.stat().st_size}
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        manifest = {"kind": kind, "key": key, "files": files, **about}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        for path in [*folder.rglob("*"), folder]:
            _sync(path)
        target = self.path(kind, key)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(folder, target)
        except OSError:  # another run was faster: its artifact has the same key, hence the same content
            if not self.has(kind, key):
                raise
            shutil.rmtree(folder)
        _sync(target.parent)

    def log_failure(self, kind: str, key: str, text: str) -> Path:
        """Keep the log of a stage that failed; it is never taken for a result."""
        (self.root / "failures").mkdir(parents=True, exist_ok=True)
        path = self.root / "failures" / f"{kind}-{key[:16]}.log"
        path.write_text(text)
        return path


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
