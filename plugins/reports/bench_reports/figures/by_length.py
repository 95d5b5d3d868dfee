"""Curves of a metric by the length of examples: `by_length.jsonl` of a run, and the data of their figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_core.data import Prediction
from bench_core.errors import BenchError, StoreError
from bench_core.runs.results import CellResult, Run, Score
from bench_core.storage.file_formats import Real
from bench_reports.content.example_diff import StoredEvidence
from bench_reports.content.sorting import applicable, by_key, why_missing
from bench_reports.figures.distributions import measurement_keys
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figure_data import FigureData, Picture, Series, axis_label, check_unique_seeds
from bench_reports.figures.histories import outside
from bench_reports.figures.kept_files import ExampleRecord, KeptFile, identity
from bench_reports.language.figure_schema import LENGTHS, Figure
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

DEFAULT_BINS = 5  #: of a figure without `bins`
NOT_STORED = "the run stores {} only in total, not by length; run the suite again"

Ends: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[int, int, float, int, Real]  # first and last length, their mean, examples, metric


class LengthPoint(NamedTuple):
    """A metric of the examples of some lengths, at their mean length, like `Point`."""

    x: float
    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int
    first: int
    last: int
    examples: int


@dataclass(frozen=True)
class ByLength(ExampleRecord):
    """A metric of one cell by the length of examples, or the reason why it is unknown."""

    metric: str
    length: str  # such as `reference.tokens`
    bins: int | Ends  # as in the figure
    parts: Sequence[Part] = ()

    @property
    def name(self) -> str:
        return f"{self.metric} by {self.length}, {self.bins if isinstance(self.bins, int) else [*self.bins]}"

    @property
    def stage(self) -> str:
        return f"measure/{self.metric}"


def _bin_settings(figure: Figure) -> tuple[str, str, int | Ends]:
    return figure.y, figure.x, figure.bins or DEFAULT_BINS


def _records_from_store(run: Run, store: Store) -> Iterator[ByLength]:
    for result in run.cells:
        figures = [figure for figure in language(run).figures if figure.by_length and figure.covers(result.cell)]
        keys = dict(measurement_keys(run, result))
        for metric, length, bins in dict.fromkeys(map(_bin_settings, figures)):
            if metric in keys and result.numbers[metric].value is not None:
                yield _by_length(ByLength(result.cell, metric, length, bins), keys[metric], store)


def _by_length(empty: ByLength, key: str, store: Store) -> ByLength:
    try:
        return replace(empty, parts=tuple(_parts(store, key, empty.length, empty.bins)))
    except StoreError:  # it contains a path, which reports must not show
        return replace(empty, reason=f"the stored artifact of {empty.metric} is damaged")
    except Exception as error:  # anything that a plugin's metric raises on a subset of the examples
        return replace(empty, reason=f"{empty.metric} cannot be measured by length: {error}")


def _parts(store: Store, key: str, length: str, bins: int | Ends) -> Iterator[Part]:
    """Yield the metric of the examples in each bin, from its stored parts."""
    metric, predictions, parts = StoredEvidence(store).measurement(key)
    lengths = [length_of(prediction, length) for prediction in predictions]
    for places in bin_indices(lengths, bins):
        in_bin = [lengths[place] for place in places]
        yield (
            min(in_bin),
            max(in_bin),
            fmean(in_bin),
            len(in_bin),
            float(metric.combine([parts[place] for place in places])),
        )


def length_of(prediction: Prediction, length: str) -> int:
    """Return a length of an example; raise BenchError if the example lacks it."""
    value = {
        "reference.tokens": prediction.target_tokens,
        "reference.words": prediction.target_words or 0,
        "source.words": len(prediction.prompt.split()),
    }[length]
    if not value:
        raise BenchError(f"example {prediction.id} has no {length.partition('.')[0]}")
    return value


def bin_indices(lengths: Sequence[int], bins: int | Ends) -> list[list[int]]:
    """Return the indices of the examples in each non-empty bin, shortest first.

    A number of bins gives bins with about equally many examples; equal lengths are always in the same bin.
    """
    ordered = sorted(lengths)
    count = bins if isinstance(bins, int) else 0
    ends = [ordered[-(-len(ordered) * turn // count) - 1] for turn in range(1, count + 1)] if ordered else []
    ends = sorted({*ends, *(() if isinstance(bins, int) else bins), *ordered[-1:]})
    by_bin = by_key((bisect_left(ends, length), place) for place, length in enumerate(lengths))
    return [by_bin[bin] for bin in sorted(by_bin)]


BY_LENGTH = KeptFile("by_length.jsonl", ByLength, lambda figure: figure.by_length, _records_from_store)


def length_picture(data: FigureData) -> Picture:
    """Return a curve for each group, with a point for each bin."""
    figure, number = data.figure, data.number(data.figure.y)
    name = ByLength({}, *_bin_settings(figure)).name
    known = {identity(record.cell): record for record in BY_LENGTH.read(data.run) if record.name == name}
    series = []
    for panel, groups in data.panels.items():
        for names, cells in groups.items():
            results = applicable(data.run, check_unique_seeds(cells), figure.y)
            curves = [
                usable.parts
                for result in results
                if (usable := _usable_record(data, result, known.get(identity(result.cell))))
            ]
            if curves:
                series.append(Series(data.label(names), _points(data, number, curves), len(curves), panel=panel))
    x, y = figure.labels.get("x") or LENGTHS[figure.x], figure.labels.get("y")
    notes = ["Each point is a bin of examples, at their mean length.", *outside(data, series)] if series else []
    return Picture(figure, series, x, y or axis_label(figure, {figure.y: number}), {figure.y: number}, notes)


def _usable_record(data: FigureData, result: CellResult, record: ByLength | None) -> ByLength | None:
    """Return the record of a cell if it has parts; else note the reason and return None."""
    if record and record.parts:
        return record
    known = result.numbers.get(data.figure.y, Score()).value is not None
    missing = NOT_STORED.format(data.figure.y) if known else why_missing(result, data.figure.y)
    data.leave_out(result, (record.reason or "it has no examples") if record else missing)
    return None


def _points(data: FigureData, number: Score, curves: Sequence[Sequence[Part]]) -> list[LengthPoint]:
    """Return the mean over seeds in each bin; seeds with other examples have bins, and points, of their own."""
    bins = by_key((part[:2], part) for parts in curves for part in parts)
    points = []
    for (first, last), parts in sorted(bins.items()):
        average = mean_of_values([value for *_, value in parts], number.scale, data.figure.spread)
        x, examples = fmean(part[2] for part in parts), sum(part[3] for part in parts)
        points.append(LengthPoint(x, *average, first, last, examples))
    return points
