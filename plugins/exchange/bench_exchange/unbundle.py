"""Opens a file that `bench export` wrote on another machine: all of it is checked before any of it is used."""

from __future__ import annotations

import json
import re
import stat
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from bench_core.errors import BenchError, StoreError
from bench_core.runs.results import read_run
from bench_core.storage.artifact import MANIFEST, Artifact, read_artifact, reason
from bench_core.storage.contents import FILES, RECORDS
from bench_core.storage.file_formats import TooLarge, check
from bench_exchange.bundle import CONTENTS, FORMAT, HISTORY, RUN_FILES, VERSION

if TYPE_CHECKING:
    pass

LIMIT = 8 * 2**30  #: bytes of all that a file holds, unpacked
LARGEST = 2**30  #: bytes of an entry, which is read as a whole
MOST_CONTENTS = 2**27  #: bytes of the list of all others
LONGEST = 300  # characters of what is wrong with a run
ENCRYPTED = 1  # flag of an entry
WHOLE = {record: kind for kind, record in RECORDS.items()}
ORDER = tuple(FILES)  # of kinds: what is read by others comes before them
ARTIFACT = re.compile(rf"store/({'|'.join(FILES)})/([0-9a-f]{{64}})/([a-z.]+)")
RUN_NAME = re.compile(r"[\w][\w.-]{0,249}")
DAMAGED = (BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error)

Name = tuple[str, str]  # kind and key


@dataclass
class Bundle:
    """An opened file, checked."""

    path: Path
    archive: ZipFile
    entries: Mapping[str, ZipInfo]
    about: Mapping[str, Any]  # what its list of contents says

    def content(self, name: str) -> bytes:
        """Return an entry; raise StoreError if it is not what the list says."""
        told, info = self.about["files"][name], self.entries[name]
        if info.file_size != told["bytes"]:
            raise self.wrong(f"{name} has {info.file_size:,} bytes, and its list says {told['bytes']:,}")
        found = self._read(info)
        if len(found) != told["bytes"] or sha256(found).hexdigest() != told["sha256"]:
            raise self.wrong(f"{name} is damaged: its digest is not that of the list")
        return found

    def _read(self, info: ZipInfo) -> bytes:
        try:
            with self.archive.open(info) as file:
                return file.read(info.file_size + 1)
        except DAMAGED as error:
            raise self.wrong(f"{info.filename} is damaged: {error}") from None

    def wrong(self, text: str) -> StoreError:
        """Return the error of a file that is not taken in."""
        return StoreError(f"{self.path}: {text}. Nothing of it was imported; export the run again.")

    @property
    def artifacts(self) -> dict[Name, list[str]]:
        """Return the files of each artifact, inputs before what reads them."""
        found: dict[Name, list[str]] = {}
        for name in self.about["files"]:
            if match := ARTIFACT.fullmatch(name):
                found.setdefault((match[1], match[2]), []).append(match[3])
        return dict(sorted(found.items(), key=lambda one: (ORDER.index(one[0][0]), one[0][1])))

    @contextmanager
    def artifact(self, kind: str, key: str, files: Sequence[str]) -> Iterator[Artifact]:
        """Give an artifact, unpacked for the time of the block; raise StoreError if it is none."""
        with tempfile.TemporaryDirectory(prefix="bench-import-") as place:
            folder = Path(place) / key
            folder.mkdir()
            for name in files:
                (folder / name).write_bytes(self.content(f"store/{kind}/{key}/{name}"))
            yield read_artifact(folder, kind, key)

    @property
    def run_files(self) -> list[str]:
        """Return the files of the run, below its folder."""
        return [name.removeprefix("run/") for name in self.about["files"] if name.startswith("run/")]

    def write_run(self, folder: Path) -> None:
        """Fill a run folder."""
        for name in self.run_files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(self.content(f"run/{name}"))
        (folder / "history").mkdir(exist_ok=True)


@contextmanager
def opened(path: Path, limit: int = LIMIT) -> Iterator[Bundle]:
    """Open and check a file that `bench export` wrote; raise StoreError that says what is wrong with it.

    `limit` is how many bytes it may hold, unpacked to the last.
    """
    try:
        archive = ZipFile(path)
    except BadZipFile:
        raise StoreError(f"{path}: it is no zip, or not all of it. Copy or export it again.") from None
    except DAMAGED as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(f"{path}: it cannot be read: {why}. Give a file that `bench export` wrote.") from None
    with archive:
        bundle = Bundle(path, archive, {info.filename: info for info in archive.infolist()}, {})
        _check_entries(bundle, archive.infolist(), limit)
        bundle.about = _list(bundle)
        _check_list(bundle)
        _check_contents(bundle, limit)
        yield bundle


def _check_entries(bundle: Bundle, entries: Sequence[ZipInfo], limit: int) -> None:
    """Refuse what no export has: links, folders, one name twice, encrypted entries, and more than the limit."""
    if len(bundle.entries) < len(entries):
        twice = next(name for name, count in Counter(info.filename for info in entries).items() if count > 1)
        raise bundle.wrong(f"it holds {twice!r} twice")
    for info in entries:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            raise bundle.wrong(f"{info.filename!r} is a {'link' if kind == stat.S_IFLNK else 'folder or device'}")
        if not _is_known(info.filename):
            raise bundle.wrong(f"it holds {info.filename!r}, which no export does")
        if info.flag_bits & ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise bundle.wrong(f"{info.filename!r} is packed in a way that no export uses")
        if info.file_size > (MOST_CONTENTS if info.filename == CONTENTS else LARGEST):
            raise bundle.wrong(f"{info.filename!r} has {info.file_size:,} bytes unpacked, more than any export")
    _check_size(bundle, sum(info.file_size for info in entries), limit)


