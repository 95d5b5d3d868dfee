"""Stages whose code is not installed, imported on trust, and what was computed from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench_core.errors import StoreError
from bench_core.runs.provenance import read_stages
from bench_core.storage.file_formats import parsed

if TYPE_CHECKING:
    from bench_core.storage.store import Store

FILE = "unverified.json"  #: of a run: the key of each such stage, and the code that was not installed
TRUSTED = "trusted"  #: a field of the manifests of such artifacts, and a file of stores that have some


def trusted(store: Store, folder: Path) -> dict[str, Sequence[str]]:
    """Return the stages of a run whose artifacts were imported on trust, each with the code that was missing."""
    found: dict[str, Sequence[str]] = {}
    for stage in read_stages(folder).values() if (store.root / TRUSTED).exists() else ():
        with suppress(StoreError):
            manifest = store.kept(stage.kind, stage.key).manifest
            if TRUSTED in manifest:
                found[stage.key] = manifest[TRUSTED]
    return found


def write_unverified(folder: Path, lacking: Mapping[str, Sequence[str]]) -> None:
    """Write which stages of a run lacked code, or were computed from such; nothing if none did."""
    stages = read_stages(folder)

    @cache
    def names(key: str) -> frozenset[str]:
        inner = stages[key].inputs.values() if key in stages else ()
        return frozenset(lacking.get(key, ())).union(*(names(one) for _, one in inner))

    found = {key: sorted(names(key)) for key in stages if names(key)}
    if found:
        (folder / FILE).write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


def read_unverified(folder: Path) -> Mapping[str, list[str]]:
    """Return the stages that a run holds for unverified; raise StoreError if the file is damaged."""
    path = folder / FILE
    try:
        found: dict[str, list[str]] = parsed(dict[str, list[str]], path.read_bytes()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: the file cannot be read: {error}. Import the run again.") from None
    return found
