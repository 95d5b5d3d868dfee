"""Fills the tables of a report from the results of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_reports.content.choices import Chosen, choices, collapsed, label, place_of, together
from bench_reports.content.default_tables import tables_of
from bench_reports.content.digits import with_digits
from bench_reports.content.grid import Column, Entry, Grid, Names, Row, Status, printed_values
from bench_reports.content.labels import labelled
from bench_reports.content.listings import listed
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
from bench_reports.content.verdicts import compared
from bench_reports.language.of_suite import language
from bench_reports.language.published import Value
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from bench_reports.statistics.estimate import Measured

KINDS = ("", "exact", "bound", "estimate")

Groups: TypeAlias = Mapping[tuple[Names | None, Names | None], Sequence[CellResult]]  # by names on rows and columns


class Variant(NamedTuple):
    """What numbers must have in common to share a column."""

    kind: str
    signature: str


def grids(run: Run) -> list[Grid]:
    """Return every table of a run: those of its suite, and those of `default_tables`."""
    from bench_reports.content.significance import tested
    from bench_reports.content.summaries import changed, summarized

    cells, made = ordered(run), choices(run) if language(run).choose else []
    found = [tested(summarized(compared(run, _declared(run, table, cells, made)))) for table in tables_of(run)]
    if any(grid.table.test == "permutation" for grid in found):
        from bench_reports.content.permutation_tests import exchanged

        found = [exchanged(run, grid) if grid.table.test == "permutation" else grid for grid in found]
    return [labelled(run, changed(with_digits(grid))) for grid in found]


def whole_grids(run: Run) -> list[Grid]:
    """Return a table for each grid that a choice was made among, with all of its combinations."""
    made = (one for one in choices(run) if one.grid.settings)
    groups = by_key(((one.choice.id, one.grid.name, one.task, one.hardware), one) for one in made)
    cells, numbers = ordered(run), dict.fromkeys((choice.id for choice in language(run).choose), 0)
    found = []
    for (name, *_), same in groups.items():
        numbers[name] += 1
        found.append(_whole_grid(run, same, f"{name}-{numbers[name]}", cells))
    return found


def _whole_grid(run: Run, made: Sequence[Chosen], name: str, cells: Sequence[CellResult]) -> Grid:
    """Return all combinations that a choice was made among; of decoders, for every model that has its own choice."""
    one, choice = made[0], made[0].choice
    candidates = dict.fromkeys(candidate for one in made for candidate in one.candidates)
    compared_by = {"decoder": [choice.decoder]} if choice.decoder else {}
    own = {"model": [one.model for one in made], choice.axis: [*candidates]}
    where = {**own, "task": [one.task], "hardware": [one.hardware], **compared_by}
    caption = f"every {one.what} of {label(run, replace(one, model=one.grid.name))}, by {choice.by}"
    columns = ["model", "split"] if len(made) > 1 else ["split"]
    about = {"id": name, "caption": caption, "rows": [choice.axis], "columns": columns, "values": [choice.by]}
    grid = labelled(run, with_digits(_grid(run, Table.model_validate({**about, "where": where}), cells)))
    labels = [_marked(row.label, made) for row in grid.rows]
    rows = [replace(row, label=text, shown=(text,)) for row, text in zip(grid.rows, labels, strict=True)]
    return replace(grid, rows=rows, notes=[f"{label(run, one)}: {one.verdict}." for one in made])


def _marked(name: str, made: Sequence[Chosen]) -> str:
    """Return what a combination is called among those of its grid, and how often it was chosen."""
    times = sum(one.name == name for one in made)
    often = f" for {times} of {len(made)}" if len(made) > 1 else ""
    return name.removeprefix(f"{made[0].grid.name}/") + (f" (chosen{often})" if times else "")


def _declared(run: Run, table: Table, cells: Sequence[CellResult], made: Sequence[Chosen]) -> Grid:
    if table.of != "results":
        return listed(run, table)
    if not table.chosen:
        return _grid(run, table, cells)
    ours = together(made, table.chosen)
    alone = collapsed(run, ours)
    grid = _grid(alone, table, ordered(alone))
    shown = {place for one in grid.cells for place in (place_of(one.cell, "model"), place_of(one.cell, "decoder"))}
    ours = [one for one in ours if one.place(one.grid.name) in shown]
    return replace(grid, notes=[f"{label(run, one)}: {one.verdict}." for one in ours])


def _grid(run: Run, table: Table, cells: Sequence[CellResult]) -> Grid:
    inside = [one for one in cells if _chosen(one, table)]
    groups: Groups = by_key(((_on(one, table.rows), _on(one, table.columns)), one) for one in inside)
    published = language(run).published.get(table.reference.table) if table.reference else None
    printed = printed_values(table, published)
    rows = _rows(run, table, groups, dict.fromkeys(row for row, _ in printed))
    columns = _columns(run, table, groups, dict.fromkeys(column for _, column in printed))

    def entry(row: Row, column: Column) -> Entry:
        cells = applicable(run, groups.get((row.names, column.names), ()), column.value)
        return _entry(run, cells, column, printed.get((row.label, column.label)))

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, inside, published)


def _chosen(one: CellResult, table: Table) -> bool:
    """Return whether `where` lets a cell in; one without a name on an axis is not chosen against."""
    return all(name_on(one, axis) in ("", *names) for axis, names in table.where.items())


def _on(one: CellResult, axes: Iterable[Axis]) -> Names:
    return tuple(name_on(one, axis) for axis in axes)


def _combinations(run: Run, axes: Sequence[Axis], where: Mapping[Axis, Sequence[str]]) -> list[Names]:
    """Return every combination of names, in the order of the suite."""
    names = [[name for name in names_on(run, axis) if name in ("", *where.get(axis, [name]))] for axis in axes]
    return list(product(*names))


def _rows(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Row]:
    present = {names for names, _ in groups}
    rows = [Row(join(*names), names) for names in _combinations(run, table.rows, table.where)]
    known = {row.label for row in rows}
    shown = [row for row in rows if row.names in present or row.label in printed]
    return [*shown, *(Row(label, None) for label in printed if label not in known)]


def _columns(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Column]:
    present = by_key((names, one) for (_, names), cells in groups.items() for one in cells)
    several = len(table.values) > 1 or not table.columns
    columns = [
        Column(join(*names, value if several else ""), names, value)
        for names in _combinations(run, table.columns, table.where)
        for value in table.values
    ]
    known = {column.label for column in columns}
    shown = [column for column in columns if column.names in present or column.label in printed]
    split = [part for column in shown for part in _split(run, column, present.get(column.names, ()))]
    value = "" if several else table.values[0]
    return [*split, *(Column(label, None, value) for label in printed if label not in known)]


def _split(run: Run, column: Column, cells: Iterable[CellResult]) -> list[Column]:
    """Return a column for each kind and signature among the numbers of one."""
    found: dict[Variant, Number] = {}
    for one in cells:
        if number := number_of(one, column.value):
            found.setdefault(_variant(number), number)
    if not found:
        same = (number for one in run.cells if (number := number_of(one, column.value)))
        known = next(same, Number())
        about = {name: getattr(known, name) for name in ("digits", "label", "unit", "better")}
        return [Column(column.label, column.names, column.value, Number(**about))]
    variants = sorted(found, key=lambda one: (KINDS.index(one.kind) if one.kind in KINDS else 9, one))
    return [
        Column(column.label, column.names, column.value, found[one], one == variants[0], _mark(found[one], variants))
        for one in variants
    ]


def _variant(number: Number) -> Variant:
    return Variant(number.kind, number.signature)


def _mark(number: Number, variants: Sequence[Variant]) -> str:
    """Say what tells a number from those of the other variants; a bound or an estimate is always called so."""
    signs = {"bound": "≥ bound" if number.better > 0 else "≤ bound", "estimate": "~ estimate"}
    kinds = {one.kind for one in variants}
    kind = signs.get(number.kind, (number.kind or "no likelihood") if len(kinds) > 1 else "")
    alike = [one.signature for one in variants if one.kind == number.kind]
    return ", ".join(word for word in (kind, _difference(number.signature, alike)) if word)


def _difference(signature: str, signatures: Sequence[str]) -> str:
    """Return the fields of a signature that not all have, such as `tok:13a`."""
    if len(signatures) < 2:
        return ""
    shared = set.intersection(*(set(one.split("|")) for one in signatures))
    return "|".join(field for field in signature.split("|") if field not in shared) or signature or "no signature"


def _entry(run: Run, cells: Sequence[CellResult], column: Column, published: Value | None) -> Entry:
    """Average over seeds; a seed whose number is of another variant belongs to the column of that."""
    from bench_reports.statistics.measurements import interval_of, measured

    cells = sorted(cells, key=seed_of)
    found = {seed_of(one): number for one in cells if (number := number_of(one, column.value))}
    own = {seed: number for seed, number in found.items() if _variant(number) == _variant(column.number)}
    if found and not own:
        return Entry("none")
    missing = [one for one in cells if seed_of(one) not in found]
    seeds = len(own) + len({seed_of(one) for one in missing})
    reasons = tuple(dict.fromkeys(reason for one in missing if (reason := why_missing(one, column.value))))
    if not own:
        published = published if column.first else None
        return Entry(_status(missing, published), seeds, reasons=reasons, published=published)
    values = [number.value for number in own.values() if number.value is not None]
    behind = tuple(
        {seed_of(one): one for one in cells if seed_of(one) in own and number_of(one, column.value)}.values()
    )
    known = measured(run, behind, column.value)
    again = partial(_measurement, run, behind, column.value)
    about: dict[str, Any] = {"untested": known} if isinstance(known, str) else {"measure": again}
    if not isinstance(known, str):
        about |= {"interval": interval_of(known), "apart": tuple(values) if known.is_mixed else ()}
    examples = tuple(number.examples for number in own.values())
    samples = {number.sample for number in own.values()}
    return Entry(
        "done", seeds, summary(values), examples=examples, reasons=reasons, published=published, cells=behind,
        error=max(number.error for number in own.values()),
        keys=tuple(one.artifacts.get(f"measure/{column.value}", "") for one in behind),
        sample=samples.pop() if len(samples) == 1 else "", fixed=is_fixed(run, cells), **about,
    )  # fmt: skip


def _measurement(run: Run, cells: Sequence[CellResult], value: str) -> tuple[Measured, ...]:
    from bench_reports.statistics.measurements import measured

    found = measured(run, cells, value)
    return () if isinstance(found, str) else (found,)


def _status(missing: Sequence[CellResult], published: Value | None) -> Status:
    if any(one.status == "failed" for one in missing):
        return "failed"
    if any(one.status == "not run" for one in missing) or (published and not missing):
        return "not run"
    return "none"
