"""Fills the tables of chosen settings and of task statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench_core.runs.results import Number, Run
from bench_core.suites.cells import join
from bench_core.suites.grids import word
from bench_reports.content.choices import Chosen, choice_note, choices, together
from bench_reports.content.grid import Column, Entry, Grid, Row, Status, printed_values
from bench_reports.content.sorting import names_on
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import Summary


@dataclass
class Listing:
    """The labels and entries of a table, and what its footnotes say."""

    rows: Sequence[str]
    numbers: Mapping[str, Number]  # by column: unit and digits of its values
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by row and column
    notes: list[str] = field(default_factory=list)


def chosen_settings(run: Run, table: Table) -> Listing:
    """Return the settings of grids, and names of choices among decoders, as rows; in the columns what was chosen."""
    made = [one for one in together(choices(run), table.chosen) if _covers(table, one)]
    settings = dict.fromkeys(setting for one in made for setting in one.grid.settings)
    columns = [join(*(_names(one)[axis] for axis in table.columns)) for one in made]
    found = Listing(list(settings), dict.fromkeys(columns, Number(digits=0)))
    for one, column in zip(made, columns, strict=True):
        for setting in one.grid.settings:
            chosen = Entry("done", text=word(one.settings.get(setting)))
            found.entries[setting, column] = chosen if one.name else _lacking("not run", one.reason)
        found.notes.append(choice_note(run, one))
    return found


def _covers(table: Table, one: Chosen) -> bool:
    names = {**_names(one), one.choice.axis: one.grid.name}
    return all(names[axis] in allowed for axis, allowed in table.where.items() if axis in names)


def _names(one: Chosen) -> dict[str, str]:
    return {"model": one.model, "task": one.task, "hardware": one.hardware}


def task_statistics(run: Run, table: Table) -> Listing:
    """Return the tasks as rows, and in the columns the statistics that a table asks for."""
    tasks = [task for task in names_on(run, "task") if task in table.where.get("task", [task])]
    about = {task: (run.info.get("tasks") or {}).get(task) or {} for task in tasks}
    known = {task: dict(statistics(about[task])) for task in tasks}
    found = Listing(tasks, {name: _number(name, [*known.values()]) for name in table.values})
    for task in tasks:
        for name in table.values:
            none = _lacking(about[task].get("status", "none"), about[task].get("reason", ""))
            value = known[task].get(name)
            found.entries[task, name] = none if value is None else Entry("done", 1, Summary(float(value), None, 1))
        lacking = [name for name in table.values if name not in known[task]]
        if known[task] and lacking:
            found.notes.append(f"{task} has no statistic {', '.join(lacking)}. There are: {', '.join(known[task])}.")
    return found


def _number(name: str, known: Sequence[Mapping[str, int | float]]) -> Number:
    """Return unit and digits of a statistic; it has no unit where the first task lacks it."""
    unit = name.rpartition("/")[2].replace("_", " ") if known and name in known[0] else ""
    return Number(unit=unit, digits=2 if any(isinstance(one.get(name), float) for one in known) else 0)


def _lacking(status: Status, reason: str) -> Entry:
    return Entry(status, reasons=(reason,) if reason else ())


def statistics(about: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the name and value of each statistic of a task, such as `train/sentences`, and of its vocabulary."""
    for part, values in (about.get("statistics") or {}).items():
        yield from ((join(part, name), value) for name, value in values.items() if value is not None)
    if about.get("vocabulary"):
        yield "vocabulary", about["vocabulary"]


def listed(run: Run, table: Table) -> Grid:
    """Return a table `of: choices` or `of: tasks`, filled in."""
    found = chosen_settings(run, table) if table.of == "choices" else task_statistics(run, table)
    published = language(run).published.get(table.reference.table) if table.reference else None
    printed = printed_values(table, published)
    theirs = [dict.fromkeys(pair[place] for pair in printed) for place in (0, 1)]
    rows = [Row(name, (name,)) for name in found.rows]
    rows += [Row(name, None) for name in theirs[0] if name not in found.rows]
    value = table.of == "tasks"  # what a column holds is its value; else its name is one of models
    columns = [Column(name, () if value else (name,), name * value, number) for name, number in found.numbers.items()]
    columns += [Column(name, None, "") for name in theirs[1] if name not in found.numbers]

    def entry(row: Row, column: Column) -> Entry:
        value = printed.get((row.label, column.label))
        none = Entry("not run" if value and None in (row.names, column.names) else "none")
        return replace(found.entries.get((row.label, column.label), none), published=value)

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, [], published, found.notes)
