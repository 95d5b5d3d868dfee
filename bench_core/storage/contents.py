"""Which files artifacts have, by kind, and which of them are carried between machines."""

from __future__ import annotations

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
