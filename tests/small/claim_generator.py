"""Random expressions of claims, and random numbers for their values."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
from numpy.typing import NDArray

from bench_reports.language.expressions import Term

BOUNDS: Mapping[str, tuple[float, float]] = {
    "share": (0, 100), "other": (0, 100), "third": (0, 100), "perplexity": (1, np.inf), "worse": (1, np.inf),
    "tau": (-1, 1), "length": (0, np.inf),
}  # fmt: skip
CONSTANTS = (0, 1, 2, 50, 100, 200, -1, 0.5)
Columns = Mapping[str, NDArray[np.float64]]


def expression(generator: Random, depth: int = 2) -> str:
    """Return a random claim, some of them true or false of all numbers."""
    metrics = generator.sample([*BOUNDS], generator.randint(1, 3))
    return condition(generator, metrics, depth)


def condition(generator: Random, metrics: list[str], depth: int) -> str:
    kind = generator.random()
    if depth and kind < 0.45:
        parts = [condition(generator, metrics, depth - 1) for _ in range(generator.choice([2, 2, 3]))]
        return f"({generator.choice([' and ', ' or ']).join(parts)})"
    if depth and kind < 0.6:
        return f"(not {condition(generator, metrics, depth - 1)})"
    left = number(generator, metrics, 2)
    right = left if generator.random() < 0.1 else number(generator, metrics, 2)
    return f"{left} {generator.choice(['<', '<=', '>', '>='])} {right}"


def number(generator: Random, metrics: list[str], depth: int) -> str:
    kind = generator.random()
    value = f"v('{generator.choice(metrics)}')"
    if not depth or kind < 0.35:
        return value
    if kind < 0.5:
        return str(generator.choice(CONSTANTS))
    inner, other = (number(generator, metrics, depth - 1) for _ in range(2))
    if kind < 0.75:
        return f"({inner} {generator.choice(['+', '-'])} {other})"
    if kind < 0.82:
        return f"{generator.choice([2, 0.5, -1])} * {inner}"
    if kind < 0.92:
        return f"{generator.choice(['min', 'max'])}({inner}, {other})"
    if kind < 0.96:
        return f"abs({inner})"
    return f"{value} * v('{generator.choice(metrics)}')" if kind < 0.98 else f"{inner} ** 2"


def numbers(generator: np.random.Generator, count: int) -> Columns:
    """Return random numbers within bounds [count] by metric: of all sizes, at ends, and equal or near to others."""
    found: dict[str, NDArray[np.float64]] = {}
    common = generator.choice(100, count) * generator.choice([2.0**-7, 0.125, 1.0, 64.0], count)
    for metric, (low, high) in BOUNDS.items():
        top = high if np.isfinite(high) else low + 2.0 ** generator.integers(-3, 19, count)
        steps = generator.integers(0, 2 ** generator.integers(1, 9, count) + 1, count)
        drawn = low + (top - low) * np.minimum(1, steps / 2.0 ** generator.integers(1, 9, count))
        ends = np.where(generator.random(count) < 0.5, low, top)
        kind = generator.random(count)
        one = np.where(kind < 0.2, ends, np.where(kind < 0.45, np.clip(common, low, high), drawn))
        before = found[generator.choice([*found])] if found else np.zeros(count)
        near = before * generator.integers(0, 2, count) + generator.choice([*CONSTANTS], count)
        near = np.clip(near + generator.choice([0, 0, 2.0**-6, -(2.0**-6)], count), low, high)
        found[metric] = np.where(generator.random(count) < 0.3, near, one)
    return found


def truths(term: Term, values: Columns) -> NDArray[np.bool_]:
    """Return of which numbers an expression is true [count]."""
    parts = term.parts
    match term.operation:
        case "and" | "all":
            return np.logical_and.reduce([truths(part, values) for part in parts])
        case "or" | "any":
            return np.logical_or.reduce([truths(part, values) for part in parts])
        case "not":
            return ~truths(parts[0], values)
    left, right = (_numbers(part, values) for part in parts)
    signs = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    return np.broadcast_to(signs[term.operation](left, right), np.shape(next(iter(values.values()))))


def _numbers(term: Term, values: Columns) -> NDArray[np.float64]:
    if term.query:
        return values[term.query.metric]
    if term.operation == "number":
        return np.float64(term.number)
    parts = [_numbers(part, values) for part in term.parts]
    operations = {
        "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum, "negative": np.negative,
        "abs": np.abs, "**": np.power,
    }  # fmt: skip
    return operations[term.operation](*parts)
