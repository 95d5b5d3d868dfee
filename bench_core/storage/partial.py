"""What is carried of artifacts between machines: all of the small ones, and of the large ones what they tell.

A training that was carried here has no weights and is no trained model: it is kept as an artifact of another kind,
which tells how it went. So is a prepared task of which only the facts came along. Whoever reads weights or data asks
for the artifact itself, and has it made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench_core.storage.contents import RECORDS

if TYPE_CHECKING:
    from bench_core.planning.stages import Stage
    from bench_core.storage.store import Artifact, Store


def kept_as(store: Store, kind: str, key: str) -> str:
    """Return the kind under which an artifact, or what was carried of it, is here; its own where neither is."""
    record = RECORDS.get(kind)
    return record if record and not store.has(kind, key) and store.has(record, key) else kind


def kept(store: Store, kind: str, key: str) -> Artifact:
    """Return an artifact, or what was carried of it; raise StoreError where neither is here."""
    return store.get(kept_as(store, kind, key), key)


def is_stored(store: Store, stage: Stage, told: bool = False) -> bool:
    """Return whether the artifact of a stage is here, or, where that is enough, what was carried of it."""
    return store.has(kept_as(store, stage.kind, stage.key) if told else stage.kind, stage.key)


def contradictions(store: Store, kind: str, key: str) -> list[str]:
    """Return the files of an artifact whose content is not that of the one of which a record was carried here."""
    record = RECORDS.get(kind)
    if record is None or not store.has(record, key):
        return []
    return differing(store.get(kind, key).manifest, store.get(record, key).manifest)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the files that two manifests both know, carried along or not, and of which they give other digests."""
    ours, theirs = ({**about.get("left_out", {}), **about["files"]} for about in (one, other))
    return [name for name in ours if name in theirs and ours[name]["sha256"] != theirs[name]["sha256"]]
