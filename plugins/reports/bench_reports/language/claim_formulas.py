"""Convert expressions to formulas: polynomial inequalities joined by `and` and `or`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf, isfinite
from typing import NamedTuple, TypeAlias

from bench_reports.language.claim_terms import OPPOSITE, Extreme, Piece, pieces
from bench_reports.language.expressions import QUANTIFIER, Query, Term

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}

Name: TypeAlias = tuple[Query, int]  # a value, and the number of its training run: 1, 2, ...; 0 outside quantifiers
Monomial: TypeAlias = tuple[Name, ...]  # sorted; powers are repetitions
Polynomial: TypeAlias = Mapping[Monomial, Fraction]
Range: TypeAlias = tuple[Fraction | float, Fraction | float]  # floats where it is infinite
Box: TypeAlias = Mapping[Name, Range]


class Above(NamedTuple):
    """The inequality polynomial > 0 if `strict`, else polynomial >= 0."""

    polynomial: Polynomial
    strict: bool


@dataclass(frozen=True)
class AllOf:
    """A conjunction of formulas."""

    parts: Sequence[Formula]


@dataclass(frozen=True)
class AnyOf:
    """A disjunction of formulas."""

    parts: Sequence[Formula]


Formula: TypeAlias = "Above | AllOf | AnyOf"
TRUE, FALSE = AllOf(()), AnyOf(())


@dataclass
class FormulaReader:
    """Converts expressions to formulas."""

    bounds: Mapping[str, tuple[float, float]]
    trainings: int
    violations: int = 0  # training runs in which a condition must be violated
    box: dict[Name, Range] = field(default_factory=dict)

    def formula(self, term: Term, true: bool, training: int = 0) -> Formula:
        """Return the formula that holds exactly if an expression has the truth value `true`."""
        kind = term.operation
        if kind == "not":
            return self.formula(term.parts[0], not true, training)
        if kind == QUANTIFIER and true:
            return AllOf([self.formula(term.parts[0], True, index) for index in range(1, self.trainings + 1)])
        if kind == QUANTIFIER:
            self.violations += 1
            return self.formula(term.parts[0], False, self.violations)
        if kind in ("and", "all", "or", "any"):
            parts = [self.formula(part, true, training) for part in term.parts]
            return AllOf(parts) if (kind in ("and", "all")) == true else AnyOf(parts)
        left, right = (pieces(part) for part in term.parts)
        return self._comparison(left, kind if true else NEGATED[kind], right, training)

    def _comparison(self, left: Piece, sign: str, right: Piece, training: int) -> Formula:
        if sign == "==":
            return AllOf([self._below(left, right, False, training), self._below(right, left, False, training)])
        if sign == "!=":
            return AnyOf([self._below(left, right, True, training), self._below(right, left, True, training)])
        low, high = (left, right) if sign[0] == "<" else (right, left)
        return self._below(low, high, len(sign) == 1, training)

    def _below(self, low: Piece, high: Piece, strict: bool, training: int) -> Formula:
        for side, every in ((high, "min"), (low, "max")):
            if isinstance(side, Extreme):
                pairs = [(low, piece) if side is high else (piece, high) for piece in side.pieces]
                parts = [self._below(*pair, strict, training) for pair in pairs]
                return AllOf(parts) if side.which == every else AnyOf(parts)
        assert isinstance(low, Term)
        assert isinstance(high, Term)
        difference = Term("-", (high, low))
        least, most = _interval(difference, self, training)
        if least > 0 or (least == 0 and not strict):
            return TRUE
        if most < 0 or (most == 0 and strict):
            return FALSE
        return AnyOf([self._without_factors(_above(case, strict)) for case in self.cases(difference, training)])

    def _without_factors(self, formula: Formula) -> Formula:
        """Return an equivalent formula without common factors that are never negative."""
        if not isinstance(formula, Above):
            return type(formula)([self._without_factors(part) for part in formula.parts])
        first, *others = formula.polynomial or [()]
        shared = (name for name in dict.fromkeys(first) if all(name in other for other in others))
        factor = next((name for name in shared if self.box[name][0] >= 0), None)
        if factor is None or len(first) + len(others) == 1:
            return formula
        fewer = {_without(monomial, factor): part for monomial, part in formula.polynomial.items()}
        rest = self._without_factors(Above(fewer, formula.strict))
        if self.box[factor][0] > 0:
            return rest
        if formula.strict:
            return AllOf([Above({(factor,): Fraction(1)}, strict=True), rest])
        return AnyOf([Above({(factor,): Fraction(-1)}, strict=False), rest])

    def cases(self, term: Term, training: int) -> Iterator[Quotient]:
        """Yield a number as quotients of polynomials, one for each way to resolve `min`, `max` and `abs`."""
        if term.query:
            self.range_of(term.query, training)
            yield Quotient((), {((term.query, training),): Fraction(1)}, ONE)
        elif term.operation == "number":
            yield Quotient((), constant(_exact(term.number)), ONE)
        else:
            for parts in product(*([*self.cases(part, training)] for part in term.parts)):
                guards = tuple(guard for part in parts for guard in part.guards)
                if term.operation in (*OPPOSITE, "abs"):
                    yield from _extreme(term.operation, parts, guards)
                else:
                    yield Quotient(guards, *_combine(term, parts))

    def range_of(self, query: Query, training: int) -> Range:
        """Return the bounds of a value, and add them to the box."""
        low, high = self.bounds.get(query.metric, (-inf, inf))
        interval = (_exact(low) if isfinite(low) else -inf, _exact(high) if isfinite(high) else inf)
        return self.box.setdefault((query, training), interval)


class Quotient(NamedTuple):
    """A quotient of polynomials, and the conditions under which it equals a number."""

    guards: tuple[Formula, ...]
    above: Polynomial
    below: Polynomial


def _exact(number: float) -> Fraction:
    return Fraction(repr(float(number)))


def _without(monomial: Monomial, factor: Name) -> Monomial:
    place = monomial.index(factor)
    return monomial[:place] + monomial[place + 1 :]


def constant(number: Fraction | int) -> Polynomial:
    """Return a number as a polynomial."""
    return {(): Fraction(number)} if number else {}


ONE = constant(1)


def add(polynomial: Polynomial, other: Polynomial, factor: int = 1) -> Polynomial:
    """Return polynomial + factor * other."""
    total = dict(polynomial)
    for monomial, share in other.items():
        total[monomial] = total.get(monomial, Fraction(0)) + factor * share
    return {monomial: share for monomial, share in total.items() if share}


def multiply(polynomial: Polynomial, other: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    result: dict[Monomial, Fraction] = {}
    for (left, ours), (right, theirs) in product(polynomial.items(), other.items()):
        monomial = tuple(sorted((*left, *right), key=str)) if left and right else left or right
        result[monomial] = result.get(monomial, Fraction(0)) + ours * theirs
    return {monomial: share for monomial, share in result.items() if share}


def _combine(term: Term, parts: Sequence[Quotient]) -> tuple[Polynomial, Polynomial]:
    kind, (first, *rest) = term.operation, parts
    above, below = first.above, first.below
    if kind == "negative":
        return add({}, above, -1), below
    if kind == "**":
        return _power(above, below, term.parts[1])
    for other in rest:
        if kind in ("+", "-", "mean"):
            ours, theirs = multiply(above, other.below), multiply(other.above, below)
            above, below = add(ours, theirs, -1 if kind == "-" else 1), multiply(below, other.below)
        else:
            over, under = (other.above, other.below) if kind == "*" else (other.below, other.above)
            above, below = multiply(above, over), multiply(below, under)
    return above, multiply(below, constant(len(parts))) if kind == "mean" else below


def _power(above: Polynomial, below: Polynomial, exponent: Term) -> tuple[Polynomial, Polynomial]:
    sign = exponent.operation == "negative"
    number = int((exponent.parts[0] if sign else exponent).number)
    result = ONE, ONE
    for _ in range(number):
        result = multiply(result[0], above), multiply(result[1], below)
    return result[::-1] if sign else result


def _extreme(kind: str, parts: Sequence[Quotient], guards: tuple[Formula, ...]) -> Iterator[Quotient]:
    several = [parts[0], parts[0]._replace(above=add({}, parts[0].above, -1))] if kind == "abs" else parts
    for candidate in several:
        ahead = []
        for other in several:
            if other is not candidate:
                pair = (other, candidate) if kind == "min" else (candidate, other)
                difference = Quotient((), *_combine(Term("-"), pair))
                ahead.append(_above(difference, strict=False))
        yield Quotient((*guards, *ahead), candidate.above, candidate.below)


def _above(case: Quotient, strict: bool) -> Formula:
    """Return the formula for a quotient > 0 if `strict`, else >= 0, wherever the quotient is defined."""
    signs = []
    for factor in (1, -1):
        below = add({}, case.below, factor)
        if {*below} <= {()}:
            if below.get((), 0) > 0:
                signs.append(AllOf([*case.guards, Above(add({}, case.above, factor), strict)]))
        else:
            above = Above(add({}, case.above, factor), strict)
            signs.append(AllOf([*case.guards, Above(below, strict=True), above]))
    return AnyOf(signs)


def _interval(term: Term, reader: FormulaReader, training: int) -> Range:
    """Return bounds of a term by interval arithmetic."""
    if term.query:
        return reader.range_of(term.query, training)
    if term.operation == "number":
        return _exact(term.number), _exact(term.number)
    parts = [_interval(part, reader, training) for part in term.parts]
    match term.operation:
        case "negative":
            return -parts[0][1], -parts[0][0]
        case "+" | "mean":
            low, high = (sum(ends) for ends in zip(*parts, strict=True))
            return (low / len(parts), high / len(parts)) if term.operation == "mean" else (low, high)
        case "-":
            return parts[0][0] - parts[1][1], parts[0][1] - parts[1][0]
        case "*":
            return product_of(*parts)
        case "**":
            exponent = parts[1][0]
            return power_of(parts[0], int(exponent)) if exponent >= 0 else (-inf, inf)
        case "min":
            return min(low for low, _ in parts), min(high for _, high in parts)
        case "max":
            return max(low for low, _ in parts), max(high for _, high in parts)
        case "abs":
            low, high = parts[0]
            return max(low, -high, Fraction(0)), max(-low, high)
    return -inf, inf


def product_of(first: Range, other: Range) -> Range:
    """Return the bounds of the product of two intervals."""
    ends: list[Fraction | float] = [a * b if a and b else Fraction(0) for a in first for b in other]
    return min(ends), max(ends)


def power_of(interval: Range, exponent: int) -> Range:
    """Return the bounds of a power of an interval."""
    low, high = interval
    ends = [low**exponent, high**exponent] if exponent else [Fraction(1), Fraction(1)]
    return (Fraction(0) if exponent and exponent % 2 == 0 and low < 0 < high else min(ends)), max(ends)
