"""Data of a figure: its groups of cells, the series that are drawn, and the cells that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import hook
from bench_core.runs.results import CellResult, Run, Score
from bench_core.runs.selecting import cell_name
from bench_core.suites.axes import AXES, SECTIONS, TRAINING_AXES
from bench_core.suites.cells import join
from bench_core.suites.grids import word
from bench_core.suites.training import training_schema
from bench_reports.content.grid import Status
from bench_reports.content.sorting import by_key, name_on, names_on, ordered, seed_of
from bench_reports.document import Block
from bench_reports.language.figure_schema import Figure
from bench_reports.language.setting_values import MISSING, AxisOrSetting, setting_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Names: TypeAlias = tuple[str, ...]  # the names on axes, or values of settings, of a group

MAX_MAGNITUDE = 1e300  #: on an axis; beyond it, margins and steps overflow


class Bar(NamedTuple):
    """A bin of a histogram, from its lower to its upper edge."""

    low: float
    high: float
    examples: int
    percent: float  # share of all examples, including those off the axis


class Point(NamedTuple):
    """A point of a curve, or a bar: mean and standard deviation over seeds, and the ends of its band or error bar."""

    x: float | str  # a place on a numeric axis, or a name
    mean: float | None  # None where every seed lacks it
    std: float | None
    low: float | None
    high: float | None
    seeds: int


class Spot(NamedTuple):
    """A group of cells by two metrics or costs, like `Point`."""

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
    """An entry of a matrix: mean and standard deviation over seeds, or the status without them."""

    x: str
    mean: float | None = None
    std: float | None = None
    seeds: int = 0
    status: Status = "none"


@dataclass(frozen=True)
class Series:
    """The drawn data of one group of cells, or of all groups where they agree."""

    label: str
    rows: Sequence[Any]  # bars, points, spots, a box or the tiles of a row
    seeds: int
    values: int = 0  # number of per-example values; 0 if they are not shown
    shared: bool = False  # whether it is drawn once for all groups
    panel: str = ""  # title of its panel


@dataclass(frozen=True)
class Picture:
    """A figure of a suite, ready to be drawn."""

    figure: Figure
    series: Sequence[Series] = ()
    x_label: str = ""
    y_label: str = ""
    numbers: Mapping[str, Score] = field(default_factory=dict)  # a number of each metric, for unit and signature
    notes: Sequence[str] = ()
    cells: Sequence[CellResult] = ()  # all cells that it covers
    missing: Sequence[tuple[str, str]] = ()  # cells that are left out, and why
    empty: str = ""  # why there is nothing to draw
    title: str = ""  # text above it
    places: Sequence[str] = ()  # the names on x in order, if it has names
    ticks: Sequence[float] = ()  # the numbers on x in the suite, if it has numbers
    tested: bool = False  # whether its intervals are over seeds and examples, as in tables

    @property
    def panels(self) -> list[str]:
        """Return the titles of its panels in order; a single empty title if it has no panels."""
        return list(dict.fromkeys(series.panel for series in self.series))

    def records(self) -> list[dict[str, Any]]:
        """Return a flat mapping for each drawn row."""
        flat_rows = []
        for series in self.series:
            names = {**({"panel": series.panel} if self.figure.panels else {}), "series": series.label}
            for row in (each._asdict() for each in series.rows):
                flat = {key: " ".join(map(str, value)) for key, value in row.items() if isinstance(value, tuple)}
                flat_rows.append({**names, **row, **flat})
        return flat_rows


@dataclass
class FigureData:
    """The cells of a figure by panel and group, and a list of those without data."""

    run: Run
    figure: Figure
    missing: dict[tuple[str, str], None] = field(default_factory=dict)  # cells that are left out, and why; unique
    untested: dict[str, None] = field(default_factory=dict)  # reasons why numbers have no interval; unique

    @cached_property
    def cells(self) -> list[CellResult]:
        """All cells that the figure covers, in the order of the suite."""
        return [result for result in ordered(self.run) if self.figure.covers(result.cell)]

    @cached_property
    def groups(self) -> Mapping[Names, Sequence[CellResult]]:
        """The cells of each group, in all panels."""
        return self.group(self.cells, self.figure.by)

    @cached_property
    def panels(self) -> Mapping[str, Mapping[Names, Sequence[CellResult]]]:
        """The groups of each panel by its title; a single panel without title if there are no panels."""
        by = [*filter(None, [self.figure.panels])]
        panels = self.group(self.cells, by).items()
        return {self.label(names, by or [""]): self.group(cells, self.figure.by) for names, cells in panels}

    def group(self, cells: Iterable[CellResult], texts: Sequence[str]) -> dict[Names, list[CellResult]]:
        """Return cells by names on axes or values of settings, in suite order, with numbers in ascending order."""
        sides = [self.figure.sides[text] for text in texts]
        groups = by_key((tuple(self.word(result, side) for side in sides), result) for result in cells)
        ranks = [self.order(side) for side in sides]
        rank = lambda names: [rank[name] for name, rank in zip(names, ranks, strict=True)]  # noqa: E731
        return {names: groups[names] for names in sorted(groups, key=rank)}

    def order(self, side: AxisOrSetting) -> dict[str, int]:
        """Return the rank of each name on an axis, or of each value of a setting."""
        ranks = {name: rank for rank, name in enumerate(names_on(self.run, side.axis))}
        if side.setting is None:
            return ranks
        cells = sorted(self.cells, key=lambda result: ranks[name_on(result, side.axis)])
        values = {word(value): value for value in (self.value(result, side) for result in cells)}
        numbers = all(map(is_number, values.values()))
        return {text: rank for rank, text in enumerate(sorted(values, key=values.__getitem__) if numbers else values)}

    def value(self, result: CellResult, side: AxisOrSetting) -> Any:
        """Return the name of a cell on an axis, or its value of a setting; raise SuiteError if it is not set."""
        name = name_on(result, side.axis)
        if side.setting is None:
            return name
        if side == self.figure.place and name in self.figure.at:
            number = self.figure.at[name]
            return int(number) if number == int(number) else number  # so that it is printed without a decimal point
        section = getattr(self.run.suite, SECTIONS[side.axis])
        setting = setting_value(section, name, side.setting, name_on(result, "task"), self._training)
        if setting is MISSING:
            raise SuiteError(f"{side.axis} {name} has no value for {side.setting!r}.")
        return setting

    @cached_property
    def _training(self) -> Mapping[str, Any]:
        return training_schema()(**self.run.suite.training).model_dump()

    def word(self, result: CellResult, side: AxisOrSetting) -> str:
        """Return the name of a cell on an axis, or its value of a setting, as text."""
        return word(self.value(result, side))

    def label(self, names: Names, texts: Sequence[str] | None = None) -> str:
        """Return the label of a group, such as `lstm/tied=true`, or the label that the suite sets."""
        figure, sides = self.figure, [self.figure.sides[text] for text in (texts or self.figure.by) if text]
        pairs = zip(names, sides, strict=True)
        parts = [name if side.setting in (None, "name") else f"{side}={name}" for name, side in pairs]
        return figure.label_of(join(*map(figure.label_of, parts)))

    def axis_label(self, axis: Literal["x", "y"]) -> str:
        """Return the label of an axis that shows names or values of a setting."""
        text = self.figure.x if axis == "x" else self.figure.y
        labels = self.figure.labels
        return labels.get(axis) or labels.get(text) or text.replace(".", " ").replace("_", " ")

    def leave_out(self, result: CellResult, reason: str) -> None:
        """Note that a cell, or its training run, has no data."""
        axes = (*TRAINING_AXES, "seed") if self.figure.history else AXES
        name = cell_name({axis: result.cell[axis] for axis in axes if axis in result.cell})
        self.missing[name, reason or result.status] = None

    def number(self, metric: str) -> Score:
        """Return a number of a metric; raise SuiteError if kinds or signatures differ between cells."""
        by_kind: dict[tuple[str, str], tuple[str, Score]] = {}
        for result in self.cells:
            number = result.numbers.get(metric)
            if number and number.value is not None:
                names = (name_on(result, axis) for axis in self.figure.grouping_axes)
                by_kind.setdefault((number.kind, number.signature), (join(*names), number))
        if len(by_kind) > 1:
            kinds = "; ".join(f"{label}: {', '.join(filter(None, kind))}" for kind, (label, _) in by_kind.items())
            raise SuiteError(f"{metric} has several kinds or signatures, which a figure cannot mix ({kinds}).")
        return next((number for _, number in by_kind.values()), Score())


def check_unique_seeds(cells: Sequence[CellResult]) -> Sequence[CellResult]:
    """Return cells unchanged; raise SuiteError if two have the same seed, and thus the same place in a figure."""
    seen: dict[int, CellResult] = {}
    for result in cells:
        other = seen.setdefault(seed_of(result), result)
        if other is not result:
            raise SuiteError(f"{cell_name(other.cell)} and {cell_name(result.cell)} share a place. Select only one.")
    return cells


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure that a plugin adds with `bench_figure`: how it is made from a run, drawn, and described."""

    make: Callable[[FigureData], Picture]
    draw: Callable[[Canvas, Picture], None]  # draws on an empty canvas and sets its size
    details: Callable[[Picture], Sequence[Block]]  # returns blocks such as headings and tables
    seeds: str  # which seeds are shown, for the notes below a figure


