"""The data of a run for the page as compact JSON, in which cells refer to names and texts by index.

The page unpacks it when cells of the run are shown.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Hashable
from math import isfinite
from typing import Any, Generic, TypeVar

from bench_core.runs.results import KEY_CHARACTERS, CellResult, Score
from bench_core.stage_kinds import weights_of
from bench_core.terminal import legible, visible
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import seed_of
from bench_reports.view.curves import Curve
from bench_reports.view.published import GROUP, Group, group_of
from bench_reports.view.reading import PageEntry

MAX_TEXT_CHARACTERS = 3_000  #: characters of an output, a prompt or a reference
MAX_TITLE_CHARACTERS = 300  #: characters of a title
SIGNIFICANT_DIGITS = 10  # significant digits
STATUSES = ("done", "failed", "not run")

T = TypeVar("T", bound=Hashable)


class DistinctValues(Generic[T]):
    """An index of distinct values, in order of first use."""

    def __init__(self) -> None:
        self._places: dict[T, int] = {}

    def __getitem__(self, value: T) -> int:
        return self._places.setdefault(value, len(self._places))

    def __iter__(self) -> Any:
        return iter(self._places)


def pack(data: Any) -> str:
    """Return compressed JSON data in base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def summary(entry: PageEntry) -> dict[str, Any]:
    """Return the summary of a run, which the page has without unpacking the run's data."""
    groups = dict.fromkeys(group_of(cell) for cell in entry.cells)
    return {
        "name": visible(entry.name), "kind": entry.kind, "short": visible(entry.short),
        "title": visible(shortened(entry.title, MAX_TITLE_CHARACTERS)), "suite": visible(entry.suite),
        "profile": visible(entry.profile), "date": entry.date, "version": visible(entry.version),
        "computed": visible(entry.facts.get("Computed with", "")),
        "axes": {
            axis: list(dict.fromkeys(_visible_name(group[place]) for group in groups))
            for place, axis in enumerate(GROUP)
        },
        "metrics": [*map(visible, entry.metrics)], "groups": len(groups),
        "counts": [entry.counts.get(status, 0) for status in STATUSES], "problem": visible(entry.problem),
    }  # fmt: skip


def run_data(entry: PageEntry) -> dict[str, Any]:
    """Return the cells of a run with their numbers, and its outputs, curves and published numbers."""
    groups, variants = DistinctValues[Group](), DistinctValues[tuple[Any, ...]]()
    reasons, curves = DistinctValues[str](), DistinctValues[str]()

    def packed_cell(cell: CellResult) -> list[Any]:
        training = weights_of(cell.artifacts)[:KEY_CHARACTERS]
        curve = curves[training] if training in entry.curves else -1
        values: list[Any] = []
        missing: list[Any] = []
        for metric, number in cell.numbers.items():
            if number.value is None:
                missing += [visible(metric), reasons[number.reason]]
            else:
                values += [variants[_variant(metric, number)], _number(number.value)]
        status = STATUSES.index(cell.status)
        return [groups[group_of(cell)], seed_of(cell), status, reasons[cell.reason], curve, values, missing]

    cells = [packed_cell(cell) for cell in entry.cells]
    published = [
        [groups[value.group], visible(value.metric), *map(_number, (value.mean, value.std)), visible(value.source)]
        for value in entry.published
    ]
    samples, texts = _samples(entry, groups)
    return {
        "groups": [[*map(_visible_name, group)] for group in groups],
        "variants": [[visible(word) if isinstance(word, str) else word for word in variant] for variant in variants],
        "reasons": [*map(visible, reasons)],
        "cells": cells,
        "published": published,
        "samples": samples,
        "texts": texts,
        "curves": [_curve(entry.curves[name]) for name in curves],
    }  # fmt: skip


def _curve(curve: Curve) -> dict[str, Any]:
    return {"steps": curve.steps, "series": {visible(name): values for name, values in curve.series.items()}}


def _samples(entry: PageEntry, groups: DistinctValues[Group]) -> tuple[list[list[Any]], list[str]]:
    """Return the outputs of a run, and the texts that they refer to by index."""
    texts = DistinctValues[str]()
    samples = []
    for sample in entry.samples:
        cell = CellResult(sample["cell"], "done")
        shown = (shortened(sample.get(name, ""), MAX_TEXT_CHARACTERS) for name in ("prompt", "reference", "text"))
        words = (texts[legible(text)] for text in shown)  # line breaks stay visible
        tokens = sample.get("tokens")
        ended = [bool(sample.get("finished", True)), tokens if isinstance(tokens, int) else None]
        samples.append([groups[group_of(cell)], sample["id"], *words, *ended])
    return samples, [*texts]


def _variant(metric: str, number: Score) -> tuple[Any, ...]:
    """Return the properties of a number other than its value, for comparability and printing."""
    words = (metric, number.unit, number.kind, number.signature, number.sample)
    return (*words, number.examples, number.better, number.digits)


def _number(value: float | None) -> float | str | None:
    """Return a number with 10 significant digits; infinities and NaN as strings."""
    if value is None:
        return None
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isfinite(value) else str(value)


def _visible_name(name: str) -> str:
    return visible(name) or "none"
