"""Exact match."""

from collections.abc import Iterator, Sequence

from bench_core import Prediction
from bench_metrics.plugin import ExactMatchConfig
from bench_metrics.texts import TextMetric, compared


class ExactMatch(TextMetric[int]):
    """Share of examples whose text equals one of its references; NaN without examples."""

    label = "Exact match"
    better, unit, scale, factor = 1, "%", "share", 100.0

    def __init__(self, config: ExactMatchConfig) -> None:
        super().__init__(config)
        self.signature = f"case:{'lc' if config.lowercase else 'mixed'}|strip:{'yes' if config.strip else 'no'}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[int]:
        """Yield 1 for each correct example, otherwise 0; raise if texts or references are missing."""
        for text, references in compared(predictions):
            yield int(self._plain(text) in map(self._plain, references))

    def _plain(self, text: str) -> str:
        text = text.strip() if self.config.strip else text
        return text.lower() if self.config.lowercase else text
