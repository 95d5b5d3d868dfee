"""The training curves of a run: series of numbers over steps, thinned to a drawable number of points."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

MAX_POINTS = 200  #: points of a curve
STEPS = ("step", "epoch")  # not drawn as series
SIGNIFICANT_DIGITS = 6  # significant digits


@dataclass(frozen=True)
class Curve:
    """The history of one training run."""

    steps: Sequence[int]
    series: Mapping[str, Sequence[float | None]]  # None for missing or non-finite numbers


def curves(histories: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, Curve]:
    """Return the curve of each training run by its key, except runs without evaluations."""
    return {key: _curve(_thin(history)) for key, history in histories if history}


def _curve(history: Sequence[Mapping[str, Any]]) -> Curve:
    names = dict.fromkeys(name for point in history for name, value in point.items() if _is_number(value))
    series = {name: [_round(point.get(name)) for point in history] for name in names if name not in STEPS}
    return Curve([point["step"] for point in history], series)


def _thin(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return at most `MAX_POINTS` equally spaced evaluations, including the first and the last."""
    if len(history) <= MAX_POINTS:
        return history
    return [history[place * (len(history) - 1) // (MAX_POINTS - 1)] for place in range(MAX_POINTS)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _round(value: Any) -> float | None:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if _is_number(value) and isfinite(value) else None
