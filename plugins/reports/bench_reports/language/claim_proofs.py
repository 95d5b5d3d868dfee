"""Decide whether an expression is true, or false, for all values within bounds, and whether one implies another.

An expression is false for all values if no values make it true. Its comparisons become polynomial inequalities.
Linear inequalities are decided by exact arithmetic. A product or power becomes a variable with bounds of its own,
and the bounds of its factors are bisected until this decides, or until `MAX_SYSTEMS` systems are solved: what is not
refuted by then counts as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import isfinite, prod

from bench_reports.language.claim_formulas import (
    Above,
    AllOf,
    AnyOf,
    Box,
    Formula,
    FormulaReader,
    Monomial,
    Name,
    Polynomial,
    Range,
    add,
    constant,
    multiply,
    power_of,
    product_of,
)  # fmt: skip
from bench_reports.language.expressions import QUANTIFIER, Term
from bench_reports.language.simplex import Simplex, Value

MAX_SYSTEMS = 200  #: systems of inequalities solved per question, at most
MAX_FACTORS = 12  # inequalities that are multiplied in pairs


def truth(term: Term, bounds: Mapping[str, tuple[float, float]]) -> bool | None:
    """Return True or False if an expression has this truth value for all values; None if it varies or is undecided.

    `bounds` are by metric; an infinite end is no bound. Values for which a side is undefined are ignored.
    """
    if not is_possible([(term, False)], bounds):
        return True
    return None if is_possible([(term, True)], bounds) else False


def implies(stronger: Term, weaker: Term, bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Return whether `weaker` is proven to be true for all values for which `stronger` is."""
    return not is_possible([(stronger, True), (weaker, False)], bounds)


