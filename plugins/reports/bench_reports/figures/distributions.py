"""Distributions of per-example scores for histograms and box plots: `distributions.jsonl` of a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Run
from bench_core.storage.file_formats import Real
from bench_core.storage.outcomes import read_lines
from bench_reports.figures.kept_files import KeptFile, Record
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

LARGEST = 10**20  # as an integer
NONE = object()  # nothing is odd

Counts: TypeAlias = Sequence[tuple[int | Real, int]]  # values and how often each occurs, finite ones first, sorted


@dataclass(frozen=True)
class Distribution(Record):
    """The values of a metric over the examples of one cell, or why they are unknown."""

    metric: str
    counts: Counts = ()

    @property
    def name(self) -> str:
        return self.metric

    @property
    def stage(self) -> str:
        return f"measure/{self.metric}"


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


def _stored(run: Run, store: Store) -> Iterator[Distribution]:
    for one in run.cells:
        named = {name for figure in language(run).figures if figure.covers(one.cell) for name in figure.values}
        for metric, key in measured(run, one):
            if metric in named and one.numbers[metric].value is not None:
                try:
                    parts = read_lines(store.get("measure", key).file("parts.jsonl.gz"))
                except StoreError:  # names a path, which no report may
                    yield Distribution(one.cell, metric, reason=f"what the store kept of {metric} is damaged")
                else:
                    yield distribution(one.cell, metric, parts)


def measured(run: Run, one: CellResult) -> list[tuple[str, str]]:
    """Return the metrics of a cell in the order of the suite, each with the key of its measurement."""
    return [(name, one.artifacts[key]) for name in run.suite.metrics if (key := f"measure/{name}") in one.artifacts]


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


DISTRIBUTIONS = KeptFile("distributions.jsonl", Distribution, lambda figure: bool(figure.values), _stored)
