"""Metrics of code: exact match of programs, and the share of outputs that parse."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Self

from bench_code_generation.parsing import meaning
from bench_code_generation.plugin import ParsedCodeConfig
from bench_core import Outcome, PluginError, TaskInfo
from bench_metrics.api import TextMetric, compared

PYTHON = ".".join(platform.python_version_tuple()[:2])  # what parses differs between versions


class Share(TextMetric[int]):
    """Share of examples of which something is true; undefined (nan) without examples."""

    better, unit, scale, factor = 1, "%", "share", 100.0

    def __init__(self, config: ParsedCodeConfig) -> None:
        super().__init__(config)
        self.signature = f"newline:{config.newline}|python:{PYTHON}"

    def _meaning(self, text: str) -> str | None:
        return meaning(text, self.config.newline)


class CodeExactMatch(Share):
    """Share of programs that mean the same as one of their references; what does not parse is wrong.

    An example of which no reference parses cannot be right; the signature tells how many there are, if any.
    """

    label = "Exact match"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        told = super().prepare(info, references)
        lost = sum(not any(map(self._meaning, each)) for each in references.values() if each)
        if lost:
            told = copy(told)
            told.signature += f"|unparsable references:{lost}"
        return told

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[int]:
        """Yield 1 for each example that is right; raise where there is nothing to compare."""
        for text, references in compared(outcomes):
            said = self._meaning(text)
            yield int(said is not None and said in map(self._meaning, references))


class Parses(Share):
    """Share of programs that parse; one without a statement does not."""

    label = "Parses"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return itself: nothing is compared."""
        return self

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[int]:
        """Yield 1 for each example whose text parses."""
        mute = [outcome.id for outcome in outcomes if not outcome.texts]
        if mute:
            raise PluginError(
                f"{len(mute)} of {len(outcomes)} examples have no text, the first of them is example {mute[0]}. A "
                "decoder must give at least one hypothesis, be it empty."
            )
        return (int(self._meaning(outcome.texts[0]) is not None) for outcome in outcomes)