def _check_size(bundle: Bundle, size: int, limit: int) -> None:
    if size > limit:
        raise StoreError(
            f"{bundle.path}: unpacked it has {size:,} bytes or more, and the limit is {limit:,}. Nothing of it was "
            "imported; if you know who wrote it, give a higher --limit."
        )


def _is_known(name: str) -> bool:
    if match := ARTIFACT.fullmatch(name):
        return match[3] in (MANIFEST, *FILES[match[1]])
    inside = name.removeprefix("run/")
    return name == CONTENTS or (name != inside and (inside in RUN_FILES or bool(HISTORY.fullmatch(inside))))


def _list(bundle: Bundle) -> dict[str, Any]:
    """Return the list of contents; raise StoreError if it is none, or another version's."""
    try:
        found = json.loads(bundle._read(bundle.entries[CONTENTS]))
        if found["format"] != FORMAT or type(found["version"]) is not int:
            raise ValueError(found["format"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise StoreError(f"{bundle.path}: it is a zip, but not one that `bench export` wrote.") from None
    if found["version"] != VERSION:
        raise StoreError(
            f"{bundle.path}: it is of version {found['version']} of the format, and this bench reads version "
            f"{VERSION}. Use the same version of bench on both machines: update the older one and export again."
        )
    return dict(found)


def _check_list(bundle: Bundle) -> None:
    """Refuse a list that has another shape, or lists other entries than there are."""
    about = bundle.about
    files = about.get("files")
    if not isinstance(files, dict) or type(about.get("scheme")) is not int or not all(map(_is_told, files.values())):
        raise bundle.wrong(f"{CONTENTS} does not list files with their sizes and digests")
    if not isinstance(about.get("run"), str) or not RUN_NAME.fullmatch(about["run"]):
        raise bundle.wrong(f"the run is called {about.get('run')!r}, which cannot be the name of a folder")
    if odd := sorted({*files, CONTENTS} ^ {*bundle.entries}):
        what = "holds" if odd[0] in bundle.entries else "lacks"
        raise bundle.wrong(
            f"it {what} {odd[0]!r}, {'which is not in' if what == 'holds' else 'which is in'} its list"
        )


def _is_told(entry: Any) -> bool:
    known = isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)
    return known and entry["bytes"] >= 0


def _check_contents(bundle: Bundle, limit: int) -> None:
    """Read everything once: digests, shapes, keys."""
    size = 0
    for name in bundle.about["files"]:
        last = name.rpartition("/")[2]
        try:
            content = bundle.content(name)
            artifact = name.startswith("store/") and last != MANIFEST
            size += check(last, content, limit - size) if artifact else len(content)
            if name.startswith("run/") and not name.endswith(".safetensors"):
                content.decode()
        except TooLarge:
            size = limit + 1
        except ValueError as error:
            raise bundle.wrong(f"{name} is not what it should be: {error}") from None
        _check_size(bundle, size, limit)
    for (kind, key), files in bundle.artifacts.items():
        if MANIFEST not in files:
            raise bundle.wrong(f"store/{kind}/{key} has no {MANIFEST}")
        try:
            with bundle.artifact(kind, key, files) as artifact:
                artifact.check()
                _check_manifest(kind, artifact.manifest)
        except StoreError as error:
            words = str(error).removeprefix(f"{bundle.path}: ").rpartition(f"/{key}")[2].lstrip("/:")
            raise bundle.wrong(f"store/{kind}/{key}: {words.strip().rstrip('.')}") from None
    _check_run(bundle)


def _check_manifest(kind: str, manifest: Mapping[str, Any]) -> None:
    """Raise StoreError for a manifest that is not of its kind, or leaves open what the artifact was made of."""
    ingredients, left_out = manifest.get("ingredients"), manifest.get("left_out", {})
    if not isinstance(ingredients, dict) or ingredients.get("kind") != WHOLE.get(kind, kind):
        raise StoreError(f"the ingredients are not those of a {WHOLE.get(kind, kind)} stage")
    inputs = ingredients.get("inputs")
    pairs = inputs.values() if isinstance(inputs, dict) else [None]
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair) for pair in pairs
    ):
        raise StoreError("the inputs are not named by kind and key")
    if not all(isinstance(manifest.get(name, {}), dict) for name in ("provenance", "cost")):
        raise StoreError("provenance or cost is no mapping")
    if not isinstance(left_out, dict) or not all(map(_is_told, left_out.values())):
        raise StoreError("what was left out is not listed with sizes and digests")


def _check_run(bundle: Bundle) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-import-") as folder:
        bundle.write_run(Path(folder))
        try:
            found = read_run(Path(folder))
        except BenchError as error:
            raise bundle.wrong(" ".join(str(error).replace(folder, "run").split())[:LONGEST].rstrip(".")) from None
    known = len(found.info.get("environments", ()))
    if any(not 0 <= place < known for one in found.cells for place in one.environments):
        raise bundle.wrong("a cell was computed in an environment that the run does not tell of")
