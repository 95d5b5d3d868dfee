"""Counts the words of a corpus as a run would, and divides them into splits, without torch."""

from bench_core import Inspection
from bench_word_generation.lexicon import counted_splits
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import count, files

LARGEST = 10_000_000  #: bytes of a text, which is counted in memory


def inspect(config: WordGenerationConfig, inspection: Inspection) -> None:
    """Note what is wrong with a list or a text, and a split without words; generated texts have enough."""
    paths = files(config.corpus, inspection.data)
    if not paths or not inspection.are_small(paths):
        return
    if len(paths) > 1 and sum(path.stat().st_size for path in paths) > LARGEST:
        inspection.skipped.append(f"the words of {', '.join(map(str, paths))}")
        return
    counted_splits(count(config.corpus, inspection.data), config)
