"""Tables of what is no average over cells: the settings that were chosen, and statistics of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bench_core.runs.results import Number, Run
from bench_core.suites.cells import join
from bench_core.suites.grids import word
from bench_core.suites.published import Value
from bench_core.suites.schema import Table
from bench_reports.content.choices import Chosen, choices, together, told
from bench_reports.content.grid import Column, Entry, Grid, Row, printed_values
from bench_reports.content.sorting import names_on
from bench_reports.statistics.intervals import Summary


@dataclass(frozen=True)
class Item:
    """What stands in one row and column: a value, or why there is none."""

    value: float | None = None
    text: str = ""  # in place of a number
    digits: int = 0
    unit: str = ""
    status: Literal["done", "failed", "not run", "none"] = "done"
    reason: str = ""


@dataclass
class Listing:
    """The labels and items of a table, and what its footnotes say."""

    rows: Sequence[str]
    columns: Sequence[str]
    items: dict[tuple[str, str], Item] = field(default_factory=dict)  # by row and column
    notes: list[str] = field(default_factory=list)


def chosen_settings(run: Run, table: Table) -> Listing:
    """Return the settings of grids, and names of choices among decoders, as rows; in the columns what was chosen."""
    made = [one for one in together(choices(run), table.chosen) if _covers(table, one)]
    settings = dict.fromkeys(setting for one in made for setting in one.grid.settings)
    columns = [_column(table, one) for one in made]
    found = Listing(list(settings), list(dict.fromkeys(columns)))
    for one, column in zip(made, columns, strict=True):
        for setting in one.grid.settings:
            value = one.settings.get(setting)
            unmade = Item(status="not run", reason=one.reason)
            found.items[setting, column] = Item(text=word(value)) if one.name else unmade
        found.notes.append(told(run, one))
    return found


def _covers(table: Table, one: Chosen) -> bool:
    names = {"model": one.model, "task": one.task, "hardware": one.hardware, one.choice.axis: one.grid.name}
    return all(names[axis] in allowed for axis, allowed in table.where.items() if axis in names)


def _column(table: Table, one: Chosen) -> str:
    names = {"model": one.model, "task": one.task, "hardware": one.hardware}
    return join(*(names[axis] for axis in table.columns))


def task_statistics(run: Run, table: Table) -> Listing:
    """Return the tasks as rows, and in the columns the statistics that a table asks for."""
    tasks = [task for task in names_on(run, "task") if task in table.where.get("task", [task])]
    found = Listing(tasks, table.values)
    for task in tasks:
        about = (run.info.get("tasks") or {}).get(task) or {}
        known = dict(statistics(about))
        lacking = [name for name in table.values if name not in known]
        for name in table.values:
            unit = name.rpartition("/")[2].replace("_", " ")
            found.items[task, name] = _counted(known[name], unit) if name in known else _lacking(about)
        if known and lacking:
            found.notes.append(f"{task} has no statistic {', '.join(lacking)}. There are: {', '.join(known)}.")
    return found


def _counted(value: float, unit: str) -> Item:
    return Item(value, digits=2 if isinstance(value, float) else 0, unit=unit)


def _lacking(about: Mapping[str, Any]) -> Item:
    """Return what stands for a statistic that there is not: why its task was not prepared, if it was not."""
    return Item(status=about.get("status", "none"), reason=about.get("reason", ""))


def statistics(about: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the name and value of each statistic of a task, such as `train/sentences`, and of its vocabulary."""
    yield from _flat(about.get("statistics") or {}, "")
    if about.get("vocabulary"):
        yield "vocabulary", about["vocabulary"]


def _flat(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, int | float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, join(above, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield join(above, name), value


def listed(run: Run, table: Table) -> Grid:
    """Return a table `of: choices` or `of: tasks`, filled in."""
    found = chosen_settings(run, table) if table.of == "choices" else task_statistics(run, table)
    published = run.published.get(table.reference.table) if table.reference else None
    printed = printed_values(table, published)
    theirs = [dict.fromkeys(pair[place] for pair in printed) for place in (0, 1)]
    rows = [Row(name, (name,)) for name in found.rows]
    rows += [Row(name, None) for name in theirs[0] if name not in found.rows]
    value = table.of == "tasks"  # what a column holds is its value; else its name is one of models
    columns = [
        Column(name, () if value else (name,), name * value, _number_of(found, name)) for name in found.columns
    ]
    columns += [Column(name, None, "") for name in theirs[1] if name not in found.columns]

    def entry(row: Row, column: Column) -> Entry:
        value = printed.get((row.label, column.label))
        none = Item(status="not run" if value and None in (row.names, column.names) else "none")
        return _entry_of(found.items.get((row.label, column.label), none), value)

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, [], published, found.notes)


def _number_of(found: Listing, column: str) -> Number:
    """Return what the numbers of a column have in common."""
    items = [item for (_, name), item in found.items.items() if name == column]
    return Number(
        unit=next((item.unit for item in items), ""), digits=max((item.digits for item in items), default=0)
    )


def _entry_of(item: Item, published: Value | None) -> Entry:
    found = None if item.value is None else Summary(float(item.value), None, 1)
    return Entry(
        item.status,
        1 if found else 0,
        found,
        reasons=(item.reason,) * bool(item.reason),
        published=published,
        text=item.text,
    )
