"""Data of a figure: its groups of cells, the series that are drawn, and the cells that are left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import hook
from bench_core.runs.results import CellResult, Number, Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.axes import AXES, SECTIONS, TRAINING_AXES
from bench_core.suites.cells import join
from bench_core.suites.grids import word
from bench_core.suites.training import training_schema
from bench_reports.content.grid import Status
from bench_reports.content.sorting import name_on, names_on, ordered, seed_of
from bench_reports.document import Block
from bench_reports.language.figure_schema import Figure
from bench_reports.language.setting_values import MISSING, Side, setting_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Names: TypeAlias = tuple[str, ...]  # on the axes, or values of the settings, that make the groups

FARTHEST = 1e300  #: from 0 on an axis, beyond which its margins and steps are no numbers


class Bar(NamedTuple):
    """A bin of a histogram, from its lower edge to its upper."""

    low: float
    high: float
    examples: int
    percent: float  # of all examples, those off the axis too


class Point(NamedTuple):
    """A point of a curve, or a bar: mean and standard deviation over seeds, and the ends of its band or error bar."""

    x: float | str  # a place on a numeric axis, or a name
    mean: float | None  # None where every seed lacks it
    std: float | None
    low: float | None
    high: float | None
    seeds: int


class Spot(NamedTuple):
    """A group of cells by two metrics or costs, as `Point`."""

    point: str  # its name within the series
    x: float
    x_std: float | None
    x_low: float | None
    x_high: float | None
    y: float
    y_std: float | None
    y_low: float | None
    y_high: float | None
    seeds: int


class Tile(NamedTuple):
    """A place in a row of a matrix: mean and standard deviation over seeds, or why there are none."""

    x: str
    mean: float | None = None
    std: float | None = None
    seeds: int = 0
    status: Status = "none"


@dataclass(frozen=True)
class Series:
    """What is drawn of one group of cells, or once of all groups where they agree."""

    label: str
    rows: Sequence[Any]  # bars, points, spots, a box or the tiles of a row
    seeds: int
    values: int = 0  # of single examples; 0 where those do not show
    shared: bool = False  # by all groups
    panel: str = ""  # the title of its panel


@dataclass(frozen=True)
class Picture:
    """A figure of a suite, ready to be drawn."""

    figure: Figure
    series: Sequence[Series] = ()
    x_label: str = ""
    y_label: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)  # one of each metric, for unit and signature
    notes: Sequence[str] = ()
    cells: Sequence[CellResult] = ()  # all that it covers
    missing: Sequence[tuple[str, str]] = ()  # what is left out, and why
    empty: str = ""  # why there is nothing to draw
    title: str = ""  # what stands above it
    places: Sequence[str] = ()  # the names on x, in their order, if it has names
    ticks: Sequence[float] = ()  # the numbers on x that the suite gives, if it has numbers
    tested: bool = False  # whether its intervals are those of tables, over seeds and examples

    @property
    def panels(self) -> list[str]:
        """Return the titles of its panels in their order; one without a title if it has none."""
        return list(dict.fromkeys(one.panel for one in self.series))

    def records(self) -> list[dict[str, Any]]:
        """Return one flat mapping for each thing that is drawn."""
        found = []
        for one in self.series:
            names = {**({"panel": one.panel} if self.figure.panels else {}), "series": one.label}
            for row in (each._asdict() for each in one.rows):
                flat = {key: " ".join(map(str, value)) for key, value in row.items() if isinstance(value, tuple)}
                found.append({**names, **row, **flat})
        return found


@dataclass
class FigureData:
    """The cells of a figure by panel and group, and a list of those that have nothing to draw."""

    run: Run
    figure: Figure
    missing: dict[tuple[str, str], None] = field(default_factory=dict)  # what is left out, and why, each once
    untested: dict[str, None] = field(default_factory=dict)  # why numbers have no interval, each reason once

    @cached_property
    def cells(self) -> list[CellResult]:
        """All cells that the figure covers, in the order of the suite."""
        return [one for one in ordered(self.run) if self.figure.covers(one.cell)]

    @cached_property
    def groups(self) -> Mapping[Names, Sequence[CellResult]]:
        """The cells of each group, whatever its panel."""
        return self.grouped(self.cells, self.figure.by)

    @cached_property
    def panels(self) -> Mapping[str, Mapping[Names, Sequence[CellResult]]]:
        """The groups of each panel, by its title; of the only panel, whose title is empty, if there are none."""
        by = [*filter(None, [self.figure.panels])]
        panels = self.grouped(self.cells, by).items()
        return {self.label(names, by or [""]): self.grouped(own, self.figure.by) for names, own in panels}

    def grouped(self, cells: Iterable[CellResult], texts: Sequence[str]) -> dict[Names, list[CellResult]]:
        """Return cells by their names on axes, or values of settings, in the order of the suite; numbers ascend."""
        sides = [self.figure.sides[text] for text in texts]
        found: dict[Names, list[CellResult]] = defaultdict(list)
        for one in cells:
            found[tuple(self.word(one, side) for side in sides)].append(one)
        ranks = [self.order(side) for side in sides]
        rank = lambda names: [rank[name] for name, rank in zip(names, ranks, strict=True)]  # noqa: E731
        return {names: found[names] for names in sorted(found, key=rank)}

    def order(self, side: Side) -> dict[str, int]:
        """Return the rank of each name on an axis, or of each value of a setting."""
        ranks = {name: rank for rank, name in enumerate(names_on(self.run, side.axis))}
        if side.setting is None:
            return ranks
        cells = sorted(self.cells, key=lambda one: ranks[name_on(one, side.axis)])
        values = {word(value): value for value in (self.value(one, side) for one in cells)}
        numbers = all(map(is_number, values.values()))
        return {text: rank for rank, text in enumerate(sorted(values, key=values.__getitem__) if numbers else values)}

    def value(self, one: CellResult, side: Side) -> Any:
        """Return the name of a cell on an axis, or its value of a setting; raise SuiteError if it is not given."""
        name = name_on(one, side.axis)
        if side.setting is None:
            return name
        if side == self.figure.place and name in self.figure.at:
            number = self.figure.at[name]
            return int(number) if number == int(number) else number  # so that it is written without a point
        section = getattr(self.run.suite, SECTIONS[side.axis])
        found = setting_value(section, name, side.setting, name_on(one, "task"), self._training)
        if found is MISSING:
            raise SuiteError(f"{side.axis} {name} does not give {side.setting!r}.")
        return found

    @cached_property
    def _training(self) -> Mapping[str, Any]:
        return training_schema()(**self.run.suite.training).model_dump()

    def word(self, one: CellResult, side: Side) -> str:
        """Return the name of a cell on an axis, or its value of a setting, as text."""
        return word(self.value(one, side))

    def label(self, names: Names, texts: Sequence[str] | None = None) -> str:
        """Return the label of a group, such as `lstm/tied=true`, or the words of the suite for it."""
        figure, sides = self.figure, [self.figure.sides[text] for text in (texts or self.figure.by) if text]
        pairs = zip(names, sides, strict=True)
        parts = [name if side.setting in (None, "name") else f"{side}={name}" for name, side in pairs]
        return figure.called(join(*map(figure.called, parts)))

    def axis_label(self, axis: Literal["x", "y"]) -> str:
        """Return the label of an axis that holds names or values of a setting."""
        text = self.figure.x if axis == "x" else self.figure.y
        labels = self.figure.labels
        return labels.get(axis) or labels.get(text) or text.replace(".", " ").replace("_", " ")

    def leave_out(self, one: CellResult, reason: str) -> None:
        """Note a cell, or the training of a cell, that has nothing to draw."""
        axes = (*TRAINING_AXES, "seed") if self.figure.history else AXES
        name = cell_name({axis: one.cell[axis] for axis in axes if axis in one.cell})
        self.missing[name, reason or one.status] = None

    def number(self, metric: str) -> Number:
        """Return one of a metric's numbers; raise SuiteError if their kinds or signatures differ."""
        found: dict[tuple[str, str], tuple[str, Number]] = {}
        for one in self.cells:
            number = one.numbers.get(metric)
            if number and number.value is not None:
                names = (name_on(one, axis) for axis in self.figure.grouped)
                found.setdefault((number.kind, number.signature), (join(*names), number))
        if len(found) > 1:
            kinds = "; ".join(f"{label}: {', '.join(filter(None, kind))}" for kind, (label, _) in found.items())
            raise SuiteError(f"{metric} is not one number for all, but of several kinds or signatures ({kinds}).")
        return next((number for _, number in found.values()), Number())


