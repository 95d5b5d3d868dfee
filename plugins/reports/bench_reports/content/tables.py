"""The tables of a report, filled from the results of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_reports.content.choices import ChosenCombination, choices, collapse, label, place_of, resolve_choices
from bench_reports.content.grid import Column, Grid, GridEntry, Names, Row, Status, printed_values
from bench_reports.content.labels import with_labels
from bench_reports.content.listings import fill_listing
from bench_reports.content.numbers import with_digits
from bench_reports.content.sorting import (
    applicable,
    by_key,
    is_fixed,
    name_on,
    names_on,
    number_of,
    ordered,
    seed_of,
    why_missing,
)
from bench_reports.content.verdicts import with_verdicts
from bench_reports.language.of_suite import language
from bench_reports.language.published import Value
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from bench_reports.statistics.estimate import Measured

KINDS = ("", "exact", "bound", "estimate")

Groups: TypeAlias = Mapping[tuple[Names | None, Names | None], Sequence[CellResult]]  # by row and column names
MAX_COLUMNS = 8  #: with more columns, tasks, splits and hardware become row labels


class Variant(NamedTuple):
    """The properties that all numbers of a column share."""

    kind: str
    signature: str


def grids(run: Run) -> list[Grid]:
    """Return all tables of a run: the tables of its suite and the default tables."""
    from bench_reports.content.significance import with_tests
    from bench_reports.content.summaries import with_differences, with_summaries

    cells, made = ordered(run), choices(run) if language(run).choose else []
    filled = [
        with_tests(with_summaries(with_verdicts(run, _declared_grid(run, table, cells, made))))
        for table in tables_of(run)
    ]
    if any(grid.table.test == "permutation" for grid in filled):
        from bench_reports.content.permutation_tests import with_permutation_tests

        filled = [with_permutation_tests(run, grid) if grid.table.test == "permutation" else grid for grid in filled]
    return [with_labels(run, with_differences(with_digits(grid))) for grid in filled]


def whole_grids(run: Run) -> list[Grid]:
    """Return a table with all combinations for each grid of a choice."""
    made = (chosen for chosen in choices(run) if chosen.grid.settings)
    groups = by_key(((chosen.choice.id, chosen.grid.name, chosen.task, chosen.hardware), chosen) for chosen in made)
    cells, numbers = ordered(run), dict.fromkeys((choice.id for choice in language(run).choose), 0)
    tables = []
    for (name, *_), same in groups.items():
        numbers[name] += 1
        tables.append(_whole_grid(run, same, f"{name}-{numbers[name]}", cells))
    return tables


def _whole_grid(run: Run, made: Sequence[ChosenCombination], name: str, cells: Sequence[CellResult]) -> Grid:
    """Return all combinations of a choice; for decoders, of every model that has its own choice."""
    first, choice = made[0], made[0].choice
    candidates = dict.fromkeys(candidate for chosen in made for candidate in chosen.candidates)
    compared_by = {"decoder": [choice.decoder]} if choice.decoder else {}
    varied = {"model": [chosen.model for chosen in made], choice.axis: [*candidates]}
    where = {**varied, "task": [first.task], "hardware": [first.hardware], **compared_by}
    caption = f"every {first.what} of {label(run, replace(first, model=first.grid.name))}, by {choice.by}"
    columns = ["model", "split"] if len(made) > 1 else ["split"]
    about = {"id": name, "caption": caption, "rows": [choice.axis], "columns": columns, "values": [choice.by]}
    grid = with_labels(run, with_digits(_grid(run, Table.model_validate({**about, "where": where}), cells)))
    labels = [_combination_label(row.label, made) for row in grid.rows]
    rows = [replace(row, label=text, shown=(text,)) for row, text in zip(grid.rows, labels, strict=True)]
    return replace(grid, rows=rows, notes=[f"{label(run, chosen)}: {chosen.verdict}." for chosen in made])


def _combination_label(name: str, made: Sequence[ChosenCombination]) -> str:
    """Return the name of a combination within its grid, and how often it was chosen."""
    times = sum(chosen.name == name for chosen in made)
    often = f" for {times} of {len(made)}" if len(made) > 1 else ""
    return name.removeprefix(f"{made[0].grid.name}/") + (f" (chosen{often})" if times else "")


def _declared_grid(run: Run, table: Table, cells: Sequence[CellResult], made: Sequence[ChosenCombination]) -> Grid:
    if table.of != "results":
        return fill_listing(run, table)
    if not table.chosen:
        return _grid(run, table, cells)
    ours = resolve_choices(made, table.chosen)
    alone = collapse(run, ours)
    grid = _grid(alone, table, ordered(alone))
    shown = {place for cell in grid.cells for place in (place_of(cell.cell, "model"), place_of(cell.cell, "decoder"))}
    ours = [chosen for chosen in ours if chosen.place(chosen.grid.name) in shown]
    return replace(grid, notes=[f"{label(run, chosen)}: {chosen.verdict}." for chosen in ours])


def _grid(run: Run, table: Table, cells: Sequence[CellResult]) -> Grid:
    inside = [cell for cell in cells if _matches(cell, table)]
    groups: Groups = by_key(((_on(cell, table.rows), _on(cell, table.columns)), cell) for cell in inside)
    published = language(run).published.get(table.reference.table) if table.reference else None
    printed = printed_values(table, published)
    rows = _rows(run, table, groups, dict.fromkeys(row for row, _ in printed))
    columns = _columns(run, table, groups, dict.fromkeys(column for _, column in printed))

    def entry(row: Row, column: Column) -> GridEntry:
        cells = applicable(run, groups.get((row.names, column.names), ()), column.value)
        return _entry(run, cells, column, printed.get((row.label, column.label)))

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, inside, published)


def _matches(cell: CellResult, table: Table) -> bool:
    """Return whether a cell matches `where`; a cell without a name on an axis matches any name on that axis."""
    return all(name_on(cell, axis) in ("", *names) for axis, names in table.where.items())


def _on(cell: CellResult, axes: Iterable[Axis]) -> Names:
    return tuple(name_on(cell, axis) for axis in axes)


def _combinations(run: Run, axes: Sequence[Axis], where: Mapping[Axis, Sequence[str]]) -> list[Names]:
    """Return all combinations of names in suite order."""
    names = [[name for name in names_on(run, axis) if name in ("", *where.get(axis, [name]))] for axis in axes]
    return list(product(*names))


def _rows(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Row]:
    present = {names for names, _ in groups}
    rows = [Row(join(*names), names) for names in _combinations(run, table.rows, table.where)]
    labels = {row.label for row in rows}
    shown = [row for row in rows if row.names in present or row.label in printed]
    return [*shown, *(Row(label, None) for label in printed if label not in labels)]


def _columns(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Column]:
    present = by_key((names, cell) for (_, names), cells in groups.items() for cell in cells)
    several = len(table.values) > 1 or not table.columns
    columns = [
        Column(join(*names, value if several else ""), names, value)
        for names in _combinations(run, table.columns, table.where)
        for value in table.values
    ]
    labels = {column.label for column in columns}
    shown = [column for column in columns if column.names in present or column.label in printed]
    split = [part for column in shown for part in _split(run, column, present.get(column.names, ()))]
    value = "" if several else table.values[0]
    return [*split, *(Column(label, None, value) for label in printed if label not in labels)]


def _split(run: Run, column: Column, cells: Iterable[CellResult]) -> list[Column]:
    """Split a column into a column for each kind and signature of its numbers."""
    numbers: dict[Variant, Score] = {}
    for cell in cells:
        if number := number_of(cell, column.value):
            numbers.setdefault(_variant(number), number)
    if not numbers:
        same = (number for cell in run.cells if (number := number_of(cell, column.value)))
        example = next(same, Score())
        about = {name: getattr(example, name) for name in ("digits", "label", "unit", "better")}
        return [Column(column.label, column.names, column.value, Score(**about))]
    variants = sorted(
        numbers, key=lambda variant: (KINDS.index(variant.kind) if variant.kind in KINDS else 9, variant)
    )
    return [
        Column(
            column.label, column.names, column.value, numbers[key], key == variants[0], _mark(numbers[key], variants)
        )
        for key in variants
    ]


def _variant(number: Score) -> Variant:
    return Variant(number.kind, number.signature)


def _mark(number: Score, variants: Sequence[Variant]) -> str:
    """Return the mark that distinguishes a variant from the others; bounds and estimates are always marked."""
    signs = {"bound": "≥ bound" if number.better > 0 else "≤ bound", "estimate": "~ estimate"}
    kinds = {variant.kind for variant in variants}
    kind = signs.get(number.kind, (number.kind or "no likelihood") if len(kinds) > 1 else "")
    alike = [variant.signature for variant in variants if variant.kind == number.kind]
    return ", ".join(word for word in (kind, _difference(number.signature, alike)) if word)


def _difference(signature: str, signatures: Sequence[str]) -> str:
    """Return the fields of a signature that not all signatures have, such as `tok:13a`."""
    if len(signatures) < 2:
        return ""
    shared = set.intersection(*(set(other.split("|")) for other in signatures))
    return "|".join(field for field in signature.split("|") if field not in shared) or signature or "no signature"


def _entry(run: Run, cells: Sequence[CellResult], column: Column, published: Value | None) -> GridEntry:
    """Average over seeds; seeds whose numbers have another variant belong to another column."""
    from bench_reports.statistics.measurements import interval_of, measured

    cells = sorted(cells, key=seed_of)
    numbers = {seed_of(cell): number for cell in cells if (number := number_of(cell, column.value))}
    alike = {seed: number for seed, number in numbers.items() if _variant(number) == _variant(column.number)}
    if numbers and not alike:
        return GridEntry("none")
    missing = [cell for cell in cells if seed_of(cell) not in numbers]
    seeds = len(alike) + len({seed_of(cell) for cell in missing})
    reasons = tuple(dict.fromkeys(reason for cell in missing if (reason := why_missing(cell, column.value))))
    if not alike:
        published = published if column.first else None
        return GridEntry(_status(missing, published), seeds, reasons=reasons, published=published)
    values = [number.value for number in alike.values() if number.value is not None]
    behind = tuple(
        {seed_of(cell): cell for cell in cells if seed_of(cell) in alike and number_of(cell, column.value)}.values()
    )
    measurement = measured(run, behind, column.value)
    measure = partial(_measurement, run, behind, column.value)
    about: dict[str, Any] = {"untested": measurement} if isinstance(measurement, str) else {"measure": measure}
    if not isinstance(measurement, str):
        about |= {"interval": interval_of(measurement), "apart": tuple(values) if measurement.is_mixed else ()}
    examples = tuple(number.examples for number in alike.values())
    samples = {number.sample for number in alike.values()}
    return GridEntry(
        "done", seeds, summary(values), examples=examples, reasons=reasons, published=published, cells=behind,
        error=max(number.error for number in alike.values()),
        keys=tuple(cell.artifacts.get(f"measure/{column.value}", "") for cell in behind),
        sample=samples.pop() if len(samples) == 1 else "", fixed=is_fixed(run, cells), **about,
    )  # fmt: skip


def _measurement(run: Run, cells: Sequence[CellResult], value: str) -> tuple[Measured, ...]:
    from bench_reports.statistics.measurements import measured

    measurement = measured(run, cells, value)
    return () if isinstance(measurement, str) else (measurement,)


def _status(missing: Sequence[CellResult], published: Value | None) -> Status:
    if any(cell.status == "failed" for cell in missing):
        return "failed"
    if any(cell.status == "not run" for cell in missing) or (published and not missing):
        return "not run"
    return "none"


def tables_of(run: Run) -> list[Table]:
    """Return the tables of a suite, with default tables for metrics that no table shows."""
    declared = language(run).tables
    if not declared:
        return [_table(run, "results", "Results", [*run.suite.metrics])] if run.suite.metrics else []
    shown = {metric for table in declared if table.of == "results" for metric in table.values}
    added = [metric for metric in run.suite.metrics if metric not in shown and _is_set(run, metric)]
    return [*declared, *([_table(run, "added", "Metrics added by --set", added)] if added else [])]


def _is_set(run: Run, metric: str) -> bool:
    """Return whether a metric or one of its settings was set on the command line."""
    keys = map(str, run.info.get("changes") or ())
    return any(key == "metrics" or f"{key}.".startswith(f"metrics.{metric}.") for key in keys)


def _table(run: Run, name: str, caption: str, metrics: Sequence[str]) -> Table:
    """Return a table of metrics by all axes on which cells differ, with models and decoders as rows."""
    several: list[Axis] = [axis for axis in ("task", "split", "hardware") if len(run.names[axis]) > 1]
    wide = prod([len(metrics), *(len(run.names[axis]) for axis in several)]) > MAX_COLUMNS
    rows: list[Axis] = [axis for axis in ("model", "decoder") if len(run.names[axis]) > 1] or ["model"]
    axes = {"rows": [*several, *rows], "columns": []} if wide else {"rows": rows, "columns": several}
    ids = [*(table.id for table in language(run).tables), *(figure.id for figure in language(run).figures)]
    return Table.model_validate({"id": _free(name, ids), "caption": caption, **axes, "values": metrics})


def _free(name: str, ids: Collection[str]) -> str:
    """Return an id that no table or figure has."""
    return name if name not in ids else _free(f"{name}-all", ids)
