"""RIBES: rank correlation of word order (Isozaki et al., 2010)."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version

from nltk.translate.ribes_score import MAX_ALIGNMENT_LEN, sentence_ribes  # type: ignore[import-untyped]

from bench_core import Prediction, SuiteError, TaskInfo
from bench_metrics.languages import tokenizer_of
from bench_metrics.plugin import RibesConfig
from bench_metrics.texts import TextMetric, compared
from bench_metrics.tokenizers import tokenizer


class Ribes(TextMetric[float]):
    """100 times the mean of NKT * P^alpha * BP^beta over examples, computed by nltk against the best reference.

    NKT is Kendall's tau of the ranks of aligned words, normalized to [0, 1]; P is the share of aligned words; BP is
    the brevity penalty. If fewer than two words are aligned, the score is 0, even for a correct text of one word. NaN
    without examples.
    """

    label, factor = "RIBES", 100.0
    better = 1

    def __init__(self, config: RibesConfig) -> None:
        super().__init__(config)
        self.begin(TaskInfo(()))

    def begin(self, info: TaskInfo) -> None:
        config = self.config
        self.tokenizer = tokenizer(tokenizer_of(config.tokenize, info))
        case = "lc" if config.lowercase else "mixed"
        self.signature = (
            f"case:{case}|tok:{self.tokenizer.signature()}|alpha:{config.alpha}|beta:{config.beta}"
            f"|nltk:{version('nltk')}"
        )

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the score of each example; raise SuiteError if a text is too long to be aligned."""
        for prediction, pair in zip(predictions, compared(predictions), strict=True):
            yield self._score(prediction.id, *pair)

    def _score(self, example: int, text: str, references: list[str]) -> float:
        words, *others = [self._words(each) for each in [text, *references]]
        longest = max(len(each) for each in [words, *others])
        if longest > MAX_ALIGNMENT_LEN:
            raise SuiteError(
                f"ribes cannot be computed: a text of example {example} has {longest} words, and nltk aligns at most "
                f"{MAX_ALIGNMENT_LEN}. Decode with a smaller `max_tokens`, or leave this metric out."
            )
        return float(sentence_ribes(others, words, self.config.alpha, self.config.beta))

    def _words(self, text: str) -> list[str]:
        text = text.lower() if self.config.lowercase else text
        return str(self.tokenizer(text.strip())).split()
