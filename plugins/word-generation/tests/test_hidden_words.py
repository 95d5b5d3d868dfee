"""Words with known probabilities: their entropy, task info, metrics, and the settings that are refused."""

from __future__ import annotations

from itertools import product
from math import exp, inf, log, nan

import numpy as np
import pytest
from pydantic import ValidationError

from bench_authors.testing import MetricCase, TaskCase, check_metric, check_task
from bench_authors.testing.contracts import catches
from bench_core import Prediction, SuiteError, TaskInfo
from bench_language_modeling.hidden_markov import HiddenMarkov, random_model, with_ends
from bench_word_generation import word_entropy as module
from bench_word_generation.hidden_words import model_of
from bench_word_generation.plugin import BandCrossEntropyConfig, TrueExcessConfig, WordGenerationConfig
from bench_word_generation.word_entropy import word_entropy

SMALL = {"name": "hmm", "states": 4, "symbols": 3, "words": 2_000}


def configured(**settings):
    corpus = SMALL | settings.pop("corpus", {})
    return WordGenerationConfig.model_validate({"corpus": corpus, "min_count": 1, "shortest": 1} | settings)


def prepared(tmp_path, **settings):
    config = configured(**settings)
    return config, config.load()(config, tmp_path).prepare(tmp_path)


def truth(states=3, symbols=3, seed=1):
    return with_ends(random_model(states, symbols, seed), 0.4)


def enumerated(model, shortest, longest):
    """Return the probabilities of all words, and of the allowed lengths together."""
    symbols = range(1, model.emissions.shape[1])
    words = (word for size in range(shortest, longest + 1) for word in product(symbols, repeat=size))
    probs = np.exp([model.log_prob((*word, 0)) for word in words])
    return probs / probs.sum(), probs.sum()


# mistakes: each is given a function of `word_entropy`, and replaces it


def counts_eos_as_a_letter(model):
    return HiddenMarkov(model.initial, model.transitions, np.roll(model.emissions, 1, 1))


def forgets_that_lengths_are_limited(model):
    return word_entropy(model, 1, 60)


def knows_the_state(model):
    """The entropy of words together with their states."""
    return word_entropy(model, 2, 5, max_probs=0)


def intact(model):
    return word_entropy(model, 2, 5)


def with_other_ends(model):
    return word_entropy(counts_eos_as_a_letter(model), 2, 5)


@catches(forgets_that_lengths_are_limited, with_other_ends, knows_the_state)
def the_entropy_is_that_of_all_words(change):
    for symbols, seed in ((2, 0), (3, 1)):
        model = truth(symbols=symbols, seed=seed)
        probs, mass = enumerated(model, 2, 5)
        found = change(model)
        assert found.nats == pytest.approx(-(probs * np.log(probs)).sum(), abs=1e-9)
        assert found.mass == pytest.approx(mass, abs=1e-12)
        assert found.error < 1e-9


def test_the_entropy_of_words_is_exact_where_they_can_be_enumerated():
    the_entropy_is_that_of_all_words.check(intact)


@pytest.mark.parametrize("mutant", the_entropy_is_that_of_all_words.mutants)
def test_the_entropy_of_words_catches_its_mutants(mutant):
    with pytest.raises(AssertionError):
        the_entropy_is_that_of_all_words.check(mutant)


@pytest.mark.parametrize("rows", [1, 36, 108, 324])
@pytest.mark.parametrize("seed", range(4))
def test_the_exact_entropy_is_within_the_stated_error_of_short_windows(seed, rows):
    model = truth(states=4, seed=seed)
    probs, _ = enumerated(model, 1, 6)
    found = word_entropy(model, 1, 6, max_probs=rows)
    assert abs(found.nats + (probs * np.log(probs)).sum()) <= found.error + 1e-12
    assert found.error < 0.4 * found.nats


