"""An artifact on disk: a folder with a manifest that lists every file and what it was computed from.

Files may be damaged, or come from elsewhere: only regular files inside the folder with the expected size are opened,
nothing is executed, and whatever is invalid is a StoreError.
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
from bench_core.storage.contents import told
from bench_core.storage.file_formats import SHAPES, parsed

MANIFEST = "manifest.json"
FORMAT = 1  #: of manifests; that of keys is another matter
LARGEST = 16 * 2**20  #: bytes of a manifest
LARGEST_JSON = 2**30  #: bytes of a JSON file, which is read as a whole
ARRAY = b"\x93NUMPY"  # how a file of numbers begins
LARGEST_HEADER = 10**8  #: bytes of the table of contents of a file of weights
SEAL = re.compile(rb',\n "seal": "([0-9a-f]{64})"\n}\Z')  # of all that stands before it
DIGEST = re.compile(r"[0-9a-f]{64}")
ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or name another store by --store."),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Name a store that may be written by --store."),
    errno.EFBIG: "Raise the limit of the size of files (`ulimit -f`), or name another store by --store.",
    errno.ENOENT: "It vanished meanwhile: does something else clean up there?",
}
OTHERS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


@dataclass(frozen=True)
class Artifact:
    """A stored folder; every file is checked against the manifest when it is read."""

    folder: Path
    manifest: Mapping[str, Any]

    def file(self, name: str) -> Path:
        """Return the path of a file after checking its digest; raise StoreError if it is damaged."""
        path = self._place(name)
        try:
            self._compare(name, digest(path))
            _check_format(path)
        except OSError as error:
            raise StoreError(f"{path}: the file cannot be read: {reason(error)}.") from None
        return path

    def json(self, name: str) -> Any:
        """Return the content of a JSON file; raise StoreError if it is damaged or has the wrong schema."""
        path = self._place(name)
        try:
            text = _content(path, self.manifest["files"][name]["bytes"], LARGEST_JSON)
            self._compare(name, sha256(text).hexdigest())
            # Whoever wrote the manifest may have written this, too.
            return _parsed(text, SHAPES.get(name) if name in told(self.manifest["kind"]) else None)
        except ValueError as error:
            raise StoreError(f"{path}: the file cannot be read: {error}.") from None

    def check_told(self) -> None:
        """Check the files that reports use; raise StoreError for the first damaged one."""
        for name in told(self.manifest["kind"]):
            if name in self.manifest["files"]:
                self._check(name)

    def _check(self, name: str) -> None:
        if name in told(self.manifest["kind"]) and name.endswith(".json"):
            self.json(name)
        else:
            self.file(name)

    def check(self) -> None:
        """Check every file, and that there are no others; raise StoreError for the first problem."""
        for problem in self.problems():
            raise problem

    def problems(self) -> Iterator[StoreError]:
        """Yield all problems: a key that does not match; files that are damaged, missing or unknown."""
        if not self._fits_key():
            yield StoreError(f"{self.folder / MANIFEST}: the key is not that of the ingredients.")
        for name in self.manifest["files"]:
            try:
                self._check(name)
            except StoreError as problem:
                yield problem
        try:
            for name, path in _inside(self.folder):
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

    def _place(self, name: str) -> Path:
        """Return the path of a file after checking its size, and that no link leads to it."""
        path, known = self.folder, self.manifest["files"].get(name)
        if known is None:
            raise StoreError(f"{path / name}: the artifact has no such file. Run the suite again.")
        try:
            for word in name.split("/"):
                if path.is_symlink():
                    raise ValueError(f"{path} is a link")
                path /= word
            size = _regular(path).st_size
        except ValueError as error:
            raise StoreError(f"{path}: the artifact has no such file: {error}.") from None
        if size != known["bytes"]:
            raise StoreError(
                f"{path}: the file is damaged: it has {size:,} bytes, and the manifest says {known['bytes']:,}."
            )
        return path

    def _compare(self, name: str, found: str) -> None:
        if found != self.manifest["files"][name]["sha256"]:
            raise StoreError(f"{self.folder / name}: the file is damaged: its digest is not the manifest's.")


def read_artifact(folder: Path, kind: str, key: str) -> Artifact:
    """Return the artifact in a folder; raise StoreError if there is none, or its manifest is damaged."""
    path = folder / MANIFEST
    if folder.is_symlink():
        raise StoreError(f"{folder}: a link stands where an artifact should. Nothing behind it is read.")
    try:
        manifest = _checked(_content(path, _regular(path).st_size, LARGEST), kind, key)
    except ValueError as error:
        raise StoreError(f"{path}: the manifest cannot be read: {error}.") from None
    return Artifact(folder, manifest)


def write_manifest(folder: Path, kind: str, key: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write and return the manifest of a folder; raise StoreError for files that cannot be stored."""
    files = {}
    for name, path in _inside(folder):
        try:
            files[name] = {"bytes": _regular(path).st_size, "sha256": digest(path)}
        except ValueError as error:
            raise StoreError(f"{path}: cannot be stored: {error}.") from None
    manifest = {"scheme": keys.SCHEME, **about, "kind": kind, "key": key, "files": files, "format": FORMAT}
    body = json.dumps(manifest, indent=1, sort_keys=True)
    seal = sha256(body.encode()).hexdigest()
    text = f'{body[:-2]},\n "seal": "{seal}"\n}}'.encode()
    try:
        written = _checked(text, kind, key)
    except ValueError as error:
        raise StoreError(f"{folder / MANIFEST}: cannot be stored: {error}.") from None
    (folder / MANIFEST).write_bytes(text)
    return written


