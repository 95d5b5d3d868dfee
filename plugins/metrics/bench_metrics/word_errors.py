"""Words that outputs lack, add or repeat, regardless of word order (Tillmann et al., 1997)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import nan

from bench_core import Prediction, TaskInfo
from bench_metrics.languages import tokenizer_of
from bench_metrics.texts import TextMetric, compared
from bench_metrics.tokenizers import tokenizer
from bench_metrics.word_configs import WordErrorsConfig


class WordErrors(TextMetric[Sequence[int]]):
    """Number of missing, surplus or repeated words per 100 words of the references; NaN without reference words.

    Texts are compared as bags of words: `missing` words are only in the reference, `surplus` words only in the
    output, and `repeated` words are the surplus words that are neither new to the output nor needed by the
    reference. Thus, surplus minus missing is the difference of the lengths. Of several references, each output is
    compared with the one with the fewest missing and surplus words.
    """

    better, unit, factor = -1, "%", 100.0
    may_be_nan = True
    config: WordErrorsConfig

    def __init__(self, config: WordErrorsConfig) -> None:
        super().__init__(config)
        self.label = f"{config.of.capitalize()} words"  # type: ignore[misc]
        self.begin(TaskInfo(()))

    def begin(self, info: TaskInfo) -> None:
        self.tokenizer = tokenizer(tokenizer_of(self.config.tokenize, info))
        case = "lc" if self.config.lowercase else "mixed"
        self.signature = f"of:{self.config.of}|case:{case}|tok:{self.tokenizer.signature()}|pooled"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[int]]:
        """Yield the number of such words, and of words of the reference; raise if texts or references are missing."""
        for text, references in compared(predictions):
            output = self._words(text)
            reference = min(
                map(self._words, references), key=lambda each: (output - each).total() + (each - output).total()
            )
            yield [self._number(output, reference), reference.total()]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        number, words = sums or (0, 0)
        return self.factor * number / words if words else nan

    def _number(self, output: Counter[str], reference: Counter[str]) -> int:
        if self.config.of == "missing":
            return (reference - output).total()
        if self.config.of == "surplus":
            return (output - reference).total()
        return sum(max(0, number - max(1, reference[word])) for word, number in output.items())

    def _words(self, text: str) -> Counter[str]:
        text = text.lower() if self.config.lowercase else text
        return Counter(str(self.tokenizer(text.strip())).split())
