"""What the page knows of a run, as compact JSON data: names and descriptions once, cells by their places.

The page unpacks it when cells of the run are shown.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Hashable
from math import isfinite
from typing import Any, Generic, TypeVar

from bench_core.runs.results import SHORT, CellResult, Number
from bench_core.stage_kinds import weights_of
from bench_core.terminal import legible, visible
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import seed_of
from bench_reports.view.curves import Curve
from bench_reports.view.published import GROUP, Group, group_of
from bench_reports.view.reading import Entry

LONGEST = 3_000  #: characters of an output, a prompt or a reference
TITLE = 300  #: characters of a title
DIGITS = 10  # of a number
STATUSES = ("done", "failed", "not run")

T = TypeVar("T", bound=Hashable)


class Places(Generic[T]):
    """Values by their places, each once."""

    def __init__(self) -> None:
        self._places: dict[T, int] = {}

    def __getitem__(self, value: T) -> int:
        return self._places.setdefault(value, len(self._places))

    def __iter__(self) -> Any:
        return iter(self._places)


def packed(data: Any) -> str:
    """Return JSON data compressed and in letters that can stand in a page."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def summary(entry: Entry) -> dict[str, Any]:
    """Return what the page knows of a run before it unpacks its data."""
    groups = dict.fromkeys(group_of(one) for one in entry.cells)
    return {
        "name": visible(entry.name),
        "kind": entry.kind,
        "short": visible(entry.short),
        "title": visible(shortened(entry.title, TITLE)),
        "suite": visible(entry.suite),
        "profile": visible(entry.profile),
        "date": entry.date,
        "version": visible(entry.version),
        "computed": visible(entry.facts.get("Computed with", "")),
        "axes": {
            axis: list(dict.fromkeys(_named(group[place]) for group in groups)) for place, axis in enumerate(GROUP)
        },
        "metrics": [*map(visible, entry.metrics)],
        "groups": len(groups),
        "counts": [entry.counts.get(status, 0) for status in STATUSES],
        "problem": visible(entry.problem),
    }


def run_data(entry: Entry) -> dict[str, Any]:
    """Return all cells of a run with their numbers, and its outputs, curves and published numbers."""
    groups, variants, reasons, curves = Places[Group](), Places[tuple[Any, ...]](), Places[str](), Places[str]()

    def packed_cell(one: CellResult) -> list[Any]:
        training = weights_of(one.artifacts)[:SHORT]
        curve = curves[training] if training in entry.curves else -1
        values: list[Any] = []
        missing: list[Any] = []
        for metric, number in one.numbers.items():
            if number.value is None:
                missing += [visible(metric), reasons[number.reason]]
            else:
                values += [variants[_variant(metric, number)], _number(number.value)]
        status = STATUSES.index(one.status)
        return [groups[group_of(one)], seed_of(one), status, reasons[one.reason], curve, values, missing]

    cells = [packed_cell(one) for one in entry.cells]
    published = [
        [groups[one.group], visible(one.metric), *map(_number, (one.mean, one.std)), visible(one.source)]
        for one in entry.published
    ]
    samples, texts = _samples(entry, groups)
    return {
        "groups": [[*map(_named, group)] for group in groups],
        "variants": [[visible(one) if isinstance(one, str) else one for one in variant] for variant in variants],
        "reasons": [*map(visible, reasons)],
        "cells": cells,
        "published": published,
        "samples": samples,
        "texts": texts,
        "curves": [_curve(entry.curves[name]) for name in curves],
    }  # fmt: skip


def _curve(curve: Curve) -> dict[str, Any]:
    return {"steps": curve.steps, "series": {visible(name): values for name, values in curve.series.items()}}


def _samples(entry: Entry, groups: Places[Group]) -> tuple[list[list[Any]], list[str]]:
    """Return the outputs of a run, and the texts that they refer to by place."""
    texts = Places[str]()
    found = []
    for sample in entry.samples:
        cell = CellResult(sample["cell"], "done")
        words = (texts[_text(sample.get(name, ""))] for name in ("prompt", "reference", "text"))
        tokens = sample.get("tokens")
        ended = [bool(sample.get("finished", True)), tokens if isinstance(tokens, int) else None]
        found.append([groups[group_of(cell)], sample["id"], *words, *ended])
    return found, [*texts]


def _text(text: str) -> str:
    """Return text with invisible characters as code points; lines stay lines."""
    return legible(shortened(text, LONGEST))


def _variant(metric: str, number: Number) -> tuple[Any, ...]:
    """Return all but the value: what numbers must have in common to be comparable, and how they are printed."""
    words = (metric, number.unit, number.kind, number.signature, number.sample)
    return (*words, number.examples, number.better, number.digits)


def _number(value: float | None) -> float | str | None:
    """Return a number with as many digits as can matter; what JSON has not is a word."""
    if value is None:
        return None
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else str(value)


def _named(name: str) -> str:
    return visible(name) or "none"
