"""The tokenizers of sacrebleu, by name."""

from __future__ import annotations

from typing import Protocol, cast

from sacrebleu.metrics.bleu import BLEU

from bench_core import SuiteError

EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # what tokenizers need beyond sacrebleu itself


class Tokenizer(Protocol):
    """Turns a text into one with a blank between tokens."""

    def __call__(self, line: str) -> str:
        """Return the tokens of a line."""

    def signature(self) -> str:
        """Return what tells it from others."""


def tokenizer(name: str) -> Tokenizer:
    """Return a tokenizer; raise SuiteError where what it needs is not installed."""
    try:
        return cast(Tokenizer, BLEU(tokenize=name).tokenizer)
    except (ImportError, RuntimeError, AssertionError) as error:  # AssertionError: MeCab has another dictionary
        if name not in EXTRAS:
            raise
        raise SuiteError(
            f"`tokenize: {name}` needs MeCab and its dictionary, which are not installed as sacrebleu wants them: "
            f"pip install 'sacrebleu[{EXTRAS[name]}]'"
        ) from error
