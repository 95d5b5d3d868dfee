"""Which outputs are words, and how many different ones."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_core import Hypothesis, Prediction, SuiteError, TaskInfo
from bench_word_generation.plugin import KnownWordsConfig

COUNTS = {"train": [3, 2, 0], "valid": [1, 0, 0], "test": [0, 1, 1]}
INFO = TaskInfo(["<stop>", *"ab"], extras={"words": ["ab", "ba", "bb"], "word_counts": COUNTS})


def generated(*texts, cut=()):
    return [
        Prediction(number, hypotheses=[Hypothesis(["?ab".index(c) for c in text], number not in cut)], texts=[text])
        for number, text in enumerate(texts)
    ]


PREDICTIONS = generated("ab", "ab", "ba", "bb", "aa", "", "ab", "ba")


def ready(config, predictions=PREDICTIONS):
    return config.load()(config).prepare(INFO, {prediction.id: [] for prediction in predictions})


def value(config, predictions=PREDICTIONS):
    metric = ready(config, predictions)
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("of", ["train", "all"])
def test_known_words_keep_the_contracts(of, unique):
    assert check_metric(MetricCase.of(KnownWordsConfig(of=of, unique=unique), PREDICTIONS, info=INFO))


@pytest.mark.parametrize(
    ("of", "share", "different"), [("train", 5, 2), ("valid", 3, 1), ("test", 3, 2), ("all", 6, 3)]
)
def test_words_are_those_that_occur_in_the_splits_named(of, share, different):
    assert value(KnownWordsConfig(of=of)) == pytest.approx(share / 8)
    assert value(KnownWordsConfig(of=of, unique=True)) == pytest.approx(different / 8)


def test_an_output_that_was_cut_short_is_no_word():
    assert value(KnownWordsConfig(), generated("ab", "ab", cut={1})) == 0.5


def test_different_words_share_a_column_only_where_outputs_are_as_many():
    signatures = {ready(KnownWordsConfig(unique=True), PREDICTIONS[:n]).signature for n in (3, 3, 8)}
    assert len(signatures) == 2
    assert len({ready(KnownWordsConfig(), PREDICTIONS[:n]).signature for n in (3, 8)}) == 1


def test_resampled_outputs_are_on_average_as_different_as_the_outputs_are():
    metric = ready(KnownWordsConfig(unique=True))
    parts = [*metric.measure(PREDICTIONS)]
    counts = np.random.Generator(np.random.PCG64(0)).multinomial(8, [1 / 8] * 8, 4000)
    assert np.mean(metric.resample(parts, counts)) == pytest.approx(metric.combine(parts), abs=0.01)


def test_of_no_output_there_is_no_share():
    assert isnan(ready(KnownWordsConfig()).combine([]))


def test_a_task_without_words_is_refused():
    config = KnownWordsConfig()
    with pytest.raises(SuiteError, match="known-words needs a task with words"):
        config.load()(config).prepare(TaskInfo(["<stop>", "a"]), {})
