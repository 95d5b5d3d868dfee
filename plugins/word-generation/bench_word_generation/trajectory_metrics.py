"""Metrics of latent trajectories, computed from values that models report by position."""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any, ClassVar

from bench_core import Additive, Prediction, SuiteError
from bench_word_generation.plugin import LetterEntropyConfig, MutualInformationConfig

HALVES = "information_by_halves"  # reported by models: the mean estimate from halves of the noise samples


class TrajectoryMetric(Additive[Any]):
    """Mean over outputs of a reported value at a position, or averaged over positions."""

    unit = "bits"
    value_name: ClassVar[str]

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Any]:
        """Yield the value of each output; raise SuiteError if an output lacks it."""
        position = self.config.position
        name = self.value_name if position is None else f"{self.value_name}_{position}"
        return (self._value(prediction, name) for prediction in predictions)

    def _value(self, prediction: Prediction, name: str) -> float:
        values: Mapping[str, float] = prediction.hypotheses[0].values
        if name not in values:
            available = ", ".join(sorted(values)) or "none"
            raise SuiteError(
                f"{self.config.name} needs {name!r}, which the output of example {prediction.id} lacks (values: "
                f"{available}). Leave this metric out for such models and decoders, or choose another position."
            )
        return float(values[name])


class MutualInformation(TrajectoryMetric):
    """I(w_t; noise_t | h_{t-1}) at position t, or its mean over positions (Schmidt and Hofmann, 2018, eq. 13).

    With `until_stop`, the mean is over all positions of all outputs up to their ends, so positions are weighted by
    the number of outputs that reach them.
    """

    label = "Mutual information"
    better, value_name = 1, "information"
    may_be_nan = True
    config: MutualInformationConfig

    def __init__(self, config: MutualInformationConfig) -> None:
        super().__init__(config)
        over = "until stop" if config.until_stop else config.position or "all"
        self.signature = f"I(w;noise|state)|positions:{over}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Any]:
        """Yield each output's value at a position or, for a mean, its sum, number of positions and halves' sum."""
        return super().measure(predictions) if self.config.position is not None else map(self._row, predictions)

    def _row(self, prediction: Prediction) -> list[float]:
        suffix, until_stop = "_until_stop" * self.config.until_stop, self.config.until_stop
        number = self._value(prediction, "steps_until_stop") if until_stop else 1.0
        halves = [f"{HALVES}{suffix}"] * (HALVES in prediction.hypotheses[0].values)
        return [
            self._value(prediction, f"information{suffix}"),
            number,
            *(self._value(prediction, key) for key in halves),
        ]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        if self.config.position is not None:
            return super().from_sums(sums, examples)
        return sums[0] / sums[1] if examples and sums[1] else nan

    def error(self, parts: Sequence[Any]) -> float:
        """Return the bias of a mean, which all outputs share; halving the number of noise samples doubles it."""
        whole, number, *halves = self.sums(parts) if self.config.position is None and parts else [0.0, 0.0]
        return abs(halves[0] - whole) / number if halves and number else 0.0


class LetterEntropy(TrajectoryMetric):
    """H[w_t | h_t] at position t, or its mean over positions."""

    label = "Letter entropy"
    better, value_name = 0, "entropy"
    config: LetterEntropyConfig

    def __init__(self, config: LetterEntropyConfig) -> None:
        super().__init__(config)
        self.signature = f"H[w|state]|positions:{config.position or 'all'}"
