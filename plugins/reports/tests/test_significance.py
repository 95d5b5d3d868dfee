"""Which numbers of a table are bold: tests against sacrebleu, scipy and simulation."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from bench_small.runs import run_of, sampled, shown
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from scipy import stats

from bench_core import Outcome
from bench_core.computing.bootstrap import draws
from bench_core.storage.bootstrap_replicates import DRAWS
from bench_core.suites.schema import Claim
from bench_metrics.plugin import BleuConfig
from bench_reports.content.claims import judge
from bench_reports.content.page import footnotes
from bench_reports.content.tables import grids
from bench_reports.render.records import records
from bench_reports.statistics.significance import holm, koehn_p_value, nested, nested_p_value, p_value, t_tail

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "under",
    "mat",
    "tree",
    "old",
    "new",
    "red",
    "house",
    "and",
    "slept",
]


def systems(segments, quality, seed):
    """Return references and what systems make of them, each word right with the probability of its system."""
    dice = random.Random(seed)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(5, 20))) for _ in range(segments)]
    outputs = [
        [" ".join(word if dice.random() < q else dice.choice(WORDS) for word in line.split()) for line in references]
        for q in quality
    ]
    return references, outputs


def bleu_draws(references, outputs):
    metric = BleuConfig().load()(BleuConfig())
    found = []
    for texts in outputs:
        outcomes = [
            Outcome(i, references=[line], texts=[text])
            for i, (line, text) in enumerate(zip(references, texts, strict=True))
        ]
        parts = [*metric.measure(outcomes)]
        found.append((metric.combine(parts), draws(metric, parts)))
    return found


def test_p_values_agree_with_sacrebleu_s_paired_bootstrap():
    """Within the error of 1,000 draws, which are not the same ones: four standard errors of a share."""
    references, outputs = systems(300, [0.80, 0.80, 0.79, 0.77, 0.70], seed=3)
    named = [(f"system {number}", texts) for number, texts in enumerate(outputs)]
    test = PairedTest(named, {"BLEU": BLEU()}, [references], test_type="bs", n_samples=DRAWS)
    _, results = test()
    theirs = [one.p_value for one in results["BLEU"]][1:]
    (first, drawn), *others = bleu_draws(references, outputs)
    ours = [koehn_p_value(first - score, drawn - each) for score, each in others]
    assert any(0.02 < p < 0.9 for p in theirs), "the case tells something"
    for p, other in zip(ours, theirs, strict=True):
        assert abs(p - other) < 4 * np.sqrt(max(other * (1 - other), 1 / DRAWS) * 2 / DRAWS) + 1e-3


def test_p_values_of_systems_that_are_alike_are_uniform():
    """The share below 5 % is about 5 %: of 200 pairs of means over 80 examples."""
    dice = np.random.default_rng(1)
    counts = dice.multinomial(80, [1 / 80] * 80, size=DRAWS)
    below = 0
    for _ in range(200):
        values = dice.normal(size=80)
        below += p_value(values.mean(), counts @ values / 80) < 0.05
    assert 3 <= below <= 21


def test_of_a_clear_difference_both_tails_are_about_twice_the_one_that_sacrebleu_counts():
    drawn = np.random.default_rng(5).normal(2.0, 1, size=DRAWS)
    assert 1.4 < p_value(2.0, drawn) / koehn_p_value(2.0, drawn) < 2.6


def test_a_difference_that_no_draw_reaches_has_the_tail_of_a_normal_distribution():
    drawn = np.random.default_rng(2).normal(5, 1, size=DRAWS)
    assert p_value(5.0, drawn) == pytest.approx(5.7e-7, rel=0.5)
    assert p_value(3.5, drawn) <= 1 / (DRAWS + 1)
    assert p_value(0.0, np.zeros(DRAWS)) == 1
    assert p_value(1.0, np.ones(DRAWS)) == 0


@pytest.mark.parametrize("freedom", [1, 2, 2.7, 9, 40, 299, 1e6])
def test_the_tail_of_t_is_scipy_s(freedom):
    for t in (0, 0.3, 1.96, 4, 12, 40):
        assert t_tail(t, freedom) == pytest.approx(
            2 * stats.t.sf(t, freedom), rel=2e-4, abs=1e-12 if freedom < 300 else 1e-5
        )


def test_few_seeds_that_agree_do_not_tell_much():
    """Three pairs of trainings that differ by nearly the same: a paired t-test, where examples have no part."""
    ours = np.array([1.0, 1.1, 0.9])[:, None] + np.zeros(DRAWS)
    p = nested_p_value(-2.0, ours, np.full((3, DRAWS), 3.0))
    assert p == pytest.approx(stats.ttest_1samp([2.0, 1.9, 2.1], 0).pvalue, rel=1e-3)
    assert nested_p_value(-2.0, ours[:1], np.full((1, DRAWS), 3.0)) == 0


def test_p_values_over_seeds_are_no_smaller_than_they_may_be():
    """Of 300 pairs of methods that are alike, with three seeds each: about 5 % below 5 %, not the 20 % of draws alone."""
    dice = np.random.default_rng(4)
    below = alone = 0
    for _ in range(300):
        ours, theirs = (
            dice.normal(size=(3, 1)) + 0.3 * dice.normal(size=(1, DRAWS)) + 0.1 * dice.normal(size=(3, DRAWS))
            for _ in range(2)
        )
        difference = float(ours.mean() - theirs.mean())
        below += nested_p_value(difference, ours, theirs) < 0.05
        alone += p_value(difference, nested(ours) - nested(theirs)) < 0.05
    assert below / 300 < 0.08
    assert alone / 300 > 0.12


def test_holm_s_step_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.9]) == [1, 1]
    assert holm([]) == []


def test_draws_over_seeds_spread_by_examples_and_seeds():
    dice = np.random.default_rng(0)
    seeds = np.array([0.0, 4.0, 8.0, 12.0])
    found = nested(seeds[:, None] + dice.normal(size=(4, DRAWS)))
    assert found.mean() == pytest.approx(6, abs=0.3)
    assert found.var() == pytest.approx(seeds.var() / 4 + 1 / 4, rel=0.15)
    one = dice.normal(size=(1, DRAWS))
    assert (nested(one) == one[0]).all()


def rates(*means, seed=0, examples=200, spread=1.0):
    """Return rates by example of one seed for each mean; the examples are as hard for all."""
    dice = np.random.default_rng(seed)
    hard = np.random.default_rng(9).normal(size=examples)
    return [(mean + hard + spread * dice.normal(size=examples)).tolist() for mean in means]


def table(tmp_path, samples, **settings):
    run = run_of(
        tmp_path, sampled(tmp_path, samples, **settings), {"rows": ["model"], "columns": []}, names=[*samples]
    )
    return run, grids(run)[0]


def bold(grid):
    return [row.label for row, entries in zip(grid.rows, grid.entries, strict=True) if entries[0].best]


def test_the_best_is_bold_only_if_it_is_better_by_more_than_chance(tmp_path):
    run, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(6, seed=3)})
    assert bold(grid) == ["a"], "lower is better"
    assert shown(run)["a"]["rate"].startswith("**")
    (note,) = [note for note in footnotes(run, grid) if note.startswith("Bold")]
    assert "paired bootstrap over examples, 1,000 draws, Holm-corrected for 2 comparisons, p < 0.05" in note
    assert "Variation between training runs is not included (one seed)." in note
    _, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(5.001, seed=3)})
    assert bold(grid) == []
    assert any(note.startswith("None is better than every other") for note in footnotes(run, grid))


def test_where_higher_is_better_the_highest_is_bold(tmp_path):
    _, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    assert bold(grid) == ["a"]
    run = run_of(tmp_path, [], {})
    cells = sampled(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    higher = [replace(one, numbers={"rate": replace(one.numbers["rate"], better=1)}) for one in cells]
    run = run_of(tmp_path, higher, {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert bold(grids(run)[0]) == ["b"]


def test_pairing_sees_what_the_spread_of_examples_would_hide(tmp_path):
    """Examples differ far more than systems do, and alike for both."""
    _, grid = table(tmp_path, {"a": rates(5.0, seed=1, spread=0.1), "b": rates(5.1, seed=2, spread=0.1)})
    assert bold(grid) == ["a"]
    errors = [test.error for test in grid.tests]
    assert errors[0] < 0.02


def test_a_difference_that_seeds_do_not_agree_on_is_not_bold(tmp_path):
    examples = {"a": rates(5.0, 7.0, 5.0), "b": rates(6.0, 6.0, 6.0, seed=5)}
    assert bold(table(tmp_path, examples)[1]) == []
    alone = {name: seeds[:1] for name, seeds in examples.items()}
    assert bold(table(tmp_path, alone)[1]) == ["a"], "one seed cannot know"


def test_numbers_of_other_examples_and_without_draws_are_not_compared(tmp_path):
    cells = sampled(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    other = replace(cells[1], numbers={"rate": replace(cells[1].numbers["rate"], sample="x")})
    run = run_of(tmp_path, [cells[0], other], {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert not grids(run)[0].tests
    (tmp_path / "run" / "draws.safetensors").unlink()
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert not grids(run)[0].tests


def test_the_smallest_difference_that_would_have_shown_is_told(tmp_path):
    run, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    (note,) = [note for note in footnotes(run, grid) if note.startswith("Minimum detectable")]
    assert float(note.rpartition(" ")[2].rstrip(".")) == pytest.approx(2.8 * np.sqrt(2 / 200), rel=0.15)


def test_files_hold_p_values_and_which_are_best(tmp_path):
    _, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(5.2, seed=2)})
    first, second = records(grid)
    assert (first["best"], first["p"]) == (second["p"] < 0.05, None)
    assert 0 < second["p"] < 1


def test_claims_draw_examples_too(tmp_path):
    claim = Claim.model_validate({"id": "C", "text": "", "assert": "v('rate', model='a') < v('rate', model='b')"})

    def judged(samples):
        run = run_of(tmp_path, sampled(tmp_path, samples), {}, names=["a", "b"])
        (one,) = judge(replace(run, suite=run.suite.model_copy(update={"claims": [claim]})))
        return one

    assert judged({"a": rates(5, seed=1), "b": rates(7, seed=2)}).verdict == "holds (1 seed)"
    assert judged({"a": rates(7, seed=1), "b": rates(5, seed=2)}).verdict == "fails (1 seed)"
    close = judged({"a": rates(5, seed=1), "b": rates(5.03, seed=2)})
    assert close.verdict == "unclear"
    assert "of the draws over seeds and examples" in close.remarks[0]
    assert judged({"a": rates(5, 5.1, seed=1), "b": rates(7, 7.2, seed=2)}).verdict == "holds"
