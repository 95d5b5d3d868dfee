"""What a run tells of a task, from the facts of what was prepared of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench_core.data import joined

TOLD = ("corpus", "statistics", "notice", "embedded", "entropy", "overlap", "texts")  # of what a task knows besides


def told(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a run tells of a task, given `facts.json` of all that was prepared of it, trainings first."""
    extras = joined(one.get("extras", {}) for one in facts)
    asked = [one.get("extras", {}).get("texts", {}) for one in facts[1:]]  # of splits that are prepared apart
    extras |= {"texts": joined(asked)} if asked else {}
    found = {name: extras[name] for name in TOLD if name in extras}
    return {**found, "vocabulary": len(facts[0].get("vocabulary", ()))}
