"""What the stages of a run cost, as a table: kept apart from results, as it differs from machine to machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench_core.storage.csv_files import to_csv

COLUMNS = ["stage", "what", "key", "seconds", "cpu_seconds", "peak_mib", "examples", "tokens", "tokens_per_second"]
COLUMNS += ["ms_per_example", "parameters", "updates", "ms_per_update"]


def write_costs(path: Path, stages: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
    """Write a line a stage: kind, what it was for, key, and its cost."""
    rows = (
        {"stage": kind, "what": label, "key": key[:16], **cost, **_rates(cost)} for kind, label, key, cost in stages
    )
    path.write_text(to_csv(rows, COLUMNS), encoding="utf-8", newline="")


def _rates(cost: Mapping[str, Any]) -> dict[str, float]:
    seconds, found = cost.get("seconds"), {}
    if seconds and cost.get("tokens"):
        found["tokens_per_second"] = round(cost["tokens"] / seconds, 1)
    if seconds and cost.get("examples"):
        found["ms_per_example"] = round(1000 * seconds / cost["examples"], 3)
    if seconds and cost.get("updates"):
        found["ms_per_update"] = round(1000 * seconds / cost["updates"], 3)  # with the evaluations between them
    return found
