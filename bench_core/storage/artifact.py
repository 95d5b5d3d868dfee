"""An artifact on disk: a folder with a manifest that lists its files and the ingredients of its key.

Files may be damaged or untrusted: only regular files inside the folder with the expected size are opened, nothing is
executed, and invalid content raises StoreError.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import input_digests as dependencies
from bench_core.errors import StoreError
from bench_core.files import digest
from bench_core.planning import cache_keys as keys
from bench_core.storage.contents import reported_files
from bench_core.storage.file_formats import SHAPES, parsed

MANIFEST = "manifest.json"
FORMAT = 1  #: version of manifests, independent of the version of keys
MAX_MANIFEST_BYTES = 16 * 2**20
MAX_JSON_BYTES = 2**30  #: limit for JSON files, which are read as a whole
FORMER_FILES = {"predictions.jsonl.gz": "outcomes.jsonl.gz", "task_info.json": "facts.json"}  #: name -> name in 0.2
NPY_MAGIC = b"\x93NUMPY"  # the first bytes of npy files
MAX_HEADER_BYTES = 10**8  #: limit for the header of a safetensors file
SEAL = re.compile(rb',\n "seal": "([0-9a-f]{64})"\n}\Z')  # digest of the manifest up to here
DIGEST = re.compile(r"[0-9a-f]{64}")
ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or use another store with --store."),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Use a writable store with --store."),
    errno.EFBIG: "Raise the limit of file sizes (`ulimit -f`), or use another store with --store.",
    errno.ENOENT: "It was removed in the meantime. Check whether another program deletes files there.",
}
FILE_TYPES = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


@dataclass(frozen=True)
class Artifact:
    """A stored artifact; every file is checked against the manifest when it is read."""

    folder: Path
    manifest: Mapping[str, Any]

    def file(self, name: str) -> Path:
        """Return the path of a file after checking its digest; raise StoreError if it is damaged."""
        name = self._stored_name(name)
        path = self._place(name)
        try:
            self._compare(name, digest(path))
            _check_format(path)
        except OSError as error:
            raise StoreError(f"{path}: the file cannot be read: {reason(error)}.") from None
        return path

    def json(self, name: str) -> Any:
        """Return the content of a JSON file; raise StoreError if it is damaged or has the wrong schema."""
        stored = self._stored_name(name)
        path = self._place(stored)
        try:
            text = _content(path, self.manifest["files"][stored]["bytes"], MAX_JSON_BYTES)
            self._compare(stored, sha256(text).hexdigest())
            # A forged manifest may come with a forged file, so the schema is checked, too.
            return _parse(text, SHAPES.get(name) if name in reported_files(self.manifest["kind"]) else None)
        except ValueError as error:
            raise StoreError(f"{path}: the file cannot be read: {error}.") from None

    def check_report_files(self) -> None:
        """Check the files that reports use; raise StoreError for the first damaged file."""
        for name in reported_files(self.manifest["kind"]):
            if name in self.manifest["files"]:
                self._check(name)

    def _check(self, name: str) -> None:
        if name in reported_files(self.manifest["kind"]) and name.endswith(".json"):
            self.json(name)
        else:
            self.file(name)

    def check(self) -> None:
        """Check that all files are intact and no other files exist; raise StoreError for the first problem."""
        for problem in self.problems():
            raise problem

    def problems(self) -> Iterator[StoreError]:
        """Yield all problems: a wrong key; damaged, missing and unknown files."""
        if not self._fits_key():
            yield StoreError(f"{self.folder / MANIFEST}: the key does not match the ingredients.")
        for name in self.manifest["files"]:
            try:
                self._check(name)
            except StoreError as problem:
                yield problem
        try:
            for name, path in _files_inside(self.folder):
                if name != MANIFEST and name not in self.manifest["files"]:
                    yield StoreError(f"{path}: the file does not belong to the artifact.")
        except OSError as error:
            yield StoreError(f"{self.folder}: the folder cannot be listed: {reason(error)}.")

    def _fits_key(self) -> bool:
        ingredients = self.manifest.get("ingredients")
        if ingredients is None or self.manifest.get("scheme", keys.SCHEME) != keys.SCHEME:
            return True  # nothing to compare
        try:
            return bool(keys.key_of(ingredients) == self.manifest["key"])
        except (TypeError, ValueError, RecursionError):
            return False

    def _stored_name(self, name: str) -> str:
        """Return the name under which a file is stored; version 0.2 used other names."""
        return name if name in self.manifest["files"] else FORMER_FILES.get(name, name)

    def _place(self, name: str) -> Path:
        """Return the path of a file after checking its size and that the path contains no links."""
        path, entry = self.folder, self.manifest["files"].get(name)
        if entry is None:
            raise StoreError(f"{path / name}: the artifact has no such file. Run the suite again.")
        try:
            for component in name.split("/"):
                if path.is_symlink():
                    raise ValueError(f"{path} is a link")
                path /= component
            size = _regular(path).st_size
        except ValueError as error:
            raise StoreError(f"{path}: the artifact has no such file: {error}.") from None
        if size != entry["bytes"]:
            sizes = f"it has {size:,} bytes, but the manifest lists {entry['bytes']:,}"
            raise StoreError(f"{path}: the file is damaged: {sizes}.")
        return path

    def _compare(self, name: str, file_digest: str) -> None:
        if file_digest != self.manifest["files"][name]["sha256"]:
            raise StoreError(f"{self.folder / name}: the file is damaged: its digest differs from the manifest.")


def read_artifact(folder: Path, kind: str, key: str) -> Artifact:
    """Return the artifact in a folder; raise StoreError if there is none, or its manifest is damaged."""
    path = folder / MANIFEST
    if folder.is_symlink():
        raise StoreError(f"{folder}: this is a link, not an artifact. Links are not followed.")
    try:
        manifest = _parse_manifest(_content(path, _regular(path).st_size, MAX_MANIFEST_BYTES), kind, key)
    except ValueError as error:
        raise StoreError(f"{path}: the manifest cannot be read: {error}.") from None
    return Artifact(folder, manifest)


def write_manifest(folder: Path, kind: str, key: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write and return the manifest of a folder; raise StoreError for files that cannot be stored."""
    files = {}
    for name, path in _files_inside(folder):
        try:
            files[name] = {"bytes": _regular(path).st_size, "sha256": digest(path)}
        except ValueError as error:
            raise StoreError(f"{path}: cannot be stored: {error}.") from None
    manifest = {"scheme": keys.SCHEME, **about, "kind": kind, "key": key, "files": files, "format": FORMAT}
    body = json.dumps(manifest, indent=1, sort_keys=True)
    seal = sha256(body.encode()).hexdigest()
    text = f'{body[:-2]},\n "seal": "{seal}"\n}}'.encode()
    try:
        checked = _parse_manifest(text, kind, key)
    except ValueError as error:
        raise StoreError(f"{folder / MANIFEST}: cannot be stored: {error}.") from None
    (folder / MANIFEST).write_bytes(text)
    return checked


