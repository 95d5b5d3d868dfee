"""File locks of a store, released by the operating system if a process dies."""

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core.errors import StoreError
from bench_core.storage.artifact import unwritable

RETRY_SECONDS = 0.1
UNSUPPORTED = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}  # errors of file systems without locks


class NoLocks(StoreError):
    """The file system of a store does not support locks."""


@dataclass(frozen=True)
class Locks:
    """The locks in a folder, by name.

    Lock files are opened and removed only while holding the gate, a short-lived lock, so that no process holds a
    removed file. If the file system does not share locks between machines, only the processes of each machine are
    synchronized.
    """

    folder: Path

    @contextmanager
    def hold(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a lock during the block; `waiting` is called once if another process has it.

        Raises NoLocks if locks are not supported, StoreError if the folder is not writable.
        """
        is_waiting = False
        while (lock := self._attempt(name)) is None:
            if not is_waiting:
                waiting()
            is_waiting = True
            time.sleep(RETRY_SECONDS)
        try:
            yield
        finally:
            with suppress(StoreError, OSError), self._gate() as held:  # `gc` removes leftovers
                if held:
                    self.file(name).unlink(missing_ok=True)
            lock.release()

    @contextmanager
    def closed(self) -> Iterator[list[str]]:
        """Block all locks inside the `with` block; yield the names of locks left by dead processes.

        Raises StoreError if a lock is held.
        """
        with self._gate() as held:
            left = [path for path in sorted(self.folder.glob("*.lock")) if path != self.file("gate")]
            if not held or not all(map(_is_free, left)):
                raise StoreError(f"{self.folder.parent}: a run is using this store. Wait until it has ended.")
            yield [path.stem for path in left]

    def _attempt(self, name: str) -> Any:
        """Return a lock, or None if another process holds it or `gc` is running."""
        with self._gate() as held:
            return _acquire(self.file(name)) if held else None

    @contextmanager
    def _gate(self) -> Iterator[bool]:
        """Hold the gate; yield False if another process keeps holding it, which only `gc` does."""
        lock = _acquire(self.file("gate"), patience=1.0)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def file(self, name: str) -> Path:
        """Return the file of a lock."""
        return self.folder / f"{name}.lock"


def _is_free(path: Path) -> bool:
    lock = _acquire(path)
    if lock is not None:
        lock.release()
    return lock is not None


def _acquire(path: Path, patience: float = 0) -> Any:
    """Lock a file, created if necessary; return the lock, or None if another process holds it."""
    from filelock import FileLock, Timeout

    # Marker files cannot replace locks: if a process is killed on another machine, its markers are never removed.
    lock = FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=0.01)
    except Timeout:
        return None
    except OSError as error:
        if error.errno in UNSUPPORTED:
            text = f"{path.parent}: this file system does not support locks"
            raise NoLocks(f"{text}, so runs cannot detect each other.") from None
        raise unwritable(path, error) from None
    return lock
