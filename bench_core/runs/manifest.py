"""The manifest of a run folder or a report folder: the digest of every file, and the code that wrote them.

It is written last and atomically. `digest` is that of the manifest itself: a report names its run by it.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from bench_core.errors import StoreError
from bench_core.files import digest
from bench_core.storage.file_formats import parsed

FILE = "manifest.json"
FORMAT = 1
LARGEST = 64 * 2**20  #: bytes of a manifest
NOTES = "notes"  #: a folder for people: nothing in it is listed, and nothing reads it
UNLISTED = (".ipynb", ".swp", "~")  # suffixes of what people leave behind; nothing reads these either


@dataclass(frozen=True)
class Remark:
    """Something that verification found: a contradiction, or what it could not check and why."""

    text: str
    wrong: bool = True


@dataclass(frozen=True)
class Listed:
    """The size and the digest of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Commit:
    """The commit of a repository, and whether the code in it was as committed."""

    id: str
    clean: bool


@dataclass(frozen=True)
class Named:
    """A run, as its report names it; without a digest if the run has no manifest."""

    name: str
    digest: str | None
    file: str = ""  # of its suite
    made_of: str = ""  # the digest of the content of that and of its data


@dataclass(frozen=True)
class Earlier:
    """A manifest as it was before plugins added files: its digest, and the entries that were others or none."""

    digest: str
    files: Mapping[str, Listed | None]


@dataclass(frozen=True)
class Manifest:
    """What a folder holds, and what wrote it."""

    kind: Literal["run", "report"]
    name: str  # of the run
    files: Mapping[str, Listed]
    bench: str  # version
    commit: Commit | None = None  # of the repository that bench_core is in; null if it is installed from a wheel
    run: Named | None = None  # of a report
    code: str = ""  # of a report: the digest of the code that wrote it
    earlier: tuple[Earlier, ...] = ()  # what this manifest was before plugins added files
    format: Literal[1] = 1
    digest: str = field(default="", compare=False)  # of all other fields

    @property
    def digests(self) -> list[str]:
        """Return the digests by which a report may name it: its own, and earlier ones."""
        return [self.digest, *(one.digest for one in self.earlier)]


def write_manifest(
    folder: Path, kind: Literal["run", "report"], name: str, names: Iterable[str] | None = None, **about: Any
) -> Manifest:
    """Write the manifest of a complete folder, or of the files that `names` lists; raise StoreError if it cannot be.

    A report gives its `run` and the `code` that wrote it.
    """
    found = {path: listed(folder / path) for path in sorted(files_of(folder) if names is None else names)}
    files = {path: entry for path, entry in found.items() if entry is not None}
    return _written(folder, Manifest(kind, name, files, _version(), commit(), **about))


