"""Inspects and cleans up a store: lists artifacts, finds damaged artifacts, collects garbage."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from bench_core.errors import StoreError
from bench_core.registry import stage_kinds
from bench_core.storage.artifact import DIGEST, MANIFEST, reason
from bench_core.storage.checkpoints import CHECKPOINT
from bench_core.storage.store import REMOVED, Store

Name: TypeAlias = tuple[str, str]  #: kind and key

COSTS_KEY_LENGTH = 16  #: characters of a key in the costs of a run


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """An entry of the store, intact or damaged."""

    kind: str
    key: str
    what: str  # description
    size: int  # bytes
    damaged: bool = False


def entries(store: Store, kind: str | None = None) -> Iterator[StoreEntry]:
    """Yield the sorted entries of the store; reads only manifests."""
    listed = [_entry(store, *name) for name in store.entries() if kind in (None, name[0])]
    yield from sorted(listed, key=lambda entry: (entry.kind, entry.what, entry.key))


def _entry(store: Store, kind: str, key: str) -> StoreEntry:
    size = weight(store.root / kind / key)
    try:
        return StoreEntry(kind, key, str(store.get(kind, key).manifest.get("label") or ""), size)
    except StoreError:
        return StoreEntry(kind, key, "damaged: see `bench store verify`", size, True)


def weight(path: Path) -> int:
    """Return the size of a file or of all files in a folder, in bytes; links are not followed."""
    try:
        if path.is_dir() and not path.is_symlink():
            return _weight(os.fspath(path))
        return path.lstat().st_size
    except OSError:  # removed in the meantime
        return 0


def _weight(folder: str) -> int:
    total = 0
    with suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            with suppress(OSError):
                inner = entry.is_dir(follow_symlinks=False)
                total += _weight(entry.path) if inner else entry.stat(follow_symlinks=False).st_size
    return total


def damages(store: Store, repair: bool = False) -> Iterator[tuple[Name, list[StoreError], Path | None]]:
    """Read all artifacts; yield the name, problems and new path (None if not moved) of each artifact."""
    for kind, key in store.entries():
        try:
            wrong = list(store.get(kind, key).problems())
        except StoreError as error:
            wrong = [error]
        gone = not os.path.lexists(store.root / kind / key)  # set aside by a run in the meantime
        place = store.set_aside(kind, key) if wrong and repair and not gone else None
        yield (kind, key), [] if gone else wrong, place


@dataclass
class Collected:
    """Summary of garbage collection."""

    sizes: dict[str, list[int]] = field(default_factory=dict)  # kind of item -> bytes of each item
    left: list[str] = field(default_factory=list)  # messages on items that may still be in use

    def add(self, what: str, path: Path) -> None:
        """Count an item to remove."""
        self.sizes.setdefault(what, []).append(weight(path))


def collect(store: Store, keys: Collection[str], dry: bool = False, set_aside: bool = False) -> Collected:
    """Remove unreferenced artifacts, leftovers of dead writers, and their locks; with `dry`, only count them.

    `keys` are the keys that runs refer to, possibly abbreviated. Raises StoreError while a run uses the store, or if
    no artifact matches.
    """
    store.entries()  # raises for a missing store, before its folder of locks is created
    collected = Collected()
    with store.locks.closed() as dead:
        names = store.entries()
        needed = _required_keys(store, keys, names)
        if names and not any(key in needed for _, key in names):
            raise StoreError(
                f"{store.root}: the runs refer to nothing in this store. Choose their store with --store."
            )
        for kind, key in names:
            if key not in needed and not _is_resumable(store, kind, key, needed):
                _remove_artifact(store, kind, key, collected, dry)
        for folder in _folders(store.root / "unfinished"):
            if folder.name in dead or folder.name.startswith(REMOVED):
                _remove(store, "unfinished", folder, collected, dry)
            else:
                collected.left.append(
                    f"{folder}: unknown whether its writer is alive. Delete it if no run is active."
                )
        for folder in _folders(store.root / "set-aside") if set_aside else ():
            _remove(store, "set aside", folder, collected, dry)
        for name in dead:
            collected.add("lock", store.locks.file(name))
            if not dry:
                store.locks.file(name).unlink(missing_ok=True)
    return collected


def _is_resumable(store: Store, kind: str, key: str, needed: set[str]) -> bool:
    """Return whether the artifact is a checkpoint of an unfinished training run that a run folder refers to."""
    with suppress(StoreError):
        training = store.get(kind, key).manifest.get("of") if kind == CHECKPOINT else None
        weights = (kind_of_stage.name for kind_of_stage in stage_kinds().values() if kind_of_stage.gives_weights)
        return training in needed and not any(store.has(name, training) for name in weights)
    return False


def _remove_artifact(store: Store, kind: str, key: str, collected: Collected, dry: bool) -> None:
    folder = store.root / kind / key
    if DIGEST.fullmatch(key) and not folder.is_symlink() and (folder / MANIFEST).is_file():
        _remove(store, kind, folder, collected, dry)
    else:
        collected.left.append(f"{folder}: not an artifact. `bench store verify --repair` moves it aside.")


def _folders(place: Path) -> list[Path]:
    return sorted(place.iterdir()) if place.is_dir() else []


def _remove(store: Store, what: str, folder: Path, collected: Collected, dry: bool) -> None:
    """Count and delete a folder."""
    collected.add(what, folder)
    try:
        if not dry:
            store.delete(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be removed: {reason(error)}.") from None


def _required_keys(store: Store, keys: Collection[str], names: Sequence[Name]) -> set[str]:
    """Return the keys of the artifacts that runs refer to, including all inputs."""
    kinds: dict[str, list[str]] = {}  # key -> kinds; imported training records have a kind of their own
    for kind, key in names:
        kinds.setdefault(key, []).append(kind)
    pending = [*keys, *(key for key in kinds if key[:COSTS_KEY_LENGTH] in keys)]
    required: set[str] = set()
    while pending:
        key = pending.pop()
        if key not in required:
            required.add(key)
            pending += [upstream for kind in kinds.get(key, ()) for upstream in _inputs(store, kind, key)]
    return required


def _inputs(store: Store, kind: str, key: str) -> list[str]:
    """Return the keys of the inputs of an artifact; empty if it is damaged."""
    try:
        inputs = store.get(kind, key).manifest["ingredients"]["inputs"]
        return [str(upstream) for _, upstream in inputs.values()]
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return []
