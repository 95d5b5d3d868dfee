"""The files of each kind of artifact, and the kinds that exports contain only as records.

Weights and data are not exported: an imported training run is only a record of its course, and an imported task a
record of its task info; records are stored under separate kinds. Stages that read weights or data need the artifact
itself, which is then computed again.
"""

from collections.abc import Mapping
from typing import Any

from bench_core.registry import stage_kinds
from bench_core.stage_kinds import PREDICTIONS


def records() -> dict[str, str]:
    """Return the kinds of artifacts that exports contain only as records, each with the kind of its record."""
    return {kind.name: kind.record for kind in stage_kinds().values() if kind.record}


def reported_files(kind: str) -> tuple[str, ...]:
    """Return the files that reports read from a kind of artifact; predictions are read only by stages."""
    files = (other.files for other in stage_kinds().values() if kind in (other.name, other.record))
    return tuple(name for name in next(files, ()) if name != PREDICTIONS)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the files that both manifests list, but with different digests."""
    ours, theirs = ({**manifest.get("left_out", {}), **manifest["files"]} for manifest in (first, second))
    return [name for name in ours if name in theirs and ours[name]["sha256"] != theirs[name]["sha256"]]
