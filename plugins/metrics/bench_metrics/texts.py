"""What metrics of text compare: the first text of each example with all of its references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self, TypeVar

from bench_core import Facts, Outcome, PluginError, SuiteError, Summed

X = TypeVar("X")


class TextMetric(Summed[X]):
    """A metric of text; its signature begins with the number of references, as that changes what scores mean."""

    unit = ""

    def prepare(self, facts: Facts, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the number of references in its signature: "var" if examples differ in it."""
        counts = {len(each) for each in references.values()}
        if not counts:
            return self
        told = copy(self)
        told.signature = f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|{self.signature}"
        return told


def compared(outcomes: Sequence[Outcome]) -> list[tuple[str, list[str]]]:
    """Return the first text of each example and its references; raise where one of them is missing."""
    bare = [outcome.id for outcome in outcomes if not outcome.references]
    if bare:
        raise SuiteError(
            f"texts cannot be compared: {len(bare)} of {len(outcomes)} examples have no reference, the first of them "
            f"is example {bare[0]}. Leave this metric out for this task."
        )
    mute = [outcome.id for outcome in outcomes if not outcome.texts]
    if mute:
        raise PluginError(
            f"texts cannot be compared: {len(mute)} of {len(outcomes)} examples have no text, the first of them is "
            f"example {mute[0]}. A decoder must give at least one hypothesis, be it empty."
        )
    return [(outcome.texts[0], outcome.references) for outcome in outcomes]
