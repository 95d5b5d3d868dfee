"""Tables of the cost of stages, from `costs.csv`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from statistics import median
from typing import Any, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Number, Run
from bench_core.stage_kinds import WEIGHTS, weights_of
from bench_core.suites.axes import AXES
from bench_reports.content.numbers import number
from bench_reports.content.sorting import by_key
from plain_files import from_csv

Stages: TypeAlias = Sequence[Mapping[str, str]]
ByKey: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]  #: by the kind of a stage and the beginning of its key

DEAREST = 100  #: stages that are listed
LISTED = {
    "what": "what", "stage": "stage", "seconds": "seconds", "cpu_seconds": "CPU seconds", "peak_mib": "peak MiB",
    "tokens_per_second": "tokens/s", "ms_per_example": "ms/example", "parameters": "parameters",
    "ms_per_update": "ms/update",
}  # fmt: skip
TEXTS = ("what", "stage")  # of these
KEY = 16  # letters of a key in costs.csv


@dataclass(frozen=True)
class Spent:
    """What the stages behind each cell of a run cost."""

    run: Run

    @cached_property
    def _stages(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """What is known of each stage, by its kind and the beginning of its key."""
        path = self.run.folder / "costs.csv"
        return _by_key(path.read_bytes().decode("utf-8", "replace") if path.is_file() else "")

    def of(self, one: CellResult, name: str) -> float | None:
        """Return a cost of a cell, such as `cost.train.seconds`; None where it is not known."""
        return _cost(self._stages, one.artifacts, name)


def with_cost(run: Run, cells: Sequence[CellResult], name: str) -> list[CellResult]:
    """Return cells with a cost of their trainings, such as `cost.train.cpu_seconds`, as one more number."""
    spent, found = Spent(run), []
    for one in cells:
        value = spent.of(one, name)
        cost = Number(value, "" if value else "its cost is not known", better=-1, scale="log", bounds=(0.0, inf))
        training = weights_of(one.artifacts)
        measured = {**one.artifacts, f"measure/{name}": training}
        found.append(replace(one, numbers={**one.numbers, name: cost}, artifacts=measured))
    return found


def _by_key(text: str) -> ByKey:
    return {(one.get("stage", ""), one.get("key", "")): one for one in stages_of(text)}


def _cost(stages: ByKey, artifacts: Mapping[str, str], name: str) -> float | None:
    """Return the cost of the only stage of its kind: a cell that is scored in two ways has no one cost of that.

    That of a training is that of setting up, where the model is evaluated as it is.
    """
    _, kind, what = name.split(".", 2)
    kinds = WEIGHTS if kind in WEIGHTS else (kind,)
    found = {(one, key[:KEY]) for stage, key in artifacts.items() if (one := stage.partition("/")[0]) in kinds}
    return number(stages.get(found.pop(), {}).get(what)) if len(found) == 1 else None


def costs_over_seeds(text: str, cells: Iterable[Mapping[str, Any]], name: str) -> list[list[float]]:
    """Return a cost of cells that differ in their seed alone, from `costs.csv` and the cells of `results.json`."""
    stages = _by_key(text)
    known = (
        (tuple(cell["cell"].get(axis) for axis in AXES[:-1]), value) for cell in cells
        if (value := _cost(stages, cell["artifacts"], name)) is not None
    )  # fmt: skip
    return [*by_key(known).values()]


def cost_label(name: str) -> str:
    """Return what an axis says of a cost, such as `seconds (train)`."""
    _, kind, what = name.split(".", 2)
    return f"{LISTED.get(what, what)} ({kind})"


def stages_of(text: str) -> Stages:
    """Return the lines of `costs.csv`."""
    try:
        return from_csv(text)
    except ValueError as error:
        raise StoreError(f"costs.csv: the costs cannot be read: {error}. Run the suite again.") from None


def by_kind(stages: Stages) -> list[list[str]]:
    """Return sums for each kind of stage, headings first; of memory the highest peak."""
    kinds = by_key((one.get("stage", ""), one) for one in stages)
    headings = ["stage", "stages", "seconds", "CPU seconds", "peak MiB", "tokens", "tokens/s"]
    return [headings, *([kind, *_summed(group)] for kind, group in kinds.items())]


def dearest(stages: Stages) -> list[list[str]]:
    """Return the stages that took longest, headings first; the numbers of a column have the same digits."""
    found = sorted(stages, key=lambda one: -(number(one.get("seconds")) or 0.0))[:DEAREST]
    columns = [_written([one.get(name, "") for one in found], name in TEXTS) for name in LISTED]
    return [[*LISTED.values()], *map(list, zip(*columns, strict=True))]


def _written(column: Sequence[str], is_text: bool) -> list[str]:
    """Return numbers in three digits of the usual one, the median, with their thousands apart; text as it is."""
    numbers = [None if is_text or "," in value else number(value) for value in column]
    known = [abs(one) for one in numbers if one is not None]
    usual = median(known) if known and not all(one.is_integer() for one in known) else inf
    digits = 0 if usual >= 100 else 1 if usual >= 10 else 2 if usual >= 1 else 3
    pairs = zip(column, numbers, strict=True)
    return [(value or "–") if one is None else f"{one:,.{digits}f}" for value, one in pairs]


def _summed(stages: Stages) -> list[str]:
    timed = [one for one in stages if number(one.get("tokens")) and number(one.get("seconds"))]
    tokens, seconds = _total(timed, "tokens"), _total(timed, "seconds")
    peaks = [peak for one in stages if (peak := number(one.get("peak_mib"))) is not None]
    sums = [f"{_total(stages, name):,.1f}" for name in ("seconds", "cpu_seconds")]
    rates = [f"{tokens:,.0f}", f"{tokens / seconds:,.0f}"] if timed else ["–", "–"]
    return [f"{len(stages):,}", *sums, f"{max(peaks):,.0f}" if peaks else "–", *rates]


def _total(stages: Stages, name: str) -> float:
    return sum(number(one.get(name)) or 0.0 for one in stages)
