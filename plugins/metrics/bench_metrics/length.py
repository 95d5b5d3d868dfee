"""How long outputs are."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from bench_core import Metric, Outcome, SuiteError
from bench_metrics.plugin import LengthConfig


class Length(Metric[int]):
    """Mean length of the first hypotheses or of the references, stop included.

    An unfinished hypothesis has no stop; it counts as long as it is, which is the limit that ended it. Undefined
    (nan) where there are no examples.
    """

    better, unit = 0, "tokens"

    def __init__(self, config: LengthConfig) -> None:
        super().__init__(config)
        self.signature = f"of:{config.of}|stop:included"

    def measure(self, outcomes: Sequence[Outcome]) -> list[int]:
        """Return the length of each; raise SuiteError where that of a reference is unknown."""
        return [self._length(outcome) for outcome in outcomes]

    def combine(self, parts: Sequence[int]) -> float:
        return sum(parts) / len(parts) if parts else nan

    def _length(self, outcome: Outcome) -> int:
        if self.config.of == "hypothesis":
            best = outcome.hypotheses[0]
            return len(best.tokens) + best.finished
        if not outcome.target_tokens:
            raise SuiteError(
                f"the length of references cannot be known: example {outcome.id} has none. "
                "Set `of: hypothesis` for this task."
            )
        return outcome.target_tokens