def test_longer_windows_have_smaller_errors():
    errors = [word_entropy(truth(states=4), 1, 12, max_probs=4 * 3 ** (window + 1)).error for window in (1, 2, 3, 4)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 4


def test_lengths_without_words_are_refused():
    chain = HiddenMarkov.of([1, 0], [[0, 1], [1, 0]], [[0, 1], [1, 0]])  # every word has one letter
    assert word_entropy(chain, 1, 1) == module.WordEntropy(0, 0, 1)
    with pytest.raises(ValueError, match="no word of the hidden Markov model has 2 to 5 symbols"):
        word_entropy(chain, 2, 5)


def test_the_task_keeps_the_contracts(tmp_path):
    check_task(TaskCase.of(configured(corpus={"words": 300}, samples=20, epoch=100), data=tmp_path, folder=tmp_path))


def test_the_task_info_has_the_probability_of_every_word_given_its_length(tmp_path):
    config, info = prepared(tmp_path, shortest=2, longest=5)
    model, letters = model_of(config.corpus), config.corpus.letters
    _, mass = enumerated(model, 2, 5)
    for word, log_prob in zip(info.extras["words"], info.extras["word_log_probs"], strict=True):
        symbols = [1 + letters.index(letter) for letter in word]
        assert log_prob == pytest.approx(model.log_prob((*symbols, 0)) - log(mass), abs=1e-9)
    statistics = info.extras["statistics"]["all"]
    assert statistics["true_mass"] == pytest.approx(mass)
    assert statistics["true_entropy_error"] < 1e-6
    assert np.array(info.extras["hmm"]["emissions"]).tolist() == model.emissions.tolist()


def test_words_occur_as_often_as_their_probabilities_say(tmp_path):
    _, info = prepared(tmp_path, corpus={"words": 8_000, "end": 0.8}, longest=40)
    counts = np.sum([*info.extras["word_counts"].values()], 0)
    expected = counts.sum() * np.exp(info.extras["word_log_probs"])
    frequent = expected > 20
    assert frequent.sum() > 5
    scores = (counts - expected)[frequent] / np.sqrt(expected[frequent])
    assert 0.3 < (scores**2).mean() < 2


def test_the_mean_surprise_of_many_words_is_their_entropy(tmp_path):
    _, info = prepared(tmp_path, corpus={"words": 8_000, "end": 0.8}, longest=40)
    counts = np.sum([*info.extras["word_counts"].values()], 0)
    costs = -np.array(info.extras["word_log_probs"])
    mean = (counts * costs).sum() / counts.sum()
    deviation = ((counts * (costs - mean) ** 2).sum() / counts.sum()) ** 0.5
    statistics = info.extras["statistics"]["all"]
    assert abs(mean - statistics["true_entropy_nats"]) < 4 * deviation / counts.sum() ** 0.5


def test_a_seed_decides_words_and_model():
    first, again, other = (model_of(configured(corpus={"seed": seed}).corpus).initial.tolist() for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("symbols", [2, 3_000])
def test_alphabets_of_two_and_of_three_thousand_letters_are_prepared(tmp_path, symbols):
    corpus = {"symbols": symbols, "words": 1_000}
    _, info = prepared(tmp_path, corpus=corpus, alphabet=None, longest=8)
    assert set("".join(info.extras["words"])) == {*info.vocabulary[1:]}
    assert all(-inf < log_prob <= 0 for log_prob in info.extras["word_log_probs"])


def test_words_of_one_letter_have_known_probabilities(tmp_path):
    _, info = prepared(tmp_path, corpus={"end": 0.9}, longest=1, valid=0.3)
    assert {len(word) for word in info.extras["words"]} == {1}
    assert sum(map(exp, info.extras["word_log_probs"])) == pytest.approx(1)
    assert info.extras["statistics"]["all"]["true_entropy_error"] < 1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_count": 2}, "known probabilities only if none is excluded"),
        ({"types": 10}, "known probabilities only if none is excluded"),
        ({"tokens": 10}, "known probabilities only if none is excluded"),
        ({"split": "vocabulary"}, "known probabilities only if none is excluded"),
        ({"alphabet": "ab"}, "the alphabet lacks 1 of 3 letters of the corpus `hmm`, such as 'c'"),
        ({"corpus": {"states": 1}}, "greater than or equal to 2"),
        ({"corpus": {"successors": 5}}, r"`successors` must be at most `states` \(4\), not 5"),
        ({"corpus": {"end": 0}}, "greater than 0"),
        ({"corpus": {"words": 0}}, "greater than or equal to 1"),
    ],
)
def test_settings_without_known_probabilities_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        configured(**settings)


