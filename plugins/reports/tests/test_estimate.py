"""Contrasts: what they are where scipy or sacrebleu knows, and what their parts do. How often they are right: tests/calibration."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from scipy import stats

from bench_core import Prediction
from bench_core.computing.bootstrap import draws
from bench_metrics.plugin import BleuConfig
from bench_reports.statistics.comparisons import all_pairs, holm, with_baseline, with_best
from bench_reports.statistics.estimate import Estimate, Measured, contrast, difference, together
from bench_reports.statistics.permutation import koehn_p_value
from bench_reports.statistics.power import seeds_needed
from bench_reports.statistics.shares import Share, share_of
from bench_reports.statistics.tails import MIN_P_VALUE, VariancePart, quantile
from block_bootstrap import REPLICATES

DICE = np.random.default_rng(0)


def whole(*values, **settings):
    """Return numbers of a whole population, which vary by seed alone."""
    return Measured(np.array(values, dtype=float), **settings)


def of_examples(values, sample="s", weights=None, **settings):
    """Return means over examples [S, N], with draws that all measurements of the same sample share."""
    values = np.atleast_2d(values)
    if weights is None:
        weights = np.random.default_rng(1).multinomial(
            values.shape[1], [1 / values.shape[1]] * values.shape[1], REPLICATES
        )
    drawn = values @ weights.T / values.shape[1]
    return Measured(values.mean(1), drawn[:, None], values.shape[1], sample=sample, **settings)


# Seeds alone


@pytest.mark.parametrize("factor", [2.0**500, 2.0**-300])
def test_numbers_of_any_size_have_the_interval_of_their_size(factor):
    one, other, examples = (1.0, 2.0, 4.0), (2.5, 2.6, 9.0), of_examples(DICE.normal(3, 1, (2, 30)))
    for mine, theirs in ((whole(*one), whole(*other)), (examples, whole(*other))):
        found = difference(mine, theirs)
        scaled = [
            replace(m, values=m.values * factor, draws=None if m.draws is None else m.draws * factor)
            for m in (mine, theirs)
        ]
        grown = difference(*scaled)
        assert [end / factor for end in grown.interval()] == pytest.approx(found.interval(), rel=1e-9)
        assert grown.p() == pytest.approx(found.p(), rel=1e-6)


@pytest.mark.parametrize(("one", "other"), [((1.0, 2.0, 4.0), (2.5, 2.6, 9.0)), ((1.0, 2.0), (3.0, 3.5, 9.0, 2.0))])
def test_different_trainings_are_compared_by_welch(one, other):
    found, theirs = difference(whole(*one), whole(*other)), stats.ttest_ind(one, other, equal_var=False)
    assert found.p() == pytest.approx(theirs.pvalue, rel=1e-4)
    assert found.interval() == pytest.approx(theirs.confidence_interval(0.95), rel=1e-6)


def test_decoders_of_the_same_trainings_are_paired_by_seed():
    one, other = [1.0, 5.0, 9.0, 3.0], [1.5, 5.6, 9.4, 3.7]
    found, theirs = difference(whole(*one, training=1), whole(*other, training=1)), stats.ttest_rel(one, other)
    assert found.p() == pytest.approx(theirs.pvalue, rel=1e-4)
    assert found.interval() == pytest.approx(theirs.confidence_interval(0.95), rel=1e-6)
    assert difference(whole(*one), whole(*other)).p() > 0.5


def test_the_mean_of_seeds_has_the_interval_of_students_t():
    values = [1.0, 2.0, 4.0, 4.5]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert contrast([whole(*values)], [1.0]).interval() == pytest.approx(theirs, rel=1e-6)


def test_one_seed_on_either_side_leaves_other_trainings_out():
    examples = DICE.normal(size=(3, 50))
    found = difference(of_examples(examples), of_examples(examples[:1] + 0.1))
    assert found.of_these_trainings
    assert difference(of_examples(examples), of_examples(examples[:1] + 0.1, trained=False)).seeds is not None


def test_counts_that_no_seed_changes_need_no_second_seed():
    found = difference(whole(1.0, 2.0, 3.0), whole(7.0, trained=False))
    assert found.interval() == pytest.approx(stats.ttest_1samp([-6.0, -5.0, -4.0], 0).confidence_interval(0.95))


# Examples alone


def test_one_seed_is_compared_by_pairs_of_examples_as_a_paired_t_test_does():
    """Up to what 1,000 draws leave to chance: the error of a standard deviation is 2 %."""
    hard = DICE.normal(size=60) * 5
    one, other = hard + DICE.normal(size=60), hard + DICE.normal(size=60) + 0.3
    found, theirs = difference(of_examples(one), of_examples(other)), stats.ttest_rel(one, other)
    assert found.half_width() == pytest.approx(np.ptp(theirs.confidence_interval(0.95)) / 2, rel=0.12)
    found = replace(found, skewness=0.0)
    assert found.half_width() == pytest.approx(np.ptp(theirs.confidence_interval(0.95)) / 2, rel=0.05)
    assert found.p() == pytest.approx(theirs.pvalue, rel=0.35)


def test_different_test_sets_are_independent_even_if_their_draws_are_the_same():
    values = DICE.normal(size=80)
    same = difference(of_examples(values), of_examples(values + 1))
    other = difference(of_examples(values), of_examples(values + 1, sample="t"))
    assert same.half_width() == pytest.approx(0, abs=1e-9)
    assert other.half_width() == pytest.approx(quantile(158, 0.05) * np.sqrt(2 * values.var(ddof=1) / 80), rel=0.1)


def test_several_test_sets_are_averaged_with_their_own_errors():
    small, large = DICE.normal(size=20), DICE.normal(size=2_000)
    sets = [of_examples(small, "s"), of_examples(large, "l")]
    found = contrast(sets, [0.5, 0.5])
    parts = [contrast([one], [0.5]).alone for one in sets]
    assert found.alone.variance == pytest.approx(sum(part.variance for part in parts))
    assert found.alone == pytest.approx(together(parts))


def test_draws_of_streams_are_those_of_blocks_as_long_as_either_needs():
    drawn = np.stack([np.tile([-1.0, 1.0], REPLICATES // 2) * size for size in (1, 2, 3)])[None]
    stream = Measured(np.zeros(1), drawn, 160, (1, 4, 16), 1, sample="s")
    needs = replace(stream, values=np.ones(1), draws=np.zeros((1, 3, REPLICATES)), block=3)
    assert contrast([stream], [1.0]).alone.variance == pytest.approx(1 * 160 / 159)
    found = difference(stream, needs)
    assert found.alone.variance == pytest.approx(4 * 40 / 39)
    assert contrast([replace(stream, block=99)], [1.0]).alone.variance == pytest.approx(9 * 10 / 9), "the longest"


# Both


def test_what_examples_add_to_single_seeds_is_counted_once():
    """Where draws of seeds are independent, all of their variance is in that of the seeds already."""
    count, seeds = 100, 400
    values = DICE.normal(size=(seeds, count))  # the error of each seed's mean is 0.1, and its own
    own = np.stack([DICE.normal(size=REPLICATES) * 0.1 for _ in range(seeds)])
    found = contrast([Measured(values.mean(1), own[:, None], count, sample="s")], [1.0])
    assert found.examples.variance < 0.1 * found.seeds.variance
    common = Measured(values.mean(1), np.repeat(own[:1], seeds, 0)[:, None], count, sample="s")
    assert contrast([common], [1.0]).examples.variance == pytest.approx(0.01, rel=0.1)


def test_an_interval_for_other_trainings_is_never_narrower_than_that_for_these():
    examples = DICE.normal(size=50)
    alike = of_examples(np.stack([examples, examples]))  # both seeds agree on everything
    found = contrast([alike], [1.0])
    assert found.half_width() >= found.only_these().half_width() > 0


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("level", [0.5, 0.05, 1e-4])
def test_p_is_the_level_whose_interval_just_reaches_the_null(seeds, level):
    found = difference(of_examples(DICE.normal(size=(seeds, 40))), of_examples(DICE.normal(size=(seeds, 40))))
    low, high = found.interval(level)
    assert found.p(low) == pytest.approx(level, rel=1e-4)
    assert found.p(high) == pytest.approx(level, rel=1e-4)
    assert (found.p_above(low), found.p_above(high)) == pytest.approx((level / 2, 1 - level / 2), rel=1e-4)


def test_estimates_whose_own_error_is_larger_than_a_difference_do_not_show_it():
    one, other = whole(15.0, 15.0, 15.0, error=0.3), whole(15.2, 15.2, 15.2, error=0.05)
    assert difference(one, other).p() > 0.3
    assert difference(whole(15.0, 15.0, 15.0), whole(15.2, 15.2, 15.2)).p() == MIN_P_VALUE
    assert difference(one, other).half_width() == pytest.approx(quantile(inf, 0.05) * np.hypot(0.3, 0.05))


def test_perplexities_are_told_apart_by_their_logarithms():
    """An exploded training beside a good one; on the scale of exp, the error would be as large as the difference."""
    nats = DICE.normal(log(2.4), 0.2, size=100), DICE.normal(480, 150, size=100)
    good, exploded = (of_examples(some, scale="log") for some in nats)
    assert difference(good, exploded).p() < 1e-6


def test_rounding_is_no_variation():
    """0.1 + 0.2 is not 0.3, and 15.2 is not the mean of three times 15.2."""
    found = difference(whole(15.2, 15.2, 15.2), whole(0.1 + 15.1, 15.2, 15.2))
    assert not found.varies
    assert found.p() == 1
    long = of_examples(np.full((3, 77), 7.1))
    assert long.is_constant
    assert not contrast([long], [1.0]).varies


def test_nothing_varies_in_a_known_number():
    found = contrast([whole(8.156, trained=False)], [1.0])
    assert not found.varies
    assert found.interval() == (8.156, 8.156)
    assert (found.p(8.156), found.p(8.2)) == (1, MIN_P_VALUE)


def test_the_detectable_difference_of_many_examples_is_2_8_errors():
    found = difference(of_examples(DICE.normal(size=900)), of_examples(DICE.normal(size=900)))
    wider = found.half_width() / replace(found, skewness=0.0).half_width()
    assert 1 <= wider < 1.1
    assert found.detectable() == pytest.approx(wider * 2.8 * np.sqrt(found.alone.variance), rel=0.01)


def test_two_seeds_detect_hardly_anything():
    found = Estimate(0.0, VariancePart(1.0, 1.0), VariancePart(0.0), VariancePart(0.0))
    assert found.detectable() == pytest.approx(39.1, rel=0.01)
    assert replace(found, seeds=VariancePart(1.0, 9.0)).detectable() == pytest.approx(3.46, rel=0.02)


# Comparisons


def test_holm_s_step_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.9]) == [1, 1]
    assert holm([]) == []
    assert holm([0.01, 0.02], family=6) == pytest.approx([0.06, 0.1])


def rows(*means):
    return [
        [of_examples(mean + np.random.default_rng(place).normal(size=(3, 100)))] for place, mean in enumerate(means)
    ]


def test_the_best_is_compared_with_every_other_and_all_pairs_count():
    found = with_best(rows(1, 5, 4.7, 0), better=1)
    assert [(one.first, one.other) for one in found] == [(1, 0), (1, 2), (1, 3)]
    assert all(one.estimate.value > 0 for one in found)
    everything = {frozenset((one.first, one.other)): one.adjusted for one in all_pairs(rows(1, 5, 4.7, 0))}
    assert [one.adjusted for one in found] == [everything[frozenset((one.first, one.other))] for one in found]
    assert [one.first for one in with_best(rows(1, 5, 4.7, 0), better=-1)] == [3, 3, 3]


def test_a_baseline_is_compared_with_every_other():
    found = with_baseline(rows(1, 5, 2), 0)
    assert [(one.first, one.other) for one in found] == [(0, 1), (0, 2)]
    assert [one.adjusted for one in found] == holm([one.p for one in found])


# Shares


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 20), (3, 20), (20, 20), (7, 500)])
@pytest.mark.parametrize("null", [1.0, 15.0, 50.0, 99.0])
def test_shares_are_exact(k, n, null):
    share = Share(k, n)
    above, below = (stats.binomtest(k, n, null / 100, side).pvalue for side in ("greater", "less"))
    assert (share.p_above(null), share.p_below(null)) == pytest.approx((above, below))
    for level in (0.05, 0.1):
        exact = stats.binomtest(k, n).proportion_ci(1 - level, method="exact")
        assert share.interval(level) == pytest.approx((100 * exact.low, 100 * exact.high))


@pytest.mark.parametrize("k", [0, 2, 10])
def test_the_p_value_of_a_share_is_the_level_whose_interval_just_reaches_the_null(k):
    low, high = Share(k, 40).interval(0.05)
    assert 2 * Share(k, 40).p_below(high) == pytest.approx(0.05, rel=1e-6)
    if k:
        assert 2 * Share(k, 40).p_above(low) == pytest.approx(0.05, rel=1e-6)


def test_only_a_share_of_independent_examples_of_one_training_is_exact():
    cases = np.array([0.0, 100.0, 0.0, 0.0])
    assert share_of(of_examples(cases, scale="share")) == Share(1, 4)
    assert share_of(of_examples(cases)) is None
    assert share_of(of_examples(np.stack([cases, cases]), scale="share")) is None
    assert share_of(replace(of_examples(cases, scale="share"), block=2)) is None
    grouped = replace(of_examples(cases, scale="share"), units=3)
    assert share_of(grouped) is None, "one in four is no whole number of three"


def test_no_case_among_many_examples_is_not_known_to_be_none():
    """Nothing varies in 0 of 500; McNemar's exact test has 0.25 for 0 against 3, and 0.016 for 0 against 7."""

    def p(cases):
        none, some = np.zeros((3, 500)), np.zeros((3, 500))
        some[:, :cases] = 100
        return difference(of_examples(none, scale="share"), of_examples(some, scale="share")).p()

    assert p(3) == pytest.approx(0.25, abs=0.07)
    assert p(7) == pytest.approx(0.016, abs=0.025)


