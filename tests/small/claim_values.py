"""Values for which comparisons are true or false, found by a random search: whether a claim can hold, and can fail."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, inf

from bench_reports.language.expressions import Query, Term

Values = Mapping[Query, float]

COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
COMBINED: Mapping[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else inf,
    "**": operator.pow,
    "negative": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "mean": lambda *some: sum(some) / len(some),
}
STARTS, STEPS = 4, 4_000


def walk(term: Term) -> Iterator[Term]:
    """Yield a term and all that it consists of."""
    yield term
    for part in term.parts:
        yield from walk(part)


def comparisons(term: Term) -> list[Term]:
    """Return the comparisons of a claim that asks for all of them."""
    if term.operation in COMPARED:
        return [term]
    if term.operation not in ("and", "all", "in_every_training"):
        raise ValueError(f"{term.operation!r} is no conjunction")
    return [one for part in term.parts for one in comparisons(part)]


def can(wanted: Sequence[Term], denied: Sequence[Term] = ()) -> bool:
    """Return whether values were found for which all of `wanted` are true and all of `denied` are false."""
    return any(_search(wanted, denied, random.Random(start)) is not None for start in range(STARTS))


def _search(wanted: Sequence[Term], denied: Sequence[Term], generator: random.Random) -> Values | None:
    """Return such values, or None: changes one value of a comparison that is not as it must be, again and again."""
    asked = [*((one, True) for one in wanted), *((one, False) for one in denied)]
    values = {query: exp(generator.gauss(2, 1)) for one, _ in asked for query in _queries(one)}
    wrong = _wrong(asked, values)
    for _ in range(STEPS):
        if not wrong:
            return values
        chosen = generator.choice(wrong)
        query = generator.choice(_queries(chosen))
        before, values[query] = values[query], _proposed(chosen, query, values, generator)
        after = _wrong(asked, values)
        if len(after) <= len(wrong) or generator.random() < 0.02:
            wrong = after
        else:
            values[query] = before
    return None


def _proposed(term: Term, query: Query, values: Values, generator: random.Random) -> float:
    """Return a value to try: near what it is, or near another value or a number of the comparison."""
    if generator.random() < 0.4:
        return values[query] * exp(generator.gauss(0, 0.5))
    numbers = [one.number for one in walk(term) if one.operation == "number"]
    return generator.choice([*values.values(), *numbers, 0.0]) * (
        1 + generator.choice([0, 1e-3, 0.02, 0.3, -0.02, -0.3])
    )


def _wrong(asked: Sequence[tuple[Term, bool]], values: Values) -> list[Term]:
    return [one for one, truth in asked if is_true(one, values) != truth]


def is_true(term: Term, values: Values) -> bool:
    """Return whether a comparison is true of some values."""
    return COMPARED[term.operation](*(_number(part, values) for part in term.parts))


def _number(term: Term, values: Values) -> float:
    if term.query is not None:
        return values[term.query]
    if term.operation == "number":
        return term.number
    return float(COMBINED[term.operation](*(_number(part, values) for part in term.parts)))


def _queries(term: Term) -> list[Query]:
    return sorted({one.query for one in walk(term) if one.query is not None}, key=str)
