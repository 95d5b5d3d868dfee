"""The manifest of a run folder or a report folder: the digest of every file, and the code that wrote them.

A manifest is written last, and atomically. Its field `digest` covers the manifest, and identifies a run in reports.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from bench_core.entry_points import installed_version
from bench_core.errors import StoreError
from bench_core.files import digest
from bench_core.storage.file_formats import parsed

FILE = "manifest.json"
FORMAT = 1
MAX_MANIFEST_BYTES = 64 * 2**20
NOTES = "notes"  #: a folder for users' notes, which is neither listed nor read
UNLISTED_SUFFIXES = (".ipynb", ".swp", "~")  # editor files, which are neither listed nor read


@dataclass(frozen=True)
class Remark:
    """A verification finding: a contradiction, or something that could not be checked, with the reason."""

    text: str
    wrong: bool = True


@dataclass(frozen=True)
class ListedFile:
    """The size and the digest of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Commit:
    """The commit of a repository, and whether its code was clean (had no uncommitted changes)."""

    id: str
    clean: bool


@dataclass(frozen=True)
class NamedVersion:
    """The run that a report describes; `digest` is None if the run has no manifest."""

    name: str
    digest: str | None
    file: str = ""  # the suite file
    made_of: str = ""  # the digest of the suite file's content and of the data


@dataclass(frozen=True)
class Earlier:
    """A former manifest, before plugins added files: its digest, and entries that were then different or missing."""

    digest: str
    files: Mapping[str, ListedFile | None]


@dataclass(frozen=True)
class Manifest:
    """The files of a folder, and the software that wrote them."""

    kind: Literal["run", "report"]
    name: str  # name of the run
    files: Mapping[str, ListedFile]
    bench: str  # version of bench
    commit: Commit | None = None  # of the repository of bench_core; None for an installed wheel
    run: NamedVersion | None = None  # only in reports
    code: str = ""  # only in reports: digest of the code that wrote it
    earlier: tuple[Earlier, ...] = ()  # former manifests, before plugins added files
    format: Literal[1] = 1
    digest: str = field(default="", compare=False)  # covers all other fields

    @property
    def digests(self) -> list[str]:
        """Return the digests by which a report may identify this manifest: the current digest and earlier digests."""
        return [self.digest, *(manifest.digest for manifest in self.earlier)]


def write_manifest(
    folder: Path, kind: Literal["run", "report"], name: str, names: Iterable[str] | None = None, **about: Any
) -> Manifest:
    """Write the manifest of a complete folder, or of the files in `names`; raise StoreError if that fails.

    Reports pass their `run` and the digest of the `code` that wrote them.
    """
    entries = {path: list_file(folder / path) for path in sorted(files_of(folder) if names is None else names)}
    files = {path: entry for path, entry in entries.items() if entry is not None}
    return _write(folder, Manifest(kind, name, files, installed_version("bench-core"), commit(), **about))


def _write(folder: Path, manifest: Manifest) -> Manifest:
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
    """Read the manifest of a folder; raise StoreError if it is missing, or does not match its digest."""
    path = folder / FILE
    try:
        if path.is_symlink() or path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError("it is a link, or too large")
        text = path.read_bytes()
        manifest, data = parsed(Manifest, text), json.loads(text)
    except FileNotFoundError:
        raise StoreError(f"{folder} has no {FILE}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: the manifest cannot be read: {error}.") from None
    if _digest(data) != manifest.digest:
        raise StoreError(f"{path}: the manifest was changed: it does not match its own digest.")
    return manifest


def problems(folder: Path) -> Iterator[Remark]:
    """Yield a remark for every file that was changed, removed or added since the manifest was written."""
    try:
        manifest = read_manifest(folder)
    except StoreError as error:
        yield Remark(str(error))
        return
    present, unlisted = set(files_of(folder)), [*notes(folder)]
    for name, entry in manifest.files.items():
        if name not in present:
            yield Remark(f"{folder / name}: the file is missing, or not a plain file, but {FILE} lists it")
        elif not inside(folder, name) or list_file(folder / name) != entry:
            yield Remark(f"{folder / name}: the file was changed: its digest differs from {FILE}")
    for name in strangers(folder, manifest):
        yield Remark(f"{folder / name}: the file was added: {FILE} does not list it. Put your own files in {NOTES}/")
    yield from _history(folder, manifest)
    if unlisted:
        yield Remark(f"{folder}: {', '.join(unlisted)}: user files are not in the manifest", wrong=False)


