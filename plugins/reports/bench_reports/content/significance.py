"""Tests within the columns of a table: the best number, or a baseline, against every other of the same examples."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import exp, log

from bench_core.runs.results import CellResult, Run
from bench_reports.content.grid import Grid, Place, Test
from bench_reports.content.labels import Labels
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key
from bench_reports.statistics.comparisons import with_baseline, with_best
from bench_reports.statistics.measurements import printed
from bench_reports.statistics.tails import LEVEL


def tested(grid: Grid) -> Grid:
    """Return a table with its tests, in which numbers that are better than all others of their column are marked."""
    return marked(grid, [*_tests(grid)])


def _tests(grid: Grid) -> Iterator[Test]:
    baseline = next((place for place, row in enumerate(grid.rows) if row.label == grid.table.baseline), None)
    for place, column in enumerate(grid.columns):
        if column.of != "cells" and grid.table.test == "permutation":
            continue  # which exchanges examples of one test set
        if not column.number.better and baseline is None:
            continue
        known = ((row, entries[place]) for row, entries in enumerate(grid.entries))
        alike = by_key((entry.sample, (row, own)) for row, entry in known if (own := entry.measured))
        for members in alike.values():
            rows, numbers = [row for row, _ in members], [own for _, own in members]
            if not grid.table.baseline:
                found = with_best(numbers, column.number.better)
            else:
                found = with_baseline(numbers, rows.index(baseline)) if baseline in rows else []
            if not any(one.estimate.varies for one in found):
                continue  # nothing is left to chance: one training, and no examples that are a sample
            for one in found:
                first, other = (rows[one.one], place), (rows[one.other], place)
                interval = printed(numbers[0][0].scale, one.estimate.interval())
                yield Test(first, other, one.p, one.adjusted, interval, one.estimate.detectable())


def marked(grid: Grid, tests: Sequence[Test]) -> Grid:
    """Return a table with the p-values of tests in the place of those that it had."""
    if not tests:
        return grid
    largest: dict[Place, float] = defaultdict(float)  # p of each first against the other that is the nearest
    entries = [[*row] for row in grid.entries]
    for test in tests:
        row, column = test.other
        largest[test.first] = max(largest[test.first], test.p)
        entries[row][column] = replace(entries[row][column], p=test.adjusted)
    for (row, column), p in largest.items():
        best = p < LEVEL and not grid.table.baseline
        entries[row][column] = replace(entries[row][column], best=best)
    return replace(grid, entries=entries, tests=tests)


def shown_differences(grid: Grid, labels: Labels) -> list[str]:
    """Return for each metric the differences, lowest and highest, that its comparisons would mostly have found.

    In words, such as `BLEU 0.4 to 1.1`, or on a log scale `Perplexity 2 to 5 %`.
    """
    columns = {column.value: column.number for column in reversed(grid.columns) if column.of == "cells"}
    texts, tests = [], [test for test in grid.tests if test.detectable]
    for name, found in by_key((grid.columns[test.first[1]].value, test.detectable) for test in tests).items():
        number, ends = columns[name], (min(found), max(found))
        if number.scale == "log":
            words = [_percent(exp(end) - 1) if end < log(11) else "over 1,000" for end in ends]
        else:
            words = [rounded(end, number.digits) for end in ends]
        percent = " %" * (number.scale == "log")
        texts.append(f"{labels.plain_metric(name, number)} {' to '.join(dict.fromkeys(words))}{percent}")
    return texts


def _percent(share: float) -> str:
    """Return a share in percent in two digits, such as 0.42, 4.2, 42 or 420."""
    percent = 100 * share
    return f"{percent:.2g}" if percent < 99.5 else f"{percent:,.0f}"


def method(run: Run, grid: Grid, labels: Labels) -> str:
    """Say what bold numbers and the marks of p-values mean."""
    tested = [grid.entries[row][column] for test in grid.tests for row, column in (test.first, test.other)]
    seeds = {
        entry.summary.n
        for entry in tested
        if entry.summary and not (entry.fixed or (len(entry.cells) == 1 and is_untrained(run, entry.cells)))
    }
    number = min(test.exchanges for test in grid.tests)
    over, line = _over(seeds, number), "row" if grid.table.transpose else "column"
    if grid.table.baseline:
        place = next(place for place, row in enumerate(grid.rows) if row.label == grid.table.baseline)
        baseline = ", ".join(labels.row(grid.rows[place]))
        marks = f"* p < 0.05, ** p < 0.01 ({over}; Holm-corrected in each {line})"
        if grid.table.differences:
            return f"In parentheses: the difference from {baseline}; {marks}."
        return f"Marked: different from {baseline}; {marks}."
    best = any(entry.best for row in grid.entries for entry in row)
    what = "Bold:" if best else "None is"
    return f"{what} better than every other of its {line} on the same examples ({over}, each p < {LEVEL:g})."


def is_untrained(run: Run, cells: Iterable[CellResult]) -> bool:
    """Return whether cells are of models that no training changed."""
    models = run.info.get("models") or {}
    return all(models.get(str(one.cell.get("model")), {}).get("updates") == 0 for one in cells)


def _over(seeds: set[int], exchanges: int) -> str:
    if exchanges:
        alone = "" if not seeds else ", these trainings alone" if seeds != {1} else ", this training alone"
        return f"paired permutation test, {exchanges:,} exchanges of examples{alone}"
    if not seeds:
        return "paired test over examples"
    if seeds == {1}:
        return "paired test over examples for these trainings alone: one seed, so the training variance is unknown"
    few = ", where a number has one seed over examples alone" if 1 in seeds else ""
    return f"paired test over examples and seeds{few}"
