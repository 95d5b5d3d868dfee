"""METEOR, as in the COCO evaluation (Denkowski and Lavie, 2014)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench_captioning.captions import EXAMPLES_PER_START, CaptionMetric
from bench_captioning.plugin import CaptionMeteorConfig
from bench_core import Prediction
from bench_metrics.api import Meteor, MeteorConfig, blocks


class CaptionMeteor(CaptionMetric[list[int]]):
    """English METEOR of tokenized, lower-cased captions without punctuation, times 100."""

    label = "METEOR"
    config: CaptionMeteorConfig

    def __init__(self, config: CaptionMeteorConfig) -> None:
        self.meteor = Meteor(MeteorConfig(memory=config.memory, patience=config.patience))
        super().__init__(config, self.meteor.signature)

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[int]]:
        """Yield METEOR's statistics of each example; raise SuiteError if METEOR does not answer."""
        for some in blocks(zip(predictions, self.text_pairs(predictions), strict=True), EXAMPLES_PER_START):
            yield from self.meteor.measure(
                [replace(prediction, texts=[text], references=references) for prediction, (text, references) in some]
            )

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return self.meteor.from_sums(sums, examples)
