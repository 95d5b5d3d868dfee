"""Mutants of metrics."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from bench_authors.testing.cases import MetricCase
from bench_authors.testing.contracts import instead_of, mutant, patched
from bench_core import Metric, Prediction


def keys_parts_by_number(case: MetricCase) -> MetricCase:
    """Parts are mappings whose keys JSON converts to text."""

    def measure(metric: Metric[Any], predictions: Sequence[Prediction]) -> list[Any]:
        return [{0: part} for part in metric.measure(predictions)]

    def combine(metric: Metric[Any], parts: Sequence[Any]) -> float:
        return metric.combine([next(iter(part.values())) for part in parts])

    return replace(case, metric=patched(case.metric, measure=measure, combine=combine))


@mutant(instead_of("metric", "combine"))
def depends_on_the_order(metric: Metric[Any], parts: Sequence[Any]) -> float:
    """Later parts have more weight, as in a running mean."""
    value = 0.0
    for part in parts:
        value = 0.5 * value + 0.5 * metric.combine([part])
    return value


@mutant(instead_of("metric", "measure"))
def forgets_a_prediction(metric: Metric[Any], predictions: Sequence[Prediction]) -> list[Any]:
    """The last prediction contributes nothing."""
    return [*metric.measure(predictions)][:-1]


@mutant(instead_of("metric", "measure"))
def needs_a_list(metric: Metric[Any], predictions: Any) -> list[Any]:
    """Predictions are copied by a method that only lists have."""
    return [*metric.measure(predictions.copy())]


def combines_whole_cells_only(case: MetricCase) -> MetricCase:
    """A subset of the parts has no score."""

    def combine(metric: Metric[Any], parts: Sequence[Any]) -> Any:
        return metric.combine(parts) if len(parts) == len(case.predictions) else None

    return replace(case, metric=patched(case.metric, combine=combine))


def is_better_both_ways(case: MetricCase) -> MetricCase:
    """`better` has an invalid value."""
    metric = copy(case.metric)
    metric.better = 2
    return replace(case, metric=metric)


def has_no_signature(case: MetricCase) -> MetricCase:
    """The signature is empty."""
    metric = copy(case.metric)
    metric.signature = ""
    return replace(case, metric=metric)


@mutant(instead_of("metric", "resample"))
def resamples_without_repeats(metric: Metric[Any], parts: Sequence[Any], counts: Any) -> list[float]:
    """A resample counts each of its examples once."""
    return metric.resample(parts, (counts > 0).astype(counts.dtype))
