"""The language of claims: what it says, what it refuses, and that nobody can hang or escape it."""

from __future__ import annotations

import re
from math import inf, nan
from random import Random

import pytest

from bench_reports.language.claim_terms import is_true as is_true_of
from bench_reports.language.claim_terms import undefined as undefined_in
from bench_reports.language.expressions import MAX_CHARACTERS, MAX_TERMS, Query, read
from bench_reports.statistics.intervals import summary

VALUES = {
    "low": [1.0, 2.0, 3.0],
    "high": [5.0, 5.0, 5.0],
    "none": [0.0, 0.0, 0.0],
    "odd": [nan, 1.0, 1.0],
    "huge": [inf, inf, inf],
}


def is_true(text, values=VALUES):
    """Return whether an expression is true of the means of `values`, by metric."""
    expression = read(text)
    assert expression.problems == []
    return is_true_of(expression.term, {query: summary(values[query.metric]).mean for query in expression.queries})


def mistakes(text):
    expression = read(text)
    assert expression.term is None
    return "\n".join(expression.problems)


TRUE = [
    "v('low') == 2",
    "1 < v('low') < v('high') <= 5 != 4",
    "not (1 < v('low') < 2)",
    "v('low') + v('high') * 2 - 1 == 11",
    "-v('low') ** 2 == -4 and (-v('low')) ** 2 == 4 and v('high') ** -1 == 0.2",
    "v('high') / v('low') == ratio(v('high'), v('low')) == 2.5",
    "abs(v('low') - v('high')) == 3",
    "v('low') > 9 or v('low') < v('high')",
    "mean(v('low'), v('high')) == 3.5 == mean([v('low'), v('high')]) == mean((v('low'), v('high')))",
    "min(v('low'), 7) == 2 and max([v('low')]) == 2",
    "all(v(m) > 1 for m in ['low', 'high']) and not all(v(m) > 2 for m in ('low', 'high'))",
    "any([v('low') > 9, v('high') > 4]) and any(v('high') > n for n in [9, 4, -1])",
    "max(v(a + b) for a in ['l'] for b in ['ow']) == 2",
    "1e-3 < v('low')\n  < 3   # lines may be broken",
]


@pytest.mark.parametrize("text", TRUE)
def test_expressions_mean_what_they_say(text):
    assert is_true(text)


def test_functions_go_over_the_means_of_several_values():
    values = {"a": [0.0, 4.0], "b": [1.0, 1.0]}
    assert is_true("max(v('a'), v('b')) == 2 and max([v('a')]) == 2", values)
    assert is_true("min(v(m) for m in ['a', 'b']) == 1", values)


@pytest.mark.parametrize("name", ["mean", "min", "max"])
def test_a_function_over_the_seeds_of_one_value_is_refused(name):
    assert f"a value is already a mean over seeds; {name} takes several" in read(f"{name}(v('a')) < 1").problems[0]
    assert "unknown function 'std'" in read("std(v('a')) < 1").problems[0]


def test_divisions_by_zero_are_infinite_or_undefined_and_no_error():
    assert is_true("ratio(v('high'), v('none')) > 1e300")
    assert is_true("v('high') / v('none') > 1e300 and -1 / v('none') < -1e300")
    for sign in ("<", "<=", ">", ">=", "==", "!="):
        assert not is_true(f"ratio(v('none'), v('none')) {sign} 1")


def test_what_was_compared_and_is_no_number_is_told():
    def undefined(text):
        expression = read(text)
        means = {query: summary(VALUES[query.metric]).mean for query in expression.queries}
        return [str(term) for term in undefined_in(expression.term, means)]

    assert undefined("v('odd') < 3") == ["v('odd')"]
    assert undefined("v('low') < 3 < v('huge')") == []
    assert undefined("max(v('odd'), 1) > 0 or v('low') < v('huge') - v('huge')") == [
        "max(v('odd'), 1)",
        "v('huge') - v('huge')",
    ]


def test_a_mean_of_equal_numbers_is_that_number():
    assert all(is_true(f"v('x') == {value!r}", {"x": [value] * 7}) for value in (0.1, 1 / 3, 1e17))


