"""Summary columns, averages and ranks over test sets, and differences from a baseline."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import exp, isnan
from statistics import fmean, geometric_mean

import numpy as np

from bench_core.runs.results import Score
from bench_reports.content.grid import Column, Grid, GridEntry
from bench_reports.content.sorting import by_key, seed_of
from bench_reports.statistics.estimate import Measured, contrast
from bench_reports.statistics.intervals import Summary, summary
from bench_reports.statistics.measurements import printed

RANK_DIGITS = 1


def with_summaries(grid: Grid) -> Grid:
    """Return a table with its averages and ranks, each over the columns of a metric."""
    added: list[tuple[Column, list[GridEntry]]] = []
    for places in _alike(grid):
        column = replace(grid.columns[places[0]], names=("average",), label="average", first=False, of="average")
        if grid.table.average:
            scale = column.number.scale
            added.append(
                (_average_column(column, grid, places), [_average(row, places, scale) for row in grid.entries])
            )
    for places in _alike(grid):
        column = replace(grid.columns[places[0]], names=("rank",), label="rank", first=False, of="ranks")
        if grid.table.ranks and column.number.better:
            about = replace(column.number, digits=RANK_DIGITS, unit="", better=-1)
            added.append((replace(column, number=about), _ranks(grid, places)))
    columns = [*grid.columns, *(column for column, _ in added)]
    entries = [[*row, *(summaries[place] for _, summaries in added)] for place, row in enumerate(grid.entries)]
    return replace(grid, columns=columns, entries=entries)


def _alike(grid: Grid) -> Iterator[list[int]]:
    """Yield the indices of columns with the same metric and kind of likelihood, if there are several."""
    groups = by_key(
        ((column.value, column.number.kind), place) for place, column in enumerate(grid.columns)
        if any(row[place].summary for row in grid.entries)
    )  # fmt: skip
    yield from (places for places in groups.values() if len(places) > 1)


def _average_column(column: Column, grid: Grid, places: Sequence[int]) -> Column:
    """Return a column of averages; the averaged signatures may differ, for example between languages."""
    signatures = dict.fromkeys(grid.columns[place].number.signature for place in places)
    number: Score = replace(column.number, signature=", ".join(signatures))
    return replace(column, number=number, mark=column.mark if len(signatures) == 1 else "")


def _average(row: Sequence[GridEntry], places: Sequence[int], scale: str) -> GridEntry:
    """Return the mean of a row over columns, or the geometric mean on a log scale.

    There is no mean if a column has no number, and no standard deviation if the seeds of the columns differ.
    """
    entries = [row[place] for place in places]
    means = [entry.summary.mean for entry in entries if entry.summary]
    if len(means) < len(entries):
        return GridEntry("none")
    measured, mean = _measurements(entries), _mean(means, scale)
    if len(measured) < len(entries):  # a number that is infinite, say
        return GridEntry("done", 1, Summary(mean, None, 1))
    estimate = contrast(measured, [1 / len(measured)] * len(measured))
    seeds = [[seed_of(cell) for cell in entry.cells] for entry in entries]
    spread = summary(_by_seed(measured)) if all(column == seeds[0] for column in seeds) else Summary(mean, None, 1)
    has_interval = estimate.varies and not any(measurement.is_mixed for measurement in measured)
    interval = printed(measured[0].scale, estimate.interval()) if has_interval else None
    sample = "|".join(entry.sample for entry in entries)
    measure = partial(_measurements, entries)
    average = replace(spread, mean=mean)
    return GridEntry("done", average.n, average, interval=interval, measure=measure, sample=sample)


def _mean(means: Sequence[float], scale: str) -> float:
    """Return the mean on a scale; the arithmetic mean if numbers have no logarithm."""
    return geometric_mean(means) if scale == "log" and min(means) > 0 else fmean(means)


def _measurements(entries: Sequence[GridEntry]) -> tuple[Measured, ...]:
    return tuple(chain.from_iterable(entry.measured for entry in entries))


def _by_seed(measured: Sequence[Measured]) -> list[float]:
    """Return the averages over test sets, [seeds]."""
    values = np.mean([measurement.values for measurement in measured], axis=0)
    return [exp(value) if measured[0].scale == "log" else float(value) for value in values]


def _ranks(grid: Grid, places: Sequence[int]) -> list[GridEntry]:
    """Return the mean ranks of rows among the rows with a number in all columns; tied rows share their mean rank."""
    complete = [number for number, row in enumerate(grid.entries) if all(_is_ranked(row[place]) for place in places)]
    ranks = {number: fmean(_rank(grid, complete, number, place) for place in places) for number in complete}
    return [
        GridEntry("done", 1, Summary(ranks[number], None, 1)) if number in ranks else GridEntry("none")
        for number in range(len(grid.entries))
    ]


def _is_ranked(entry: GridEntry) -> bool:
    return entry.summary is not None and not isnan(entry.summary.mean)


def _rank(grid: Grid, rows: Sequence[int], row: int, place: int) -> float:
    better = grid.columns[place].number.better
    values = {other: better * summary.mean for other in rows if (summary := grid.entries[other][place].summary)}
    above = sum(value > values[row] for value in values.values())
    return above + (1 + sum(value == values[row] for value in values.values())) / 2


def with_differences(grid: Grid) -> Grid:
    """Return a table with the differences from its baseline, if it has `differences`."""
    places = [place for place, row in enumerate(grid.rows) if row.label == grid.table.baseline]
    if not grid.table.differences or not places:
        return grid
    baseline = grid.entries[places[0]]
    numbers = [column.of != "ranks" for column in grid.columns]
    entries = [
        [_with_difference(*pair) if wanted else pair[0] for *pair, wanted in zip(row, baseline, numbers, strict=True)]
        if place != places[0]
        else row
        for place, row in enumerate(grid.entries)
    ]
    return replace(grid, entries=entries)


def _with_difference(entry: GridEntry, baseline: GridEntry) -> GridEntry:
    if entry.summary is None or baseline.summary is None:
        return entry
    return replace(entry, change=entry.summary.mean - baseline.summary.mean)
