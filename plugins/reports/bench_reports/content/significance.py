"""Tests within the columns of a table: the best number, or a baseline, against all others on the same examples."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import exp, log

from bench_core.runs.results import CellResult, Run
from bench_reports.content.grid import Grid, Place, Test
from bench_reports.content.labels import TableLabels
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key
from bench_reports.statistics.comparisons import with_baseline, with_best
from bench_reports.statistics.measurements import printed
from bench_reports.statistics.tails import LEVEL


def with_tests(grid: Grid) -> Grid:
    """Return a table with its tests; numbers significantly better than all others in their column are marked."""
    return mark_significance(grid, [*_tests(grid)])


def _tests(grid: Grid) -> Iterator[Test]:
    baseline = next((place for place, row in enumerate(grid.rows) if row.label == grid.table.baseline), None)
    for place, column in enumerate(grid.columns):
        if column.of != "cells" and grid.table.test == "permutation":
            continue  # permutations need a single test set
        if not column.number.better and baseline is None:
            continue
        entries_of_column = ((row, entries[place]) for row, entries in enumerate(grid.entries))
        alike = by_key((entry.sample, (row, item)) for row, entry in entries_of_column if (item := entry.measured))
        for members in alike.values():
            rows, numbers = [row for row, _ in members], [measured for _, measured in members]
            if not grid.table.baseline:
                comparisons = with_best(numbers, column.number.better)
            else:
                comparisons = with_baseline(numbers, rows.index(baseline)) if baseline in rows else []
            if not any(test.estimate.varies for test in comparisons):
                continue  # no variance: a single training run, and examples that are not a sample
            for test in comparisons:
                first, other = (rows[test.first], place), (rows[test.other], place)
                interval = printed(numbers[0][0].scale, test.estimate.interval())
                yield Test(first, other, test.p, test.adjusted, interval, test.estimate.detectable())


def mark_significance(grid: Grid, tests: Sequence[Test]) -> Grid:
    """Return a table with the p-values of these tests in place of its own."""
    if not tests:
        return grid
    largest: dict[Place, float] = defaultdict(float)  # the largest p-value of each best number or baseline
    entries = [[*row] for row in grid.entries]
    for test in tests:
        row, column = test.other
        largest[test.first] = max(largest[test.first], test.p)
        entries[row][column] = replace(entries[row][column], p=test.adjusted)
    for (row, column), p in largest.items():
        best = p < LEVEL and not grid.table.baseline
        entries[row][column] = replace(entries[row][column], best=best)
    return replace(grid, entries=entries, tests=tests)


def detectable_differences(grid: Grid, labels: TableLabels) -> list[str]:
    """Return the range of minimum detectable differences of each metric.

    Examples are `BLEU 0.4 to 1.1` and, on a log scale, `Perplexity 2 to 5 %`.
    """
    columns = {column.value: column.number for column in reversed(grid.columns) if column.of == "cells"}
    texts, tests = [], [test for test in grid.tests if test.detectable]
    for name, differences in by_key((grid.columns[test.first[1]].value, test.detectable) for test in tests).items():
        number, ends = columns[name], (min(differences), max(differences))
        if number.scale == "log":
            words = [_percent(exp(end) - 1) if end < log(11) else "over 1,000" for end in ends]
        else:
            words = [rounded(end, number.digits) for end in ends]
        percent = " %" * (number.scale == "log")
        texts.append(f"{labels.plain_metric(name, number)} {' to '.join(dict.fromkeys(words))}{percent}")
    return texts


def _percent(share: float) -> str:
    """Return a share in percent with two significant digits, such as 0.42, 4.2, 42 or 420."""
    percent = 100 * share
    return f"{percent:.2g}" if percent < 99.5 else f"{percent:,.0f}"


def method(run: Run, grid: Grid, labels: TableLabels) -> str:
    """Return the note that explains bold numbers and stars."""
    tested = [grid.entries[row][column] for test in grid.tests for row, column in (test.first, test.other)]
    seeds = {
        entry.summary.n
        for entry in tested
        if entry.summary and not (entry.fixed or (len(entry.cells) == 1 and is_untrained(run, entry.cells)))
    }
    number = min(test.exchanges for test in grid.tests)
    trained = not is_untrained(run, [cell for entry in tested for cell in entry.cells])
    over, line = _over(seeds, number, trained), "row" if grid.table.transpose else "column"
    if grid.table.baseline:
        place = next(place for place, row in enumerate(grid.rows) if row.label == grid.table.baseline)
        baseline = ", ".join(labels.row(grid.rows[place]))
        marks = f"* p < 0.05, ** p < 0.01 ({over}; Holm-corrected within each {line})"
        if grid.table.differences:
            return f"In parentheses: difference from {baseline}; {marks}."
        return f"Stars: significantly different from {baseline}; {marks}."
    best = any(entry.best for row in grid.entries for entry in row)
    what = "Bold:" if best else "No entry is"
    return f"{what} significantly better than all others in its {line} on the same examples ({over}; p < {LEVEL:g})."


def is_untrained(run: Run, cells: Iterable[CellResult]) -> bool:
    """Return whether all cells have models that were not trained, or fixed systems."""
    models = run.info.get("models") or {}
    about = [models.get(str(cell.cell.get("model")), {}) for cell in cells]
    return all(model.get("updates") == 0 or model.get("one_system") for model in about)


def _over(seeds: set[int], exchanges: int, trained: bool) -> str:
    if exchanges:
        alone = "" if not seeds or not trained else "; these training runs only" if seeds != {1} else "; single seed"
        return f"paired permutation test, {exchanges:,} permutations of examples{alone}"
    if not seeds:
        return "paired test over examples"
    if seeds == {1}:
        return "paired test over examples; single seed, training variance unknown"
    few = "; over examples only for entries with a single seed" if 1 in seeds else ""
    return f"paired test over examples and seeds{few}"
