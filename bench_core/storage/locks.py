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

PAUSE = 0.1  # seconds between two tries
WITHOUT = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}  # what file systems without locks answer


class NoLocks(StoreError):
    """The file system of a store has no locks."""


@dataclass(frozen=True)
class Locks:
    """The locks in a folder, by name.

    Lock files are opened and removed only while holding the gate, a lock held briefly, so that nobody holds a removed
    file. If locks do not extend to other machines, they synchronize the processes of one machine.
    """

    folder: Path

    @contextmanager
    def hold(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a lock during the block; `waiting` is called once if another process has it.

        Raises NoLocks if locks are not supported, StoreError if the folder is not writable.
        """
        told = False
        while (lock := self._attempt(name)) is None:
            if not told:
                waiting()
            told = True
            time.sleep(PAUSE)
        try:
            yield
        finally:
            with suppress(StoreError, OSError), self._gate() as held:  # what stays is left to `gc`
                if held:
                    self.file(name).unlink(missing_ok=True)
            lock.release()

    @contextmanager
    def closed(self) -> Iterator[list[str]]:
        """Block all locks inside the `with` block; give the names of those left by dead processes.

        Raises StoreError if one is held.
        """
        with self._gate() as held:
            left = [path for path in sorted(self.folder.glob("*.lock")) if path != self.file("gate")]
            if not held or not all(map(_is_free, left)):
                raise StoreError(f"{self.folder.parent}: a run is at work on this store. Wait until it has ended.")
            yield [path.stem for path in left]

    def _attempt(self, name: str) -> Any:
        """Return a lock, or None while another process holds it, or `gc` is running."""
        with self._gate() as held:
            return _taken(self.file(name)) if held else None

    @contextmanager
    def _gate(self) -> Iterator[bool]:
        """Hold the gate; give False if it is held for long, which only `gc` does."""
        lock = _taken(self.file("gate"), patience=1.0)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def file(self, name: str) -> Path:
        """Return where a lock is."""
        return self.folder / f"{name}.lock"


def _is_free(path: Path) -> bool:
    lock = _taken(path)
    if lock is not None:
        lock.release()
    return lock is not None


def _taken(path: Path, patience: float = 0) -> Any:
    """Return a lock on a file, created if necessary, or None if another process holds it."""
    from filelock import FileLock, Timeout

    # No marker files in place of locks: one that a killed process left on another machine would stay for ever.
    lock = FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=0.01)
    except Timeout:
        return None
    except OSError as error:
        if error.errno in WITHOUT:
            raise NoLocks(f"{path.parent}: this file system has no locks, so runs cannot see each other.") from None
        raise unwritable(path, error) from None
    return lock
