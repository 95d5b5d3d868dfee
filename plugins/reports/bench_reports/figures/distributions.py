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
from bench_core.storage.predictions import read_lines
from bench_reports.figures.kept_files import ExampleRecord, KeptFile
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

MAX_INTEGER = 10**20
NO_PART = object()  # stands for no part

Counts: TypeAlias = Sequence[tuple[int | Real, int]]  # values and how often each occurs, finite ones first, sorted


@dataclass(frozen=True)
class Distribution(ExampleRecord):
    """The values of a metric over the examples of one cell, or the reason why they are unknown."""

    metric: str
    counts: Counts = ()

    @property
    def name(self) -> str:
        return self.metric

    @property
    def stage(self) -> str:
        return f"measure/{self.metric}"


def distribution(cell: Mapping[str, Any], metric: str, parts: Sequence[Any]) -> Distribution:
    """Count the stored values of a metric; parts that are not plain numbers have no distribution."""
    odd = next((part for part in parts if not _is_number(part)), NO_PART)
    if odd is not NO_PART:
        text = json.dumps(odd, ensure_ascii=False)
        shown = text if len(text) <= 40 else f"{text[:40]} …"
        return Distribution(cell, metric, reason=f"{metric} stores {shown} per example, which is not a single number")
    return Distribution(cell, metric, pool_counts([((part, 1) for part in parts)]))


def _is_number(part: object) -> bool:
    return type(part) is float or (type(part) is int and abs(part) <= MAX_INTEGER)


def _records_from_store(run: Run, store: Store) -> Iterator[Distribution]:
    for result in run.cells:
        named = {name for figure in language(run).figures if figure.covers(result.cell) for name in figure.values}
        for metric, key in measurement_keys(run, result):
            if metric in named and result.numbers[metric].value is not None:
                try:
                    parts = read_lines(store.get("measure", key).file("parts.jsonl.gz"))
                except StoreError:  # it contains a path, which reports must not show
                    yield Distribution(result.cell, metric, reason=f"the stored artifact of {metric} is damaged")
                else:
                    yield distribution(result.cell, metric, parts)


def measurement_keys(run: Run, result: CellResult) -> list[tuple[str, str]]:
    """Return the metrics of a cell in the order of the suite, each with the key of its measurement."""
    return [
        (name, result.artifacts[key]) for name in run.suite.metrics if (key := f"measure/{name}") in result.artifacts
    ]


def pool_counts(several: Iterable[Iterable[tuple[int | Real, int]]]) -> list[tuple[float, int]]:
    """Return the counts of several distributions together."""
    finite: Counter[float] = Counter()
    others: Counter[str] = Counter()  # keyed by text, since nan != nan
    for value, count in chain.from_iterable(several):
        if abs(value) < inf:
            finite[value] += count
        else:
            others[str(value)] += count
    return [*sorted(finite.items()), *((float(word), count) for word, count in sorted(others.items()))]


DISTRIBUTIONS = KeptFile("distributions.jsonl", Distribution, lambda figure: bool(figure.values), _records_from_store)
