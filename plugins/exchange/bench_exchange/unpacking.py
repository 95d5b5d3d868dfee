"""Unpacks an exported file, and checks that it is one: sizes, names, digests, and the shape of every file."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal
from zipfile import BadZipFile, ZipFile, ZipInfo

from pydantic import Field

from bench_core.errors import BenchError, StoreError
from bench_core.registry import sections
from bench_core.runs.results import read_histories, read_run
from bench_core.storage.artifact import MANIFEST, Artifact, reason
from bench_core.storage.contents import records
from bench_core.storage.file_formats import Open, parsed
from bench_core.storage.store import Store
from bench_core.terminal import visible
from bench_exchange.artifact_files import TooLarge, carried, check
from bench_exchange.exporting import CONTENTS, run_files

LIMIT = 8 * 2**30  #: bytes of all that a file holds, unpacked
LARGEST = 2**30  #: bytes of an entry, which is read as a whole
LONGEST = 300  # characters of what is wrong
DAMAGED = (BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error)


class Contents(Open):
    """What is in a file."""

    format: Literal["bench export 3"]
    run: Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=250)]
    digests: dict[str, str]


class Ingredients(Open):
    """What an artifact was made of."""

    kind: str
    inputs: dict[str, tuple[str, str]]  # role -> kind and key


def recorded_kind(kind: str) -> str:
    """Return the kind of stage whose record a kind of artifact is; the same kind if it is no record."""
    return next((name for name, record in records().items() if record == kind), kind)


def _entries() -> re.Pattern[str]:
    """Return a pattern of the names that entries of a file may have."""
    own = (re.escape(name) for name in (CONTENTS, *(f"run/{name}" for name in run_files())))
    history = r"run/history/[\w.-]{1,230}-[0-9a-f]{12}\.jsonl"
    files = ((kind, re.escape(name)) for kind, names in carried().items() for name in (MANIFEST, *names))
    return re.compile("|".join([*own, history, *(f"store/{kind}/[0-9a-f]{{64}}/{name}" for kind, name in files)]))


def unpacked(path: Path, folder: Path, limit: int) -> tuple[Contents, list[Artifact]]:
    """Unpack a file into an empty folder, as `run` and `store`; return what it tells of itself, and its artifacts.

    Raises StoreError that says what is wrong with the file; that its numbers fit each other is not checked.
    """
    try:
        contents = _unpack(path, folder, limit)
        artifacts = _artifacts(Store(folder / "store"), limit)
        _check_run(folder / "run")
    except (BenchError, ValueError, OSError) as error:
        text = reason(error) if isinstance(error, OSError) else str(error).replace(f"{folder}/", "")
        raise refused(path, text) from None
    return contents, artifacts


def refused(path: Path, text: str) -> StoreError:
    """Return the error of a file that is not imported, and why."""
    why = " ".join(visible(text).split())[:LONGEST].rstrip(".")
    return StoreError(f"{path}: {why}. Nothing of it was imported.")


def _unpack(path: Path, folder: Path, limit: int) -> Contents:
    """Unpack a file into a folder; raise ValueError for what no export writes."""
    try:
        archive = ZipFile(path)
    except (BadZipFile, NotImplementedError):
        raise ValueError("it is no zip, or not all of it; copy or export it again") from None
    with archive:
        entries = {info.filename: info for info in archive.infolist()}
        _check_entries(archive.infolist(), limit)
        contents = _contents(archive, entries)
        for name, digest in contents.digests.items():
            content = _content(archive, entries[name])
            if sha256(content).hexdigest() != digest:
                raise ValueError(f"{name} is damaged: its digest is not that of {CONTENTS}")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    return contents


def _check_entries(entries: Sequence[ZipInfo], limit: int) -> None:
    """Raise ValueError for entries that are too large together or alone, and for names that no export gives."""
    sizes, names = [info.file_size for info in entries], [info.filename for info in entries]
    if sum(sizes) > limit:
        raise _too_large(limit)
    if max(sizes, default=0) > LARGEST:
        raise ValueError(f"an entry has more than {LARGEST:,} bytes")
    pattern = _entries()
    odd = next((name for name, count in Counter(names).items() if count > 1 or not pattern.fullmatch(name)), None)
    if odd is not None:
        raise ValueError(f"it holds {odd!r}, which no export does, or holds it twice")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"unpacked it has more than {limit:,} bytes; give a higher --limit if you know who wrote it")


def _contents(archive: ZipFile, entries: Mapping[str, ZipInfo]) -> Contents:
    """Return the list of entries; raise ValueError unless it is that of an export, and of just these entries."""
    try:
        contents: Contents = parsed(Contents, _content(archive, entries[CONTENTS]))
    except (KeyError, ValueError) as error:
        text = f"no `bench export` of this version wrote it ({CONTENTS}: {error}); export it again"
        raise ValueError(text) from None
    odd = sorted({*contents.digests, CONTENTS} ^ {*entries})
    if odd:
        raise ValueError(f"{odd[0]!r} is not both in it and in its {CONTENTS}")
    return contents


def _content(archive: ZipFile, info: ZipInfo) -> bytes:
    """Return an entry, of which no more is read than the size that it declares."""
    try:
        with archive.open(info) as file:
            return file.read(info.file_size + 1)
    except DAMAGED as error:
        raise ValueError(f"{info.filename} is damaged: {error}") from None


def _artifacts(store: Store, limit: int) -> list[Artifact]:
    """Return the artifacts of a file, inputs first; raise StoreError or ValueError for what is wrong with them."""
    store.root.mkdir(exist_ok=True)
    order = [*carried()]
    entries = sorted(store.entries(), key=lambda entry: (order.index(entry[0]), entry[1]))
    artifacts, left = [store.get(*entry) for entry in entries], limit
    for artifact in artifacts:
        artifact.check()
        try:
            made: Ingredients = parsed(Ingredients, json.dumps(artifact.manifest.get("ingredients")).encode())
            if made.kind != recorded_kind(artifact.manifest["kind"]):
                raise ValueError(f"the ingredients are those of a {made.kind} stage")
            for name in artifact.manifest["files"]:
                left -= check(name, (artifact.folder / name).read_bytes(), left)
        except TooLarge:
            raise _too_large(limit) from None
        except ValueError as error:
            raise ValueError(f"{artifact.folder}: it is not what it should be: {error}") from None
    return artifacts


def _check_run(folder: Path) -> None:
    """Read all files of a run; raise BenchError or ValueError for those that cannot be read."""
    from block_bootstrap import StoredDraws

    (folder / "history").mkdir(parents=True, exist_ok=True)
    for section in sections():
        section.read(read_run(folder))
    dict(read_histories(folder))
    for path in (path for path in folder.iterdir() if path.is_file() and path.suffix != ".gz"):
        try:
            if path.suffix == ".safetensors":
                StoredDraws(path)
            else:
                path.read_bytes().decode()
        except ValueError as error:
            raise ValueError(f"{path} is not what it should be: {error}") from None
