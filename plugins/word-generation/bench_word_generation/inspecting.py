"""Counts and splits the words of a corpus as a run would, without torch."""

from bench_core import Inspection
from bench_word_generation.lexicon import make_splits
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import count, files

MAX_BYTES = 10_000_000  #: maximum size of an inspected text, whose words are counted in memory


def inspect(config: WordGenerationConfig, inspection: Inspection) -> None:
    """Report errors in a list or text, and splits without words; generated texts are not checked."""
    paths = files(config.corpus, inspection.data)
    if not paths or not inspection.are_small(paths):
        return
    if len(paths) > 1 and sum(path.stat().st_size for path in paths) > MAX_BYTES:
        inspection.skipped.append(f"the words of {', '.join(map(str, paths))}")
        return
    make_splits(count(config.corpus, inspection.data), config)
