"""Tables of stage costs, from `costs.csv`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from statistics import median
from typing import Any, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Run, Score
from bench_core.stage_kinds import WEIGHTS, weights_of
from bench_core.suites.axes import AXES
from bench_reports.content.numbers import number
from bench_reports.content.sorting import by_key
from plain_files import from_csv

Stages: TypeAlias = Sequence[Mapping[str, str]]
ByKey: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]  #: by stage kind and key prefix

MAX_LISTED_STAGES = 100  #: stages listed
LISTED = {
    "what": "what", "stage": "stage", "seconds": "seconds", "cpu_seconds": "CPU seconds", "peak_mib": "peak MiB",
    "tokens_per_second": "tokens/s", "ms_per_example": "ms/example", "parameters": "parameters",
    "ms_per_update": "ms/update",
}  # fmt: skip
TEXTS = ("what", "stage")  # columns of text
KEY = 16  # characters of a key in costs.csv


@dataclass(frozen=True)
class StageCosts:
    """The costs of the stages behind each cell of a run."""

    run: Run

    @cached_property
    def _stages(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """The costs of each stage, by its kind and key prefix."""
        path = self.run.folder / "costs.csv"
        return _by_key(path.read_bytes().decode("utf-8", "replace") if path.is_file() else "")

    def of(self, cell: CellResult, name: str) -> float | None:
        """Return a cost of a cell, such as `cost.train.seconds`; None if unknown."""
        return _cost(self._stages, cell.artifacts, name)


def with_cost(run: Run, cells: Sequence[CellResult], name: str) -> list[CellResult]:
    """Return cells with a training cost, such as `cost.train.cpu_seconds`, added to their numbers."""
    spent, priced = StageCosts(run), []
    for cell in cells:
        value = spent.of(cell, name)
        cost = Score(
            value, "" if value is not None else "its cost is unknown", better=-1, scale="log", bounds=(0.0, inf)
        )
        measured = {**cell.artifacts, f"measure/{name}": weights_of(cell.artifacts)}
        priced.append(replace(cell, numbers={**cell.numbers, name: cost}, artifacts=measured))
    return priced


def _by_key(text: str) -> ByKey:
    return {(row.get("stage", ""), row.get("key", "")): row for row in stages_of(text)}


def _cost(stages: ByKey, artifacts: Mapping[str, str], name: str) -> float | None:
    """Return a cost of the only stage of a kind; None if a cell has several such stages.

    For pretrained models, the training cost is the cost of setting them up.
    """
    _, kind, what = name.split(".", 2)
    kinds = WEIGHTS if kind in WEIGHTS else (kind,)
    keys = {
        (own_kind, key[:KEY]) for stage, key in artifacts.items() if (own_kind := stage.partition("/")[0]) in kinds
    }
    return number(stages.get(keys.pop(), {}).get(what)) if len(keys) == 1 else None


def costs_over_seeds(text: str, cells: Iterable[Mapping[str, Any]], name: str) -> list[list[float]]:
    """Return the costs of cells, grouped over seeds, from `costs.csv` and the cells of `results.json`."""
    stages = _by_key(text)
    costs = (
        (tuple(cell["cell"].get(axis) for axis in AXES[:-1]), value) for cell in cells
        if (value := _cost(stages, cell["artifacts"], name)) is not None
    )  # fmt: skip
    return [*by_key(costs).values()]


def cost_label(name: str) -> str:
    """Return the axis label of a cost, such as `seconds (train)`."""
    _, kind, what = name.split(".", 2)
    return f"{LISTED.get(what, what)} ({kind})"


def stages_of(text: str) -> Stages:
    """Return the rows of `costs.csv`; raise StoreError if it cannot be read."""
    try:
        return from_csv(text)
    except ValueError as error:
        raise StoreError(f"costs.csv cannot be read: {error}. Run the suite again.") from None


def by_kind(stages: Stages) -> list[list[str]]:
    """Return totals for each kind of stage, headings first; the total of memory is the highest peak."""
    kinds = by_key((stage.get("stage", ""), stage) for stage in stages)
    headings = ["stage", "stages", "seconds", "CPU seconds", "peak MiB", "tokens", "tokens/s"]
    return [headings, *([kind, *_sums(group)] for kind, group in kinds.items())]


def dearest(stages: Stages) -> list[list[str]]:
    """Return the stages that took longest, headings first; the numbers in a column have equally many decimals."""
    longest = sorted(stages, key=lambda stage: -(number(stage.get("seconds")) or 0.0))[:MAX_LISTED_STAGES]
    columns = [_format_column([stage.get(name, "") for stage in longest], name in TEXTS) for name in LISTED]
    return [[*LISTED.values()], *map(list, zip(*columns, strict=True))]


def _format_column(column: Sequence[str], is_text: bool) -> list[str]:
    """Return numbers with thousands separators and decimals for their median's three digits; text is unchanged."""
    numbers = [None if is_text or "," in text else number(text) for text in column]
    sizes = [abs(value) for value in numbers if value is not None]
    usual = median(sizes) if sizes and not all(size.is_integer() for size in sizes) else inf
    digits = 0 if usual >= 100 else 1 if usual >= 10 else 2 if usual >= 1 else 3
    pairs = zip(column, numbers, strict=True)
    return [(text or "–") if value is None else f"{value:,.{digits}f}" for text, value in pairs]


def _sums(stages: Stages) -> list[str]:
    timed = [stage for stage in stages if number(stage.get("tokens")) and number(stage.get("seconds"))]
    tokens, seconds = _total(timed, "tokens"), _total(timed, "seconds")
    peaks = [peak for stage in stages if (peak := number(stage.get("peak_mib"))) is not None]
    sums = [f"{_total(stages, name):,.1f}" for name in ("seconds", "cpu_seconds")]
    rates = [f"{tokens:,.0f}", f"{tokens / seconds:,.0f}"] if timed else ["–", "–"]
    return [f"{len(stages):,}", *sums, f"{max(peaks):,.0f}" if peaks else "–", *rates]


def _total(stages: Stages, name: str) -> float:
    return sum(number(stage.get(name)) or 0.0 for stage in stages)
