"""Heat maps: a metric of the cells of a matrix, whose columns and rows are names on axes or settings of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Number
from bench_core.suites.axes import SECTIONS, Axis
from bench_core.suites.cells import join
from bench_core.suites.figure_check import label
from bench_reports.content.grid import Status
from bench_reports.content.tables import applicable, why_missing
from bench_reports.figures.binning import has_place
from bench_reports.figures.figure_data import Draft, Names, Picture, Series, Tile, with_unit
from bench_reports.statistics.intervals import summary

Place: TypeAlias = tuple[str, str]  # names of column and row


def heat_picture(draft: Draft) -> Picture:
    """Return a series for each row, a tile in it for each column; raise SuiteError where two groups share a place."""
    figure = draft.figure
    if figure.value not in draft.run.suite.metrics:
        raise SuiteError(f"the run does not measure {figure.value}.")
    number = draft.number(figure.value)
    groups = dict(_placed(draft))
    columns, rows = (list(dict.fromkeys(place[side] for place in groups)) for side in (0, 1))
    tiles = {place: _tile(draft, place[0], cells) for place, cells in groups.items()}
    series = [
        Series(row, found, max(tile.seeds for tile in found))
        for row in rows
        if (found := [tiles.get((column, row), Tile(column)) for column in columns])
    ]
    if not any(tile.seeds for tile in tiles.values()):
        series = []
    notes = [*_notes(series, figure.scale == "log")]
    titles = figure.x, figure.y, with_unit(figure.value, number)
    return Picture(figure, series, *titles[:2], {figure.value: number}, notes, title=titles[2])


def _placed(draft: Draft) -> Iterator[tuple[Place, Sequence[CellResult]]]:
    """Yield the cells of each place of the matrix."""
    seen: dict[Place, Names] = {}
    for names, cells in draft.groups.items():
        place = _place(draft, dict(zip(draft.figure.grouped, names, strict=True)))
        if place in seen:
            raise SuiteError(f"{join(*seen[place])} and {join(*names)} have one place: {join(*place)}.")
        seen[place] = names
        yield place, cells


def _place(draft: Draft, names: Mapping[Axis, str]) -> Place:
    """Return the names of a group's column and row; raise SuiteError if one goes by a setting that is not given."""
    found = []
    for axis, setting in draft.figure.sides:
        name = next(known for own, known in names.items() if own == axis)
        section = getattr(draft.run.suite, SECTIONS[axis]) if setting is not None else {}
        one = label(name, setting, section)
        if one is None:
            raise SuiteError(f"{axis} {name} does not give a single {setting!r}.")
        found.append(one)
    column, row = found
    return column, row


def _tile(draft: Draft, column: str, cells: Sequence[CellResult]) -> Tile:
    """Average over seeds, and note those without a number."""
    values, states = [], []
    for one in applicable(draft.run, cells, draft.figure.value):
        value = one.numbers.get(draft.figure.value, Number()).value
        if value is not None:
            values.append(value)
        else:
            draft.leave_out(one, why_missing(one, draft.figure.value))
            states.append("failed" if one.status == "failed" else "not run")
    if not values:
        return Tile(column, status=_status(states))
    found = summary(values)
    return Tile(column, found.mean, found.std, found.n, "done")


def _status(states: Sequence[str]) -> Status:
    if not states:
        return "none"
    return "failed" if "failed" in states else "not run"


def _notes(series: Sequence[Series], log: bool) -> Iterator[str]:
    """Yield what colours mean, and what readers must know of places without a number, or without a colour."""
    yield f"The darker, the higher{', by the logarithm' if log else ''}."
    tiles = [tile for one in series for tile in one.rows]
    lacking = sum(tile.status == "none" for tile in tiles)
    if lacking:
        yield f"–: {lacking:,} of {len(tiles):,} places have no cell that tells it."
    white = [tile for tile in tiles if tile.mean is not None and not has_place(tile.mean, log)]
    if white:
        why = "infinite, undefined, or not above 0" if log else "infinite or undefined"
        yield f"{len(white):,} of {len(tiles):,} places have a number without a colour ({why})."
