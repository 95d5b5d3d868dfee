"""Values that models and decoders report with their outputs."""

from collections.abc import Iterator, Mapping, Sequence

from bench_core import Additive, Outcome, SuiteError
from bench_metrics.plugin import LogProbabilityConfig, ReportedConfig, ReportedScoreConfig


class Reported(Additive[float]):
    """Mean of a value that first hypotheses carry; undefined (nan) where there are none."""

    better, unit, of = 0, "", "hypothesis"

    def __init__(self, config: ReportedConfig | ReportedScoreConfig) -> None:
        super().__init__(config)
        self.signature = f"value:{config.value}|of:{self.of}"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[float]:
        """Yield the value of each; raise SuiteError where one has none."""
        return map(self._value, outcomes)

    def _value(self, outcome: Outcome) -> float:
        values = self._values(outcome)
        if self.config.value not in values:
            known = ", ".join(sorted(values)) or "none"
            raise SuiteError(
                f"nothing is called {self.config.value!r} among what the {self.of} of example {outcome.id} "
                f"carries (values: {known}). Name another, or leave this metric out for such models and decoders."
            )
        return float(values[self.config.value])

    def _values(self, outcome: Outcome) -> Mapping[str, float]:
        return outcome.hypotheses[0].values


class ReportedScore(Reported):
    """Mean of a value that scores carry; undefined (nan) where there are none."""

    of = "score"

    def _values(self, outcome: Outcome) -> Mapping[str, float]:
        return outcome.values


class LogProbability(Additive[float]):
    """Mean log-probability of the first hypotheses, stop included; undefined (nan) where there are none."""

    label = "Log-probability"
    better, unit = 0, "nats"

    def __init__(self, config: LogProbabilityConfig) -> None:
        super().__init__(config)
        self.signature = "of:hypothesis|stop:included"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[float]:
        """Yield that of each; raise SuiteError where the model has told none."""
        return map(_log_prob, outcomes)


def _log_prob(outcome: Outcome) -> float:
    found = outcome.hypotheses[0].log_prob
    if found is None:
        raise SuiteError(
            f"the output of example {outcome.id} has no log-probability. Leave this metric out for models that "
            "do not tell how probable their outputs are."
        )
    return found
