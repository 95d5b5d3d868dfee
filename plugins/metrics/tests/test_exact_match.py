from __future__ import annotations

import pytest

from bench_core import Prediction
from bench_metrics.exact_match import ExactMatch
from bench_metrics.plugin import ExactMatchConfig

CELL = [
    Prediction(0, references=["a b"], texts=["a b", "wrong"]),
    Prediction(1, references=["x", "a b"], texts=["a b"]),
    Prediction(2, references=["a b"], texts=[" A b\n"]),
    Prediction(3, references=["a b"], texts=["a  b"]),
]


@pytest.mark.parametrize(
    ("settings", "matched"),
    [
        ({}, [1, 1, 0, 0]),
        ({"strip": True}, [1, 1, 0, 0]),
        ({"lowercase": True}, [1, 1, 0, 0]),
        ({"strip": True, "lowercase": True}, [1, 1, 1, 0]),
    ],
)
def test_a_match_is_equal_to_some_reference_but_for_what_is_left_out(settings, matched):
    metric = ExactMatch(ExactMatchConfig(**settings))
    assert [*metric.measure(CELL)] == matched
    assert metric.combine(matched) == 25 * sum(matched)


def test_the_signature_tells_what_is_left_out():
    metrics = [ExactMatch(ExactMatchConfig(strip=a, lowercase=b)) for a in (0, 1) for b in (0, 1)]
    assert len({metric.signature for metric in metrics}) == 4