def _written(folder: Path, manifest: Manifest) -> Manifest:
    partial, data = folder / f".{FILE}-{token_hex(4)}", _plain(manifest)
    data["digest"] = _digest(data)
    try:
        partial.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, folder / FILE)
    except OSError as error:
        raise StoreError(f"{folder / FILE}: cannot be written ({error.strerror}).") from None
    finally:
        partial.unlink(missing_ok=True)
    return read_manifest(folder)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; raise StoreError if there is none, or if it does not fit its own digest."""
    path = folder / FILE
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            raise ValueError("it is a link, or too large")
        text = path.read_bytes()
        found, data = parsed(Manifest, text), json.loads(text)
    except FileNotFoundError:
        raise StoreError(f"{folder} has no {FILE}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: the manifest cannot be read: {error}.") from None
    if _digest(data) != found.digest:
        raise StoreError(f"{path}: the manifest was changed: it does not fit its own digest.")
    return found


def problems(folder: Path) -> Iterator[Remark]:
    """Yield every file of a folder that was changed, removed or added since its manifest was written."""
    try:
        manifest = read_manifest(folder)
    except StoreError as error:
        yield Remark(str(error))
        return
    there, unlisted = set(files_of(folder)), [*notes(folder)]
    for name, entry in manifest.files.items():
        if name not in there:
            yield Remark(f"{folder / name}: the file is missing, or not a plain file; {FILE} lists it")
        elif not inside(folder, name) or listed(folder / name) != entry:
            yield Remark(f"{folder / name}: the file was changed: its digest is not that in {FILE}")
    for name in strangers(folder, manifest):
        yield Remark(f"{folder / name}: the file was added: {FILE} does not list it. Put files of yours in {NOTES}/")
    yield from _history(folder, manifest)
    if unlisted:
        yield Remark(f"{folder}: {', '.join(unlisted)}: notes of people are not in the manifest", wrong=False)


def strangers(folder: Path, manifest: Manifest) -> list[str]:
    """Return the files of a folder that its manifest does not list, sorted."""
    return sorted({*files_of(folder)} - {*manifest.files})


def _history(folder: Path, manifest: Manifest) -> Iterator[Remark]:
    """Yield where a manifest does not follow from what it says it was, and the files that were written anew."""
    for last in reversed(manifest.earlier):
        entries = {**manifest.files, **last.files}
        files = {name: entry for name, entry in entries.items() if entry is not None}
        manifest = replace(manifest, files=files, earlier=manifest.earlier[:-1])
        if _digest(_plain(manifest)) != last.digest:
            yield Remark(f"{folder / FILE}: it does not follow from the manifest that it says it was before")
        for name in (name for name, entry in last.files.items() if entry is not None):
            yield Remark(
                f"{folder / name}: a plugin wrote it anew after the run, over what the run left", wrong=False
            )


@contextmanager
def extending(folder: Path) -> Iterator[None]:
    """List the files that plugins add to a folder in the block, or write anew; other entries stay as they are.

    A report that names the manifest by its former digest still names it.
    """
    before = {name: listed(folder / name) for name in files_of(folder)}
    yield
    after = {name: listed(folder / name) for name in files_of(folder)}
    new = {name: entry for name, entry in after.items() if before.get(name) != entry}
    if new and (folder / FILE).exists():
        old = read_manifest(folder)
        last = Earlier(old.digest, {name: old.files.get(name) for name in new})
        data = {**_fields(old), "files": {**old.files, **new}, "earlier": (*old.earlier, last)}
        _written(folder, Manifest(**data))


def files_of(folder: Path) -> list[str]:
    """Return the names of the files of a folder that a manifest lists, sorted; links count, to be noticed."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.as_posix() for path in found if path.as_posix() != FILE and not _is_note(path))


def notes(folder: Path) -> Iterator[str]:
    """Yield what people put beside the files of a folder, by its first name."""
    names = {path.relative_to(folder).parts[0] for path in folder.rglob("*")}
    return (name for name in sorted(names) if _is_note(Path(name)))


def _is_note(path: Path) -> bool:
    return path.parts[0] == NOTES or path.parts[0].startswith(".") or path.name.endswith(UNLISTED)


def inside(folder: Path, name: str) -> bool:
    """Return whether a name in a manifest is that of a file in its folder, not elsewhere."""
    return not Path(name).is_absolute() and (folder / name).resolve().is_relative_to(folder.resolve())


def listed(path: Path) -> Listed | None:
    """Return the size and digest of a file; None if it is a link, or anything else that is no plain file."""
    if path.is_symlink() or not path.is_file():
        return None
    return Listed(path.stat().st_size, digest(path))


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: value for name, value in vars(manifest).items() if name != "digest"}


def _plain(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a manifest as JSON data, without its digest and what is empty."""
    data: dict[str, Any] = json.loads(json.dumps(_fields(manifest), default=vars))
    return {name: value for name, value in data.items() if value or name in ("files", "commit")}


def _digest(data: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in data.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _version() -> str:
    try:
        return version("bench-core")
    except PackageNotFoundError:
        return "not installed"


@cache
def commit() -> Commit | None:
    """Return the commit of the repository in which the core is, and whether its code was as committed.

    None without git, and for an installed wheel, even inside of the repository of something else.
    """
    root = Path(__file__).parent.parent.parent
    if _git(root, "ls-files", "--error-unmatch", "bench_core/__init__.py") is None:
        return None
    head, changed = (
        _git(root, "rev-parse", "HEAD"),
        _git(root, "status", "--porcelain", "--", "bench_core", "plugins"),
    )
    return None if head is None or changed is None else Commit(head.strip(), not changed.strip())


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
