"""Mutants of metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from bench_authors.testing.cases import MetricCase
from bench_authors.testing.contracts import patched
from bench_core import Metric, Outcome


def _with_parts(case: MetricCase, change: Callable[[list[Any]], list[Any]]) -> MetricCase:
    def measure(metric: Metric[Any], outcomes: Sequence[Outcome]) -> list[Any]:
        return change([*metric.measure(outcomes)])

    return replace(case, metric=patched(case.metric, measure=measure))


def keys_parts_by_number(case: MetricCase) -> MetricCase:
    """Parts are mappings whose keys JSON turns into text."""
    changed = _with_parts(case, lambda parts: [{0: part} for part in parts])

    def combine(metric: Metric[Any], parts: Sequence[Any]) -> float:
        score: float = case.metric.combine([next(iter(part.values())) for part in parts])
        return score

    return replace(changed, metric=patched(changed.metric, combine=combine))


def depends_on_the_order(case: MetricCase) -> MetricCase:
    """Later parts weigh more, as in a running mean."""

    def combine(metric: Metric[Any], parts: Sequence[Any]) -> float:
        value = 0.0
        for part in parts:
            value = 0.5 * value + 0.5 * metric.combine([part])
        return value

    return replace(case, metric=patched(case.metric, combine=combine))


def forgets_an_outcome(case: MetricCase) -> MetricCase:
    """The last outcome contributes nothing."""
    return _with_parts(case, lambda parts: parts[:-1])


def needs_a_list(case: MetricCase) -> MetricCase:
    """Outcomes are copied as lists can be, and other sequences cannot."""

    def measure(metric: Metric[Any], outcomes: Any) -> list[Any]:
        return [*metric.measure(outcomes.copy())]

    return replace(case, metric=patched(case.metric, measure=measure))


def combines_whole_cells_only(case: MetricCase) -> MetricCase:
    """Fewer parts than all have no score."""

    def combine(metric: Metric[Any], parts: Sequence[Any]) -> Any:
        return metric.combine(parts) if len(parts) == len(case.outcomes) else None

    return replace(case, metric=patched(case.metric, combine=combine))


def is_better_both_ways(case: MetricCase) -> MetricCase:
    """It is not said whether high or low is better."""
    metric = copy(case.metric)
    metric.better = 2
    return replace(case, metric=metric)


def has_no_signature(case: MetricCase) -> MetricCase:
    """Nothing tells this metric from others."""
    metric = copy(case.metric)
    metric.signature = ""
    return replace(case, metric=metric)


def resamples_without_repeats(case: MetricCase) -> MetricCase:
    """A resample counts each of its examples once."""

    def resample(metric: Metric[Any], parts: Sequence[Any], counts: Any) -> list[float]:
        return metric.resample(parts, (counts > 0).astype(counts.dtype))

    return replace(case, metric=patched(case.metric, resample=resample))
