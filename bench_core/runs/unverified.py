"""Stages that were imported on trust, because their code is not installed, and stages computed from them."""

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

FILE = "unverified.json"  #: file in a run folder: key of an unverified stage -> code that was not installed
TRUSTED = "trusted"  #: a field in manifests of trusted artifacts, and a file that marks stores with such artifacts


def trusted_stages(store: Store, folder: Path) -> dict[str, Sequence[str]]:
    """Return the stages of a run whose artifacts were imported on trust, each with the missing code."""
    missing_code: dict[str, Sequence[str]] = {}
    for stage in read_stages(folder).values() if (store.root / TRUSTED).exists() else ():
        with suppress(StoreError):
            manifest = store.find(stage.kind, stage.key).manifest
            if TRUSTED in manifest:
                missing_code[stage.key] = manifest[TRUSTED]
    return missing_code


def write_unverified(folder: Path, missing_code: Mapping[str, Sequence[str]]) -> None:
    """Write which stages of a run lacked code, or depend on stages that did; write no file if all had their code."""
    stages = read_stages(folder)

    @cache
    def missing_names(key: str) -> frozenset[str]:
        inner = stages[key].inputs.values() if key in stages else ()
        return frozenset(missing_code.get(key, ())).union(*(missing_names(upstream) for _, upstream in inner))

    unverified = {key: sorted(missing_names(key)) for key in stages if missing_names(key)}
    if unverified:
        (folder / FILE).write_text(json.dumps(unverified, indent=1, ensure_ascii=False), encoding="utf-8")


def read_unverified(folder: Path) -> Mapping[str, list[str]]:
    """Return the unverified stages of a run; raise StoreError if the file is damaged."""
    path = folder / FILE
    try:
        unverified: dict[str, list[str]] = parsed(dict[str, list[str]], path.read_bytes()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: the file cannot be read: {error}. Import the run again.") from None
    return unverified
