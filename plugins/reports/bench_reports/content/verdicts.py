"""Verdicts on numbers beside the published ones: equivalent, better, worse, or cannot tell."""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, isnan, log

from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Comparison, Entry, Grid
from bench_reports.language.published import Published, Value, number
from bench_reports.language.schema import Reference, Table

FULL = (None, "paper")  # the profiles under which a suite is what its paper did


def compared(run: Run, grid: Grid) -> Grid:
    """Return a table in which every number of ours beside a published one has its verdict."""
    reference, printed = grid.table.reference, grid.published
    if reference is None or printed is None:
        return grid
    comparable, directions = not obstacles(run, grid.table), _directions(reference, printed)
    columns = {reference.columns.get(name, name): name for name in printed.columns}

    def judged(column: Column, entry: Entry) -> Entry:
        if entry.summary is None or entry.published is None:
            return entry
        better = column.number.better or directions.get(column.label, 0)
        tolerance = printed.tolerance_of(columns.get(column.label, column.label))
        within = tolerance.within if tolerance else None
        runs = entry.published.runs or printed.runs or 1
        same = same_examples(run, reference, entry)  # else there are as many, unless their number is known
        ratio = None if same else max(entry.examples, default=1) / printed.examples if printed.examples else 1.0
        found = comparison(entry, entry.published, runs, within, better, ratio)
        if found and not comparable:
            found = replace(found, verdict="not comparable", seeds=None)
        return replace(entry, comparison=found)

    entries = [[judged(*pair) for pair in zip(grid.columns, row, strict=True)] for row in grid.entries]
    return replace(grid, entries=entries)


def same_examples(run: Run, reference: Reference, entry: Entry) -> bool:
    """Return whether a suite says that an entry is of the published test set, and its tasks read that file."""
    read = (run.info.get("read") or {}).get("tasks") or {}
    tasks = {str(one.cell["task"]) for one in entry.cells}
    digest = reference.same_examples.removeprefix("sha256:")
    found = [any(digest in str(one) for one in (read.get(task) or {}).values()) for task in tasks]
    return bool(digest and tasks) and all(found)


def obstacles(run: Run, table: Table) -> list[str]:
    """Return why the numbers of a table cannot be compared with the published."""
    profile = run.info.get("profile")
    found = [f"profile {profile}"] if profile not in FULL else []
    found += [f"changed by --set {change}" for change in run.info.get("changes") or ()]
    return [*found, *([table.reference.differs] if table.reference and table.reference.differs else [])]


def comparison(
    entry: Entry, printed: Value, runs: int, tolerance: float | None, better: int, ratio: float | None = None
) -> Comparison | None:
    """Compare a mean over seeds with that of `runs` trainings; None where either is no number.

    `ratio` is our number of examples by theirs, None if they are the same ones. Numbers that are tested as logarithms
    are compared as such: a deviation or tolerance is relative to the published.
    """
    from bench_reports.statistics.equivalence import SAME, Printed, beside, of_two_samples

    theirs = number(printed.mean)
    if entry.summary is None or theirs is None or isnan(entry.summary.mean - theirs):
        return None
    difference, one = entry.summary.mean - theirs, next(iter(entry.measured), None)
    if not isfinite(difference):
        return Comparison(difference, "different" if not better else "better" if difference * better > 0 else "worse")
    samples = SAME if one is None or ratio is None else of_two_samples(one, ratio)
    if one is None:  # a count of data, or a number that cannot be tested
        values, exact = [entry.summary.mean], not entry.cells
        found = beside(values, Printed(theirs, printed.std, runs, exact), tolerance, better)
    elif one.scale == "log" and theirs > 0:
        deviation = None if printed.std is None else printed.std / theirs
        within = None if tolerance is None else log(1 + tolerance / theirs)
        found = beside([*one.values], Printed(log(theirs), deviation, runs), within, better, one.trained, samples)
    else:
        found = beside([*one.values], Printed(theirs, printed.std, runs), tolerance, better, one.trained, samples)
    return Comparison(difference, found.verdict, found.seeds)


def _directions(reference: Reference, printed: Published) -> Mapping[str, int]:
    """Return which way each column of ours is better, as the paper says: +1 or -1."""
    signs = {"up": 1, "down": -1}
    labels = ((reference.columns.get(theirs, theirs), way) for theirs, way in printed.direction.items())
    return {label: signs[way] for label, way in labels if label is not None}
