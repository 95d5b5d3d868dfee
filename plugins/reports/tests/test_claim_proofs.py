"""Proofs about claims: what is true or false of all numbers within bounds, and what implies what."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import numpy as np
import pytest
from bench_small.suites import SUITE
from claim_generator import BOUNDS, expression, numbers, truths
from scipy.optimize import linprog

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.language.claim_proofs import implies, truth
from bench_reports.language.expressions import read
from bench_reports.language.simplex import Simplex

RANGES = {
    "a": (0, 100),
    "b": (0, 100),
    "c": (0, 100),
    "p": (1, inf),
    "q": (1, inf),
    "n": (0, inf),
    "any": (-inf, inf),
}


def term(text):
    expression = read(text)
    assert expression.problems == []
    return expression.term


def written(text):
    """Return an expression whose metrics are single letters."""
    words = text.replace("(", "( ").replace(")", " )").replace(",", " ,").split(" ")
    return " ".join(f"v('{word}')" if word in RANGES and word != "any" else word for word in words)


TRUE = [
    "a <= 100", "a == a", "n >= 0", "a < b + 1000000", "a > 0 or a <= 0", "a - a < 1", "min(a, b) <= a",
    "not (a < b) or a < b", "a < a + 1", "abs(a - b) <= 100", "(a - b) ** 2 >= 0", "a * b <= 100 * a", "p / q > 0",
    "p * q >= 1", "mean(a, b) <= max(a, b)", "a ** 2 + b ** 2 >= 2 * a * b", "max(a, b) * c >= a * c", "a / p <= 100",
    "p ** -1 <= 1", "a == b or a != b", "a < b or b < c or c <= a", "2 * (a + b) == 2 * a + 2 * b", "a / b >= 0",
    "not all(x < 0 for x in [1]) or a < b", "in_every_training( a >= 0)",
    "in_every_training( a < b) or not in_every_training( a < b and b < c)",
]  # fmt: skip
VARYING = [
    "a < b", "a < 100", "a >= 0.001", "abs(a - b) < 100", "(a - b) ** 2 > 0", "a * b <= 9999", "a * b >= a", "p / q < 1.02",
    "p / q < q / p", "n < 1e300", "a > 0 or b <= 0", "p > 1", "min(a, b) <= c", "a < b < c", "a / b > 1",
    "in_every_training( a < b) or a >= b", "in_every_training( a < b) or in_every_training( a >= b)",
]  # fmt: skip


@pytest.mark.parametrize("text", TRUE)
def test_what_is_true_of_all_numbers_is_proven_and_its_contrary_refuted(text):
    assert truth(term(written(text)), RANGES) is True
    assert truth(term(written(f"not ({text})")), RANGES) is False


@pytest.mark.parametrize("text", VARYING)
def test_what_may_be_otherwise_is_not_proven(text):
    assert truth(term(written(text)), RANGES) is None


def test_without_bounds_next_to_nothing_is_proven():
    assert truth(term(written("a <= 100")), {}) is None
    assert truth(term(written("a <= a")), {}) is True


def disagreements(seed, count):
    """Yield random expressions that random numbers say something else of: 10,000, or more where these find no two."""
    generator, chance = Random(seed), np.random.default_rng(seed)
    values = numbers(chance, 10_000)
    for _ in range(count):
        text = expression(generator)
        found = read(text)
        if found.term is None:
            continue
        proven, seen = truth(found.term, BOUNDS), {*truths(found.term, values).tolist()}
        for _ in range(50 if proven is None else 0):
            seen |= {*truths(found.term, numbers(chance, 10_000)).tolist()} if len(seen) < 2 else set()
        if proven is not (seen.pop() if len(seen) == 1 else None):
            yield text


def test_exactly_the_random_expressions_are_constant_that_ten_thousand_random_numbers_say_are():
    assert [*disagreements(5, 100)] == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_thousands_of_random_expressions_are_constant_if_and_only_if_random_numbers_say_so(seed):
    assert [*disagreements(100 + seed, 2_000)] == []


def test_random_numbers_find_a_proof_that_is_wrong(monkeypatch):
    from bench_reports.language import claim_formulas

    monkeypatch.setattr(claim_formulas, "NEGATED", {**claim_formulas.NEGATED, "<": ">"})  # not of equal numbers
    assert [*disagreements(5, 100)]


def test_the_simplex_finds_what_linear_programming_finds():
    generator, both = Random(3), set()
    for _ in range(60):
        size, count = generator.randint(1, 4), generator.randint(1, 6)
        rows = [[generator.randint(-3, 3) for _ in range(size)] for _ in range(count)]
        limits = [generator.randint(-9, 9) for _ in range(count)]
        simplex = Simplex()
        names = [simplex.variable((Fraction(0), Fraction(0)), (Fraction(5), Fraction(0))) for _ in range(size)]
        possible = True
        for row, limit in zip(rows, limits, strict=True):
            shares = {name: Fraction(share) for name, share in zip(names, row, strict=True) if share}
            possible &= (
                simplex.bound(simplex.form(shares), high=(Fraction(limit), Fraction(0))) if shares else limit >= 0
            )
        found = possible and simplex.feasible()
        assert found == (linprog([0] * size, rows, limits, bounds=(0, 5)).status == 0)
        both.add(found)
    assert both == {True, False}


IMPLIED = [
    ("a <= 2", "a <= 5"), ("a < b and b < c", "a < b"), ("a < b", "a < b or b < c"), ("a > b + 1", "a > b"),
    ("max(a, b) < c", "a < c"), ("a > 1.1 * b and b > 0", "a > b"), ("p / q > 1.2", "p > q"), ("a < b < c", "a < c"),
    ("abs(a - b) < 1", "a < b + 2"), ("in_every_training( a < b and b < c)", "in_every_training( a < b)"),
    ("min(a, b) > c", "mean(a, b) > c"), ("a <= 1", "a <= b + 1"), ("not (a < 5)", "not (a < 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("stronger", "weaker"), IMPLIED)
def test_what_implies_another_is_proven_to_and_not_the_other_way_round(stronger, weaker):
    assert implies(term(written(stronger)), term(written(weaker)), RANGES)
    assert not implies(term(written(weaker)), term(written(stronger)), RANGES)


def test_every_training_and_the_mean_over_trainings_are_two_things():
    ours, theirs = term(written("in_every_training( a < b)")), term(written("a < b"))
    assert not implies(ours, theirs, RANGES)
    assert not implies(theirs, ours, RANGES)


LINE = SUITE[: SUITE.index("profiles:")].count("\n") + 2


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("v('ended', model='one', decoder='draw') <= 100", "true for all scores within the bounds of its metrics (ended from 0 to 100)"),
        ("v('nats', model='one') < 0", "false for all scores within the bounds of its metrics (nats from 0)"),
        ("v('nats', model='one') == v('nats', model='one')", "no test can show that measured numbers are equal"),
        ("v('nats', model='one') <= v('nats', model='one', split='test')", "true for all scores within the bounds"),
        ("v('nats', model='one') != 0", "Claim a bound, such as `v('nats', model='one') > 1`"),
        ("v('nats', model='one') == v('nats', model='two')", "such as `abs(v('nats', model='one') - v('nats', model='two')) < 1`"),
        ("v('clear', model='one', decoder='draw') > 1", "metric 'clear' declares no bounds"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["claim", "premise", "primary"])
def test_what_cannot_be_tested_is_refused_with_its_place_and_a_remedy(suite_file, text, wrong, place):
    suite = SUITE.replace("  nats: {name: nats}\n", "  nats: {name: nats}\n  clear: {name: clear}\n")
    good = "v('nats', model='one') < v('nats', model='two')"
    entry = {
        "claim": f'{{id: C, text: t, assert: "{text}"}}',
        "premise": f'{{id: C, text: t, assert: "{good}", requires: {{p: "{text}"}}}}',
        "primary": f'{{id: C, text: t, primary: true, assert: "{text}"}}',
    }
    path = suite_file(suite.replace("profiles:\n", f"claims:\n  - {entry[place]}\nprofiles:\n"))
    with pytest.raises(SuiteError) as error:
        load(path)
    assert wrong in str(error.value)
    assert str(error.value).startswith(f"{path}:{LINE + 1}:")


def test_a_claim_that_may_turn_out_either_way_is_accepted(suite_file):
    text = "v('nats', model='one') < v('nats', model='two')"
    load(
        suite_file(
            SUITE.replace(
                "profiles:\n", f'claims: [{{id: C, text: t, primary: true, assert: "{text}"}}]\nprofiles:\n'
            )
        )
    )
