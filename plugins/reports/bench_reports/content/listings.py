"""Contents of the tables of chosen settings and of task statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench_core.runs.results import Run, Score
from bench_core.suites.cells import join
from bench_core.suites.grids import word
from bench_reports.content.choices import ChosenCombination, choice_note, choices, resolve_choices
from bench_reports.content.grid import Column, Grid, GridEntry, Row, Status, printed_values
from bench_reports.content.sorting import names_on
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import Summary


@dataclass
class Listing:
    """The labels, entries and footnotes of a table."""

    rows: Sequence[str]
    numbers: Mapping[str, Score]  # unit and digits by column
    entries: dict[tuple[str, str], GridEntry] = field(default_factory=dict)  # by row and column
    notes: list[str] = field(default_factory=list)


def chosen_settings(run: Run, table: Table) -> Listing:
    """Return a listing with settings of grids and choices among decoders as rows, and selections in the columns."""
    made = [chosen for chosen in resolve_choices(choices(run), table.chosen) if _covers(table, chosen)]
    settings = dict.fromkeys(setting for chosen in made for setting in chosen.grid.settings)
    columns = [join(*(_names(chosen)[axis] for axis in table.columns)) for chosen in made]
    listing = Listing(list(settings), dict.fromkeys(columns, Score(digits=0)))
    for chosen, column in zip(made, columns, strict=True):
        for setting in chosen.grid.settings:
            entry = GridEntry("done", text=word(chosen.settings.get(setting)))
            listing.entries[setting, column] = entry if chosen.name else _lacking("not run", chosen.reason)
        listing.notes.append(choice_note(run, chosen))
    return listing


def _covers(table: Table, chosen: ChosenCombination) -> bool:
    names = {**_names(chosen), chosen.choice.axis: chosen.grid.name}
    return all(names[axis] in allowed for axis, allowed in table.where.items() if axis in names)


def _names(chosen: ChosenCombination) -> dict[str, str]:
    return {"model": chosen.model, "task": chosen.task, "hardware": chosen.hardware}


def task_statistics(run: Run, table: Table) -> Listing:
    """Return a listing with tasks as rows and the statistics of a table as columns."""
    tasks = [task for task in names_on(run, "task") if task in table.where.get("task", [task])]
    about = {task: (run.info.get("tasks") or {}).get(task) or {} for task in tasks}
    by_task = {task: dict(statistics(about[task])) for task in tasks}
    listing = Listing(tasks, {name: _number(name, [*by_task.values()]) for name in table.values})
    for task in tasks:
        for name in table.values:
            none = _lacking(about[task].get("status", "none"), about[task].get("reason", ""))
            value = by_task[task].get(name)
            listing.entries[task, name] = (
                none if value is None else GridEntry("done", 1, Summary(float(value), None, 1))
            )
        lacking = [name for name in table.values if name not in by_task[task]]
        if by_task[task] and lacking:
            listing.notes.append(
                f"{task} has no statistic {', '.join(lacking)}. Available: {', '.join(by_task[task])}."
            )
    return listing


def _number(name: str, by_task: Sequence[Mapping[str, int | float]]) -> Score:
    """Return unit and digits of a statistic; without a unit if the first task lacks the statistic."""
    unit = name.rpartition("/")[2].replace("_", " ") if by_task and name in by_task[0] else ""
    return Score(unit=unit, digits=2 if any(isinstance(known.get(name), float) for known in by_task) else 0)


def _lacking(status: Status, reason: str) -> GridEntry:
    return GridEntry(status, reasons=(reason,) if reason else ())


def statistics(about: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the name and value of each statistic of a task, such as `train/sentences`, and its vocabulary size."""
    for part, values in (about.get("statistics") or {}).items():
        yield from ((join(part, name), value) for name, value in values.items() if value is not None)
    if about.get("vocabulary"):
        yield "vocabulary", about["vocabulary"]


def fill_listing(run: Run, table: Table) -> Grid:
    """Return the filled table of a declaration with `of: choices` or `of: tasks`."""
    listing = chosen_settings(run, table) if table.of == "choices" else task_statistics(run, table)
    published = language(run).published.get(table.reference.table) if table.reference else None
    printed = printed_values(table, published)
    theirs = [dict.fromkeys(pair[place] for pair in printed) for place in (0, 1)]
    rows = [Row(name, (name,)) for name in listing.rows]
    rows += [Row(name, None) for name in theirs[0] if name not in listing.rows]
    value = table.of == "tasks"  # columns are statistics; otherwise they are models
    columns = [
        Column(name, () if value else (name,), name * value, number) for name, number in listing.numbers.items()
    ]
    columns += [Column(name, None, "") for name in theirs[1] if name not in listing.numbers]

    def entry(row: Row, column: Column) -> GridEntry:
        value = printed.get((row.label, column.label))
        none = GridEntry("not run" if value and None in (row.names, column.names) else "none")
        return replace(listing.entries.get((row.label, column.label), none), published=value)

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, [], published, listing.notes)
