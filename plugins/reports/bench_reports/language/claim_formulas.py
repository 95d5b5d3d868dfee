"""Expressions as formulas: polynomials that must be above 0, joined by `and` and `or`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf, isfinite
from typing import NamedTuple, TypeAlias

from bench_reports.language.claim_terms import OTHER, Extreme, Piece, pieces
from bench_reports.language.expressions import QUANTIFIER, Query, Term

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}

Name: TypeAlias = tuple[Query, int]  # a value between trainings (0), or in one of several trainings (1, 2, ...)
Monomial: TypeAlias = tuple[Name, ...]  # sorted, powers as repetitions
Polynomial: TypeAlias = Mapping[Monomial, Fraction]
Range: TypeAlias = tuple[Fraction | float, Fraction | float]  # floats where it has no end
Box: TypeAlias = Mapping[Name, Range]


class Above(NamedTuple):
    """A polynomial that must be above 0, or at least 0."""

    polynomial: Polynomial
    strict: bool


@dataclass(frozen=True)
class AllOf:
    """What must all be true."""

    parts: Sequence[Formula]


@dataclass(frozen=True)
class AnyOf:
    """Of which something must be true."""

    parts: Sequence[Formula]


Formula: TypeAlias = "Above | AllOf | AnyOf"
TRUE, FALSE = AllOf(()), AnyOf(())


@dataclass
class Reader:
    """Reads expressions as formulas."""

    bounds: Mapping[str, tuple[float, float]]
    trainings: int
    denied: int = 0  # trainings in which a condition must not be met
    box: dict[Name, Range] = field(default_factory=dict)

    def formula(self, term: Term, true: bool, training: int = 0) -> Formula:
        """Return what makes an expression true, or false."""
        kind = term.operation
        if kind == "not":
            return self.formula(term.parts[0], not true, training)
        if kind == QUANTIFIER and true:
            return AllOf([self.formula(term.parts[0], True, one) for one in range(1, self.trainings + 1)])
        if kind == QUANTIFIER:
            self.denied += 1
            return self.formula(term.parts[0], False, self.denied)
        if kind in ("and", "all", "or", "any"):
            parts = [self.formula(part, true, training) for part in term.parts]
            return AllOf(parts) if (kind in ("and", "all")) == true else AnyOf(parts)
        left, right = (pieces(part) for part in term.parts)
        return self._compared(left, kind if true else NEGATED[kind], right, training)

    def _compared(self, left: Piece, sign: str, right: Piece, training: int) -> Formula:
        if sign == "==":
            return AllOf([self._below(left, right, False, training), self._below(right, left, False, training)])
        if sign == "!=":
            return AnyOf([self._below(left, right, True, training), self._below(right, left, True, training)])
        low, high = (left, right) if sign[0] == "<" else (right, left)
        return self._below(low, high, len(sign) == 1, training)

    def _below(self, low: Piece, high: Piece, strict: bool, training: int) -> Formula:
        for side, every in ((high, "min"), (low, "max")):
            if isinstance(side, Extreme):
                pairs = [(low, one) if side is high else (one, high) for one in side.pieces]
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
        return AnyOf([self._factored(_above(case, strict)) for case in self.cases(difference, training)])

    def _factored(self, formula: Formula) -> Formula:
        """Return a formula whose products have lost the factors that are never below 0."""
        if not isinstance(formula, Above):
            return type(formula)([self._factored(part) for part in formula.parts])
        first, *others = formula.polynomial or [()]
        shared = (one for one in dict.fromkeys(first) if all(one in other for other in others))
        factor = next((one for one in shared if self.box[one][0] >= 0), None)
        if factor is None or len(first) + len(others) == 1:
            return formula
        fewer = {_without(one, factor): part for one, part in formula.polynomial.items()}
        rest = self._factored(Above(fewer, formula.strict))
        if self.box[factor][0] > 0:
            return rest
        if formula.strict:
            return AllOf([Above({(factor,): Fraction(1)}, strict=True), rest])
        return AnyOf([Above({(factor,): Fraction(-1)}, strict=False), rest])

    def cases(self, term: Term, training: int) -> Iterator[Case]:
        """Yield a number as a quotient of polynomials, for every choice among extremes inside of it."""
        if term.query:
            self.range_of(term.query, training)
            yield Case((), {((term.query, training),): Fraction(1)}, ONE)
        elif term.operation == "number":
            yield Case((), constant(_exact(term.number)), ONE)
        else:
            for parts in product(*([*self.cases(part, training)] for part in term.parts)):
                guards = tuple(guard for part in parts for guard in part.guards)
                if term.operation in (*OTHER, "abs"):
                    yield from _extreme(term.operation, parts, guards)
                else:
                    yield Case(guards, *_combined(term, parts))

    def range_of(self, query: Query, training: int) -> Range:
        """Return the bounds of a value, which is in the box from now on."""
        low, high = self.bounds.get(query.metric, (-inf, inf))
        found = (_exact(low) if isfinite(low) else -inf, _exact(high) if isfinite(high) else inf)
        return self.box.setdefault((query, training), found)


class Case(NamedTuple):
    """A quotient of polynomials, and what must be true for it to be the number that is meant."""

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


def added(one: Polynomial, other: Polynomial, factor: int = 1) -> Polynomial:
    """Return the sum of a polynomial and a multiple of another."""
    found = dict(one)
    for monomial, share in other.items():
        found[monomial] = found.get(monomial, Fraction(0)) + factor * share
    return {monomial: share for monomial, share in found.items() if share}


def multiplied(one: Polynomial, other: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    found: dict[Monomial, Fraction] = {}
    for (left, ours), (right, theirs) in product(one.items(), other.items()):
        monomial = tuple(sorted((*left, *right), key=str))
        found[monomial] = found.get(monomial, Fraction(0)) + ours * theirs
    return {monomial: share for monomial, share in found.items() if share}


def _combined(term: Term, parts: Sequence[Case]) -> tuple[Polynomial, Polynomial]:
    kind, (first, *rest) = term.operation, parts
    above, below = first.above, first.below
    if kind == "negative":
        return added({}, above, -1), below
    if kind == "**":
        return _power(above, below, term.parts[1])
    for other in rest:
        if kind in ("+", "-", "mean"):
            ours, theirs = multiplied(above, other.below), multiplied(other.above, below)
            above, below = added(ours, theirs, -1 if kind == "-" else 1), multiplied(below, other.below)
        else:
            over, under = (other.above, other.below) if kind == "*" else (other.below, other.above)
            above, below = multiplied(above, over), multiplied(below, under)
    return above, multiplied(below, constant(len(parts))) if kind == "mean" else below


def _power(above: Polynomial, below: Polynomial, exponent: Term) -> tuple[Polynomial, Polynomial]:
    sign = exponent.operation == "negative"
    number = int((exponent.parts[0] if sign else exponent).number)
    found = ONE, ONE
    for _ in range(number):
        found = multiplied(found[0], above), multiplied(found[1], below)
    return found[::-1] if sign else found


def _extreme(kind: str, parts: Sequence[Case], guards: tuple[Formula, ...]) -> Iterator[Case]:
    several = [parts[0], parts[0]._replace(above=added({}, parts[0].above, -1))] if kind == "abs" else parts
    for one in several:
        ahead = []
        for other in several:
            if other is not one:
                pair = (other, one) if kind == "min" else (one, other)
                apart = Case((), *_combined(Term("-"), pair))
                ahead.append(_above(apart, strict=False))
        yield Case((*guards, *ahead), one.above, one.below)


def _above(case: Case, strict: bool) -> Formula:
    """Return that a quotient is above 0, or at least 0, where it has a value."""
    signs = []
    for factor in (1, -1):
        below = added({}, case.below, factor)
        if {*below} <= {()}:
            if below.get((), 0) > 0:
                signs.append(AllOf([*case.guards, Above(added({}, case.above, factor), strict)]))
        else:
            above = Above(added({}, case.above, factor), strict)
            signs.append(AllOf([*case.guards, Above(below, strict=True), above]))
    return AnyOf(signs)


def _interval(term: Term, reader: Reader, training: int) -> Range:
    """Return bounds of a number, by those of its parts."""
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


def product_of(one: Range, other: Range) -> Range:
    """Return the bounds of a product."""
    ends: list[Fraction | float] = [a * b if a and b else Fraction(0) for a in one for b in other]
    return min(ends), max(ends)


def power_of(one: Range, exponent: int) -> Range:
    """Return the bounds of a power."""
    low, high = one
    ends = [low**exponent, high**exponent] if exponent else [Fraction(1), Fraction(1)]
    return (Fraction(0) if exponent and exponent % 2 == 0 and low < 0 < high else min(ends)), max(ends)