def test_values_are_asked_for_once_each_with_their_axes_in_one_order():
    expression = read("v('a', decoder='d', model='m') > v('b') > v('a', model='m', decoder='d')")
    assert list(expression.queries) == [Query("a", (("model", "m"), ("decoder", "d"))), Query("b")]
    assert str(expression.queries[0]) == "v('a', model='m', decoder='d')"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a comparison, found"),
        ("v('a'", "not a valid expression: "),
        ("v('a') >> 3", "expected a comparison, found `v('a') >> 3`"),
        ("v('a') > 3 >", "invalid syntax, at character"),
        ("v('a')", "expected a comparison, found `v('a')`"),
        ("1 < 2", "a claim must contain a value"),
        ("v('a') > 'b'", "expected a number, found `'b'`"),
        ("v('a') > True", "expected a number, found `True`"),
        ("v('a') > 3j", "expected a number, found `3j`"),
        ("v('a') is 3", "expected a comparison, found"),
        ("v('a') in [3]", "expected a number, found `[3]`"),
        ("(v('a') > 3) + 1 > 0", "expected a number, found `v('a') > 3`"),
        ("v('a') and 3", "expected a comparison, found `v('a')`"),
        ("v('a') > w", "unknown name 'w'. "),
        ("men(v('a')) > 1", "unknown function 'men'. Did you mean 'mean'"),
        ("v('a').real > 1", "expected a number, found `v('a').real`"),
        ("__import__('os').system('x') > v('a')", "unknown function \"__import__('os').system\""),
        ("eval('1') > v('a')", "unknown function 'eval'"),
        ("v > 3", "expected a number, found `v`"),
        ("(lambda: v('a'))() > 3", "unknown function \"lambda: v('a')\""),
        ("[v('a')][0] > 3", "expected a number, found"),
        ("(x := v('a')) > 3", "expected a number, found"),
        ("v(f'{a}') > 3", "expected a quoted name, found"),
        ("v(3) > 3", "expected a quoted name, found `3`"),
        ("v(b'a') > 3", "expected a quoted name, found"),
        ("v() > 3", "v takes one metric"),
        ("v('a', 'b') > 3", "v takes one metric"),
        ("v(*['a']) > 3", "expected a quoted name, found"),
        ("v('a', **{}) > 3", "unknown axis None"),
        ("v('a', modle='b') > 3", "unknown axis 'modle'. Did you mean 'model'"),
        ("v('a', model='b', model='c') > 3", "the axis 'model' appears twice"),
        ("v('a', seed='0') > 3", "results are averaged over seeds"),
        ("v('a') ** v('a') > 3", "an exponent must be a whole number from -8 to 8"),
        ("v('a') ** 9 > 3", "an exponent must be a whole number"),
        ("v('a') ** 0.5 > 3", "an exponent must be a whole number"),
        ("v('a') // 2 > 3", "expected a number, found"),
        ("v('a') % 2 > 3", "expected a number, found"),
        ("+v('a') > 3", "expected a number, found"),
        ("abs(v('a'), 1) > 3", "this function takes 1 number."),
        ("ratio(v('a')) > 3", "this function takes 2 numbers."),
        ("min() > v('a')", "min needs 1 argument or more"),
        ("max([]) > v('a')", "max needs 1 argument or more"),
        ("std([v('a')]) > 3", "unknown function 'std'"),
        ("mean(v('a'), 2, key=1) > 3", "no keywords"),
        ("max(v('a'), key=1) > 3", "max needs 1 argument or more, and no keywords."),
        ("all([v('a')])", "expected a comparison, found `v('a')`"),
        ("all(v('a') > 1 if 1 < 2 else v('a') > 2 for a in [1])", "expected a comparison, found"),
        ("all(v(m) > 1 for m in ['a'] if m)", "with one variable and no condition"),
        ("all(v(m) > 1 for m, n in ['a'])", "with one variable and no condition"),
        ("all(v('a') > 1 for v in ['a'])", "with one variable and no condition"),
        ("all(v(m) > 1 for m in 'ab')", "a comprehension must iterate over a list"),
        ("all(v(m) > 1 for m in [v('a')])", "a comprehension must iterate over quoted names or numbers"),
        ("all(v(m) > 1 for m in [True, None])", "a comprehension must iterate over quoted names or numbers"),
        ("all(v(m) > 1 for m in ['a']) and m > v('a')", "unknown name 'm'"),
        ("all(v('a' + n) > 1 for n in [1])", "expected a quoted name, found"),
        ("v('a') > 1e999", "too large"),
        (f"v('a') > {'9' * 999}", "too large"),
        ("v('a\x00') > 1", "not a valid expression"),
        ("v('a') > 1) or (v('b') > 1, 2", "expected a comparison, found"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_language_is_refused(text, message):
    assert message in mistakes(text)


def test_all_mistakes_of_an_expression_are_told():
    found = mistakes("foo(1) > 2 and v('a', modle='b') > x or min() < v('a') ** 99")
    assert found.count("\n") == 4
    assert all(word in found for word in ("'foo'", "'modle'", "'x'", "`min()`", "exponent"))


def test_a_claim_with_a_mistake_still_tells_what_else_it_asks_for():
    assert list(read("v('a') > foo(v('b', model='m')) + v('c', colour='d')").queries) == [Query("a")]


TEN = "in [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v('a') > " + "(" * 1_900 + "1" + ")" * 1_900, "not a valid expression|levels deep"),
        ("v('a') > " + "-" * 3_900 + "1", "not a valid expression|levels deep"),
        ("v('a') > " + "-" * 60 + "1", "more than 40 levels deep"),
        ("v('a') > " + "1+" * 1_900 + "1", "more than 40 levels deep"),
        ("v('a') > " + "abs(" * 700 + "1" + ")" * 700, "not a valid expression|levels deep"),
        ("not " * 900 + "v('a') > 1", "not a valid expression|levels deep"),
        ("v('a') > " + "1 + " * 10**6 + "1", "4,000,010 characters"),
        ("v('a') > 9**9**9**9**9**9", "an exponent must be a whole number"),
        ("all(v('a') > 1 " + "".join(f"for x{n} {TEN} " for n in range(50)) + ")", "more than 5,000 terms"),
        ("all(" * 9 + "v('a') > 1" + "".join(f" for x{n} {TEN})" for n in range(9)), "more than 5,000 terms"),
        (f"all([{'x, ' * 900}] for x {TEN} for y {TEN} for z {TEN} for w {TEN})", "there may be more problems"),
        (f"all(v({'+'.join(['d'] * 20)}) > 1 for d in ['{'d' * 500}'] for e {TEN})", "too long"),
    ],
    ids=range(12),
)  # fmt: skip
def test_hostile_expressions_end_at_a_limit(text, message):
    found = mistakes(text)
    assert re.search(message, found)
    assert len(found) < 10_000


