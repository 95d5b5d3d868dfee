"""Configs of metrics that tokenize texts."""

from collections.abc import Set
from math import inf
from typing import ClassVar, Literal, TypeAlias

from bench_core import MetricConfig, SuiteError, TaskConfig
from bench_metrics.languages import tokenizer_of

# tokenizers of sacrebleu that need no download; `auto` is the default for the language of targets
Tokenizer: TypeAlias = Literal["auto", "none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


class WordsConfig(MetricConfig):
    """Settings shared by metrics that tokenize texts."""

    of_texts = True
    libraries = frozenset({"mecab-python3", "ipadic"})
    range: ClassVar[tuple[float, float] | None] = (0, 100)

    tokenize: Tokenizer = "auto"  #: tokenizer of sacrebleu; `auto` depends on the target language

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why the tokenizer does not support the target language; None if it does."""
        try:
            tokenizer_of(self.tokenize, task)
        except SuiteError as error:
            return str(error)
        return None


EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}  # extras of this distribution


def tokenizer_extras(name: str | None) -> Set[str]:
    """Return the extra of a tokenizer; empty if it needs none."""
    return {EXTRAS[name]} if name in EXTRAS else set()


class WordErrorsConfig(WordsConfig):
    """Words of outputs and references that have no counterpart in the other, regardless of order.

    Per 100 words of the references (Tillmann et al., 1997).
    """

    name, target = "word-errors", "bench_metrics.word_errors:WordErrors"
    range = 0, inf
    cites = ["tillmann1997"]

    of: Literal[
        "missing", "surplus", "repeated"
    ]  #: words that outputs lack, add, or repeat more often than references
    lowercase: bool = False  #: compare in lower case

    def extras(self) -> Set[str]:
        """Return the extra of the tokenizer; empty if it needs no extra."""
        return tokenizer_extras(self.tokenize)
