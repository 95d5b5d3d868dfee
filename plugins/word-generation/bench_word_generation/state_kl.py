"""KL divergence of inferred states, from values that models report for each token."""

from collections.abc import Iterator, Sequence
from math import log, nan

from bench_core import Prediction, SuiteError
from bench_word_generation.likelihood import ScoredWords
from bench_word_generation.plugin import StateKLConfig


class StateKL(ScoredWords):
    """sum_w P(w) KL_t(w) / sum_w P(w) over words with a token at position t, or over all positions of all words."""

    label = "KL divergence"
    better = 0
    config: StateKLConfig
    may_be_nan = True

    def __init__(self, config: StateKLConfig) -> None:
        super().__init__(config)
        self.unit = config.unit  # type: ignore[misc]
        self.signature += f"|positions:{config.position or 'all'}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        """Yield the weighted divergence of each word, and the weight of its positions."""
        probs, _ = self._weigh(predictions)
        return (self._row(*pair) for pair in zip(predictions, probs.tolist(), strict=True))

    def _row(self, prediction: Prediction, prob: float) -> list[float]:
        steps = (prediction.by_token or {}).get("kl")
        if steps is None:
            available = ", ".join(sorted(prediction.by_token or {})) or "none"
            raise SuiteError(
                f"{self.config.name} needs `kl` of each token, which the score of example {prediction.id} lacks "
                f"(values of tokens: {available}). Set `by: elbo`, or leave this metric out for such models."
            )
        position = self.config.position
        chosen = steps if position is None else steps[position - 1 : position]
        unit = log(2) if self.config.unit == "bits" else 1.0
        return [prob * sum(chosen) / unit, prob * len(chosen)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return sums[0] / sums[1] if examples and sums[1] else nan
