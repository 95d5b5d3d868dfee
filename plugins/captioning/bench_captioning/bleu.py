"""BLEU, as in the COCO evaluation (Papineni et al., 2002)."""

from collections.abc import Iterator, Sequence
from math import exp, nan, prod

from pycocoevalcap.bleu.bleu_scorer import cook_refs, cook_test  # type: ignore[import-untyped]

from bench_captioning.captions import CaptionMetric
from bench_captioning.plugin import CaptionBleuConfig
from bench_core import Prediction

DENOMINATOR_OFFSET, NUMERATOR_OFFSET = 1e-9, 1e-15  # smoothing constants of pycocoevalcap, against division by 0


class CaptionBleu(CaptionMetric[list[int]]):
    """100 times the brevity penalty times the geometric mean of clipped corpus precisions of 1- to n-grams.

    The nearest reference length counts; ties go to the shorter one. Undefined (nan) without examples.
    """

    label = "BLEU"
    config: CaptionBleuConfig

    def __init__(self, config: CaptionBleuConfig) -> None:
        super().__init__(config, f"order:{config.n}|reflen:closest")

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[int]]:
        """Yield, per example, text length, reference length, and numbers of guessed and correct n-grams by order."""
        return (self._statistics(*pair) for pair in self.text_pairs(predictions))

    def _statistics(self, text: str, references: list[str]) -> list[int]:
        counts = cook_test(text, cook_refs(references, n=self.config.n), eff="closest", n=self.config.n)
        return [counts["testlen"], counts["reflen"], *counts["guess"], *counts["correct"]]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        if not examples:
            return nan
        n = self.config.n
        length, reference, guessed, correct = sums[0], sums[1], sums[2 : 2 + n], sums[2 + n :]
        precision = prod(
            (hits + NUMERATOR_OFFSET) / (all_ + DENOMINATOR_OFFSET)
            for hits, all_ in zip(correct, guessed, strict=True)
        )
        ratio = (length + NUMERATOR_OFFSET) / (reference + DENOMINATOR_OFFSET)
        return float(100 * precision ** (1 / n) * (exp(1 - 1 / ratio) if ratio < 1 else 1.0))