PIECES = [
    "v('low')", "v('high', model='m')", "v(d)", "'low'", "1", "2.5", "-", "not ", "(", ")", "[", "]", ",", "<", ">=", "==", "+",
    "*", "/", "**", " and ", " or ", "mean(", "max(", "min(", "all(", "ratio(", "abs(", " for d in ['low', 'high']", " if ",
    "lambda: ", ".x", "{", "}", "=", ":=", "'", "#", "\n", "\\", "None", "await ", "yield ", "*", "**", "f'{d}'", "é", "0x", "1_0", ";",
]  # fmt: skip


def test_whatever_is_written_is_refused_or_means_something():
    random, meant = Random(0), 0
    for _ in range(3_000):
        text = random.choice(TRUE)
        for _ in range(random.randint(1, 3)):
            start = random.randrange(len(text))
            text = text[:start] + random.choice(PIECES) + text[start + random.randint(0, 3) :]
        expression = read(text)
        assert (expression.term is None) == bool(expression.problems)
        if expression.term and {query.metric for query in expression.queries} <= set(VALUES):
            meant += is_true(text) in (True, False)
    assert meant > 50


def test_an_expression_may_be_long_within_reason():
    names = ", ".join(repr(f"d{n}") for n in range(60))
    text = (
        f"all(v('a', model=m, decoder=d) < v('b', model=m, decoder='c-' + d) for m in ['x', 'y'] for d in [{names}])"
    )
    assert len(text) < MAX_CHARACTERS
    assert len(read(text).queries) == 240 < MAX_TERMS
