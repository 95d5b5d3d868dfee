"""Which run each cell is taken from, where several runs have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.runs.environments import environments, unlike_words
from bench_core.runs.results import CellResult, Run
from bench_core.runs.sorting import cell_name
from bench_core.suites.schema import AXES

RANKS = {"done": 2, "failed": 1, "not run": 0}
MOST_NAMES = 8  # of cells in one message

Place: TypeAlias = tuple[Any, ...]  #: of a cell: its names, and its seed


@dataclass(frozen=True)
class Taken:
    """A cell, and the runs that it is taken from: all of it from the first, more numbers from the others."""

    result: CellResult
    runs: tuple[int, ...]  # their places


def place_of(cell: CellResult) -> Place:
    """Return where a cell is in the matrix."""
    return tuple(cell.cell.get(axis) for axis in AXES)


@dataclass
class Overlap:
    """Takes every cell from the run in which it got furthest, or which is preferred."""

    runs: Sequence[Run]
    preferred: Sequence[int]  # places of runs, the first before the others
    notes: list[str] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # how two differ -> cells

    def taken(self) -> dict[Place, Taken]:
        """Return every cell once; raise SuiteError where two runs differ and nothing says which is meant."""
        several: dict[Place, list[Taken]] = {}
        for number, run in enumerate(self.runs):
            for one in run.cells:
                several.setdefault(place_of(one), []).append(Taken(one, (number,)))
        found = {place: self._best(alike) for place, alike in several.items()}
        if self.conflicts:
            lines = [f"  {_listed(cells)}: {how}" for how, cells in self.conflicts.items()]
            said = ["cells were computed otherwise in one run than in another:", *lines]
            raise SuiteError("\n".join([*said, "Say by --prefer RUN from which they are taken."]))
        return found

    def _best(self, alike: Sequence[Taken]) -> Taken:
        most = max(RANKS[one.result.status] for one in alike)
        best = sorted((one for one in alike if RANKS[one.result.status] == most), key=self._preference)
        first = best[0]
        for other in best[1:]:
            how = self._conflict(first, other)
            if not how:
                first = _united(first, other)
            elif first.runs[0] in self.preferred:
                self._note(first, f"differs from that in {self._name(other)} ({how})")
            else:
                self.conflicts.setdefault(how, []).append(cell_name(first.result.cell))
        for other in alike:
            if other.result.status != first.result.status:
                self._note(first, f"is {first.result.status}, but {other.result.status} in {self._name(other)}")
        return first

    def _preference(self, one: Taken) -> int:
        return self.preferred.index(one.runs[0]) if one.runs[0] in self.preferred else len(self.preferred)

    def _note(self, one: Taken, text: str) -> None:
        self.notes.append(f"{cell_name(one.result.cell)}: taken from {self._name(one)}, where it {text}")

    def _name(self, one: Taken) -> str:
        return self.runs[one.runs[0]].folder.resolve().name

    def _conflict(self, one: Taken, other: Taken) -> str:
        """Say how two results of a cell differ; nothing if one may stand for both."""
        ours, theirs = one.result, other.result
        where = f"{self.runs[one.runs[0]].folder} and {self.runs[other.runs[0]].folder}"
        keys = [name for name, key in ours.artifacts.items() if theirs.artifacts.get(name, key) != key]
        if keys:
            return f"{self._differing(one, other)} ({where})"
        numbers = [name for name, number in ours.numbers.items() if name in theirs.numbers]
        if any(repr(ours.numbers[name]) != repr(theirs.numbers[name]) for name in numbers):
            return f"other numbers under the same keys; `bench verify` tells which are not those of a store ({where})"
        return ""

    def _differing(self, one: Taken, other: Taken) -> str:
        """Say which ingredients of keys differ between two results, as far as runs tell."""
        pair = [(self.runs[each.runs[0]], each.result) for each in (one, other)]
        words = unlike_words([environments(run)[place] for run, result in pair for place in result.environments])
        sizes = [run.suite.limits.batch_size for run, _ in pair]
        return ", ".join([*words, *([f"batch_size {sizes[0]} and {sizes[1]}"] if sizes[0] != sizes[1] else [])])


def _united(one: Taken, other: Taken) -> Taken:
    """Return a cell with all that two runs have of it, who agree where both have it."""
    ours, theirs = one.result, other.result
    result = replace(
        ours,
        numbers={**theirs.numbers, **ours.numbers},
        artifacts={**theirs.artifacts, **ours.artifacts},
        probes={**theirs.probes, **ours.probes},
    )
    return Taken(result, (*one.runs, *other.runs))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return "; ".join(names[:MOST_NAMES]) + more
