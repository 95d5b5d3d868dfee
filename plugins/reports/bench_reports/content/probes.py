"""Tables and notes of probe results: numbers, and proven bounds compared with measurements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key, name_on, names_on, ordered, seed_of
from bench_reports.statistics.intervals import summary

MAX_TEXTS = 3  # distinct texts over seeds
HEADINGS = ("cell", "source", "premises", "what follows", "bound", "measured")
OF_NUMBERS = ("cell", "probe", "number", "mean", "std", "seeds")


@dataclass(frozen=True)
class ProbeStatement:
    """A statement of a probe about a cell."""

    cell: CellResult
    probe: str
    place: int  # index in the probe's statements
    statement: Mapping[str, Any]

    @property
    def metric(self) -> str:
        """The suite's name for the statement's metric; empty if the suite does not have that metric."""
        return str(self.cell.probes[self.probe]["measured"].get(self.statement["metric"], ""))

    @property
    def number(self) -> Score | None:
        """The measured number; None if it is missing or NaN."""
        number = self.cell.numbers.get(self.metric)
        return None if number is None or number.value is None or isnan(number.value) else number

    @property
    def broken(self) -> bool:
        """Whether the measurement lies outside the proven bounds."""
        number, promises = self.number, self.statement["promises"]
        if number is None or number.value is None or not promises:
            return False
        return not promises[0] <= number.value <= promises[1]


def statement_rows(run: Run) -> list[list[str]]:
    """Return a table with a row for each statement over all seeds, headings first; empty without statements."""
    groups = by_key(((stated.probe, stated.place, label), stated) for label, stated in _statements(run))
    rows = [[label, *_row(stated)] for (_, _, label), stated in groups.items()]
    return [list(HEADINGS), *rows] if rows else []


def number_rows(run: Run) -> list[list[str]]:
    """Return a table of the numbers of probes, headings first; empty if there are none."""
    numbers = (
        ((label, probe, name), float(value)) for label, cell in _probed_cells(run)
        for probe, result in cell.probes.items() for name, value in result["numbers"].items()
    )  # fmt: skip
    summaries = [(key, summary(values)) for key, values in by_key(numbers).items()]
    rows = [
        [*key, f"{over.mean + 0.0:.4g}", "–" if over.std is None else f"{over.std:.2g}", str(over.n)]
        for key, over in summaries
    ]
    return [list(OF_NUMBERS), *rows] if rows else []


def failing_premises(run: Run) -> list[str]:
    """Return each premise that does not hold for at least one model, for footnotes."""
    failing = by_key(
        (premise["text"], name_on(stated.cell, "model"))
        for _, stated in _statements(run) for premise in stated.statement["premises"] if not premise["holds"]
    )  # fmt: skip
    return [
        f"Premise that does not hold ({', '.join(sorted({*models}))}): {text}." for text, models in failing.items()
    ]


def broken_promises(run: Run) -> list[str]:
    """Return the measurements that contradict proven bounds; each indicates an error in the code or the proof."""
    return list(dict.fromkeys(_alarm(stated) for _, stated in _statements(run) if stated.broken))


def _alarm(stated: ProbeStatement) -> str:
    cell, number, (low, high) = stated.cell, stated.number, stated.statement["promises"]
    name = join(*(name_on(cell, axis) for axis in AXES[:-1]))
    text = f"{stated.probe}: {stated.metric} of {name}, seed {seed_of(cell)}, is {number and number.value:g}; "
    return f"{text}{stated.statement['source']} promises {low:g} to {high:g}."


def _probed_cells(run: Run) -> Iterator[tuple[str, CellResult]]:
    """Yield the name without seed of each probed cell, and the cell."""
    axes = [axis for axis in AXES[:-1] if axis in ("model", "decoder") or len(names_on(run, axis)) > 1]
    for cell in (cell for cell in ordered(run) if cell.probes):
        yield join(*(name_on(cell, axis) for axis in axes)), cell


def _statements(run: Run) -> Iterator[tuple[str, ProbeStatement]]:
    for label, cell in _probed_cells(run):
        for probe, result in cell.probes.items():
            yield from ((label, ProbeStatement(cell, probe, *pair)) for pair in enumerate(result["statements"]))


def _row(stated: Sequence[ProbeStatement]) -> list[str]:
    """Return source, premises, conclusion, bound and measurement of a cell over its seeds."""
    holding = _holding(stated)
    says = _distinct_texts(stated, "says") if all(holding.values()) else "nothing, as a premise does not hold"
    premises = f"{sum(holding.values())} of {len(holding)} hold" if not all(holding.values()) else "all hold"
    texts = [_distinct_texts(stated, "source") or "none", premises if holding else "–", says]
    return [*texts, _distinct_texts(stated, "bound") or "–", _measured_text(stated)]


def _distinct_texts(stated: Sequence[ProbeStatement], key: str) -> str:
    """Return the first distinct texts that the statements of all seeds have under a key."""
    texts = list(dict.fromkeys(each.statement[key] for each in stated if each.statement[key]))
    return "; ".join([*texts[:MAX_TEXTS], *(["..."] if len(texts) > MAX_TEXTS else [])])


def _holding(stated: Sequence[ProbeStatement]) -> dict[str, bool]:
    """Return whether each premise holds for every seed."""
    holding: dict[str, bool] = {}
    for premise in (premise for each in stated for premise in each.statement["premises"]):
        holding[premise["text"]] = holding.get(premise["text"], True) and premise["holds"]
    return holding


def _measured_text(stated: Sequence[ProbeStatement]) -> str:
    """Return the mean measurement, and whether every seed is within the proven bounds."""
    measured = [(each, number) for each in stated if (number := each.number) is not None]
    if not measured:
        return "not measured"
    first, number = measured[0]
    mean = summary([number.value for _, number in measured if number.value is not None]).mean
    text = f"{first.metric} {rounded(mean, number.digits)} {number.unit}".strip()
    if not any(each.statement["promises"] for each, _ in measured):
        return text
    return f"{text}, {'AGAINST THE PROOF' if any(each.broken for each, _ in measured) else 'as promised'}"
