"""Verdicts on numbers beside the published ones: reproduced, better, worse or not comparable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isnan, sqrt

from bench_core.runs.results import Run
from bench_core.suites.published import Published, Value, number
from bench_core.suites.schema import Reference, Table
from bench_reports.content.grid import Column, Comparison, Entry, Grid
from bench_reports.statistics.intervals import Summary

FULL = (None, "paper")  # the profiles under which a suite is what its paper did


def compared(run: Run, grid: Grid) -> Grid:
    """Return a table in which every number of ours beside a published one has its verdict."""
    reference, printed = grid.table.reference, grid.published
    if reference is None or printed is None:
        return grid
    comparable, directions = not obstacles(run, grid.table), _directions(reference, printed)

    def judged(column: Column, entry: Entry) -> Entry:
        if entry.summary is None or entry.published is None:
            return entry
        better = column.number.better or directions.get(column.label, 0)
        found = comparison(entry.summary, entry.published, printed.runs or 1, 0.05, better)
        return replace(
            entry, comparison=found if comparable or not found else replace(found, verdict="not comparable")
        )

    entries = [[judged(*pair) for pair in zip(grid.columns, row, strict=True)] for row in grid.entries]
    return replace(grid, entries=entries)


def obstacles(run: Run, table: Table) -> list[str]:
    """Return why the numbers of a table cannot be compared with the published."""
    profile = run.info.get("profile")
    found = [f"profile {profile}"] if profile not in FULL else []
    found += [f"changed by --set {change}" for change in run.info.get("changes") or ()]
    return [*found, *([table.reference.differs] if table.reference and table.reference.differs else [])]


def comparison(ours: Summary, printed: Value, runs: int, tolerance: float, better: int) -> Comparison | None:
    """Compare a mean over seeds with that of `runs` trainings; None where either is no number.

    Reproduced is what lies within two standard errors, or within `tolerance` of the published value.
    """
    theirs = number(printed.mean)
    if theirs is None or isnan(ours.mean - theirs):
        return None
    difference = ours.mean - theirs
    error = sqrt((ours.std or 0.0) ** 2 / ours.n + (printed.std or 0.0) ** 2 / runs)
    if abs(difference) <= max(2 * error, tolerance * abs(theirs)):
        return Comparison(difference, "reproduced")
    if not better:
        return Comparison(difference, "differs")
    return Comparison(difference, "better" if difference * better > 0 else "worse")


def _directions(reference: Reference, printed: Published) -> Mapping[str, int]:
    """Return which way each column of ours is better, as the paper says: +1 or -1."""
    signs = {"up": 1, "down": -1}
    labels = ((reference.columns.get(theirs, theirs), way) for theirs, way in printed.direction.items())
    return {label: signs[way] for label, way in labels if label is not None}
