"""The published numbers that the tables of a run set beside its cells."""

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

GROUP = AXES[:-1]  #: what the cells of all seeds have in common

Group = tuple[str, ...]


@dataclass(frozen=True)
class PublishedNumber:
    """A published number for the cells of all seeds, and where it stands."""

    group: Group  # names on the axes, but that of seeds
    metric: str
    mean: float
    std: float | None
    source: str


def group_of(one: CellResult) -> Group:
    """Return what a cell has in common with those of other seeds: its names on all other axes."""
    return tuple(name_on(one, axis) for axis in GROUP)


def published_numbers(run: Run) -> list[PublishedNumber]:
    """Return the published numbers beside the cells of a run, each once for each metric and group of seeds.

    Those of tables of chosen models or decoders are in the report alone.
    """
    first = {group_of(one): one for one in run.cells}
    found = (one for table in language(run).tables for one in _of_table(run, table, list(first.values())))
    return list({(one.group, one.metric): one for one in reversed([*found])}.values())[::-1]


def _of_table(run: Run, table: Table, cells: Sequence[CellResult]) -> Iterator[PublishedNumber]:
    published = language(run).published.get(table.reference.table) if table.reference else None
    if published is None or table.of != "results" or table.chosen:
        return
    source = ", ".join(filter(None, (published.place, published.paper)))
    printed, several = printed_values(table, published), len(table.values) > 1 or not table.columns
    for one in cells:
        if not all(name_on(one, axis) in ("", *names) for axis, names in table.where.items()):
            continue
        row, column = (join(*(name_on(one, axis) for axis in axes)) for axes in (table.rows, table.columns))
        for metric in table.values:
            value = printed.get((row, join(column, metric if several else "")))
            mean = number(value.mean) if value else None
            if value and mean is not None and metric in one.numbers:
                yield PublishedNumber(group_of(one), metric, mean, value.std, source)