# As others have it


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
    metric, found = BleuConfig().load()(BleuConfig()), []
    for texts in outputs:
        pairs = enumerate(zip(references, texts, strict=True))
        parts = [*metric.measure([Prediction(i, references=[line], texts=[text]) for i, (line, text) in pairs])]
        found.append((metric.combine(parts), draws(metric, parts)))
    return found


def test_koehn_s_p_values_are_those_of_sacrebleu():
    """Within the error of 1,000 draws, which are not the same ones: four standard errors of a share."""
    references, outputs = systems(300, [0.80, 0.80, 0.79, 0.77, 0.70], seed=3)
    named = [(f"system {number}", texts) for number, texts in enumerate(outputs)]
    _, results = PairedTest(named, {"BLEU": BLEU()}, [references], test_type="bs", n_samples=REPLICATES)()
    theirs = [one.p_value for one in results["BLEU"]][1:]
    (first, drawn), *others = bleu_draws(references, outputs)
    assert any(0.02 < p < 0.9 for p in theirs), "the case tells something"
    for (score, each), other in zip(others, theirs, strict=True):
        room = 4 * np.sqrt(max(other * (1 - other), 1 / REPLICATES) * 2 / REPLICATES) + 1e-3
        assert abs(koehn_p_value(first - score, drawn - each) - other) < room


