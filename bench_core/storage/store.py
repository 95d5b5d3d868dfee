"""The artifact store: one folder per artifact, named by its cache key, written atomically."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

from bench_core.errors import StoreError
from bench_core.planning.stages import Stage
from bench_core.storage.artifact import MANIFEST, Artifact, read_artifact, reason, unwritable, write_manifest
from bench_core.storage.contents import differing, records
from bench_core.storage.locks import Locks, NoLocks
from bench_core.terminal import say
from input_digests import Dependencies, changed

__all__ = ["MANIFEST", "Artifact", "Store"]

Fingerprint: TypeAlias = tuple[int, int, int, int]  #: inode, size, mtime and ctime of a file
Seen: TypeAlias = tuple[str, Fingerprint | None]  #: path and fingerprint of a manifest that was intact when read

CHECKED = "checked"  #: folder of marks for models that fulfill their contracts, named by a digest of their code
ANSWERS = "answers"  #: folder in which text generators cache responses, for all stages
#: Folders that contain no artifacts.
ASIDE = ("unfinished", "set-aside", "failures", "locks", "code", "costs", ANSWERS, CHECKED)
REMOVED = "removed-"  #: prefix of unfinished folders that are being deleted
MAX_NAME_BYTES = 255
RESERVED = frozenset(("", ".", "..", *ASIDE))
OCCUPIED = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}  # errors if a folder is renamed to an existing path
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def _print_warning(text: str) -> None:
    say(f"warning: {text}", err=True)


@dataclass(frozen=True)
class Store:
    """A folder with artifacts <kind>/<key>/, logs of failures, and artifacts set aside."""

    root: Path
    warn: Callable[[str], None] = field(default=_print_warning, compare=False, repr=False)
    seen: dict[tuple[str, str], Seen] = field(default_factory=dict, init=False, compare=False, repr=False)
    dependencies: dict[tuple[str, str], Dependencies] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def locks(self) -> Locks:
        """Return the locks of the store."""
        return Locks(self.root / "locks")

    def path(self, kind: str, key: str) -> Path:
        """Return the path of an artifact; raise StoreError for invalid names."""
        for name in (kind, key):
            is_invalid = "\0" in name or Path(name).name != name or len(os.fsencode(name)) > MAX_NAME_BYTES
            if is_invalid or name in RESERVED:
                names = f"{kind[:MAX_NAME_BYTES]!r} {key[:MAX_NAME_BYTES]!r}"
                raise StoreError(f"{self.root}: invalid name of an artifact: {names}.")
        return self.root / kind / key

    def has(self, kind: str, key: str) -> bool:
        """Return whether an artifact is stored, with intact manifest and report files.

        Both are read again only if the manifest changed. Weights, data and predictions are checked when loaded.
        """
        path, seen = self.seen.get((kind, key)) or (f"{self.root}/{kind}/{key}/{MANIFEST}", None)
        fingerprint = _fingerprint(path)
        if fingerprint is None or fingerprint == seen:
            return fingerprint is not None
        try:
            artifact = self.get(kind, key)
            artifact.check_report_files()
        except StoreError:
            return False
        self.seen[kind, key] = path, fingerprint
        self.dependencies[kind, key] = artifact.manifest.get("observed", {})
        return True

    def get(self, kind: str, key: str) -> Artifact:
        """Return an artifact; raise StoreError if there is none or its manifest is damaged."""
        return read_artifact(self.path(kind, key), kind, key)

    def stored_kind(self, kind: str, key: str) -> str:
        """Return the kind under which an artifact or its imported record is stored; `kind` if neither is."""
        record = records().get(kind)
        return record if record and not self.has(kind, key) and self.has(record, key) else kind

    def find(self, kind: str, key: str) -> Artifact:
        """Return an artifact or its imported record; raise StoreError if neither is stored."""
        return self.get(self.stored_kind(kind, key), key)

    def is_stored(self, stage: Stage, record_suffices: bool = False) -> bool:
        """Return whether the artifact of a stage is stored and current; optionally, its imported record suffices."""
        kind = self.stored_kind(stage.kind, stage.key) if record_suffices else stage.kind
        return self.has(kind, stage.key) and not changed(self.dependencies[kind, stage.key])

    def changed_inputs(self, kind: str, key: str) -> list[str]:
        """Return the inputs, other than those in its key, that have changed since an artifact was stored."""
        return changed(self.dependencies[kind, key]) if self.has(kind, key) else []

    def contradictions(self, kind: str, key: str) -> list[str]:
        """Return the files of an artifact that differ from its imported record."""
        record = records().get(kind)
        if record is None or not self.has(record, key):
            return []
        return differing(self.get(kind, key).manifest, self.get(record, key).manifest)

    def entries(self) -> list[tuple[str, str]]:
        """Return the sorted kinds and keys of all entries of the store, without reading the entries."""
        try:
            kinds = [path for path in self.root.iterdir() if path.name not in ASIDE and path.is_dir()]
            return sorted((folder.name, name) for folder in kinds for name in os.listdir(folder))
        except OSError as error:
            raise StoreError(f"{self.root}: cannot be read as a store: {reason(error)}. Set --store.") from None

    def remove(self, kind: str, key: str) -> None:
        """Remove an artifact, if possible."""
        with suppress(OSError):
            self.delete(self.path(kind, key))

    def delete(self, folder: Path) -> None:
        """Delete a folder of the store after renaming it, so that a partly deleted artifact is never visible."""
        place = self.root / "unfinished" / f"{REMOVED}{token_hex(4)}"
        place.mkdir(parents=True)
        try:
            os.rename(folder, place / folder.name)
        finally:
            shutil.rmtree(place)

    def set_aside(self, kind: str, key: str, folder: Path | None = None) -> Path | None:
        """Move a damaged artifact, or a rejected `folder`, to `set-aside`; nothing is deleted.

        Returns the new path, or None if another process has already moved it.
        """
        folder, place = folder or self.path(kind, key), self.root / "set-aside" / _fresh(kind, key)
        with _store_errors(place):
            place.mkdir(parents=True)
            try:
                os.rename(folder, place / key)
            except OSError as error:
                place.rmdir()
                if isinstance(error, FileNotFoundError):
                    return None
                raise
        return place / key

    @contextmanager
    def lock(self, kind: str, key: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock of an artifact during the block, which should first check whether it has been stored.

        `waiting` is called once if another process has the lock. The lock is released if its process dies.
        If the file system does not support locks (not all network file systems do), the block runs with a warning: an
        artifact may then be computed twice, but is stored once, by the first process to finish.
        Raises StoreError if the store is not writable.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.locks.hold(f"{kind}-{key}", waiting))
            except NoLocks as error:
                self.warn(f"{error} Two runs on this store may compute the same artifact simultaneously.")
            yield

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Block `bench store gc` during a block that relies on stored artifacts.

        Has no effect on a read-only store, or without locks.
        """
        with ExitStack() as stack:
            with suppress(StoreError):
                stack.enter_context(self.locks.hold(_fresh("run")))
            yield

    @contextmanager
    def writing(self, kind: str, key: str, about: dict[str, Any], sync: bool = True) -> Iterator[Path]:
        """Yield a folder to fill, which becomes the artifact if the block ends without an error.

        The folder is written atomically: under another name, synced, then renamed.
        Without `sync`, which takes time, atomicity is guaranteed only if the machine does not crash.
        If the artifact exists by then, it is not replaced: the new one is dropped, or set aside with a warning if it
        differs. `about` (ingredients, provenance, cost) goes into the manifest; it may be filled inside the block.
        Raises StoreError if the store is not writable, also inside the block.
        """
        target, name = self.path(kind, key), _fresh(kind, key)
        folder = self.root / "unfinished" / name
        with ExitStack() as stack:
            with suppress(NoLocks):
                stack.enter_context(self.locks.hold(name))  # shows `gc` that the writer is alive
            try:
                with _store_errors(folder):
                    folder.mkdir(parents=True)
                with _store_errors(folder, others=False):
                    yield folder
                with _store_errors(folder):
                    manifest = write_manifest(folder, kind, key, about)
                    for path in [*folder.rglob("*"), folder] if sync else []:
                        _sync(path)
                    self._place(folder, target, manifest["files"], sync)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _place(self, folder: Path, target: Path, files: Any, sync: bool) -> None:
        """Rename a complete folder to the path of the artifact, unless the artifact exists."""
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            _sync(self.root)
        while True:
            try:
                os.rename(folder, target)
                break
            except OSError as error:
                if error.errno not in OCCUPIED:
                    raise
            if not self._clear_place(folder, target, files):
                return
        if sync:
            _sync(target.parent)

    def _clear_place(self, folder: Path, target: Path, files: Any) -> bool:
        """Clear the path of an artifact; return False if it holds an intact artifact."""
        kind, key = target.parent.name, target.name
        try:
            artifact = self.get(kind, key)
            artifact.check()
            stored = artifact.manifest["files"]
        except StoreError as error:
            place = self.set_aside(kind, key)
            self.warn(f"{error} It is computed again" + (f"; the damaged artifact is in {place}." if place else "."))
            return True
        differing = sorted(name for name in {*stored, *files} if stored.get(name) != files.get(name))
        if differing:
            place = self.set_aside(kind, key, folder)
            self.warn(
                f"{target}: another process has stored it meanwhile, with different files: {', '.join(differing)}. "
                f"The first is kept; the other is in {place}."
            )
        return False

    def log_failure(self, kind: str, key: str, text: str) -> Path:
        """Write the log of a failed stage; return its path."""
        path = self.root / "failures" / f"{kind}-{key[:16]}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            self.warn(f"{path}: the log of a failure cannot be written: {reason(error)}.")
        return path


def _fresh(*words: str) -> str:
    """Return a unique name."""
    return "-".join([*(word[:12] for word in words), token_hex(4)])


@contextmanager
def _store_errors(folder: Path, others: bool = True) -> Iterator[None]:
    """Convert system errors to StoreErrors; without `others`, only errors of a full or missing store."""
    try:
        yield
    except Exception as error:
        system_error = _system_error(error)
        if system_error is None or not (others or system_error.errno in FULL or not folder.exists()):
            raise
        raise unwritable(folder, system_error) from error


def _system_error(error: Exception) -> OSError | None:
    """Return the system error behind an exception; Rust libraries (safetensors) mention it only in the message."""
    if isinstance(error, OSError):
        return error
    match = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(match[1]), os.strerror(int(match[1]))) if match else None


def _fingerprint(path: str) -> Fingerprint | None:
    """Return a fingerprint of a file, which changes when the file is written, or None if there is no file."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):  # an impossible file name
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
