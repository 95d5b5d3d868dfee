"""Opens the files of a corpus as a run would, without torch."""

from bench_core import Inspection
from bench_language_modeling.api import inspect_sentences
from bench_word_order.plugin import MIN_SENTENCES, WordOrderConfig


def inspect(config: WordOrderConfig, inspection: Inspection) -> None:
    """Report splits with too few sentences."""
    limits = config.sentences, config.shortest, config.longest
    inspect_sentences(inspection, config.corpus, config.tokenizer, *limits, "`shortest` or `longest`", MIN_SENTENCES)
