"""Cross entropies and omitted mass, by hand."""

from __future__ import annotations

from math import exp, inf, isnan, log, nan

import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_core import PluginError, Prediction, SuiteError, TaskInfo
from bench_word_generation.plugin import LetterGainConfig, OmittedMassConfig, WordCrossEntropyConfig

WORDS = ["a", "bb", "ccc", "dd"]
COUNTS = {"train": [4, 2, 1, 0], "valid": [1, 1, 0, 0], "test": [2, 0, 1, 1]}
INFO = TaskInfo(["<stop>", *"abcd"], extras={"words": WORDS, "word_counts": COUNTS})
TEST = 2 * len(WORDS)  # before it come the ids of train and valid


def scored(log_probs, first=TEST):
    return [
        Prediction(first + place, target_log_prob=value, values={"log_prob_by_a_tenth": 2 * value})
        for place, value in enumerate(log_probs)
    ]


def value(config, predictions, info=INFO):
    metric = config.load()(config).prepare(info, {})
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize(
    "config",
    [
        WordCrossEntropyConfig(),
        WordCrossEntropyConfig(against="train", unit="bits", excess=True),
        WordCrossEntropyConfig(value="log_prob_by_a_tenth", floor=-5),
        LetterGainConfig(),
        LetterGainConfig(against="train", unit="bits", floor=-5),
        OmittedMassConfig(floor=-2.5),
        OmittedMassConfig(against="train"),
    ],
)
def test_metrics_of_scored_words_keep_the_contracts(config):
    assert check_metric(MetricCase.of(config, scored([-1.0, -2.0, -inf, -3.5]), info=INFO))


def test_words_weigh_as_they_occur_in_the_split_that_is_scored_or_named():
    predictions = scored([-1.0, -2.0, -3.0, -4.0])
    assert value(WordCrossEntropyConfig(), predictions) == pytest.approx((2 * 1 + 3 + 4) / 4)
    assert value(WordCrossEntropyConfig(against="train"), predictions) == pytest.approx((4 * 1 + 2 * 2 + 3) / 7)
    assert value(WordCrossEntropyConfig(), scored([-1.0, -2.0, -3.0], first=0)) == pytest.approx(11 / 7)
    assert value(WordCrossEntropyConfig(), scored([-1.0, -2.0], first=4)) == pytest.approx(1.5)


def test_a_model_without_an_opinion_pays_ln_27_a_symbol():
    """Spec: all-zero emission, P(w) = 27^-T, H = E[T] ln 27."""
    predictions = scored([-(len(word) + 1) * log(27) for word in WORDS])
    assert value(WordCrossEntropyConfig(), predictions) == pytest.approx((2 * 2 + 4 + 3) / 4 * log(27))


def test_excess_is_over_the_entropy_of_the_words_and_bits_are_nats_over_ln_2():
    predictions = scored([-1.0, -2.0, -3.0, -4.0])
    nats, excess = (value(WordCrossEntropyConfig(excess=which), predictions) for which in (False, True))
    assert nats - excess == pytest.approx(1.5 * log(2))  # entropy of 1/2, 1/4, 1/4
    assert value(WordCrossEntropyConfig(unit="bits"), predictions) == pytest.approx(nats / log(2))
    assert value(WordCrossEntropyConfig(unit="bits", excess=True), predictions) == pytest.approx(excess / log(2))


def letters_alone():
    """Return ln P of `WORDS` by their letters in train, where a occurs 4 times, b 4, c 3, d 0 and EOS 7, plus 1 each."""
    whole = 5 + 5 + 4 + 1 + 8
    a, b, c, d, eos = (log(number / whole) for number in (5, 5, 4, 1, 8))
    return [a + eos, 2 * b + eos, 3 * c + eos, 2 * d + eos]


def test_the_gain_over_letters_is_zero_for_letters_alone_and_counts_words_as_they_occur():
    alone = letters_alone()
    assert value(LetterGainConfig(), scored(alone)) == pytest.approx(0, abs=1e-12)
    better = scored([log_prob + more for log_prob, more in zip(alone, (1, 5, 2, -3), strict=True)])
    assert value(LetterGainConfig(), better) == pytest.approx((2 * 1 + 2 - 3) / 4)
    assert value(LetterGainConfig(against="train"), better) == pytest.approx((4 * 1 + 2 * 5 + 2) / 7)
    assert value(LetterGainConfig(unit="bits"), better) == pytest.approx(1 / 4 / log(2))


def test_the_gain_over_letters_is_the_cross_entropy_of_letters_less_that_of_the_model():
    predictions = scored([-1.0, -inf, -3.0, -4.0])
    cross_entropies = [value(WordCrossEntropyConfig(), each) for each in (scored(letters_alone()), predictions)]
    assert value(LetterGainConfig(), predictions) == pytest.approx(cross_entropies[0] - cross_entropies[1])
    assert value(LetterGainConfig(), scored([-inf] * 4)) == -inf
    assert LetterGainConfig().load()(LetterGainConfig()).better == 1


