from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import ValidationError

from bench_authors.testing import MetricCase, check_metric
from bench_core import Hypothesis, Metric, Prediction, Scorer, TaskInfo
from bench_metrics.plugin import bench_metrics

CONFIGS = {config.name: config for config in bench_metrics()}
SETTINGS = {"meteor": {"language": "other"}}  # that of English takes seconds to start
SETTINGS |= {"reported": {"value": "order"}, "reported-score": {"value": "order"}, "word-errors": {"of": "surplus"}}
PAIRS = [  # texts and their references
    ("a b a b a b", ["a b c", "a b a b a c d"]),
    ("c c c c c c c c c", ["c"]),
    ("c c d c c c c c c", ["d c", "", "c d c c c"]),
    ("", ["a b c d e f g h"]),
]
CELL = [
    Prediction(0, hypotheses=[Hypothesis([1, 2, 1, 2, 1, 2], True)], target_log_prob=-3.25, target_tokens=4),
    Prediction(1, hypotheses=[Hypothesis([3] * 9, False)], target_log_prob=-0.1, target_tokens=1, weight=2.5),
    Prediction(2, hypotheses=[Hypothesis([3] * 9, False)], target_log_prob=-1e-9, target_tokens=2),
    Prediction(3, hypotheses=[Hypothesis([], True)], target_log_prob=-7.7, target_tokens=9, weight=0.1),
]
CELL = [
    replace(
        prediction,
        hypotheses=[replace(prediction.hypotheses[0], log_prob=-0.1 * place, values={"order": 0.7 * place})],
        texts=[text],
        references=references,
        values={"order": 0.3 * place},
        target_bytes=3 + place,
        target_characters=2 + place,
        by_token={
            name: [(token * (place + 2)) % 5 * sign + first for token in range(prediction.target_tokens)]
            for name, sign, first in [("gold", 1, 0), ("rank", 1, 1), ("log_prob", -0.3, 0)]
        },
    )
    for place, (prediction, (text, references)) in enumerate(zip(CELL, PAIRS, strict=True))
]


def metric(name):
    config = CONFIGS[name](**SETTINGS.get(name, {}))
    return config.load()(config)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_metric_keeps_the_contracts(name):
    assert len(check_metric(MetricCase.of(CONFIGS[name](**SETTINGS.get(name, {}))))) == 7


def test_names_are_unique():
    assert len(CONFIGS) == len(bench_metrics())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_builds_its_metric(name):
    built = metric(name)
    assert isinstance(built, Metric)
    assert built.better in (-1, 0, 1)
    assert isinstance(built.unit, str)
    assert built.signature
    assert built.prepare(TaskInfo(["<stop>"]), {}).signature == built.signature


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_refuses_unknown_settings(name):
    with pytest.raises(ValidationError):
        CONFIGS[name](limits=3)


@pytest.mark.parametrize("name", CONFIGS)
def test_suites_fill_only_settings_that_exist(name):
    assert set(CONFIGS[name].limits) <= set(CONFIGS[name].model_fields)


def test_what_is_about_scores_needs_a_likelihood():
    needing = [name for name, config in CONFIGS.items() if issubclass(config.needs, Scorer)]
    assert needing == [
        "perplexity", "bits-per-byte", "target-probability", "nats-percentile", "reported-score", "band-perplexity",
        "token-accuracy", "reciprocal-rank",
    ]  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_parts_come_back_from_json_unharmed(name):
    built = metric(name)
    parts = [*built.measure(CELL)]
    assert len(parts) == len(CELL)
    stored = json.loads(json.dumps(parts, allow_nan=False))
    assert stored == parts
    assert built.combine(stored) == built.combine(parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_contributes_alike_alone_and_in_a_cell(name):
    built = metric(name)
    assert [*built.measure(CELL)] == [part for prediction in CELL for part in [*built.measure([prediction])]]


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", CONFIGS)
def test_the_order_of_examples_does_not_matter(name):
    built, shuffled = metric(name), CELL * 25
    whole = built.combine([*built.measure(shuffled)])
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        assert built.combine([*built.measure(shuffled)]) == whole


@pytest.mark.parametrize("name", CONFIGS)
def test_a_cell_without_examples_is_undefined(name):
    built = metric(name)
    assert [*built.measure([])] == []
    value = built.combine([])
    assert value != value


@pytest.mark.slow
def test_the_plugin_imports_nothing_heavy_and_its_metrics_no_torch():
    code = """
import sys
from bench_metrics.plugin import bench_metrics
assert not {"torch", "scipy", "numpy", "sacrebleu", "nltk"} & set(sys.modules)
for config in bench_metrics():
    config.load()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
