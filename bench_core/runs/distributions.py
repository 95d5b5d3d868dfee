"""How often a metric takes each value over the examples of a cell: what runs keep of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.runs.run_files import Axes
from bench_core.storage.file_formats import Real, parsed

Counts: TypeAlias = Sequence[tuple[int | Real, int]]  # values and how often each occurs, finite ones first, sorted


@dataclass(frozen=True)
class Distribution:
    """The values of a metric over the examples of one cell, or why they cannot be told."""

    cell: Axes
    metric: str
    counts: Counts = ()
    reason: str = ""


def distribution(cell: Mapping[str, Any], metric: str, parts: Sequence[Any]) -> Distribution:
    """Count what a metric keeps of each example; what is not a plain number has no distribution."""
    odd = [part for part in parts if type(part) not in (int, float)]
    if odd:
        found = json.dumps(odd[0], ensure_ascii=False)
        shown = found if len(found) <= 40 else f"{found[:40]} …"
        return Distribution(cell, metric, reason=f"{metric} keeps {shown} of an example, which is not one number")
    return Distribution(cell, metric, pooled([[(part, 1) for part in parts]]))


def write_distributions(path: Path, found: Iterable[Distribution]) -> None:
    """Write one JSON line a cell and metric; infinite and undefined values become words."""
    lines = ({**vars(one), "counts": [[as_json(value), count] for value, count in one.counts]} for one in found)
    text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def as_json(value: float) -> float | str:
    """Return a number that JSON can hold; infinities and NaN become words."""
    return value if abs(value) < inf else str(value)


def read_distributions(path: Path) -> list[Distribution]:
    """Read what `write_distributions` wrote, a run without the file has none; raise ValueError if it is damaged."""
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [parsed(Distribution, line) for line in lines]


def pooled(several: Iterable[Counts]) -> list[tuple[float, int]]:
    """Return the counts of several distributions together."""
    finite: Counter[float] = Counter()
    others: Counter[str] = Counter()  # by word, since no nan equals another
    for value, count in chain.from_iterable(several):
        if abs(value) < inf:
            finite[value] += count
        else:
            others[str(value)] += count
    return [*sorted(finite.items()), *((float(word), count) for word, count in sorted(others.items()))]
