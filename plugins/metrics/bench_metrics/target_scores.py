"""Metrics of the log-probabilities of single targets, which show what a mean such as perplexity hides."""

from collections.abc import Iterator, Sequence
from math import exp, inf, nan
from typing import TYPE_CHECKING

from bench_core import Additive, Metric, Prediction, SuiteError, estimates_of
from bench_metrics.perplexity import check_log_prob
from bench_metrics.target_configs import NatsPercentileConfig, TargetProbabilityConfig

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUNDING = 1e-9  #: tolerance in comparing numbers of examples


class TargetProbability(Additive[Sequence[float]]):
    """Mean of p(target | source), in percent; NaN if all weights are 0."""

    label = "Target probability"
    better, unit, factor = 1, "%", 100.0
    may_be_nan = True

    def __init__(self, config: TargetProbabilityConfig) -> None:
        super().__init__(config)
        self.signature = f"mean over targets|stop:included|by:{config.by or 'default'}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield weighted probability, weight and weighted estimates [0 or 5]; raise PluginError if one is invalid."""
        for prediction in predictions:
            log_prob, weight = check_log_prob(prediction, "target-probability"), prediction.weight
            yield [weight * exp(log_prob), weight, *(weight * estimate for estimate in estimates_of(prediction, exp))]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        total, weight = sums[:2] or (0.0, 0.0)
        return self.factor * total / weight if weight else nan

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([estimate, sums[1]], examples) for estimate in sums[2:]]


class NatsPercentile(Metric[float | None]):
    """The smallest value of a target that at least a share of targets does not exceed; NaN without examples.

    A value is the negative log-probability of a target, divided by its number of tokens unless `per: target`. All
    targets have equal weights; a target with probability 0 has the value infinity.
    """

    better, unit = -1, "nats"
    may_be_nan = True
    may_be_infinite = True
    config: NatsPercentileConfig

    def __init__(self, config: NatsPercentileConfig) -> None:
        super().__init__(config)
        self.label = f"Nats, {config.percentile:g} %"  # type: ignore[misc]
        self.signature = (
            f"percentile:{config.percentile:g}|per:{config.per}|stop:included|by:{config.by or 'default'}"
        )

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float | None]:
        """Yield the value of each target, None for infinity; raise if a score is invalid or a length unknown."""
        for prediction in predictions:
            log_prob, tokens = check_log_prob(prediction, "nats-percentile"), prediction.target_tokens
            if self.config.per == "token" and not tokens:
                raise SuiteError(
                    f"nats-percentile cannot be computed: the length of the target of example {prediction.id} is "
                    "unknown. Set `per: target`."
                )
            value = -log_prob / (tokens if self.config.per == "token" else 1)
            yield None if value == inf else value

    def combine(self, parts: Sequence[float | None]) -> float:
        import numpy as np

        return self.resample(parts, np.ones((1, len(parts)), dtype=np.int64))[0]

    def resample(self, parts: Sequence[float | None], counts: "NDArray[np.integer]") -> list[float]:
        import numpy as np

        if not parts:
            return [nan] * len(counts)
        values = np.array([inf if part is None else part for part in parts])
        order = values.argsort(kind="stable")
        covered = counts[:, order].cumsum(1)
        enough = covered >= self.config.percentile / 100 * covered[:, -1:] - ROUNDING
        return [float(value) for value in values[order][enough.argmax(1)]]
