"""Cells and axis names in suite order, and helpers on cells."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.axes import AXES, Axis
from bench_core.suites.schema import Hardware

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group values by key, in order of appearance."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def ordered(run: Run) -> list[CellResult]:
    """Return the cells in suite order."""
    places = {axis: {name: place for place, name in enumerate(names_on(run, axis))} for axis in AXES[:-1]}

    def place(cell: CellResult) -> list[int]:
        return [*(by_name[name_on(cell, axis)] for axis, by_name in places.items()), seed_of(cell)]

    return sorted(run.cells, key=place)


def name_on(cell: CellResult, axis: Axis) -> str:
    """Return the name of a cell on an axis; empty if it has none."""
    name = cell.cell.get(axis)
    return "" if name is None else str(name)


def seed_of(cell: CellResult) -> int:
    """Return the seed of a cell."""
    return int(cell.cell.get("seed", 0))


def number_of(cell: CellResult, metric: str) -> Score | None:
    """Return the number of a metric in a cell; None if it has no value."""
    number = cell.numbers.get(metric)
    return number if number and number.value is not None else None


def applicable(run: Run, cells: Sequence[CellResult], metric: str) -> list[CellResult]:
    """Return the cells for which a metric is not skipped by the suite."""
    skips = [skip for skip in run.suite.skip if metric in skip.metric]
    return [cell for cell in cells if not any(skip.covers(**cell.cell, metric=metric) for skip in skips)]


def why_missing(cell: CellResult, metric: str) -> str:
    """Return why a metric has no number: its own reason, or the reason of its cell."""
    reason = cell.numbers.get(metric, Score()).reason
    return reason if reason not in ("", "not run") else cell.reason


def is_fixed(run: Run, cells: Sequence[CellResult]) -> bool:
    """Return whether cells belong to a fixed system without seeds, such as recorded outputs, as its Config declares.

    The training variance of a fixed system is unknown, and statistics do not include it.
    """
    about = (run.info.get("models") or {}).get(name_on(cells[0], "model"), {}) if len(cells) == 1 else {}
    return bool(about.get("one_system"))


def names_on(run: Run, axis: Axis) -> list[str]:
    """Return the names on an axis other than seeds, in suite order, followed by names that only cells have."""
    suite, used = run.suite, {"" if name is None else str(name) for name in run.names[axis]}
    if axis == "hardware":
        declared = ["default"] if isinstance(suite.hardware, Hardware) else [*suite.hardware]
    else:
        declared = [*getattr(suite, f"{axis}s")]
    return [*declared, *sorted(used.difference(declared))]