def test_of_bleu_the_two_sided_p_value_is_about_twice_koehn_s():
    references, outputs = systems(300, [0.80, 0.785, 0.775], seed=3)
    (first, drawn), *others = bleu_draws(references, outputs)
    ours = Measured(np.array([first]), drawn[None, None], 300, sample="s")
    for score, each in others:
        theirs = Measured(np.array([score]), each[None, None], 300, sample="s")
        one_sided = koehn_p_value(first - score, drawn - each)
        assert difference(ours, theirs).p() == pytest.approx(2 * one_sided, rel=0.5, abs=0.02)


# Seeds that a difference needs


def test_a_larger_difference_needs_fewer_seeds():
    pilot = Estimate(0.0, VariancePart(0.5, 8.0), VariancePart(0.01, 400), VariancePart(0.01, 400))
    needed = [seeds_needed(pilot, 5, apart) for apart in (0.5, 1.0, 2.0, 4.0)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > 10 > needed[-1]


def test_with_a_pilot_that_knows_the_variance_the_number_of_seeds_is_that_of_the_textbook():
    """n = 2 (1.96 + 0.84)^2 (sd / apart)^2 for two groups, and a few more as their deviations are estimated."""
    pilot = Estimate(0.0, VariancePart(2 * 1.0 / 5, 1e6), VariancePart(0.0), VariancePart(0.0))
    assert seeds_needed(pilot, 5, 0.5) == pytest.approx(2 * 2.8**2 / 0.25, rel=0.05)


def test_no_number_of_seeds_makes_up_for_too_few_examples():
    assert (
        seeds_needed(Estimate(0.0, VariancePart(1.0, 8.0), VariancePart(1.0, 100), VariancePart(1.0, 100)), 5, 1.0)
        is None
    )
    assert seeds_needed(Estimate(0.0, None, VariancePart(0.0), VariancePart(1.0, 100)), 1, 9.0) is None


def test_a_bound_is_reached_up_to_rounding():
    perfect = Measured(np.array([100.00000000000004, 100.0, 99.9]), bounds=(0, 100))  # as sacrebleu has it
    assert perfect.at_bound.tolist() == [True, True, False]
    assert not Measured(np.array([0.0, 5.0])).at_bound.any()
    assert Measured(np.array([0.0, 5.0]), bounds=(0, inf)).at_bound.tolist() == [True, False]


def test_errors_and_skewness_of_any_size_give_numbers():
    random = np.random.default_rng(1)

    def part():
        variance = random.choice([0.0, 1e-300, 1e-12, 1.0, 1e150, 1e300])
        return VariancePart(float(variance), float(random.choice([1.0, 2.0, 50.0, inf])))

    for _ in range(500):
        parts = [part(), part(), part(), part()]
        skewness = random.choice([0.0, 0.1, -0.5, -30.0])
        found = Estimate(float(random.choice([0.0, 1.0, -3.0, 1e8])), *parts, skewness=float(skewness))
        low, high = found.interval()
        assert low <= found.value <= high
        assert 0 <= found.p_above() <= 1
        assert found.detectable() >= 0
