"""Claims of every training: decoders of the same weights are compared by the examples of each training alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_small.runs import cell, number, run_of, sampled, with_sections
from bench_small.suites import SUITE
from scipy.stats import binom

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.content.claims import judge
from bench_reports.language.expressions import Query, read
from bench_reports.language.schema import Claim
from bench_reports.statistics.claim_tests import ClaimTest, sign_test
from bench_reports.statistics.estimate import Measured, contrast
from bench_reports.statistics.tails import LEVEL

LESS = "v('rate', decoder='beam') < v('rate', decoder='greedy')"


def claim(expression, **more):
    return Claim.model_validate({"id": "C", "text": "", "assert": expression, **more})


def judged(tmp_path, expression, greedy, beam, size=100):
    """Return the judgement of a claim about two decoders, with so many cases for each seed of either."""
    samples = {"greedy": greedy, "beam": beam}
    samples = {name: [[100.0] * some + [0.0] * (size - some) for some in each] for name, each in samples.items()}
    cells = [
        replace(
            one,
            cell={**one.cell, "model": "rnn", "decoder": one.cell["model"]},
            artifacts={**one.artifacts, "train": f"training-{one.cell['seed']}"},
        )
        for one in sampled(tmp_path, samples, scale="share")
    ]
    run = run_of(tmp_path, cells, {})
    (one,) = judge(with_sections(run, claims=[claim(expression)]))
    return one


UGLY = {"greedy": [94, 0, 89], "beam": [1, 0, 0]}  # of 100; some trainings never end, others always do


def test_what_every_training_shows_holds_however_different_trainings_are(tmp_path):
    assert judged(tmp_path, LESS, **UGLY).verdict == "unclear", "a mean over trainings says nothing"
    one = judged(tmp_path, f"in_every_training({LESS})", **UGLY)
    assert one.verdict == "holds"
    assert one.remarks[0] == "tested in 2 of 3 training runs"
    assert one.p < 1e-6


def test_the_p_value_is_the_largest_over_trainings_and_that_of_the_contrary_the_smallest_times_their_number(tmp_path):
    one = judged(tmp_path, f"in_every_training({LESS})", [50, 20, 30], [10, 12, 10])
    alone = [judged(tmp_path, f"in_every_training({LESS})", [g], [b]) for g, b in ((50, 10), (20, 12), (30, 10))]
    assert one.p == max(single.p for single in alone)
    contrary = judged(tmp_path, f"not in_every_training({LESS})", [50, 20, 12], [10, 12, 20])
    single = judged(tmp_path, f"not in_every_training({LESS})", [12], [20])
    assert contrary.p == pytest.approx(3 * single.p)
    assert contrary.verdict == "holds"


@pytest.mark.parametrize(
    ("greedy", "beam", "verdict"),
    [
        ([50, 60, 70], [1, 2, 3], "holds"),
        ([50, 60, 0], [1, 2, 0], "holds"),
        ([50, 0, 0], [1, 0, 0], "holds in this training run"),
        ([50, 60], [1, 2], "holds in these training runs"),
        ([50, 0], [1, 0], "holds in this training run"),
        ([50], [1], "holds in this training run"),
        ([0, 0, 0], [0, 0, 0], "vacuous"),
        ([50, 60, 10], [1, 2, 10], "unclear"),
        ([50, 60, 1], [1, 2, 40], "fails"),
        ([50, 60, 11], [1, 2, 10], "unclear"),
    ],
)
def test_a_verdict_is_of_as_many_trainings_as_were_tested(tmp_path, greedy, beam, verdict):
    assert judged(tmp_path, f"in_every_training({LESS})", greedy, beam).verdict == verdict


def test_a_condition_of_several_comparisons_is_judged_as_several_conditions_are(tmp_path):
    """Each training in which one of the comparisons is vacuous is left out for that one alone."""
    more = "v('rate', decoder='greedy') > 30"
    both = judged(tmp_path, f"in_every_training({LESS} and {more})", [50, 0, 60], [1, 0, 2])
    apart = judged(tmp_path, f"in_every_training({LESS}) and in_every_training({more})", [50, 0, 60], [1, 0, 2])
    assert (both.verdict, both.p, both.remarks) == (apart.verdict, apart.p, apart.remarks)
    assert both.verdict == "fails"
    assert [text for text in both.remarks if text.startswith("tested in")] == [
        f"tested in 2 of 3 training runs: {LESS}",
        f"tested in 3 of 3 training runs: {more}",
    ]


def test_a_difference_below_the_error_of_an_estimate_is_not_tested_in_any_training(tmp_path):
    cells = [
        replace(
            cell("rnn", decoder, seed, {"rate": number(value, error=0.5, kind="estimate")}),
            artifacts={"train": str(seed)},
        )
        for decoder, value in (("greedy", 1.2), ("beam", 1.0))
        for seed in range(3)
    ]
    run = run_of(tmp_path, cells, {})
    (one,) = judge(with_sections(run, claims=[claim(f"in_every_training({LESS})")]))
    assert one.verdict == "not tested"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("in_every_training(in_every_training(v('a') > 0))", "cannot be nested"),
        ("in_every_training(1 < 2) and v('a') > 0", "contains no measured value"),
        ("in_every_training(v('a'))", "expected a comparison, found `v('a')`"),
        ("in_every_training(v('a') > 0, v('b') > 0)", "takes one condition"),
        ("in_every_training(v('a') > 0 for m in ['x'])", "expected a comparison"),
        ("in_every_training(v('a') > 0) > 0", "expected a number"),
    ],
)
def test_a_quantifier_that_cannot_be_read_is_refused(text, message):
    assert message in "\n".join(read(text).problems)


def mistakes(path, **options):
    with pytest.raises(SuiteError) as error:
        load(path, **options)
    return str(error.value).replace(str(path), "S")


def suite_with(text, suite=SUITE):
    return suite.replace("profiles:\n", f'claims:\n  - {{id: C, text: t, assert: "{text}"}}\nprofiles:\n')


ENDED = "v('ended', model='one', decoder='argmax') < v('ended', model={other!r}, decoder='draw')"
LINE = SUITE[: SUITE.index("profiles:")].count("\n") + 2


def test_a_quantifier_over_decoders_of_one_model_is_accepted(suite_file):
    load(suite_file(suite_with(f"in_every_training({ENDED.format(other='one')})")))
    load(suite_file(suite_with(f"in_every_training({ENDED.format(other='one')})")), "tiny")  # which has one seed


def test_a_quantifier_over_two_models_is_refused_and_both_are_named(suite_file):
    found = mistakes(suite_file(suite_with(f"in_every_training({ENDED.format(other='two')})")))
    assert f"S:{LINE}:22: in_every_training compares values of the same weights, but " in found
    assert (
        "come from different training runs (model 'one' and 'two'). To compare training runs, omit in_every_training."
        in found
    )


def test_a_quantifier_over_one_training_is_refused(suite_file):
    text = suite_with(f"in_every_training({ENDED.format(other='one')})", SUITE.replace("seeds: 2\n", "seeds: 1\n"))
    found = mistakes(suite_file(text))
    assert f"S:{LINE}:22: " in found
    assert "over a single training run has no effect. Set `seeds: 3`, or omit it." in found
    load(suite_file(suite_with(f"in_every_training({ENDED.format(other='one')})")), seeds=1)  # asked for by the user


def test_a_quantifier_over_a_model_without_training_is_refused(suite_file):
    suite = SUITE.replace("  one: {name: bigram}\n", "  one: {name: bigram, training: {mode: evaluate}}\n")
    found = mistakes(suite_file(suite_with(f"in_every_training({ENDED.format(other='one')})", suite)))
    assert "model 'one' is not trained, so it has no training runs. Omit in_every_training." in found


def test_the_test_of_a_training_is_that_of_this_training_alone():
    generator = np.random.default_rng(3)
    expression = read("in_every_training(v('a') > v('b'))")
    values, draws = generator.normal(size=(2, 3)), generator.normal(size=(2, 3, 1, 200))
    cells = [Measured(values[place], draws[place], 50, sample="s", training="t") for place in range(2)]
    one = ClaimTest({Query("a"): cells[0], Query("b"): cells[1]}).p_values(expression.term)
    alone = [
        contrast(
            [Measured(values[place][[s]], draws[place][[s]], 50, sample="s", training="t") for place in range(2)],
            [1, -1],
        )
        for s in range(3)
    ]
    assert one.true == pytest.approx(max(found.p_above() for found in alone), rel=1e-9)


def weights(size):
    return np.random.default_rng(1).multinomial(size, np.full(size, 1 / size), 1_000) / size


def decodings(generator, size, trainings, drawn):
    """Return the shares of two decoders of the same examples, for each training (only ours, only theirs, both)."""
    cells = []
    for ours, theirs, both in trainings:
        kind = generator.random(size)
        first = (kind < ours) | ((kind >= ours + theirs) & (kind < ours + theirs + both))
        second = (kind >= ours) & (kind < ours + theirs + both)
        cells.append([first, second])
    cases = 100.0 * np.array(cells)  # [S, 2, N]
    return [
        Measured(
            cases[:, one].mean(1), (cases[:, one] @ drawn.T)[:, None], size, sample="s", training="t", scale="share"
        )
        for one in range(2)
    ]


def shares(trainings, repetitions, size=100, seed=4):
    """Return in how many percent of experiments `in_every_training` holds, and in how many it fails."""
    term, generator, drawn = (
        read("in_every_training(v('a') > v('b'))").term,
        np.random.default_rng(seed),
        weights(size),
    )
    pairs = []
    for _ in range(repetitions):
        ours, theirs = decodings(generator, size, trainings, drawn)
        pairs.append(ClaimTest({Query("a"): ours, Query("b"): theirs}).p_values(term) or (1.0, 1.0))
    return 100 * (np.array(pairs) <= LEVEL).mean(0)


NESTED, BACK, EQUAL, ZERO = (0.1, 0.0, 0.2), (0.11, 0.01, 0.19), (0.05, 0.05, 0.2), (0.0, 0.0, 0.0)
FOUND = {"10 against 0": (0.1, 0.0, 0.0), "30 against 20": NESTED, "30 against 20, some the other way round": BACK}


def keeps_its_promises(repetitions, seed, sizes=(50, 100, 300), differing=(0.01, 0.02, 0.05, 0.1)):
    error = 300 * (0.05 * 0.95 / repetitions) ** 0.5  # three errors of the simulation, in percent
    for trainings in FOUND.values():
        assert shares([trainings] * 3, repetitions, seed=seed)[0] >= 80 - 2 * error
    assert shares([NESTED, ZERO, NESTED], repetitions, seed=seed)[0] >= 80
    for size in sizes:
        for unlike in differing:
            equal = (unlike, unlike, 0.2)
            assert max(shares([equal], repetitions, size, seed)) <= 5 + error, (size, unlike)
    assert shares([EQUAL] * 3, repetitions, seed=seed)[0] <= 1
    assert shares([NESTED, NESTED, EQUAL], repetitions, seed=seed)[0] <= 5 + error


def test_ten_points_in_each_of_three_trainings_are_found_and_equal_decoders_are_not_told_apart():
    keeps_its_promises(30, 4, (100,), (0.05,))


@pytest.mark.nightly
def test_thousands_of_experiments_find_ten_points_and_tell_no_equal_decoders_apart():
    keeps_its_promises(3_000, 5)


def test_the_test_of_few_examples_that_differ_is_that_of_their_signs():
    """Of n examples that are a case of one alone, k are of ours: P(more than k of n) + P(k of n) / 2."""
    generator, drawn = np.random.default_rng(0), weights(200)
    for ahead, behind, both in ((5, 0, 20), (4, 0, 0), (6, 1, 30), (9, 2, 3), (0, 0, 4), (2, 3, 0)):
        cases = np.zeros((2, 200))
        cases[0, :ahead] = cases[1, ahead : ahead + behind] = cases[:, 150 : 150 + both] = 100
        cases = cases[:, generator.permutation(200)]
        ours, theirs = (
            Measured(one.mean(keepdims=True), (one @ drawn.T)[None, None], 200, sample="s", scale="share")
            for one in cases
        )
        signs = binom(ahead + behind, 0.5)
        expected = signs.sf(ahead) + signs.pmf(ahead) / 2, signs.sf(behind) + signs.pmf(behind) / 2
        assert sign_test(ours, theirs) == pytest.approx(expected)
    assert sign_test(ours, replace(theirs, sample="other")) is None
    assert sign_test(ours, replace(theirs, scale="linear")) is None
