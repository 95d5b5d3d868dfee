"""The BLEU variant of "Dive into Deep Learning"; not comparable with corpus BLEU."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import exp

from bench_core import Prediction
from bench_metrics.plugin import NotesBleuConfig
from bench_metrics.texts import TextMetric, compared


class NotesBleu(TextMetric[float]):
    """The mean over examples of exp(min(0, 1 - len_label / len_pred)) * prod_{m=1..k} p_m^(1/2^m), in [0, 1].

    p_m is the clipped m-gram precision (Zhang et al., "Dive into Deep Learning", section 10.7), with m limited by the
    length of the text. An empty text, or a text without a match of some order m, scores 0. With several references,
    the best score counts. NaN without examples.
    """

    label = "BLEU"
    better, digits = 1, 4

    def __init__(self, config: NotesBleuConfig) -> None:
        super().__init__(config)
        self.signature = f"k:{config.k}|tok:{config.tokens}|case:mixed|exponents:1/2^m|mean"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the score of each example; raise if texts or references are missing."""
        split = str.split if self.config.tokens == "words" else list
        for text, references in compared(predictions):
            yield max(notes_bleu(split(text), split(label), self.config.k) for label in references)


def notes_bleu(prediction: Sequence[str], label: Sequence[str], k: int) -> float:
    """Return the score of one prediction against one label."""
    if not prediction:
        return 0.0
    score = exp(min(0.0, 1 - len(label) / len(prediction)))
    for m in range(1, min(k, len(prediction)) + 1):
        ngrams, expected = _ngrams(prediction, m), _ngrams(label, m)
        score *= ((ngrams & expected).total() / ngrams.total()) ** 0.5**m
    return score


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))
