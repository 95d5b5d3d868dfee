"""The tokenizers of sacrebleu, by name."""

from typing import Any

from sacrebleu.metrics.bleu import BLEU

from bench_core import SuiteError

EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # extras of sacrebleu


def tokenizer(name: str) -> Any:
    """Return a function that puts spaces between tokens, with a `signature()`; raise SuiteError if it cannot run."""
    try:
        return BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError, AssertionError) as error:  # AssertionError: MeCab has another dictionary
        if name not in EXTRAS:
            raise
        raise SuiteError(
            f"`tokenize: {name}` needs MeCab and its dictionary in the versions that sacrebleu supports: "
            f"pip install 'sacrebleu[{EXTRAS[name]}]'"
        ) from error