def _parse_manifest(text: bytes, kind: str, key: str) -> dict[str, Any]:
    """Parse a manifest; raise ValueError if it is invalid, or belongs to another artifact."""
    manifest = _parse(text)
    if not isinstance(manifest, dict):
        raise ValueError("it is not a mapping")
    format_number = manifest.get("format", 1)
    if type(format_number) is not int or format_number != FORMAT:
        age = "a newer" if type(format_number) is int and format_number > FORMAT else "another"
        wrote = f"{age} version of bench wrote it, in format {format_number!r}"
        raise ValueError(f"{wrote}, but this version reads format {FORMAT}")
    seal = SEAL.search(text)
    if seal is None and "format" in manifest:  # older manifests have neither a checksum nor a format
        raise ValueError("it is damaged: its checksum is missing")
    if seal and sha256(text[: seal.start()] + b"\n}").hexdigest().encode() != seal[1]:
        raise ValueError("it is damaged: its checksum does not match")
    if (manifest.get("kind"), manifest.get("key")) != (kind, key):
        raise ValueError(f"it belongs to another artifact, {manifest.get('kind')!r} {manifest.get('key')!r}")
    _check_files(manifest.get("files"))
    _check_files(manifest.get("left_out", {}))  # files that a partial import left out
    _check_about(manifest)
    dependencies.check(manifest.get("observed", {}))
    return manifest