def test_words_of_any_script_have_letters_alone():
    words = ["नि", "न", "\U0001d400"]
    counts = {split: [3, 1, 0] for split in COUNTS}
    info = TaskInfo(["<stop>", *"निन\U0001d400"], extras={"words": words, "word_counts": counts})
    base, sign, eos = (log(number / (5 + 4 + 1 + 5)) for number in (5, 4, 5))
    alone = [base + sign + eos, base + eos, log(1 / 15) + eos]
    assert value(LetterGainConfig(), scored(alone, first=6), info) == pytest.approx(0, abs=1e-12)


def test_omitted_words_do_not_count_and_their_mass_is_told():
    predictions = scored([-1.0, -inf, -inf, -4.0])
    assert value(WordCrossEntropyConfig(), predictions) == pytest.approx((2 * 1 + 4) / 3)
    assert value(OmittedMassConfig(), predictions) == pytest.approx(1 / 4)
    assert value(OmittedMassConfig(against="train"), predictions) == pytest.approx(3 / 7)
    assert value(OmittedMassConfig(floor=-3), predictions) == pytest.approx(1 / 2)
    assert value(WordCrossEntropyConfig(floor=-3), predictions) == pytest.approx(1)


def test_the_excess_is_zero_for_the_distribution_itself_even_where_words_are_omitted():
    predictions = scored([log(1 / 2), -9.0, -inf, log(1 / 4)])
    assert value(WordCrossEntropyConfig(excess=True), predictions) == pytest.approx(0)


def test_nothing_told_is_infinite_and_nothing_asked_undefined():
    assert value(WordCrossEntropyConfig(), scored([-inf] * 4)) == inf
    assert isnan(value(WordCrossEntropyConfig(), scored([-inf, -inf, -inf, -inf])[1:2]))  # of weight 0
    assert isnan(value(WordCrossEntropyConfig(), []))
    assert isnan(value(OmittedMassConfig(), []))


def test_another_log_probability_that_the_model_tells_can_be_taken():
    config = WordCrossEntropyConfig(value="log_prob_by_a_tenth")
    assert value(config, scored([-1.0, -2.0, -3.0, -4.0])) == pytest.approx(2 * (2 * 1 + 3 + 4) / 4)
    with pytest.raises(SuiteError, match=r"has no value 'tenth'.*values: log_prob_by_a_tenth"):
        value(WordCrossEntropyConfig(value="tenth"), scored([-1.0]))


def test_a_choice_of_words_estimates_what_all_of_them_give():
    predictions = scored([-1.0, -2.0, -3.0, -4.0])
    assert value(WordCrossEntropyConfig(), [predictions[0], predictions[2]]) == pytest.approx((2 * 1 + 3) / 3)


@pytest.mark.parametrize("wrong", [nan, inf, None])
def test_a_score_that_is_no_log_probability_is_refused(wrong):
    with pytest.raises(PluginError, match="the score of example 9 is"):
        value(WordCrossEntropyConfig(), [Prediction(8, target_log_prob=-1.0), Prediction(9, target_log_prob=wrong)])


@pytest.mark.parametrize(("first", "against"), [(0, "test"), (4, "train"), (4, "test"), (0, "valid"), (8, "valid")])
def test_words_of_one_split_cannot_stand_for_those_of_another(first, against):
    with pytest.raises(SuiteError, match=rf"against {against} cannot be computed from the words of"):
        value(WordCrossEntropyConfig(against=against), scored([-1.0, -2.0], first=first))


@pytest.mark.parametrize("ids", [(3, 4), (12, 13)])
def test_examples_of_another_task_are_refused(ids):
    with pytest.raises(SuiteError, match="needs word-generation scores of one split"):
        value(WordCrossEntropyConfig(), [Prediction(number, target_log_prob=-1.0) for number in ids])
    with pytest.raises(SuiteError, match="word-cross-entropy needs a task with words"):
        value(WordCrossEntropyConfig(), scored([-1.0]), TaskInfo(["<stop>", "a"]))


@pytest.mark.slow
def test_many_words_sum_exactly():
    """The mean over 100,000 words of ln p = -T, each by its count, is that of the lengths."""
    number = 100_000
    counts = [1 + place % 7 for place in range(number)]
    info = TaskInfo(
        ["<stop>", "a"],
        extras={"words": [f"w{place}" for place in range(number)], "word_counts": dict.fromkeys(COUNTS, counts)},
    )
    predictions = [Prediction(2 * number + place, target_log_prob=-float(place % 13)) for place in range(number)]
    expected = sum(count * (place % 13) for place, count in enumerate(counts)) / sum(counts)
    assert value(WordCrossEntropyConfig(), predictions, info) == pytest.approx(expected, rel=1e-12)
    assert exp(-value(WordCrossEntropyConfig(), predictions, info)) > 0
