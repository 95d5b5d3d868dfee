"""ROUGE-L, as in the COCO evaluation (Lin, 2004)."""

from collections.abc import Iterator, Sequence

from pycocoevalcap.rouge.rouge import Rouge  # type: ignore[import-untyped]

from bench_captioning.captions import CaptionMetric
from bench_captioning.plugin import RougeLConfig
from bench_core import Prediction, SuiteError

MAX_TABLE_CELLS = 2_000_000  # words of a text times words of a reference


class RougeL(CaptionMetric[float]):
    """100 times the mean F(1.2) of the best precision and the best recall of a longest common subsequence.

    Precision and recall may come from different references of an example. Undefined (nan) without examples.
    """

    label, factor = "ROUGE-L", 100.0
    config: RougeLConfig

    def __init__(self, config: RougeLConfig) -> None:
        super().__init__(config, "beta:1.2")
        self.scorer = Rouge()

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the score of each example; raise SuiteError if a text is too long to align."""
        for prediction, (text, references) in zip(predictions, self.text_pairs(predictions), strict=True):
            length, longest = len(text.split()), max(len(reference.split()) for reference in references)
            if length * longest > MAX_TABLE_CELLS:
                raise SuiteError(
                    f"rouge-l cannot be computed: example {prediction.id} has {length:,} words and a reference of "
                    f"{longest:,}. Decode with a smaller `max_tokens`, or leave this metric out."
                )
            yield float(self.scorer.calc_score([text], references))
