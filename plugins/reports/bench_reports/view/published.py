"""The published numbers that the tables of a run compare with its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench_core.runs.results import CellResult, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_reports.content.grid import printed_values
from bench_reports.content.sorting import name_on
from bench_reports.language.of_suite import language
from bench_reports.language.published import number
from bench_reports.language.schema import Table

GROUP = AXES[:-1]  #: all axes except seeds

Group = tuple[str, ...]


@dataclass(frozen=True)
class PublishedNumber:
    """A published number for the cells of all seeds, with its source."""

    group: Group
    metric: str
    mean: float
    std: float | None
    source: str


def group_of(cell: CellResult) -> Group:
    """Return the names of a cell on all axes except seeds."""
    return tuple(name_on(cell, axis) for axis in GROUP)


def published_numbers(run: Run) -> list[PublishedNumber]:
    """Return the published numbers for the cells of a run, at most one for each metric and group of seeds.

    Published numbers of chosen models and decoders are only in the report.
    """
    first = {group_of(cell): cell for cell in run.cells}
    numbers = (number for table in language(run).tables for number in _of_table(run, table, list(first.values())))
    return list({(number.group, number.metric): number for number in reversed([*numbers])}.values())[::-1]


def _of_table(run: Run, table: Table, cells: Sequence[CellResult]) -> Iterator[PublishedNumber]:
    published = language(run).published.get(table.reference.table) if table.reference else None
    if published is None or table.of != "results" or table.chosen:
        return
    source = ", ".join(filter(None, (published.place, published.paper)))
    printed, several = printed_values(table, published), len(table.values) > 1 or not table.columns
    for cell in cells:
        if not all(name_on(cell, axis) in ("", *names) for axis, names in table.where.items()):
            continue
        row, column = (join(*(name_on(cell, axis) for axis in axes)) for axes in (table.rows, table.columns))
        for metric in table.values:
            value = printed.get((row, join(column, metric if several else "")))
            mean = number(value.mean) if value else None
            if value and mean is not None and metric in cell.numbers:
                yield PublishedNumber(group_of(cell), metric, mean, value.std, source)