def _check_about(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError unless a manifest has the expected structure."""
    invalid = [name for name in ("ingredients", "provenance", "cost") if not isinstance(manifest.get(name, {}), dict)]
    if invalid:
        raise ValueError(f"{invalid[0]} is not a mapping")
    costs = manifest.get("cost", {}).values()
    if any(isinstance(cost, bool) or not isinstance(cost, int | float | None) for cost in costs):
        raise ValueError("its costs are not numbers")


def _check_files(files: Any) -> None:
    """Raise ValueError unless `files` maps names inside the folder to digest and size."""
    if not isinstance(files, dict):
        raise ValueError("it does not list files")
    for name, entry in files.items():
        if not name.isprintable() or {"\\", ":"} & set(name) or {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"it lists {name!r}, which is not a valid file name")
        if name == MANIFEST:
            raise ValueError("it lists itself; stages cannot write a file of that name")
        size, mark = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or size < 0 or not isinstance(mark, str) or not DIGEST.fullmatch(mark):
            raise ValueError(f"it has no digest and size for {name!r}")


def _files_inside(folder: Path, parent: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the name and path of every file in a folder, at any depth, sorted."""
    with os.scandir(folder / parent) as scan:
        entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan)
    for name, is_folder in entries:
        if is_folder:
            yield from _files_inside(folder, f"{parent}{name}/")
        else:
            yield f"{parent}{name}", folder / parent / name


def _regular(path: Path) -> Any:
    """Return the `os.stat` result of a regular file; raise ValueError for links, folders, devices or no file."""
    try:
        status = path.lstat()
    except OSError as error:
        raise ValueError(reason(error)) from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"it is {FILE_TYPES.get(stat.S_IFMT(status.st_mode), 'a device or a pipe')}, not a file")
    return status


def _content(path: Path, size: int, limit: int) -> bytes:
    """Return the content of a regular file; raise ValueError if its size is not `size`, or exceeds `limit`."""
    if size > limit:
        raise ValueError(f"it has {size:,} bytes; the limit is {limit:,}")
    try:
        with path.open("rb") as file:
            data = file.read(size + 1)
    except OSError as error:
        raise ValueError(reason(error)) from None
    if len(data) != size:
        raise ValueError("it changed while being read")
    return data


def _parse(text: bytes, shape: Any = None) -> Any:
    """Parse JSON; raise ValueError if it is invalid."""
    try:
        if shape is not None:
            parsed(shape, text)
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _check_format(path: Path) -> None:
    """Raise StoreError if the first bytes of weights or arrays show another format, such as pickle."""
    if path.suffix not in (".safetensors", ".npy"):
        return
    with path.open("rb") as file:
        start, size = file.read(9), path.stat().st_size
    header = int.from_bytes(start[:8], "little")  # the size of the header of a safetensors file
    if path.suffix == ".safetensors" and (start[8:] != b"{" or header > min(size - 8, MAX_HEADER_BYTES)):
        raise StoreError(f"{path}: not a safetensors file, so it is not opened.")
    if path.suffix == ".npy" and not start.startswith(NPY_MAGIC):
        raise StoreError(f"{path}: not an npy file, so it is not opened.")


def reason(error: OSError) -> str:
    """Return the message of a system error."""
    return "there is no such file" if isinstance(error, FileNotFoundError) else str(error.strerror or error).lower()


def unwritable(path: Path, error: OSError) -> StoreError:
    """Return the error for an unwritable store."""
    why, advice = str(error.strerror or error).lower(), ADVICE.get(error.errno or 0, "")
    return StoreError(f"{path}: the store cannot be written: {why}. {advice}".strip())
