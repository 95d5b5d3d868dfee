"""Inspects and cleans a store: lists artifacts, finds damaged ones, collects garbage."""

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

SHORT = 16  #: letters of a key in the costs of a run


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the store, intact or damaged."""

    kind: str
    key: str
    what: str  # for people
    size: int  # bytes
    damaged: bool = False


def entries(store: Store, kind: str | None = None) -> Iterator[Entry]:
    """Yield the entries of the store, sorted; reads only manifests."""
    found = [_entry(store, *name) for name in store.entries() if kind in (None, name[0])]
    yield from sorted(found, key=lambda one: (one.kind, one.what, one.key))


def _entry(store: Store, kind: str, key: str) -> Entry:
    size = weight(store.root / kind / key)
    try:
        return Entry(kind, key, str(store.get(kind, key).manifest.get("label") or ""), size)
    except StoreError:
        return Entry(kind, key, "damaged: see `bench store verify`", size, True)


def weight(path: Path) -> int:
    """Return the size of a file, or of all files in a folder, in bytes; a link counts as itself."""
    try:
        if path.is_dir() and not path.is_symlink():
            return _weight(os.fspath(path))
        return path.lstat().st_size
    except OSError:  # it has gone meanwhile
        return 0


def _weight(folder: str) -> int:
    found = 0
    with suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            with suppress(OSError):
                inner = entry.is_dir(follow_symlinks=False)
                found += _weight(entry.path) if inner else entry.stat(follow_symlinks=False).st_size
    return found


def damages(store: Store, repair: bool = False) -> Iterator[tuple[Name, list[StoreError], Path | None]]:
    """Read all artifacts; yield each with its problems, and the place it was moved to."""
    for kind, key in store.entries():
        try:
            wrong = list(store.get(kind, key).problems())
        except StoreError as error:
            wrong = [error]
        gone = not os.path.lexists(store.root / kind / key)  # it was set aside meanwhile, by a run
        place = store.set_aside(kind, key) if wrong and repair and not gone else None
        yield (kind, key), [] if gone else wrong, place


@dataclass
class Collected:
    """What was removed, or would be removed."""

    sizes: dict[str, list[int]] = field(default_factory=dict)  # what it was -> bytes of each
    left: list[str] = field(default_factory=list)  # what nobody can judge, and why

    def add(self, what: str, path: Path) -> None:
        """Count something that will be removed."""
        self.sizes.setdefault(what, []).append(weight(path))


def collect(store: Store, keys: Collection[str], dry: bool = False, set_aside: bool = False) -> Collected:
    """Remove artifacts that no run refers to, leftovers of dead writers, and their locks; with `dry` only count.

    `keys` are those named by runs, possibly abbreviated. Raises StoreError while a run uses the store, or if no
    artifact matches.
    """
    store.entries()  # raises where there is no store, before a folder of locks makes it look like one
    found = Collected()
    with store.locks.closed() as dead:
        names = store.entries()
        needed = _needed(store, keys, names)
        if names and not any(key in needed for _, key in names):
            raise StoreError(
                f"{store.root}: the runs refer to nothing here. Name the store that they used by --store."
            )
        for kind, key in names:
            if key not in needed and not _may_go_on(store, kind, key, needed):
                _remove_artifact(store, kind, key, found, dry)
        for folder in _folders(store.root / "unfinished"):
            if folder.name in dead or folder.name.startswith(REMOVED):
                _remove(store, "unfinished", folder, found, dry)
            else:
                found.left.append(f"{folder}: unknown whether its writer is alive. Delete it if no run is active.")
        for folder in _folders(store.root / "set-aside") if set_aside else ():
            _remove(store, "set aside", folder, found, dry)
        for name in dead:
            found.add("lock", store.locks.file(name))
            if not dry:
                store.locks.file(name).unlink(missing_ok=True)
    return found


def _may_go_on(store: Store, kind: str, key: str, needed: set[str]) -> bool:
    """Return whether it is a checkpoint of an unfinished training that a run refers to."""
    with suppress(StoreError):
        training = store.get(kind, key).manifest.get("of") if kind == CHECKPOINT else None
        weights = (one.name for one in stage_kinds().values() if one.gives_weights)
        return training in needed and not any(store.has(one, training) for one in weights)
    return False


def _remove_artifact(store: Store, kind: str, key: str, found: Collected, dry: bool) -> None:
    folder = store.root / kind / key
    if DIGEST.fullmatch(key) and not folder.is_symlink() and (folder / MANIFEST).is_file():
        _remove(store, kind, folder, found, dry)
    else:
        found.left.append(f"{folder}: not an artifact. `bench store verify --repair` moves it aside.")


def _folders(place: Path) -> list[Path]:
    return sorted(place.iterdir()) if place.is_dir() else []


def _remove(store: Store, what: str, folder: Path, found: Collected, dry: bool) -> None:
    """Count a folder, and delete it."""
    found.add(what, folder)
    try:
        if not dry:
            store.delete(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be removed: {reason(error)}.") from None


def _needed(store: Store, named: Collection[str], names: Sequence[Name]) -> set[str]:
    """Return the keys of the artifacts that runs name, and of all their inputs."""
    kinds: dict[str, list[str]] = {}  # of each key; what was imported of a training is of another kind
    for kind, key in names:
        kinds.setdefault(key, []).append(kind)
    pending = [*named, *(key for key in kinds if key[:SHORT] in named)]
    found: set[str] = set()
    while pending:
        key = pending.pop()
        if key not in found:
            found.add(key)
            pending += [upstream for kind in kinds.get(key, ()) for upstream in _inputs(store, kind, key)]
    return found


def _inputs(store: Store, kind: str, key: str) -> list[str]:
    """Return the keys of the inputs of an artifact; none if it is damaged."""
    try:
        inputs = store.get(kind, key).manifest["ingredients"]["inputs"]
        return [str(upstream) for _, upstream in inputs.values()]
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return []