def one_of_each_seed(cells: Sequence[CellResult]) -> Sequence[CellResult]:
    """Return cells; raise SuiteError if two share a seed, and thus a place in a figure."""
    seen: dict[int, CellResult] = {}
    for one in cells:
        other = seen.setdefault(seed_of(one), one)
        if other is not one:
            raise SuiteError(f"{cell_name(other.cell)} and {cell_name(one.cell)} have the same place.")
    return cells


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure that a plugin adds by `bench_figure`: how it is made from a run, drawn, and put into words."""

    make: Callable[[FigureData], Picture]
    draw: Callable[[Canvas, Picture], None]  # on an empty canvas, whose size it sets
    details: Callable[[Picture], Sequence[Block]]  # such as headings and tables
    seeds: str  # which seeds are shown, for the notes below a figure


def kind_of(name: str) -> FigureKind | None:
    """Return a kind that some plugin brings."""
    found: FigureKind | None = hook().bench_figure(kind=name)
    return found


def has_place(value: float | None, log: bool) -> bool:
    """Return whether an axis can hold a value: it is finite, and above 0 where the axis is logarithmic."""
    return value is not None and abs(value) <= FARTHEST and (value > 0 or not log)


def is_number(value: object) -> bool:
    """Return whether the value of a setting is a number."""
    return type(value) in (int, float)


def axis_label(figure: Figure, numbers: Mapping[str, Number]) -> str:
    """Return the label of an axis of some metrics: each with its unit, or the unit that several have in common."""
    units = {number.unit for number in numbers.values()}
    if len(numbers) > 1 and len(units) == 1 and "" not in units:
        return units.pop()
    return ", ".join(with_unit(figure.called(metric), number) for metric, number in numbers.items())


def with_unit(name: str, number: Number) -> str:
    """Return a name with the unit of its number; a bound or an estimate is always called so."""
    unit = "" if f" {number.unit} ".lower() in f" {name} ".lower() else number.unit
    words = [unit, number.kind if number.kind in ("bound", "estimate") else ""]
    return f"{name} ({', '.join(filter(None, words))})" if any(words) else name