def kind_of(name: str) -> FigureKind | None:
    """Return the kind of figure that a plugin adds under this name, if any."""
    kind: FigureKind | None = hook().bench_figure(kind=name)
    return kind


def has_place(value: float | None, log: bool) -> bool:
    """Return whether an axis can show a value: it is finite, and positive if the axis is logarithmic."""
    return value is not None and abs(value) <= MAX_MAGNITUDE and (value > 0 or not log)


def is_number(value: object) -> bool:
    """Return whether the value of a setting is a number."""
    return type(value) in (int, float)


def axis_label(figure: Figure, numbers: Mapping[str, Score]) -> str:
    """Return the label of a metric axis: each metric with its unit, or only the unit if several metrics share it."""
    units = {number.unit for number in numbers.values()}
    if len(numbers) > 1 and len(units) == 1 and "" not in units:
        return units.pop()
    return ", ".join(with_unit(figure.label_of(metric), number) for metric, number in numbers.items())


def with_unit(name: str, number: Score) -> str:
    """Return a name with the unit of its number; bounds and estimates are marked as such."""
    unit = "" if f" {number.unit} ".lower() in f" {name} ".lower() else number.unit
    words = [unit, number.kind if number.kind in ("bound", "estimate") else ""]
    return f"{name} ({', '.join(filter(None, words))})" if any(words) else name
