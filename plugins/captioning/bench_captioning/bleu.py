"""BLEU as the COCO evaluation computes it (Papineni et al., 2002)."""

from collections.abc import Iterator, Sequence
from math import exp, nan, prod

from pycocoevalcap.bleu.bleu_scorer import cook_refs, cook_test  # type: ignore[import-untyped]

from bench_captioning.captions import CaptionMetric
from bench_captioning.plugin import CaptionBleuConfig
from bench_core import Outcome

SMALL, TINY = 1e-9, 1e-15  # what pycocoevalcap adds so that nothing is divided by 0


class CaptionBleu(CaptionMetric[list[int]]):
    """100 times the brevity penalty times the geometric mean of clipped precisions of 1- to n-grams, of the corpus.

    The length of the nearest reference counts, the shorter of two. Undefined (nan) without examples.
    """

    label = "BLEU"
    config: CaptionBleuConfig

    def __init__(self, config: CaptionBleuConfig) -> None:
        super().__init__(config, f"order:{config.n}|reflen:closest")

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[int]]:
        """Yield of each example its length, that of its reference, and n-grams said and right of every order."""
        return (self._statistics(*pair) for pair in self.compared(outcomes))

    def _statistics(self, text: str, references: list[str]) -> list[int]:
        found = cook_test(text, cook_refs(references, n=self.config.n), eff="closest", n=self.config.n)
        return [found["testlen"], found["reflen"], *found["guess"], *found["correct"]]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        if not examples:
            return nan
        n = self.config.n
        length, reference, said, right = sums[0], sums[1], sums[2 : 2 + n], sums[2 + n :]
        precision = prod((hits + TINY) / (all_ + SMALL) for hits, all_ in zip(right, said, strict=True))
        ratio = (length + TINY) / (reference + SMALL)
        return float(100 * precision ** (1 / n) * (exp(1 - 1 / ratio) if ratio < 1 else 1.0))
