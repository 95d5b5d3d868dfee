"""Metrics of code: exact match of programs, and the share of outputs that parse."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Self

from bench_code_generation.parsing import canonical_form
from bench_code_generation.plugin import ParsedCodeConfig
from bench_core import PluginError, Prediction, TaskInfo
from bench_metrics.api import TextMetric, compared

PYTHON = ".".join(platform.python_version_tuple()[:2])  # Python versions differ in which programs parse


class MatchedShare(TextMetric[int]):
    """Share of examples with a property; undefined (nan) without examples."""

    better, unit, scale, factor = 1, "%", "share", 100.0

    def __init__(self, config: ParsedCodeConfig) -> None:
        super().__init__(config)
        self.signature = f"newline:{config.newline}|python:{PYTHON}"

    def _canonical_form(self, text: str) -> str | None:
        return canonical_form(text, self.config.newline)


class CodeExactMatch(MatchedShare):
    """Share of programs with the same canonical form as one of their references; unparsable programs are wrong.

    Examples without a reference that parses are wrong too; the signature contains their number, if there are any.
    """

    label = "Exact match"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        prepared = super().prepare(info, references)
        unparsable = sum(not any(map(self._canonical_form, each)) for each in references.values() if each)
        if unparsable:
            prepared = copy(prepared)
            prepared.signature += f"|unparsable references:{unparsable}"
        return prepared

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[int]:
        """Yield 1 for each correct example, else 0; raise SuiteError without references, PluginError without text."""
        for text, references in compared(predictions):
            output = self._canonical_form(text)
            yield int(output is not None and output in map(self._canonical_form, references))


class Parses(MatchedShare):
    """Share of programs that parse; an empty program does not."""

    label = "Parses"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric itself: it needs no references."""
        return self

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[int]:
        """Yield 1 for each example whose text parses, else 0; raise PluginError without text."""
        empty = [prediction.id for prediction in predictions if not prediction.texts]
        if empty:
            raise PluginError(
                f"{len(empty)} of {len(predictions)} examples have no text; the first is example {empty[0]}. A "
                "decoder must return at least one hypothesis, which may be empty."
            )
        return (int(self._canonical_form(prediction.texts[0]) is not None) for prediction in predictions)
