"""The length of outputs."""

from collections.abc import Iterator, Sequence
from math import nan

from bench_core import Additive, Metric, Outcome, SuiteError
from bench_metrics.plugin import LengthConfig, LengthDistanceConfig


class Length(Additive[int]):
    """Mean length of the first hypotheses or of the references, stop included.

    An unfinished hypothesis has no stop; it counts as long as it is, which is the limit that ended it. Undefined
    (nan) where there are no examples.
    """

    label = "Length"
    better, unit = 0, "tokens"

    def __init__(self, config: LengthConfig) -> None:
        super().__init__(config)
        self.signature = f"of:{config.of}|stop:included"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[int]:
        """Yield the length of each; raise SuiteError where that of a reference is unknown."""
        return map(generated if self.config.of == "hypothesis" else referred, outcomes)


class LengthDistance(Metric[list[int]]):
    """The 1-Wasserstein distance between the lengths of first hypotheses and of references, stop included.

    How many tokens a length would have to change, on average, to turn one distribution into the other; which output
    belongs to which reference does not matter. Undefined (nan) where there are no examples.
    """

    label = "Length distance"
    better, unit = -1, "tokens"

    def __init__(self, config: LengthDistanceConfig) -> None:
        super().__init__(config)
        self.signature = "wasserstein:1|stop:included"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[int]]:
        """Yield both lengths of each; raise SuiteError where that of a reference is unknown."""
        return ([generated(outcome), referred(outcome)] for outcome in outcomes)

    def combine(self, parts: Sequence[list[int]]) -> float:
        ours, theirs = (sorted(lengths) for lengths in zip(*parts, strict=True)) if parts else ([], [])
        return sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(parts) if parts else nan


def generated(outcome: Outcome) -> int:
    """Return the length of the first hypothesis; without a stop if it was ended by a limit."""
    best = outcome.hypotheses[0]
    return len(best.tokens) + best.finished


def referred(outcome: Outcome) -> int:
    """Return the length of the reference; raise SuiteError if there is none."""
    if not outcome.target_tokens:
        raise SuiteError(
            f"the length of references cannot be known: example {outcome.id} has none. "
            "Leave this metric out for this task."
        )
    return outcome.target_tokens
