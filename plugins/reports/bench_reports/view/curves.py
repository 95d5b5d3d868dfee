"""The training curves of a run: series of numbers over steps, with no more points than a drawing can show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

MOST = 200  #: points of a curve
STEPS = ("step", "epoch")  # what is not drawn
DIGITS = 6  # of a number in a curve


@dataclass(frozen=True)
class Curve:
    """The history of one training."""

    steps: Sequence[int]
    series: Mapping[str, Sequence[float | None]]  # by name; None where there is no finite number


def curves(histories: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, Curve]:
    """Return the curve of each training by its key; one without evaluations has none."""
    return {key: _curve(_thinned(history)) for key, history in histories if history}


def _curve(history: Sequence[Mapping[str, Any]]) -> Curve:
    names = dict.fromkeys(name for one in history for name, value in one.items() if _is_number(value))
    series = {name: [_rounded(one.get(name)) for one in history] for name in names if name not in STEPS}
    return Curve([one["step"] for one in history], series)


def _thinned(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return at most so many evaluations, equally far apart, with the first and the last."""
    if len(history) <= MOST:
        return history
    return [history[place * (len(history) - 1) // (MOST - 1)] for place in range(MOST)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(value: Any) -> float | None:
    return float(f"{value:.{DIGITS}g}") if _is_number(value) and isfinite(value) else None
