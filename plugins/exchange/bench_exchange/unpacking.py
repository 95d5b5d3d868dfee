"""Unpacks and validates an exported file: sizes, names, digests, and the format of every file."""

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

MAX_UNPACKED_BYTES = 8 * 2**30  #: default limit for the unpacked size of an export
MAX_ENTRY_BYTES = 2**30  #: limit for an entry, which is read as a whole
MAX_ERROR_CHARACTERS = 300
DAMAGED = (BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error)


class ExportContents(Open):
    """The table of contents of an export (`bundle.json`)."""

    format: Literal["bench export 3"]
    run: Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=250)]
    digests: dict[str, str]


class Ingredients(Open):
    """The inputs recorded in the manifest of an artifact."""

    kind: str
    inputs: dict[str, tuple[str, str]]  # role -> kind and key


def recorded_kind(kind: str) -> str:
    """Return the stage kind recorded by an artifact kind, or `kind` itself if it is not a record."""
    return next((name for name, record in records().items() if record == kind), kind)


def _entries() -> re.Pattern[str]:
    """Return a pattern that matches the allowed names of entries."""
    names_of_run = (re.escape(name) for name in (CONTENTS, *(f"run/{name}" for name in run_files())))
    history = r"run/history/[\w.-]{1,230}-[0-9a-f]{12}\.jsonl"
    files = ((kind, re.escape(name)) for kind, names in carried().items() for name in (MANIFEST, *names))
    names_of_store = (f"store/{kind}/[0-9a-f]{{64}}/{name}" for kind, name in files)
    return re.compile("|".join([*names_of_run, history, *names_of_store]))


def unpack(path: Path, folder: Path, limit: int) -> tuple[ExportContents, list[Artifact]]:
    """Unpack a file into an empty folder as `run` and `store`; return its contents and its artifacts.

    Raises StoreError for an invalid file; does not check the consistency of its numbers.
    """
    try:
        contents = _extract(path, folder, limit)
        artifacts = _artifacts(Store(folder / "store"), limit)
        _check_run(folder / "run")
    except (BenchError, ValueError, OSError) as error:
        text = reason(error) if isinstance(error, OSError) else str(error).replace(f"{folder}/", "")
        raise refusal(path, text) from None
    return contents, artifacts


def refusal(path: Path, text: str) -> StoreError:
    """Return the error for a file that is rejected."""
    why = " ".join(visible(text).split())[:MAX_ERROR_CHARACTERS].rstrip(".")
    return StoreError(f"{path}: {why}. Nothing was imported.")


def _extract(path: Path, folder: Path, limit: int) -> ExportContents:
    """Extract a file into a folder; raise ValueError for anything that `bench export` does not write."""
    try:
        archive = ZipFile(path)
    except (BadZipFile, NotImplementedError):
        raise ValueError("not a complete zip file; copy or export it again") from None
    with archive:
        entries = {info.filename: info for info in archive.infolist()}
        _check_entries(archive.infolist(), limit)
        contents = _contents(archive, entries)
        for name, digest in contents.digests.items():
            content = _content(archive, entries[name])
            if sha256(content).hexdigest() != digest:
                raise ValueError(f"{name} is damaged: its digest differs from {CONTENTS}")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    return contents


def _check_entries(entries: Sequence[ZipInfo], limit: int) -> None:
    """Raise ValueError for entries that are too large, are duplicates, or have unexpected names."""
    sizes, names = [info.file_size for info in entries], [info.filename for info in entries]
    if sum(sizes) > limit:
        raise _too_large(limit)
    if max(sizes, default=0) > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry exceeds {MAX_ENTRY_BYTES:,} bytes")
    pattern, counts = _entries(), Counter(names)
    unexpected = next((name for name in counts if counts[name] > 1 or not pattern.fullmatch(name)), None)
    if unexpected is not None:
        raise ValueError(f"it contains an unexpected or duplicate entry: {unexpected!r}")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"unpacked it exceeds {limit:,} bytes; raise --limit if you trust its author")


def _contents(archive: ZipFile, entries: Mapping[str, ZipInfo]) -> ExportContents:
    """Return the table of contents; raise ValueError if it is invalid or differs from the entries."""
    try:
        contents: ExportContents = parsed(ExportContents, _content(archive, entries[CONTENTS]))
    except (KeyError, ValueError) as error:
        text = f"it was not written by `bench export` of this version ({CONTENTS}: {error}); export it again"
        raise ValueError(text) from None
    unmatched = sorted({*contents.digests, CONTENTS} ^ {*entries})
    if unmatched:
        raise ValueError(f"{unmatched[0]!r} is missing from the file or from its {CONTENTS}")
    return contents


def _content(archive: ZipFile, info: ZipInfo) -> bytes:
    """Return the content of an entry, reading at most one byte more than its declared size."""
    try:
        with archive.open(info) as file:
            return file.read(info.file_size + 1)
    except DAMAGED as error:
        raise ValueError(f"{info.filename} is damaged: {error}") from None


def _artifacts(store: Store, limit: int) -> list[Artifact]:
    """Return the artifacts of a file, inputs first; raise StoreError or ValueError for invalid artifacts."""
    store.root.mkdir(exist_ok=True)
    order, remaining_bytes = [*carried()], limit
    entries = sorted(store.entries(), key=lambda entry: (order.index(entry[0]), entry[1]))
    artifacts = [store.get(*entry) for entry in entries]
    for artifact in artifacts:
        artifact.check()
        try:
            ingredients: Ingredients = parsed(Ingredients, json.dumps(artifact.manifest.get("ingredients")).encode())
            if ingredients.kind != recorded_kind(artifact.manifest["kind"]):
                raise ValueError(f"its ingredients belong to a {ingredients.kind} stage")
            for name in artifact.manifest["files"]:
                remaining_bytes -= check(name, (artifact.folder / name).read_bytes(), remaining_bytes)
        except TooLarge:
            raise _too_large(limit) from None
        except ValueError as error:
            raise ValueError(f"{artifact.folder}: invalid artifact: {error}") from None
    return artifacts


def _check_run(folder: Path) -> None:
    """Read all files of a run; raise BenchError or ValueError for unreadable files."""
    from block_bootstrap import StoredReplicates

    (folder / "history").mkdir(parents=True, exist_ok=True)
    for section in sections():
        section.read(read_run(folder))
    dict(read_histories(folder))
    for path in (path for path in folder.iterdir() if path.is_file() and path.suffix != ".gz"):
        try:
            if path.suffix == ".safetensors":
                StoredReplicates(path)
            else:
                path.read_bytes().decode()
        except ValueError as error:
            raise ValueError(f"{path}: invalid file: {error}") from None