def strangers(folder: Path, manifest: Manifest) -> list[str]:
    """Return the files of a folder that its manifest does not list, sorted."""
    return sorted({*files_of(folder)} - {*manifest.files})


def _history(folder: Path, manifest: Manifest) -> Iterator[Remark]:
    """Yield a remark for each rewritten file, and for each manifest that does not follow from its former version."""
    for former in reversed(manifest.earlier):
        entries = {**manifest.files, **former.files}
        files = {name: entry for name, entry in entries.items() if entry is not None}
        manifest = replace(manifest, files=files, earlier=manifest.earlier[:-1])
        if _digest(_plain(manifest)) != former.digest:
            yield Remark(f"{folder / FILE}: it does not follow from the former manifest that it mentions")
        for name in (name for name, entry in former.files.items() if entry is not None):
            yield Remark(f"{folder / name}: a plugin rewrote the file after the run", wrong=False)


@contextmanager
def extending(folder: Path) -> Iterator[None]:
    """Update the manifest with files that plugins add or rewrite in the block; other entries are not changed.

    Reports may still identify the manifest by its former digest.
    """
    before = {name: list_file(folder / name) for name in files_of(folder)}
    yield
    after = {name: list_file(folder / name) for name in files_of(folder)}
    new = {name: entry for name, entry in after.items() if before.get(name) != entry}
    if new and (folder / FILE).exists():
        old = read_manifest(folder)
        former = Earlier(old.digest, {name: old.files.get(name) for name in new})
        data = {**_fields(old), "files": {**old.files, **new}, "earlier": (*old.earlier, former)}
        _write(folder, Manifest(**data))


def files_of(folder: Path) -> list[str]:
    """Return the sorted names of the files that a manifest should list; includes links, to detect them."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.as_posix() for path in paths if path.as_posix() != FILE and not _is_note(path))


def notes(folder: Path) -> Iterator[str]:
    """Yield the top-level names of user files in a folder."""
    names = {path.relative_to(folder).parts[0] for path in folder.rglob("*")}
    return (name for name in sorted(names) if _is_note(Path(name)))


def _is_note(path: Path) -> bool:
    return path.parts[0] == NOTES or path.parts[0].startswith(".") or path.name.endswith(UNLISTED_SUFFIXES)


def inside(folder: Path, name: str) -> bool:
    """Return whether a name in a manifest refers to a file inside its folder."""
    return not Path(name).is_absolute() and (folder / name).resolve().is_relative_to(folder.resolve())


def list_file(path: Path) -> ListedFile | None:
    """Return the size and digest of a file; None for links and anything else that is not a plain file."""
    if path.is_symlink() or not path.is_file():
        return None
    return ListedFile(path.stat().st_size, digest(path))


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: value for name, value in vars(manifest).items() if name != "digest"}


def _plain(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a manifest as JSON data, without its digest and empty values."""
    data: dict[str, Any] = json.loads(json.dumps(_fields(manifest), default=vars))
    return {name: value for name, value in data.items() if value or name in ("files", "commit")}


def _digest(data: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in data.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


@cache
def commit() -> Commit | None:
    """Return the commit of the core's repository, and whether the core's code is free of uncommitted changes.

    Returns None without git, and for an installed wheel, even inside another repository.
    """
    root = Path(__file__).parent.parent.parent
    if _git(root, "ls-files", "--error-unmatch", "bench_core/__init__.py") is None:
        return None
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", "bench_core", "plugins")
    return None if head is None or changed is None else Commit(head.strip(), not changed.strip())


def _git(root: Path, *words: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
