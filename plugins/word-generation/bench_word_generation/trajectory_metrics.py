"""Metrics of latent trajectories, from values that models report by position."""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any, ClassVar

from bench_core import Additive, Outcome, SuiteError
from bench_word_generation.plugin import LetterEntropyConfig, MutualInformationConfig

HALVES = "information_by_halves"  # as models call information by half of the draws of noise


class Reported(Additive[Any]):
    """Mean over outputs of a value at one position, or of its mean over positions."""

    unit = "bits"
    called: ClassVar[str]  # as models call it

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Any]:
        """Yield the value of each output; raise SuiteError where one has none."""
        position = self.config.position
        name = self.called if position is None else f"{self.called}_{position}"
        return (self._value(outcome, name) for outcome in outcomes)

    def _value(self, outcome: Outcome, name: str) -> float:
        values: Mapping[str, float] = outcome.hypotheses[0].values
        if name not in values:
            known = ", ".join(sorted(values)) or "none"
            raise SuiteError(
                f"{self.config.name} needs {name!r}, which the output of example {outcome.id} does not carry "
                f"(values: {known}). Leave this metric out for such models and decoders, or choose another position."
            )
        return float(values[name])


class MutualInformation(Reported):
    """I(w_t; noise_t | h_{t-1}), at position t, or a mean (Schmidt and Hofmann, 2018, eq. 13).

    With `until_stop`, the mean over all positions of all outputs up to their ends, so that each position counts as
    often as outputs reach it.
    """

    label = "Mutual information"
    better, called = 1, "information"
    may_be_nan = True
    config: MutualInformationConfig

    def __init__(self, config: MutualInformationConfig) -> None:
        super().__init__(config)
        over = "until stop" if config.until_stop else config.position or "all"
        self.signature = f"I(w;noise|state)|positions:{over}"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Any]:
        """Yield the value of each output at a position; of a mean its sum, the positions, and the sum by halves."""
        return super().measure(outcomes) if self.config.position is not None else map(self._summed, outcomes)

    def _summed(self, outcome: Outcome) -> list[float]:
        suffix, until_stop = "_until_stop" * self.config.until_stop, self.config.until_stop
        number = self._value(outcome, "steps_until_stop") if until_stop else 1.0
        halves = [f"{HALVES}{suffix}"] * (HALVES in outcome.hypotheses[0].values)
        return [self._value(outcome, f"information{suffix}"), number, *(self._value(outcome, one) for one in halves)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        if self.config.position is not None:
            return super().from_sums(sums, examples)
        return sums[0] / sums[1] if examples and sums[1] else nan

    def error(self, parts: Sequence[Any]) -> float:
        """Return the bias of a mean: half as many draws of noise have twice that, in all outputs alike."""
        whole, number, *halves = self.sums(parts) if self.config.position is None and parts else [0.0, 0.0]
        return abs(halves[0] - whole) / number if halves and number else 0.0


class LetterEntropy(Reported):
    """H[w_t | h_t], at position t, or its mean over positions."""

    label = "Letter entropy"
    better, called = 0, "entropy"
    config: LetterEntropyConfig

    def __init__(self, config: LetterEntropyConfig) -> None:
        super().__init__(config)
        self.signature = f"H[w|state]|positions:{config.position or 'all'}"
