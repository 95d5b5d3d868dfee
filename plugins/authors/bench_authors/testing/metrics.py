"""Contracts of metrics."""

import json
from collections.abc import Sequence
from math import isclose, isnan
from typing import Any

import numpy as np

from bench_authors.testing.cases import MetricCase
from bench_authors.testing.contracts import catches, check, contracts_of
from bench_authors.testing.mutants import metrics as mutants
from bench_core.storage.predictions import by_id


def check_metric(case: MetricCase) -> list[str]:
    """Test all contracts on the metric of `case`; return their names."""
    return check(METRIC_CONTRACTS, case)


@catches(mutants.forgets_a_prediction)
def there_is_one_part_a_prediction(case: MetricCase) -> None:
    """Check that `measure` returns one part per prediction, for all predictions and for a single prediction."""
    for number in (len(case.predictions), 1):
        parts = [*case.metric.measure(case.predictions[:number])]
        assert len(parts) == number, f"{len(parts)} parts for {number} predictions"


@catches(mutants.needs_a_list)
def predictions_may_be_read_one_by_one(case: MetricCase) -> None:
    """Score predictions as a run reads them from disk: a sequence that is not a list and may exceed memory."""
    try:
        parts = [*case.metric.measure(by_id(case.predictions))]
    except (AttributeError, TypeError) as error:
        raise AssertionError(f"the metric fails if predictions are not a list: {error}") from None
    _same(case, parts, [*case.metric.measure(case.predictions)], "of predictions from disk")


@catches(mutants.keys_parts_by_number)
def parts_survive_being_stored(case: MetricCase) -> None:
    """Store parts as JSON, which has no tuples, sets or numeric keys."""
    parts = [*case.metric.measure(case.predictions)]
    stored = json.loads(json.dumps(parts))
    assert stored == _as_lists(parts), "JSON changes the parts"
    _same(case, stored, parts, "of stored parts")


@catches(mutants.depends_on_the_order)
def the_order_of_predictions_does_not_matter(case: MetricCase) -> None:
    """Change the order of predictions for `measure`, and of parts for `combine`."""
    parts = [*case.metric.measure(case.predictions)]
    _same(case, parts[::-1], parts, "of parts in reverse order")
    _same(case, [*parts[2:], *parts[:2]], parts, "of parts in another order")
    _same(case, [*case.metric.measure(case.predictions[::-1])], parts, "of predictions in reverse order")


@catches(mutants.combines_whole_cells_only)
def any_choice_of_parts_has_a_score(case: MetricCase) -> None:
    """Combine subsets and repeated parts, as in resampling; the score must be a float, possibly NaN."""
    parts = [*case.metric.measure(case.predictions)]
    for chosen in (parts, parts[:1] * 3, parts[1:], [*parts, *parts]):
        score = case.metric.combine(chosen)
        assert isinstance(score, float | int), f"the score of {len(chosen)} parts is {score!r}"


@catches(mutants.resamples_without_repeats)
def a_resample_scores_as_its_parts_do(case: MetricCase) -> None:
    """Compare resampled scores with scores of parts repeated according to the counts."""
    parts, number = [*case.metric.measure(case.predictions)], len(case.predictions)
    counts = np.array([[1] * number, [2, *[0] * (number - 2), 1], [0, *[1] * (number - 1)]], dtype=np.uint16)
    for row, score in zip(counts.tolist(), case.metric.resample(parts, counts), strict=True):
        repeated = [part for part, times in zip(parts, row, strict=True) for _ in range(times)]
        _check_same(score, case.metric.combine(repeated), "of a resample")


@catches(mutants.is_better_both_ways, mutants.has_no_signature)
def it_says_how_to_read_it(case: MetricCase) -> None:
    """Check `better`, `unit`, `digits`, and `signature`, which decides which numbers may share a column."""
    metric = case.metric
    assert metric.better in (-1, 0, 1), f"`better` is {metric.better!r}, not -1, 0 or 1"
    assert isinstance(metric.signature, str), f"`signature` is {metric.signature!r}"
    assert metric.signature.strip(), "`signature` is empty; it decides which numbers may share a column"
    assert isinstance(metric.unit, str), f"`unit` is {metric.unit!r}"
    assert isinstance(metric.digits, int), f"`digits` is {metric.digits!r}"


def _same(case: MetricCase, parts: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    _check_same(case.metric.combine(parts), case.metric.combine(expected), what)


def _check_same(actual: float, expected: float, what: str) -> None:
    is_same = isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12) or (isnan(actual) and isnan(expected))
    assert is_same, f"the score {what} is {actual}, not {expected}"


def _as_lists(value: object) -> object:
    """Return `value` with tuples as lists, as in JSON."""
    if isinstance(value, list | tuple):
        return [_as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    return value


#: The contracts of `check_metric`.
METRIC_CONTRACTS = contracts_of(globals())
