"""The files of each kind of artifact, and the kinds of which exports carry a record alone.

Weights and data are not exported: an imported training is a record of how it went, stored under a kind of its own, as
is the information of an imported task. Stages that read weights or data need the artifact itself, which is then
computed again.
"""

from collections.abc import Mapping
from typing import Any

from bench_core.registry import stage_kinds
from bench_core.stage_kinds import OUTCOMES


def records() -> dict[str, str]:
    """Return the kinds of artifacts of which exports carry a record alone, and the kinds of these records."""
    return {one.name: one.record for one in stage_kinds().values() if one.record}


def told(kind: str) -> tuple[str, ...]:
    """Return the files of a kind of artifact that reports use; outcomes are read by stages only."""
    own = (one.files for one in stage_kinds().values() if kind in (one.name, one.record))
    return tuple(name for name in next(own, ()) if name != OUTCOMES)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the files in both manifests whose digests differ."""
    ours, theirs = ({**about.get("left_out", {}), **about["files"]} for about in (one, other))
    return [name for name in ours if name in theirs and ours[name]["sha256"] != theirs[name]["sha256"]]
