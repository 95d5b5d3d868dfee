"""Formats and parses the numbers of a report."""

import re
from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

from bench_reports.content.grid import Comparison, Entry
from bench_reports.language.published import Value
from bench_reports.language.published import number as published_number
from bench_reports.statistics.intervals import Summary

NUMBER = re.compile(r"[−+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?![\w.:-])")

STARS = ((0.01, "**"), (0.05, "*"))  #: marks of p-values below these


def ours(entry: Entry, digits: int, spread: str = "std") -> str:
    """Return what we found with its `spread`, or the word for what became of it."""
    if entry.text:
        return entry.text
    if entry.summary is None:
        return "–" if entry.status == "none" else entry.status
    if spread == "std":
        return summarized(entry.summary, digits)
    if spread == "interval" and entry.apart:
        return f"seeds: {', '.join(rounded(one, digits) for one in entry.apart)}"
    ends = [rounded(end, digits) for end in entry.interval or ()] if spread == "interval" else []
    return rounded(entry.summary.mean, digits) + (f" [{', '.join(ends)}]" if ends else "")


def summarized(found: Summary, digits: int) -> str:
    """Return mean and standard deviation, such as `12.35 ± 5.18`."""
    spread = "" if found.std is None else f" ± {rounded(found.std, digits)}"
    return rounded(found.mean, digits) + spread


def judged(comparison: Comparison | None, digits: int) -> str:
    """Return a signed difference, and its verdict unless nothing is comparable, such as `+0.12 worse`."""
    if comparison is None:
        return "–"
    if comparison.verdict == "not comparable":
        return signed(comparison.difference, digits)
    more = f" ({comparison.seeds:,} seeds would)" if comparison.seeds else ""
    return f"{signed(comparison.difference, digits)} {comparison.verdict}{more}"


def stars(p: float | None) -> str:
    """Return the marks of a p-value: two below 1 %, one below 5 %."""
    return "" if p is None else next((mark for below, mark in STARS if p < below), "")


def signed(value: float, digits: int) -> str:
    """Return a rounded number with its sign; `+` only where a digit is not 0."""
    text = rounded(value, digits)
    return f"+{text}" if value > 0 and text.strip("0.") else text


def printed(value: Value, digits: int) -> str:
    """Return a published value with no fewer digits than it was given, or its text if it is no number."""
    mean = published_number(value.mean)
    if mean is None:
        items = value.mean if isinstance(value.mean, list) else [value.mean]
        return ", ".join(str(item).lower() if isinstance(item, bool) else str(item) for item in items)
    digits = max(digits, _decimals(mean), _decimals(value.std or 0.0))
    return summarized(Summary(mean, value.std, 1), digits)


def rounded(value: float, digits: int) -> str:
    """Return a number with `digits` after the point; `–` where it is none."""
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}{'e' if abs(value) >= 1e10 else 'f'}}"
    return f"−{text}" if value < 0 and float(text) else text


def number(text: str | None) -> float | None:
    """Return the number that a text is or begins with, such as `1,024` or `−0.5 %`; None where there is none."""
    found = NUMBER.match(text) if text else None
    return float(found[0].replace("−", "-").replace(",", "")) if found else None


def json_data(value: Any) -> Any:
    """Return JSON data; infinities and NaN become words."""
    if isinstance(value, Mapping):
        return {str(key): json_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_data(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _decimals(value: float) -> int:
    """Return how many digits after the point a number was written with."""
    return 0 if not isfinite(value) or value == int(value) else len(f"{value:.12f}".rstrip("0").partition(".")[2])
