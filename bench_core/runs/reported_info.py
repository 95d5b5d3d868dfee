"""The entry of a task in run.json, from the task info of its prepare stages."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench_core.data import joined

REPORTED = ("corpus", "statistics", "notice", "embedded", "entropy", "overlap", "texts")  # extras of task info


def reported_info(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry of a task, given the task info of its prepare stages, with the training data first."""
    extras = joined(info.get("extras", {}) for info in infos)
    split_texts = [info.get("extras", {}).get("texts", {}) for info in infos[1:]]  # splits prepared separately
    extras |= {"texts": joined(split_texts)} if split_texts else {}
    reported = {name: extras[name] for name in REPORTED if name in extras}
    return {**reported, "vocabulary": len(infos[0].get("vocabulary", ()))}
