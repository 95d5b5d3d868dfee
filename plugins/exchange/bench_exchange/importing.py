"""Imports an exported file into a store; everything is checked before anything is written."""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from filecmp import cmpfiles
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import copyfile, copytree
from typing import Annotated, Any, Literal
from zipfile import BadZipFile, ZipFile, ZipInfo

from pydantic import Field

from bench_core.errors import BenchError, StoreError
from bench_core.registry import hook
from bench_core.runs.results import read_histories, read_run, write_run
from bench_core.storage.artifact import MANIFEST, Artifact, reason
from bench_core.storage.contents import FILES, RECORDS, SCHEME, differing
from bench_core.storage.file_formats import Open, parsed
from bench_core.storage.store import Store
from bench_exchange.artifact_files import TooLarge, check
from bench_exchange.exporting import CONTENTS, RUN_FILES, about
from bench_exchange.verifying import verify_export

LIMIT = 8 * 2**30  #: bytes of all that a file holds, unpacked
LARGEST = 2**30  #: bytes of an entry, which is read as a whole
LONGEST = 300  # characters of what is wrong
DAMAGED = (BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error)
KINDS = {record: kind for kind, record in RECORDS.items()}
ENTRY = re.compile("|".join([
    *(re.escape(name) for name in (CONTENTS, *(f"run/{name}" for name in RUN_FILES))),
    r"run/history/[\w.-]{1,230}-[0-9a-f]{12}\.jsonl",
    *(f"store/{kind}/[0-9a-f]{{64}}/{re.escape(name)}" for kind in FILES for name in (MANIFEST, *FILES[kind])),
]))  # fmt: skip


class Contents(Open):
    """What is in a file."""

    format: Literal["bench export 3"]
    run: Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=250)]
    digests: dict[str, str]


class Ingredients(Open):
    """What an artifact was made of."""

    kind: str
    inputs: dict[str, tuple[str, str]]  # role -> kind and key


@dataclass
class Imported:
    """What became of a file."""

    run: Path = Path()
    added: Counter[str] = field(default_factory=Counter)  # artifacts by kind
    known: int = 0  # artifacts that were there already
    left_out: dict[str, str] = field(default_factory=dict)  # key -> why an artifact was not added
    unchecked: list[str] = field(default_factory=list)  # what of it could not be checked


def import_run(path: Path, store: Store, runs: Path, limit: int = LIMIT) -> Imported:
    """Add artifacts to a store and the run to others; what is there already is kept.

    Raises StoreError that says what is wrong with the file, which may hold at most `limit` bytes unpacked.
    """
    with tempfile.TemporaryDirectory(prefix="bench-import-") as name:
        folder = Path(name)
        contents, artifacts = unpacked(path, folder, limit)
        remarks = [*verify_export(folder)]
        if wrong := [remark.text.replace(f"{name}/", "") for remark in remarks if remark.wrong]:
            raise _refused(path, f"{wrong[0]}" + (f"; and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""))
        imported = _add(artifacts, store)
        imported.unchecked = [remark.text.replace(f"{name}/", "") for remark in remarks]
        imported.run = _add_run(folder / "run", runs, contents.run)
    return imported


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
        raise _refused(path, text) from None
    return contents, artifacts


def _refused(path: Path, text: str) -> StoreError:
    why = " ".join(text.split())[:LONGEST].rstrip(".")
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
    odd = next((name for name, count in Counter(names).items() if count > 1 or not ENTRY.fullmatch(name)), None)
    if odd is not None:
        raise ValueError(f"it holds {odd!r}, which no export does, or holds it twice")


def _too_large(limit: int) -> ValueError:
    return ValueError(f"unpacked it has more than {limit:,} bytes; give a higher --limit if you know who wrote it")


def _contents(archive: ZipFile, entries: Mapping[str, ZipInfo]) -> Contents:
    """Return the list of entries; raise ValueError unless it is that of an export, and of just these entries."""
    try:
        contents: Contents = parsed(Contents, _content(archive, entries[CONTENTS]))
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"no `bench export` of this version wrote it ({CONTENTS}: {error}); export it again"
        ) from None
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
    entries = sorted(store.entries(), key=lambda entry: ([*FILES].index(entry[0]), entry[1]))
    artifacts, left = [store.get(*entry) for entry in entries], limit
    for artifact in artifacts:
        artifact.check()
        try:
            _check_ingredients(artifact.manifest)
            for name in artifact.manifest["files"]:
                left -= check(name, (artifact.folder / name).read_bytes(), left)
        except TooLarge:
            raise _too_large(limit) from None
        except ValueError as error:
            raise ValueError(f"{artifact.folder}: it is not what it should be: {error}") from None
    return artifacts


def _check_ingredients(manifest: Mapping[str, Any]) -> None:
    found: Ingredients = parsed(Ingredients, json.dumps(manifest.get("ingredients")).encode())
    if found.kind != KINDS.get(manifest["kind"], manifest["kind"]):
        raise ValueError(f"the ingredients are those of a {found.kind} stage")


def _check_run(folder: Path) -> None:
    """Read all files of a run; raise BenchError or ValueError for those that cannot be read."""
    from bench_core.storage.bootstrap_replicates import read_draws

    (folder / "history").mkdir(parents=True, exist_ok=True)
    hook().bench_run_imported(run=read_run(folder))
    dict(read_histories(folder))
    for path in (path for path in folder.iterdir() if path.is_file() and path.suffix != ".gz"):
        try:
            (read_draws if path.suffix == ".safetensors" else bytes.decode)(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not what it should be: {error}") from None


def _add(artifacts: Sequence[Artifact], store: Store) -> Imported:
    imported = Imported()
    with store.in_use():
        for artifact in artifacts:
            manifest, key = artifact.manifest, artifact.manifest["key"]
            kind = KINDS.get(manifest["kind"], manifest["kind"])
            here = store.kept_as(kind, key)
            if why := _conflict(manifest, store, here, imported.left_out):
                imported.left_out[key] = f"{kind} {key} is left out: {why}"
            elif store.has(here, key):
                imported.known += 1
            else:
                imported.added[kind] += 1
                with store.writing(manifest["kind"], key, about(manifest)) as folder:
                    for name in manifest["files"]:
                        copyfile(artifact.folder / name, folder / name)
    return imported


def _conflict(manifest: Mapping[str, Any], store: Store, here: str, left_out: Mapping[str, str]) -> str:
    """Say why an artifact does not belong to a store; nothing if it does."""
    if manifest.get("scheme", SCHEME) != SCHEME:
        return f"its key is of scheme {manifest['scheme']}, and this bench makes keys of scheme {SCHEME}"
    if store.has(here, manifest["key"]):
        files = differing(store.get(here, manifest["key"]).manifest, manifest)
        return f"the one that is here has another content ({', '.join(files)})" if files else ""
    inputs = manifest["ingredients"]["inputs"].values()
    other = next((kind for kind, key in inputs if key in left_out), None)
    return f"it was computed from a {other} that is left out" if other else ""


def _add_run(folder: Path, runs: Path, name: str) -> Path:
    """Put a run among others, unless it is there."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if cmpfiles(folder, runs / name, files, shallow=False)[0] == files:
        return runs / name
    return write_run(runs, name, partial(copytree, folder, dirs_exist_ok=True))
