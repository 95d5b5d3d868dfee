"""Distributions of per-example scores for histograms and box plots: `distributions.jsonl` of a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import Axes, CellResult, Run, as_json, plain_file
from bench_core.storage.file_formats import Real, parsed
from bench_core.storage.outcomes import read_lines
from bench_core.suites.axes import AXES

if TYPE_CHECKING:
    from bench_core.storage.store import Store

FILE = "distributions.jsonl"  # in the folder of a run
LONGEST = 250  # characters of what is wrong with it
LARGEST = 10**20  # as an integer
NONE = object()  # nothing is odd

Counts: TypeAlias = Sequence[tuple[int | Real, int]]  # values and how often each occurs, finite ones first, sorted


@dataclass(frozen=True)
class Distribution:
    """The values of a metric over the examples of one cell, or why they are unknown."""

    cell: Axes
    metric: str
    counts: Counts = ()
    reason: str = ""


def distribution(cell: Mapping[str, Any], metric: str, parts: Sequence[Any]) -> Distribution:
    """Count what a metric keeps of each example; what is not a plain number has no distribution."""
    odd = next((one for one in parts if not _is_number(one)), NONE)
    if odd is not NONE:
        found = json.dumps(odd, ensure_ascii=False)
        shown = found if len(found) <= 40 else f"{found[:40]} …"
        return Distribution(cell, metric, reason=f"{metric} keeps {shown} of an example, which is not one number")
    return Distribution(cell, metric, pooled([((part, 1) for part in parts)]))


def _is_number(part: object) -> bool:
    return type(part) is float or (type(part) is int and abs(part) <= LARGEST)


def write_distributions(path: Path, found: Iterable[Distribution]) -> None:
    """Write one JSON line a cell and metric; infinite and undefined values become words."""
    lines = ({**vars(one), "counts": [[as_json(value), count] for value, count in one.counts]} for one in found)
    text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def distributions(run: Run) -> list[Distribution]:
    """Return the distributions of a run; a run without the file has none. Raise StoreError if it is damaged."""
    path = run.folder / FILE
    if not path.exists():
        return []
    try:
        return [parsed(Distribution, line) for line in plain_file(path).splitlines()]
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())[:LONGEST]
        raise StoreError(f"{run.folder}: {FILE} cannot be read ({why}). Run the suite again.") from None


def keep_distributions(run: Run, store: Store) -> None:
    """Write the distributions that figures of a run show, from the artifacts in the store."""
    if any(figure.values for figure in run.suite.figures) and not (run.folder / FILE).exists():
        write_distributions(run.folder / FILE, stored_distributions(run, store))


def merge_distributions(runs: Sequence[Run], merged: Run) -> None:
    """Write the distributions of a merged run: those of the same measurements in the runs that it was made from."""
    if not any((run.folder / FILE).exists() for run in runs):
        return
    known: dict[Any, Distribution] = {}
    for run in runs:
        keys = {identity(one.cell): one.artifacts for one in run.cells}
        for one in distributions(run):
            key = keys.get(identity(one.cell), {}).get(f"measure/{one.metric}")
            known.setdefault((identity(one.cell), one.metric, key), one)
    found = (known.get((identity(one.cell), *pair)) for one in merged.cells for pair in _measured(merged, one))
    write_distributions(merged.folder / FILE, filter(None, found))


def stored_distributions(run: Run, store: Store) -> Iterator[Distribution]:
    """Yield the distributions that the figures of a run show, from the artifacts in the store."""
    for one in run.cells:
        named = {name for figure in run.suite.figures if figure.covers(one.cell) for name in figure.values}
        for metric, key in _measured(run, one):
            if metric in named and one.numbers[metric].value is not None:
                yield _distribution(one.cell, metric, key, store)


def _measured(run: Run, one: CellResult) -> list[tuple[str, str]]:
    """Return the metrics of a cell in the order of the suite, each with the key of its measurement."""
    return [(name, one.artifacts[key]) for name in run.suite.metrics if (key := f"measure/{name}") in one.artifacts]


def _distribution(cell: Mapping[str, Any], metric: str, key: str, store: Store) -> Distribution:
    try:
        parts = read_lines(store.get("measure", key).file("parts.jsonl.gz"))
    except StoreError:  # names a path, which no report may
        return Distribution(cell, metric, reason=f"what the store kept of {metric} is damaged")
    return distribution(cell, metric, parts)


def identity(cell: Mapping[str, object]) -> tuple[object, ...]:
    """Return the names of a cell on all axes."""
    return tuple(cell.get(axis) for axis in AXES)


def pooled(several: Iterable[Iterable[tuple[int | Real, int]]]) -> list[tuple[float, int]]:
    """Return the counts of several distributions together."""
    finite: Counter[float] = Counter()
    others: Counter[str] = Counter()  # by word, since no nan equals another
    for value, count in chain.from_iterable(several):
        if abs(value) < inf:
            finite[value] += count
        else:
            others[str(value)] += count
    return [*sorted(finite.items()), *((float(word), count) for word, count in sorted(others.items()))]
