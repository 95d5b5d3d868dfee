"""Power analysis of a run's tables: the number of seeds that each comparison needs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import exp, log
from typing import Any

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Grid
from bench_reports.content.tables import grids
from bench_reports.statistics.comparisons import compared
from bench_reports.statistics.power import seeds_needed
from bench_reports.statistics.tails import VariancePart


def power_rows(run: Run, seeds: int, differences: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a row for each comparison in the tables of a run.

    `would find` is the difference that `seeds` seeds detect with 80 % power. `needed` is the number of seeds that
    detect the metric's difference in `differences`, by default the observed difference. On a log scale, differences
    are ratios. Raises SuiteError if no table has a metric, or if the run has a single seed.
    """
    filled = grids(run)
    metrics = dict.fromkeys(column.value for grid in filled for column in grid.columns)
    for name in differences:
        if name not in metrics:
            raise SuiteError(f"no table of {run.folder} has the metric {name!r}. {suggestion(name, [*metrics])}")
    rows = [row for grid in filled for row in _rows(grid, seeds, differences)]
    if not rows:
        raise SuiteError(
            f"{run.folder}: the training variance is unknown, as no table compares numbers with two or more seeds. "
            "Run the suite with `--seeds 3` first."
        )
    return rows


def _rows(grid: Grid, seeds: int, differences: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    for test in grid.tests:
        (first, place), (other, _) = test.first, test.other
        column, pair = grid.columns[place], (grid.entries[first][place], grid.entries[other][place])
        ours, theirs = (entry.measured for entry in pair)
        estimate = compared([ours, theirs], 0, 1).estimate if ours and theirs else None
        if estimate is None or estimate.seeds is None:
            continue
        pilot = min(entry.summary.n for entry in pair if entry.summary)
        wanted = _on_scale(column, differences[column.value]) if column.value in differences else abs(estimate.value)
        needed = seeds_needed(estimate, pilot, wanted)
        freedom = estimate.seeds.freedom * (seeds - 1) / max(1, pilot - 1)
        planned = replace(estimate, seeds=VariancePart(estimate.seeds.variance * pilot / seeds, freedom))
        yield {
            "table": grid.table.id,
            "metric": column.heading if column.value in column.heading else f"{column.value} ({column.heading})",
            "A": grid.rows[first].label,
            "B": grid.rows[other].label,
            "pilot": pilot,
            "difference": _as_printed(column, wanted),
            "needed": needed,
            "would find": _as_printed(column, planned.detectable()) if seeds > 1 else None,
        }


def _on_scale(column: Column, value: float) -> float:
    """Return a difference on the scale of the tests; on a log scale `value` is a ratio, such as 1.05."""
    if column.number.scale != "log":
        return abs(value)
    if value <= 0 or value == 1:
        raise SuiteError(
            f"{column.value} is compared by ratio: use a ratio such as {column.value}=1.05, not {value:g}."
        )
    return abs(log(value))


def _as_printed(column: Column, value: float) -> float:
    return exp(min(value, 700)) if column.number.scale == "log" else value
