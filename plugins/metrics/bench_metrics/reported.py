"""Values that models and decoders report with their outputs."""

from collections.abc import Iterator, Mapping, Sequence

from bench_core import Additive, Prediction, SuiteError
from bench_metrics.plugin import LogProbabilityConfig, ReportedConfig, ReportedScoreConfig


class Reported(Additive[float]):
    """Mean of a value reported with the first hypotheses; NaN without examples."""

    better, unit, of = 0, "", "hypothesis"

    def __init__(self, config: ReportedConfig | ReportedScoreConfig) -> None:
        super().__init__(config)
        self.signature = f"value:{config.value}|of:{self.of}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the value of each example; raise SuiteError if a value is missing."""
        return map(self._value, predictions)

    def _value(self, prediction: Prediction) -> float:
        values = self._values(prediction)
        if self.config.value not in values:
            known = ", ".join(sorted(values)) or "none"
            raise SuiteError(
                f"the {self.of} of example {prediction.id} has no value {self.config.value!r} (its values: {known}). "
                "Set another `value`, or leave this metric out for models and decoders without it."
            )
        return float(values[self.config.value])

    def _values(self, prediction: Prediction) -> Mapping[str, float]:
        return prediction.hypotheses[0].values


class ReportedScore(Reported):
    """Mean of a value reported with the scores of targets; NaN without examples."""

    of = "score"

    def _values(self, prediction: Prediction) -> Mapping[str, float]:
        return prediction.values


class LogProbability(Additive[float]):
    """Mean log-probability of the first hypotheses, EOS included; NaN without examples."""

    label = "Log-probability"
    better, unit = 0, "nats"

    def __init__(self, config: LogProbabilityConfig) -> None:
        super().__init__(config)
        self.signature = "of:hypothesis|stop:included"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the log-probability of each first hypothesis; raise SuiteError if it is unknown."""
        return map(_log_prob, predictions)


def _log_prob(prediction: Prediction) -> float:
    log_prob = prediction.hypotheses[0].log_prob
    if log_prob is None:
        raise SuiteError(
            f"the output of example {prediction.id} has no log-probability. Leave this metric out for models that "
            "do not report log-probabilities."
        )
    return log_prob
