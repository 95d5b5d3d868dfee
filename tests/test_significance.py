"""Which numbers of a table are bold: tests against sacrebleu, scipy and simulation."""

from __future__ import annotations

import random

import numpy as np
import pytest
from bench_metrics.plugin import BleuConfig
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from bench_core import Outcome
from bench_core.reporting.significance import holm, koehn_p_value, nested, p_value
from bench_core.resampling import DRAWS, draws

WORDS = "the a cat dog sat ran on under mat tree old new red house and slept".split()


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
            Outcome(i, references=[line], texts=[text]) for i, (line, text) in enumerate(zip(references, texts))
        ]
        parts = metric.measure(outcomes)
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
