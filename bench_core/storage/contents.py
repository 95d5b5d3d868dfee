"""The files of each kind of artifact, and which of them exports include.

Weights and data are not exported: an imported training is a record of how it went, stored under a kind of its own, as
is the information of an imported task. Stages that read weights or data need the artifact itself, which is then
computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench_core.planning import cache_keys as keys

#: Of the keys that artifacts are stored under.
SCHEME = keys.SCHEME

#: The kinds of artifacts that are not carried whole, and the kinds under which what they tell is kept.
RECORDS = {"prepare": "prepared", "train": "trained"}

#: The files that are carried of each kind, and no others.
FILES = {
    "prepared": ("facts.json",),
    "trained": ("history.jsonl", "training.json"),
    "decode": ("outcomes.jsonl.gz", "samples.json"),
    "score": ("outcomes.jsonl.gz",),
    "measure": ("number.json", "parts.jsonl.gz", "draws.npy"),
    "probe": ("finding.json",),
}

OUTCOMES = "outcomes.jsonl.gz"


def told(kind: str) -> tuple[str, ...]:
    """Return the files of a kind of artifact that reports use; outcomes are read by stages only."""
    return tuple(name for name in FILES.get(RECORDS.get(kind, kind), ()) if name != OUTCOMES)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the files in both manifests whose digests differ."""
    ours, theirs = ({**about.get("left_out", {}), **about["files"]} for about in (one, other))
    return [name for name in ours if name in theirs and ours[name]["sha256"] != theirs[name]["sha256"]]
