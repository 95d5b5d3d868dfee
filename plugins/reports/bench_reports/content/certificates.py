"""What certificates found, as rows of a report's table: promises, and what was measured beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from bench_core.runs.results import CellResult, Number, Run
from bench_core.runs.sorting import name_on, names_on, ordered, seed_of
from bench_core.suites.cells import join
from bench_core.suites.schema import AXES
from bench_reports.statistics.intervals import summary

SHOWN = 3  # texts of different seeds
HEADINGS = ("cell", "theorem", "premises", "what follows", "bound", "measured")


def certificate_rows(run: Run) -> list[list[str]]:
    """Return a table with its headings first, a row for each group of seeds; empty where nothing was certified."""
    axes = [axis for axis in AXES[:-1] if axis in ("model", "decoder") or len(names_on(run, axis)) > 1]
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for one in ordered(run):
        for name in one.certificates:
            groups.setdefault((name, join(*(name_on(one, axis) for axis in axes))), []).append(one)
    rows = [[label, *_row(name, cells)] for (name, label), cells in groups.items()]
    return [list(HEADINGS), *rows] if rows else []


def failing_premises(run: Run) -> list[str]:
    """Return, for footnotes, each premise that some model does not have."""
    failing: dict[str, set[str]] = {}
    for one in ordered(run):
        for found in one.certificates.values():
            for premise in found["premises"]:
                if not premise["holds"]:
                    failing.setdefault(premise["text"], set()).add(name_on(one, "model"))
    return [f"Premise that does not hold ({', '.join(sorted(models))}): {text}." for text, models in failing.items()]


def broken_promises(run: Run) -> list[str]:
    """Return what was measured outside of what was proven: a mistake somewhere, to be looked into."""
    return list(dict.fromkeys(_broken(run)))


def _broken(run: Run) -> Iterator[str]:
    for one in ordered(run):
        for name, found in one.certificates.items():
            if _breaks(one, found):
                value = one.numbers[found["measured"]].value
                cell = join(*(name_on(one, axis) for axis in AXES[:-1]))
                low, high = found["promises"]
                text = f"{name}: {found['measured']} of {cell}, seed {seed_of(one)}, is {value:g}; "
                yield f"{text}{found['theorem']} promises {low:g} to {high:g}."


def _row(name: str, cells: Sequence[CellResult]) -> list[str]:
    """Return theorem, premises, conclusion, bound and measurement of the seeds of one cell."""
    found = [one.certificates[name] for one in cells]
    holding = _holding(found)
    says = _different(found, "says") if all(holding.values()) else "nothing, as a premise does not hold"
    premises = f"{sum(holding.values())} of {len(holding)} hold" if not all(holding.values()) else "all hold"
    texts = [_different(found, "theorem") or "none", premises if holding else "–", says]
    return [*texts, _different(found, "bound") or "–", _measurement(name, cells)]


def _different(found: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return what the findings of all seeds say under a key, the first few that differ."""
    texts = list(dict.fromkeys(one[key] for one in found if one[key]))
    return "; ".join([*texts[:SHOWN], *(["..."] if len(texts) > SHOWN else [])])


def _holding(found: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Return whether each premise holds for every seed."""
    holding: dict[str, bool] = {}
    for premise in (premise for one in found for premise in one["premises"]):
        holding[premise["text"]] = holding.get(premise["text"], True) and premise["holds"]
    return holding


def _measurement(name: str, cells: Sequence[CellResult]) -> str:
    """Return the mean of what was measured, and whether every seed is within what was promised."""
    measured = [(one, number) for one in cells if (number := _number(one, one.certificates[name])) is not None]
    if not measured:
        return "not measured"
    first, number = measured[0]
    mean = summary([number.value for _, number in measured if number.value is not None]).mean
    text = f"{first.certificates[name]['measured']} {mean:.{number.digits}f} {number.unit}".strip()
    if not any(one.certificates[name]["promises"] for one, _ in measured):
        return text
    broken = any(_breaks(one, one.certificates[name]) for one, _ in measured)
    return f"{text}, {'AGAINST THE PROOF' if broken else 'as promised'}"


def _number(one: CellResult, found: Mapping[str, Any]) -> Number | None:
    """Return what was measured, or None where nothing was, or nothing that is a number."""
    number = one.numbers.get(found["measured"] or "")
    return None if number is None or number.value is None or isnan(number.value) else number


def _breaks(one: CellResult, found: Mapping[str, Any]) -> bool:
    """Return whether the measurement lies outside of what was promised."""
    number, promises = _number(one, found), found["promises"]
    if number is None or number.value is None or not promises:
        return False
    return not promises[0] <= number.value <= promises[1]
