"""The files of each kind of artifact, and which of them exports include.

All of the small ones are, and of the large ones what they tell. A training that was carried here has no weights and
is no trained model: it is kept as an artifact of another kind, which tells how it went. So is a prepared task of
which only the facts came along. Whoever reads weights or data asks for the artifact itself, and has it made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench_core.planning import keys

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
    """Return the files of a kind of artifact that reports are made of; outcomes are read by other stages alone."""
    return tuple(name for name in FILES.get(RECORDS.get(kind, kind), ()) if name != OUTCOMES)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the files that two manifests both know, carried along or not, and of which they give other digests."""
    ours, theirs = ({**about.get("left_out", {}), **about["files"]} for about in (one, other))
    return [name for name in ours if name in theirs and ours[name]["sha256"] != theirs[name]["sha256"]]