def _checked(text: bytes, kind: str, key: str) -> dict[str, Any]:
    """Return a parsed manifest; raise ValueError if it is invalid, or of another artifact."""
    manifest = _parsed(text)
    if not isinstance(manifest, dict):
        raise ValueError("it is no mapping")
    form = manifest.get("format", 1)
    if type(form) is not int or form != FORMAT:
        age = "a newer" if type(form) is int and form > FORMAT else "another"
        raise ValueError(f"{age} version of bench wrote it, in format {form!r}, and this one reads format {FORMAT}")
    seal = SEAL.search(text)
    if seal is None and "format" in manifest:  # those without either are from before there were seals
        raise ValueError("it is damaged: its seal is missing")
    if seal and sha256(text[: seal.start()] + b"\n}").hexdigest().encode() != seal[1]:
        raise ValueError("it is damaged: it does not fit its seal")
    if (manifest.get("kind"), manifest.get("key")) != (kind, key):
        raise ValueError(f"it is that of another artifact, {manifest.get('kind')!r} {manifest.get('key')!r}")
    _check_files(manifest.get("files"))
    _check_files(manifest.get("left_out", {}))  # of what was carried here in part
    _check_about(manifest)
    dependencies.check(manifest.get("observed", {}))
    return manifest


def _check_about(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError unless a manifest has the expected structure."""
    odd = [name for name in ("ingredients", "provenance", "cost") if not isinstance(manifest.get(name, {}), dict)]
    if odd:
        raise ValueError(f"{odd[0]} is no mapping")
    costs = manifest.get("cost", {}).values()
    if any(isinstance(one, bool) or not isinstance(one, int | float | None) for one in costs):
        raise ValueError("its costs are no numbers")


def _check_files(files: Any) -> None:
    """Raise ValueError unless files are names inside the folder, each with digest and size."""
    if not isinstance(files, dict):
        raise ValueError("it lists no files")
    for name, entry in files.items():
        if not name.isprintable() or {"\\", ":"} & set(name) or {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"it lists {name!r}, which cannot be a file of an artifact")
        if name == MANIFEST:
            raise ValueError("it lists itself, and no stage may write a file of that name")
        known = isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and type(entry.get("bytes")) is int
        if not known or not DIGEST.fullmatch(entry["sha256"]) or entry["bytes"] < 0:
            raise ValueError(f"it has no digest and size of {name!r}")


def _inside(folder: Path, above: str = "") -> Iterator[tuple[str, Path]]:
    """Yield name and path of every file in a folder, at any depth, sorted."""
    with os.scandir(folder / above) as found:
        entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
    for name, inner in entries:
        if inner:
            yield from _inside(folder, f"{above}{name}/")
        else:
            yield f"{above}{name}", folder / above / name


def _regular(path: Path) -> Any:
    """Return the status of a regular file; raise ValueError for links, folders, devices and missing files."""
    try:
        found = path.lstat()
    except OSError as error:
        raise ValueError(reason(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"it is {OTHERS.get(stat.S_IFMT(found.st_mode), 'a device or a pipe')}, not a file")
    return found


def _content(path: Path, size: int, most: int) -> bytes:
    """Return the content of a regular file of a known size; raise ValueError if the size differs or is too large."""
    if size > most:
        raise ValueError(f"it has {size:,} bytes, and at most {most:,} are read")
    try:
        with path.open("rb") as file:
            found = file.read(size + 1)
    except OSError as error:
        raise ValueError(reason(error)) from None
    if len(found) != size:
        raise ValueError("it changed while it was read")
    return found


def _parsed(text: bytes, shape: Any = None) -> Any:
    """Return parsed JSON; raise ValueError if it is invalid."""
    try:
        if shape is not None:
            parsed(shape, text)
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _check_format(path: Path) -> None:
    """Raise StoreError for weights and arrays in another format, such as pickle, by their first bytes."""
    if path.suffix not in (".safetensors", ".npy"):
        return
    with path.open("rb") as file:
        start, size = file.read(9), path.stat().st_size
    header = int.from_bytes(start[:8], "little")  # of weights: the size of their table of contents
    if path.suffix == ".safetensors" and (start[8:] != b"{" or header > min(size - 8, LARGEST_HEADER)):
        raise StoreError(f"{path}: the file holds no weights: it is not in the safetensors format. It is not opened.")
    if path.suffix == ".npy" and not start.startswith(ARRAY):
        raise StoreError(f"{path}: the file holds no numbers: it is not in the npy format. It is not opened.")


def reason(error: OSError) -> str:
    """Return the message of a system error."""
    return "there is no such file" if isinstance(error, FileNotFoundError) else str(error.strerror or error).lower()


def unwritable(path: Path, error: OSError) -> StoreError:
    """Return the error of a store that is not writable."""
    advice = ADVICE.get(error.errno or 0, "")
    return StoreError(
        f"{path}: the store cannot be written: {str(error.strerror or error).lower()}. {advice}".strip()
    )
