"""ROUGE-L as the COCO evaluation computes it (Lin, 2004)."""

from collections.abc import Iterator, Sequence

from pycocoevalcap.rouge.rouge import Rouge  # type: ignore[import-untyped]

from bench_captioning.captions import CaptionMetric
from bench_captioning.plugin import RougeLConfig
from bench_core import Outcome, SuiteError

MOST = 2_000_000  # words of a text times words of a reference, each a cell of a table in memory


class RougeL(CaptionMetric[float]):
    """100 times the mean of F(1.2) of the best precision and the best recall of a longest common subsequence.

    Of several references, precision may be best with one and recall with another. Undefined (nan) without examples.
    """

    label, factor = "ROUGE-L", 100.0
    config: RougeLConfig

    def __init__(self, config: RougeLConfig) -> None:
        super().__init__(config, "beta:1.2")
        self.scorer = Rouge()

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[float]:
        """Yield the score of each example; raise SuiteError where a text is too long to be aligned."""
        for outcome, (text, references) in zip(outcomes, self.compared(outcomes), strict=True):
            said, longest = len(text.split()), max(len(reference.split()) for reference in references)
            if said * longest > MOST:
                raise SuiteError(
                    f"rouge-l cannot be computed: example {outcome.id} has {said:,} words and a reference of "
                    f"{longest:,}. Decode with a smaller `max_tokens`, or leave this metric out."
                )
            yield float(self.scorer.calc_score([text], references))
