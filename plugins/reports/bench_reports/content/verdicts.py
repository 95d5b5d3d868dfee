"""Verdicts on our numbers compared with published numbers: equivalent, better, worse, or cannot tell."""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, isnan, log

from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Grid, GridEntry, PublishedComparison
from bench_reports.language.published import Published, Value, number
from bench_reports.language.schema import Reference, Table

FULL = (None, "paper")  # profiles that reproduce the paper


def with_verdicts(run: Run, grid: Grid) -> Grid:
    """Return a table with verdicts on all numbers that have a published value."""
    reference, printed = grid.table.reference, grid.published
    if reference is None or printed is None:
        return grid
    comparable, directions = not obstacles(run, grid.table), _directions(reference, printed)
    columns = {reference.columns.get(name, name): name for name in printed.columns}

    def judge(column: Column, entry: GridEntry) -> GridEntry:
        if entry.summary is None or entry.published is None:
            return entry
        better = column.number.better or directions.get(column.label, 0)
        tolerance = printed.tolerance_of(columns.get(column.label, column.label))
        within = tolerance.within if tolerance else None
        runs = entry.published.runs or printed.runs or 1
        same = same_examples(run, reference, entry)  # else the same number is assumed, unless the paper's is known
        ratio = None if same else max(entry.examples, default=1) / printed.examples if printed.examples else 1.0
        result = comparison(entry, entry.published, runs, within, better, ratio)
        if result and not comparable:
            result = replace(result, verdict="not comparable", seeds=None)
        return replace(entry, comparison=result)

    entries = [[judge(*pair) for pair in zip(grid.columns, row, strict=True)] for row in grid.entries]
    return replace(grid, entries=entries)


def same_examples(run: Run, reference: Reference, entry: GridEntry) -> bool:
    """Return whether the suite declares the published test set for an entry, and its tasks read that file."""
    read = (run.info.get("read") or {}).get("tasks") or {}
    tasks = {str(cell.cell["task"]) for cell in entry.cells}
    digest = reference.same_examples.removeprefix("sha256:")
    matches = [any(digest in str(file) for file in (read.get(task) or {}).values()) for task in tasks]
    return bool(digest and tasks) and all(matches)


def obstacles(run: Run, table: Table) -> list[str]:
    """Return why the numbers of a table are not comparable with the published numbers."""
    profile = run.info.get("profile")
    reasons = [f"profile {profile}"] if profile not in FULL else []
    reasons += [f"changed by --set {change}" for change in run.info.get("changes") or ()]
    return [*reasons, *([table.reference.differs] if table.reference and table.reference.differs else [])]


def comparison(
    entry: GridEntry, printed: Value, runs: int, tolerance: float | None, better: int, ratio: float | None = None
) -> PublishedComparison | None:
    """Compare a mean over seeds with a published mean over `runs` training runs; None if either is not a number.

    `ratio` is our number of examples divided by theirs, None for the same examples. Numbers on a log scale are
    compared by logarithm, with deviation and tolerance relative to the published value.
    """
    from bench_reports.statistics.equivalence import SAME, Printed, beside, of_two_samples

    theirs = number(printed.mean)
    if entry.summary is None or theirs is None or isnan(entry.summary.mean - theirs):
        return None
    difference, ours = entry.summary.mean - theirs, next(iter(entry.measured), None)
    if not isfinite(difference):
        return PublishedComparison(
            difference, "different" if not better else "better" if difference * better > 0 else "worse"
        )
    samples = SAME if ours is None or ratio is None else of_two_samples(ours, ratio)
    if ours is None:  # a count of data, or a number that cannot be tested
        values, exact = [entry.summary.mean], not entry.cells
        result = beside(values, Printed(theirs, printed.std, runs, exact), tolerance, better)
    elif ours.scale == "log" and theirs > 0:
        deviation = None if printed.std is None else printed.std / theirs
        within = None if tolerance is None else log(1 + tolerance / theirs)
        result = beside([*ours.values], Printed(log(theirs), deviation, runs), within, better, ours.trained, samples)
    else:
        result = beside([*ours.values], Printed(theirs, printed.std, runs), tolerance, better, ours.trained, samples)
    return PublishedComparison(difference, result.verdict, result.seeds)


def _directions(reference: Reference, printed: Published) -> Mapping[str, int]:
    """Return the better direction of each of our columns, as given by the paper: +1 or -1."""
    signs = {"up": 1, "down": -1}
    labels = ((reference.columns.get(theirs, theirs), way) for theirs, way in printed.direction.items())
    return {label: signs[way] for label, way in labels if label is not None}
