"""Data of a figure: its groups of cells, the series that are drawn, and the cells that are left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import hook
from bench_core.runs.results import CellResult, Number, Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.axes import AXES, TRAINING_AXES
from bench_core.suites.cells import join
from bench_core.suites.figure_schema import Figure
from bench_reports.content.grid import Status
from bench_reports.content.sorting import name_on, names_on, ordered
from bench_reports.document import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Names: TypeAlias = tuple[str, ...]  # on the axes that make the groups

FARTHEST = 1e300  #: from 0 on an axis, beyond which its margins and steps are no numbers


class Bar(NamedTuple):
    """A bin of a histogram, from its lower edge to its upper."""

    low: float
    high: float
    examples: int
    percent: float  # of all examples, those off the axis too


class Point(NamedTuple):
    """A point of a curve: mean and standard deviation over seeds."""

    x: float
    mean: float
    std: float | None
    seeds: int


class Spot(NamedTuple):
    """A group of cells by two metrics: means and standard deviations over seeds."""

    x: float
    x_std: float | None
    y: float
    y_std: float | None
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
    rows: Sequence[Any]  # bars, points, a spot, a box or the tiles of a row
    seeds: int
    values: int = 0  # of single examples; 0 where those do not show
    shared: bool = False  # by all groups


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

    def records(self) -> list[dict[str, Any]]:
        """Return one flat mapping for each thing that is drawn."""
        return [{"series": one.label, **_flat(row._asdict())} for one in self.series for row in one.rows]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: " ".join(map(str, value)) if isinstance(value, tuple) else value for key, value in row.items()}


@dataclass
class FigureData:
    """The cells of a figure by group, and a list of those that have nothing to draw."""

    run: Run
    figure: Figure
    groups: Mapping[Names, Sequence[CellResult]] = field(init=False)
    missing: dict[tuple[str, str], None] = field(default_factory=dict)  # what is left out, and why, each once

    def __post_init__(self) -> None:
        found: dict[Names, list[CellResult]] = defaultdict(list)
        for one in ordered(self.run):
            if self.figure.covers(one.cell):
                found[tuple(name_on(one, axis) for axis in self.figure.grouped)].append(one)
        known = [names_on(self.run, axis) for axis in self.figure.grouped]
        place = lambda names: [order.index(name) for name, order in zip(names, known, strict=True)]  # noqa: E731
        self.groups = {names: found[names] for names in sorted(found, key=place)}

    @property
    def cells(self) -> list[CellResult]:
        """Return all cells that the figure covers."""
        return [one for group in self.groups.values() for one in group]

    def leave_out(self, one: CellResult, reason: str) -> None:
        """Note a cell, or the training of a cell, that has nothing to draw."""
        axes = (*TRAINING_AXES, "seed") if self.figure.kind == "line" else AXES
        name = cell_name({axis: one.cell[axis] for axis in axes if axis in one.cell})
        self.missing[name, reason or one.status] = None

    def number(self, metric: str) -> Number:
        """Return one of a metric's numbers; raise SuiteError if their kinds or signatures differ."""
        found: dict[tuple[str, str], tuple[str, Number]] = {}
        for names, cells in self.groups.items():
            for one in cells:
                number = one.numbers.get(metric)
                if number and number.value is not None:
                    found.setdefault((number.kind, number.signature), (join(*names), number))
        if len(found) > 1:
            kinds = "; ".join(f"{label}: {', '.join(filter(None, kind))}" for kind, (label, _) in found.items())
            raise SuiteError(f"{metric} is not one number for all, but of several kinds or signatures ({kinds}).")
        return next((number for _, number in found.values()), Number())


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


def has_place(value: float, log: bool) -> bool:
    """Return whether an axis can hold a value: it is finite, and above 0 where the axis is logarithmic."""
    return abs(value) <= FARTHEST and (value > 0 or not log)


def axis_label(metrics: Sequence[str], numbers: Mapping[str, Number]) -> str:
    """Return the label of an axis: the metric and its unit, or the unit that several have in common."""
    units = {numbers[metric].unit for metric in metrics}
    if len(metrics) > 1 and len(units) == 1 and "" not in units:
        return units.pop()
    return ", ".join(with_unit(metric, numbers[metric]) for metric in metrics)


def with_unit(name: str, number: Number) -> str:
    """Return a name with the unit of its number; a bound or an estimate is always called so."""
    words = [number.unit, number.kind if number.kind in ("bound", "estimate") else ""]
    return f"{name} ({', '.join(filter(None, words))})" if any(words) else name