WORDS = ["a", "bb", "ccc", "dd"]
COUNTS = {"train": [4, 2, 1, 0], "valid": [1, 1, 0, 0], "test": [2, 0, 1, 1]}
TRUE = [-0.5, -1.0, -2.0, -3.0]
INFO = TaskInfo(["<stop>", *"abcd"], extras={"words": WORDS, "word_counts": COUNTS, "word_log_probs": TRUE})


def scored(log_probs):
    return [Prediction(8 + place, target_log_prob=value) for place, value in enumerate(log_probs)]


def value(config, log_probs, info=INFO):
    metric = config.load()(config).prepare(info, {})
    return metric.combine([*metric.measure(scored(log_probs))])


@pytest.mark.parametrize(
    "config",
    [TrueExcessConfig(), TrueExcessConfig(unit="bits", against="train"), BandCrossEntropyConfig(last_rank=3)],
)
def test_metrics_of_known_words_and_bands_keep_the_contracts(config):
    assert check_metric(MetricCase.of(config, scored([-1.0, -2.0, -inf, -3.5]), info=INFO))


def test_the_excess_is_over_the_true_probabilities_of_the_same_words():
    assert value(TrueExcessConfig(), TRUE) == 0
    assert value(TrueExcessConfig(), [-1.0, -9.0, -2.5, -2.0]) == pytest.approx((2 * 0.5 + 0.5 - 1) / 4)
    assert value(TrueExcessConfig(unit="bits"), [-1.0, -9.0, -2.5, -2.0]) == pytest.approx(0.125 / log(2))
    assert value(TrueExcessConfig(against="train"), [-1.0, -9.0, -2.5, -2.0]) == pytest.approx(
        (4 * 0.5 + 2 * 8 + 0.5) / 7
    )


def test_words_that_a_model_omits_are_left_out_of_both_sides():
    assert value(TrueExcessConfig(), [-1.0, 0.0, -inf, -3.0]) == pytest.approx(2 * 0.5 / 3)


def test_tasks_without_known_probabilities_are_refused():
    info = TaskInfo(INFO.vocabulary, extras={"words": WORDS, "word_counts": COUNTS})
    with pytest.raises(SuiteError, match="true-excess needs words with known probabilities"):
        value(TrueExcessConfig(), TRUE, info)


def test_bands_of_ranks_and_of_lengths_partition_the_cross_entropy():
    costs = [-1.0, -9.0, -2.5, -2.0]
    assert value(BandCrossEntropyConfig(), costs) == pytest.approx((2 + 2.5 + 2) / 4)
    assert value(BandCrossEntropyConfig(last_rank=2), costs) == pytest.approx(1)
    assert value(BandCrossEntropyConfig(first_rank=3), costs) == pytest.approx(2.25)
    assert value(BandCrossEntropyConfig(min_letters=2, max_letters=2), costs) == pytest.approx(2)
    assert np.isnan(value(BandCrossEntropyConfig(first_rank=5), costs)) is np.isnan(nan)


def test_bands_that_are_empty_by_their_limits_are_refused():
    with pytest.raises(ValidationError, match=r"`first_rank` \(3\) must be at most `last_rank` \(2\)"):
        BandCrossEntropyConfig(first_rank=3, last_rank=2)
    with pytest.raises(ValidationError, match=r"`min_letters` \(3\) must be at most `max_letters` \(2\)"):
        BandCrossEntropyConfig(min_letters=3, max_letters=2)