def is_possible(wanted: Sequence[tuple[Term, bool]], bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Return whether values within bounds may exist that give every expression in `wanted` its truth value."""
    reader = FormulaReader(bounds, max(1, sum(_count_violations(term, true) for term, true in wanted)))
    formula = AllOf([reader.formula(term, true) for term, true in wanted])
    return _Search(reader.box).is_possible([formula])


def _count_violations(term: Term, true: bool) -> int:
    """Count the places where at least one training run must violate a condition."""
    if term.operation == QUANTIFIER:
        return not true
    true = true != (term.operation == "not")
    return sum(_count_violations(part, true) for part in term.parts)


@dataclass
class _Search:
    """Searches for values that satisfy a formula; their products are variables of their own."""

    box: dict[Name, Range]
    steps: int = MAX_SYSTEMS
    system: _System = field(default_factory=lambda: _System())

    def is_possible(self, wanted: Sequence[Formula], chosen: Sequence[Above] = ()) -> bool:
        """Return whether all of `wanted` may be true together with the inequalities `chosen` so far."""
        atoms, choices, stack = [*chosen], list[AnyOf](), [*wanted]
        while stack:
            match stack.pop():
                case Above() as atom:
                    atoms.append(atom)
                    if not self.system.add(atom, self.box):
                        return False
                case AllOf(parts) | AnyOf([_] as parts):
                    stack += parts
                case choice:
                    choices.append(choice)
        if not self._feasible(self.system):
            return False
        if not choices:
            return not _products(atoms) or self._is_possible_in(_narrow(self.box, atoms), atoms)
        first, *rest = sorted(choices, key=lambda disjunction: len(disjunction.parts))
        for part in first.parts:
            mark = self.system.solver.mark()
            possible = self.is_possible([part, *rest], atoms)
            self.system.solver.undo(mark)
            if possible:
                return True
        return False

    def _feasible(self, system: _System) -> bool:
        """Return whether a system has a solution; True once the steps are used up."""
        self.steps -= 1
        return self.steps < 0 or system.solver.feasible()

    def _is_possible_in(self, box: Box, atoms: Sequence[Above]) -> bool:
        """Return whether a box may contain a solution, products included; bisect the box until this is decided."""
        system = _System()
        if not (
            all(system.add(atom, box) for atom in [*atoms, *_implied_products(atoms, box)]) and self._feasible(system)
        ):
            return False
        center = {name: _middle(low, high) for name, (low, high) in box.items()}
        points = (center, {**center, **system.solution()})
        if self.steps < 0 or any(all(_is_above(atom, point) for atom in atoms) for point in points):
            return True
        inside = dict.fromkeys(name for monomial in _products(atoms) for name in monomial)
        widest = max(inside, key=lambda name: box[name][1] - box[name][0])
        low, high = box[widest]
        middle = _middle(low, high)
        return any(self._is_possible_in({**box, widest: half}, atoms) for half in ((low, middle), (middle, high)))


class _System:
    """Linear inequalities of monomials."""

    def __init__(self) -> None:
        self.solver = Simplex()
        self.variables: dict[Monomial, int] = {}

    def add(self, atom: Above, box: Box) -> bool:
        """Add an inequality; return False if it contradicts the bounds alone."""
        constant = atom.polynomial.get((), Fraction(0))
        shares = {self._variable(monomial, box): share for monomial, share in atom.polynomial.items() if monomial}
        if not shares:
            return constant > 0 or (constant == 0 and not atom.strict)
        lead = shares[min(shares)]
        form = self.solver.form({variable: share / lead for variable, share in shares.items()})
        limit: Value = (-constant / lead, Fraction(int(atom.strict) * (1 if lead > 0 else -1)))
        return self.solver.bound(form, low=limit) if lead > 0 else self.solver.bound(form, high=limit)

    def _variable(self, monomial: Monomial, box: Box) -> int:
        if monomial not in self.variables:
            interval: Range = (Fraction(1), Fraction(1))
            for name in dict.fromkeys(monomial):
                interval = product_of(interval, power_of(box[name], monomial.count(name)))
            low, high = ((Fraction(end), Fraction(0)) if isfinite(end) else None for end in interval)
            self.variables[monomial] = self.solver.variable(low, high)
        return self.variables[monomial]

    def solution(self) -> Mapping[Name, Fraction]:
        """Return the values of a solution; infinitesimals become millionths."""
        known = {monomial: self.solver.value[at] for monomial, at in self.variables.items()}
        return {monomial[0]: value + tiny / 10**6 for monomial, (value, tiny) in known.items() if len(monomial) == 1}


def _narrow(box: Box, atoms: Sequence[Above]) -> Box:
    """Return a box without values that a linear inequality excludes for all values of the other variables."""
    narrowed = dict(box)
    for polynomial, _ in [*atoms, *atoms]:
        if max(map(len, polynomial), default=0) == 1:
            for (name,), share in ((monomial, share) for monomial, share in polynomial.items() if monomial):
                others = (
                    (monomial[0], part) for monomial, part in polynomial.items() if monomial not in ((), (name,))
                )
                most = sum(product_of((part, part), narrowed[other])[1] for other, part in others)
                limit = -(polynomial.get((), Fraction(0)) + most) / share
                low, high = narrowed[name]
                narrowed[name] = (max(low, limit), high) if share > 0 else (low, min(high, limit))
    return narrowed


def _products(atoms: Sequence[Above]) -> list[Monomial]:
    return [monomial for atom in atoms for monomial in atom.polynomial if len(monomial) > 1]


def _implied_products(atoms: Sequence[Above], box: Box) -> Iterator[Above]:
    """Yield products of two linear inequalities or bounds, and squares (Sherali and Adams, 1990)."""
    names = list(dict.fromkeys(name for monomial in _products(atoms) for name in monomial))
    factors = [atom for atom in atoms if max(map(len, atom.polynomial), default=0) == 1]
    for name in names:
        low, high = box[name]
        variable: Polynomial = {(name,): Fraction(1)}
        factors += [Above(add(variable, constant(Fraction(low)), -1), strict=False)] if isfinite(low) else []
        factors += [Above(add(constant(Fraction(high)), variable, -1), strict=False)] if isfinite(high) else []
    for ours, theirs in combinations_with_replacement(factors[:MAX_FACTORS], 2):
        yield Above(multiply(ours.polynomial, theirs.polynomial), ours.strict and theirs.strict)
    for left, right in combinations(names[:MAX_FACTORS], 2):
        difference: Polynomial = {(left,): Fraction(1), (right,): Fraction(-1)}
        yield Above(multiply(difference, difference), strict=False)


def _middle(low: Fraction | float, high: Fraction | float) -> Fraction:
    """Return the middle of a range; if only one end is finite, a number inside the range, and if neither is, 0."""
    if isfinite(low) and isfinite(high):
        return (Fraction(low) + Fraction(high)) / 2
    if isfinite(low):
        return Fraction(low) + max(Fraction(1), abs(Fraction(low)))
    return Fraction(high) - max(Fraction(1), abs(Fraction(high))) if isfinite(high) else Fraction(0)


def _is_above(atom: Above, values: Mapping[Name, Fraction]) -> bool:
    total = sum(share * prod(values[name] for name in monomial) for monomial, share in atom.polynomial.items())
    return total > 0 if atom.strict else total >= 0
