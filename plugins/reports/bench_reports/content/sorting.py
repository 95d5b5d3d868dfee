"""Sorts cells, and the names on an axis, in the order of the suite; what cells and suites have in common."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import AXES, Axis
from bench_core.suites.schema import Hardware

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def ordered(run: Run) -> list[CellResult]:
    """Return the cells in the order of the suite."""
    places = {axis: {name: place for place, name in enumerate(names_on(run, axis))} for axis in AXES[:-1]}

    def place(one: CellResult) -> list[int]:
        return [*(known[name_on(one, axis)] for axis, known in places.items()), seed_of(one)]

    return sorted(run.cells, key=place)


def name_on(one: CellResult, axis: Axis) -> str:
    """Return the name of a cell on an axis; empty if it has none there."""
    name = one.cell.get(axis)
    return "" if name is None else str(name)


def seed_of(one: CellResult) -> int:
    """Return the seed of a cell."""
    return int(one.cell.get("seed", 0))


def number_of(one: CellResult, metric: str) -> Number | None:
    """Return a metric's number of a cell, or None where there is no value."""
    number = one.numbers.get(metric)
    return number if number and number.value is not None else None


def applicable(run: Run, cells: Sequence[CellResult], metric: str) -> list[CellResult]:
    """Return the cells in which a metric was not left out on purpose."""
    skips = [skip for skip in run.suite.skip if metric in skip.metric]
    return [one for one in cells if not any(skip.covers(**one.cell, metric=metric) for skip in skips)]


def why_missing(one: CellResult, metric: str) -> str:
    """Return why a metric has no number: what is known of it alone, or of its cell."""
    own = one.numbers.get(metric, Number()).reason
    return own if own not in ("", "not run") else one.reason


def is_fixed(run: Run, cells: Sequence[CellResult]) -> bool:
    """Return whether cells are of one system whatever the seeds, as its Config says, such as recorded outputs.

    Nothing is known of other trainings of it, and statistics do not ask for them.
    """
    about = (run.info.get("models") or {}).get(name_on(cells[0], "model"), {}) if len(cells) == 1 else {}
    return bool(about.get("one_system"))


def names_on(run: Run, axis: Axis) -> list[str]:
    """Return the names on an axis, but that of seeds, in the order of the suite; then those that only cells have."""
    suite, found = run.suite, {"" if name is None else str(name) for name in run.names[axis]}
    if axis == "hardware":
        known = ["default"] if isinstance(suite.hardware, Hardware) else [*suite.hardware]
    else:
        known = [*getattr(suite, f"{axis}s")]
    return [*known, *sorted(found.difference(known))]
