"""Whether linear inequalities have a common solution, exactly: the simplex of Dutertre and de Moura (2006)."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

#: A number, and a multiple of one that is smaller than every other: `x > 1` is x >= (1, 1).
Value: TypeAlias = tuple[Fraction, Fraction]
Form: TypeAlias = Mapping[int, Fraction]  # coefficients of variables

NOTHING = (Fraction(0), Fraction(0))


class Simplex:
    """Variables between bounds, and forms of these between bounds, which can be taken back."""

    def __init__(self) -> None:
        self.low: list[Value | None] = []
        self.high: list[Value | None] = []
        self.value: list[Value] = []
        self._rows: dict[int, dict[int, Fraction]] = {}  # basic variables by the others
        self._forms: dict[tuple[tuple[int, Fraction], ...], int] = {}
        self._trail: list[tuple[int, Value | None, Value | None]] = []

    def variable(self, low: Value | None = None, high: Value | None = None) -> int:
        """Return a new variable."""
        self.low.append(low)
        self.high.append(high)
        self.value.append(low or high or NOTHING)
        return len(self.value) - 1

    def form(self, coefficients: Form) -> int:
        """Return the variable that is a sum of others; one for each sum."""
        key = tuple(sorted(coefficients.items()))
        if len(key) == 1 and key[0][1] == 1:
            return key[0][0]
        if key not in self._forms:
            row: dict[int, Fraction] = {}
            for one, factor in key:
                for inner, share in self._rows.get(one, {one: Fraction(1)}).items():
                    row[inner] = row.get(inner, Fraction(0)) + factor * share
            self._forms[key] = new = self.variable()
            self._rows[new] = {one: factor for one, factor in row.items() if factor}
            for one, factor in self._rows[new].items():
                self.value[new] = _added(self.value[new], self.value[one], factor)
        return self._forms[key]

    def mark(self) -> int:
        """Return a point to which bounds can be taken back."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Take back all bounds since `mark`."""
        while len(self._trail) > mark:
            one, self.low[one], self.high[one] = self._trail.pop()

    def bound(self, one: int, low: Value | None = None, high: Value | None = None) -> bool:
        """Narrow the bounds of a variable; return whether they leave any value."""
        least, most = self.low[one], self.high[one]
        self._trail.append((one, least, most))
        if low is not None and (least is None or low > least):
            self.low[one] = least = low
        if high is not None and (most is None or high < most):
            self.high[one] = most = high
        if least is not None and most is not None and least > most:
            return False
        if one not in self._rows:
            if least is not None and self.value[one] < least:
                self._move(one, least)
            elif most is not None and self.value[one] > most:
                self._move(one, most)
        return True

    def feasible(self) -> bool:
        """Return whether there are values within all bounds, which are then in `value`."""
        while True:
            targets = ((one, self._target(one)) for one in sorted(self._rows))
            wrong, target = next(((one, target) for one, target in targets if target is not None), (-1, None))
            if target is None:
                return True
            up = target > self.value[wrong]
            entering = next((one for one in sorted(self._rows[wrong]) if self._can_help(wrong, one, up)), None)
            if entering is None:
                return False
            self._pivot(wrong, entering, target)

    def _target(self, one: int) -> Value | None:
        """Return the bound that a variable violates."""
        low, high = self.low[one], self.high[one]
        if low is not None and self.value[one] < low:
            return low
        return high if high is not None and self.value[one] > high else None

    def _can_help(self, wrong: int, one: int, up: bool) -> bool:
        rises = (self._rows[wrong][one] > 0) == up
        limit = self.high[one] if rises else self.low[one]
        return limit is None or (self.value[one] < limit if rises else self.value[one] > limit)

    def _pivot(self, leaving: int, entering: int, target: Value) -> None:
        """Exchange a basic variable, which moves to `target`, for another."""
        row = self._rows.pop(leaving)
        factor = row.pop(entering)
        step = _added(NOTHING, _added(target, self.value[leaving], -1), 1 / factor)
        solved = {one: -share / factor for one, share in row.items()}
        solved[leaving] = 1 / factor
        self.value[leaving] = target
        self.value[entering] = _added(self.value[entering], step)
        for basic, other in self._rows.items():
            share = other.pop(entering, None)
            if share is not None:
                self.value[basic] = _added(self.value[basic], step, share)
                for one, part in solved.items():
                    total = other.get(one, 0) + share * part
                    if total:
                        other[one] = total
                    else:
                        other.pop(one, None)
        self._rows[entering] = solved

    def _move(self, one: int, target: Value) -> None:
        step = _added(target, self.value[one], -1)
        self.value[one] = target
        for basic, row in self._rows.items():
            if one in row:
                self.value[basic] = _added(self.value[basic], step, row[one])


def _added(one: Value, other: Value, factor: Fraction | int = 1) -> Value:
    """Return the sum of a number and a multiple of another."""
    return one[0] + factor * other[0], one[1] + factor * other[1]
