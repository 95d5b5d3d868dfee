"""Tables and notes of probe findings: numbers, and proven bounds beside what was measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_reports.content.sorting import by_key, name_on, names_on, ordered, seed_of
from bench_reports.statistics.intervals import summary

SHOWN = 3  # texts of different seeds
HEADINGS = ("cell", "source", "premises", "what follows", "bound", "measured")
OF_NUMBERS = ("cell", "probe", "number", "mean", "std", "seeds")


@dataclass(frozen=True)
class Stated:
    """A statement that a probe made of a cell."""

    cell: CellResult
    probe: str
    place: int  # among those of the probe
    statement: Mapping[str, Any]

    @property
    def metric(self) -> str:
        """Return the suite's name of the metric that it is about; empty where the suite has none."""
        return str(self.cell.probes[self.probe]["measured"].get(self.statement["metric"], ""))

    @property
    def number(self) -> Number | None:
        """Return what was measured, or None where nothing was, or nothing that is a number."""
        number = self.cell.numbers.get(self.metric)
        return None if number is None or number.value is None or isnan(number.value) else number

    @property
    def broken(self) -> bool:
        """Return whether the measurement lies outside of what was promised."""
        number, promises = self.number, self.statement["promises"]
        if number is None or number.value is None or not promises:
            return False
        return not promises[0] <= number.value <= promises[1]


def statement_rows(run: Run) -> list[list[str]]:
    """Return a table with its headings first, a row for each group of seeds; empty where nothing was stated."""
    groups = by_key(((one.probe, one.place, label), one) for label, one in _stated(run))
    rows = [[label, *_row(stated)] for (_, _, label), stated in groups.items()]
    return [list(HEADINGS), *rows] if rows else []


def number_rows(run: Run) -> list[list[str]]:
    """Return a table of the numbers of probes with its headings first; empty where there are none."""
    numbers = (
        ((label, probe, name), float(value)) for label, one in _labelled(run)
        for probe, found in one.probes.items() for name, value in found["numbers"].items()
    )  # fmt: skip
    summed = [(key, summary(values)) for key, values in by_key(numbers).items()]
    rows = [
        [*key, f"{one.mean:.4g}", "–" if one.std is None else f"{one.std:.2g}", str(one.n)] for key, one in summed
    ]
    return [list(OF_NUMBERS), *rows] if rows else []


def failing_premises(run: Run) -> list[str]:
    """Return, for footnotes, each premise that some model does not have."""
    failing = by_key(
        (premise["text"], name_on(stated.cell, "model"))
        for _, stated in _stated(run) for premise in stated.statement["premises"] if not premise["holds"]
    )  # fmt: skip
    return [
        f"Premise that does not hold ({', '.join(sorted({*models}))}): {text}." for text, models in failing.items()
    ]


def broken_promises(run: Run) -> list[str]:
    """Return what was measured outside of what was proven: a mistake somewhere, to be looked into."""
    return list(dict.fromkeys(_alarm(stated) for _, stated in _stated(run) if stated.broken))


def _alarm(stated: Stated) -> str:
    one, number, (low, high) = stated.cell, stated.number, stated.statement["promises"]
    cell = join(*(name_on(one, axis) for axis in AXES[:-1]))
    text = f"{stated.probe}: {stated.metric} of {cell}, seed {seed_of(one)}, is {number and number.value:g}; "
    return f"{text}{stated.statement['source']} promises {low:g} to {high:g}."


def _labelled(run: Run) -> Iterator[tuple[str, CellResult]]:
    """Yield each cell that was probed, after its name without a seed."""
    axes = [axis for axis in AXES[:-1] if axis in ("model", "decoder") or len(names_on(run, axis)) > 1]
    for one in (one for one in ordered(run) if one.probes):
        yield join(*(name_on(one, axis) for axis in axes)), one


def _stated(run: Run) -> Iterator[tuple[str, Stated]]:
    for label, one in _labelled(run):
        for probe, found in one.probes.items():
            yield from ((label, Stated(one, probe, *pair)) for pair in enumerate(found["statements"]))


def _row(stated: Sequence[Stated]) -> list[str]:
    """Return source, premises, conclusion, bound and measurement of the seeds of one cell."""
    holding = _holding(stated)
    says = _different(stated, "says") if all(holding.values()) else "nothing, as a premise does not hold"
    premises = f"{sum(holding.values())} of {len(holding)} hold" if not all(holding.values()) else "all hold"
    texts = [_different(stated, "source") or "none", premises if holding else "–", says]
    return [*texts, _different(stated, "bound") or "–", _measurement(stated)]


def _different(stated: Sequence[Stated], key: str) -> str:
    """Return what the statements of all seeds say under a key, the first few that differ."""
    texts = list(dict.fromkeys(one.statement[key] for one in stated if one.statement[key]))
    return "; ".join([*texts[:SHOWN], *(["..."] if len(texts) > SHOWN else [])])


def _holding(stated: Sequence[Stated]) -> dict[str, bool]:
    """Return whether each premise holds for every seed."""
    holding: dict[str, bool] = {}
    for premise in (premise for one in stated for premise in one.statement["premises"]):
        holding[premise["text"]] = holding.get(premise["text"], True) and premise["holds"]
    return holding


def _measurement(stated: Sequence[Stated]) -> str:
    """Return the mean of what was measured, and whether every seed is within what was promised."""
    measured = [(one, number) for one in stated if (number := one.number) is not None]
    if not measured:
        return "not measured"
    first, number = measured[0]
    mean = summary([number.value for _, number in measured if number.value is not None]).mean
    text = f"{first.metric} {mean:.{number.digits}f} {number.unit}".strip()
    if not any(one.statement["promises"] for one, _ in measured):
        return text
    return f"{text}, {'AGAINST THE PROOF' if any(one.broken for one, _ in measured) else 'as promised'}"
