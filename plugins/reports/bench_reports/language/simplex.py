"""Decide exactly whether linear inequalities have a solution.

Implements the simplex algorithm of Dutertre and de Moura (2006).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

#: A number plus a multiple of an infinitesimal: `x > 1` is x >= (1, 1).
Value: TypeAlias = tuple[Fraction, Fraction]
Form: TypeAlias = Mapping[int, Fraction]  # coefficients of variables

ZERO = (Fraction(0), Fraction(0))


class Simplex:
    """Variables and linear forms, with bounds that can be undone."""

    def __init__(self) -> None:
        self.low: list[Value | None] = []
        self.high: list[Value | None] = []
        self.value: list[Value] = []
        self._rows: dict[int, dict[int, Fraction]] = {}  # basic variables in terms of the others
        self._forms: dict[tuple[tuple[int, Fraction], ...], int] = {}
        self._trail: list[tuple[int, Value | None, Value | None]] = []

    def variable(self, low: Value | None = None, high: Value | None = None) -> int:
        """Add a variable, and return it."""
        self.low.append(low)
        self.high.append(high)
        self.value.append(low or high or ZERO)
        return len(self.value) - 1

    def form(self, coefficients: Form) -> int:
        """Return the variable that equals a sum of others; equal sums have the same variable."""
        key = tuple(sorted(coefficients.items()))
        if len(key) == 1 and key[0][1] == 1:
            return key[0][0]
        if key not in self._forms:
            row: dict[int, Fraction] = {}
            for variable, factor in key:
                for inner, share in self._rows.get(variable, {variable: Fraction(1)}).items():
                    row[inner] = row.get(inner, Fraction(0)) + factor * share
            self._forms[key] = new = self.variable()
            self._rows[new] = {variable: factor for variable, factor in row.items() if factor}
            for variable, factor in self._rows[new].items():
                self.value[new] = _add(self.value[new], self.value[variable], factor)
        return self._forms[key]

    def mark(self) -> int:
        """Return a mark; `undo` restores the bounds as they were at the mark."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Undo all bounds since `mark`."""
        while len(self._trail) > mark:
            variable, self.low[variable], self.high[variable] = self._trail.pop()

    def bound(self, variable: int, low: Value | None = None, high: Value | None = None) -> bool:
        """Narrow the bounds of a variable; return whether they leave any value."""
        least, most = self.low[variable], self.high[variable]
        self._trail.append((variable, least, most))
        if low is not None and (least is None or low > least):
            self.low[variable] = least = low
        if high is not None and (most is None or high < most):
            self.high[variable] = most = high
        if least is not None and most is not None and least > most:
            return False
        if variable not in self._rows:
            if least is not None and self.value[variable] < least:
                self._move(variable, least)
            elif most is not None and self.value[variable] > most:
                self._move(variable, most)
        return True

    def feasible(self) -> bool:
        """Return whether values within all bounds exist; if so, `value` holds them."""
        while True:
            targets = ((variable, self._target(variable)) for variable in sorted(self._rows))
            wrong, target = next(
                ((variable, target) for variable, target in targets if target is not None), (-1, None)
            )
            if target is None:
                return True
            up = target > self.value[wrong]
            entering = next(
                (variable for variable in sorted(self._rows[wrong]) if self._can_help(wrong, variable, up)), None
            )
            if entering is None:
                return False
            self._pivot(wrong, entering, target)

    def _target(self, variable: int) -> Value | None:
        """Return the bound that a variable violates, if any."""
        low, high = self.low[variable], self.high[variable]
        if low is not None and self.value[variable] < low:
            return low
        return high if high is not None and self.value[variable] > high else None

    def _can_help(self, wrong: int, variable: int, up: bool) -> bool:
        rises = (self._rows[wrong][variable] > 0) == up
        limit = self.high[variable] if rises else self.low[variable]
        return limit is None or (self.value[variable] < limit if rises else self.value[variable] > limit)

    def _pivot(self, leaving: int, entering: int, target: Value) -> None:
        """Make the variable `entering` basic in place of `leaving`, whose value becomes `target`."""
        row = self._rows.pop(leaving)
        factor = row.pop(entering)
        step = _add(ZERO, _add(target, self.value[leaving], -1), 1 / factor)
        solved = {variable: -share / factor for variable, share in row.items()}
        solved[leaving] = 1 / factor
        self.value[leaving] = target
        self.value[entering] = _add(self.value[entering], step)
        for basic, other in self._rows.items():
            share = other.pop(entering, None)
            if share is not None:
                self.value[basic] = _add(self.value[basic], step, share)
                for variable, part in solved.items():
                    total = other.get(variable, 0) + share * part
                    if total:
                        other[variable] = total
                    else:
                        other.pop(variable, None)
        self._rows[entering] = solved

    def _move(self, variable: int, target: Value) -> None:
        step = _add(target, self.value[variable], -1)
        self.value[variable] = target
        for basic, row in self._rows.items():
            if variable in row:
                self.value[basic] = _add(self.value[basic], step, row[variable])


def _add(value: Value, other: Value, factor: Fraction | int = 1) -> Value:
    """Return value + factor * other."""
    return value[0] + factor * other[0], value[1] + factor * other[1]
