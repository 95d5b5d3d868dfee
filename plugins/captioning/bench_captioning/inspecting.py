"""Opens annotations and features as a run would, without torch; does not open images."""

from collections import Counter

from bench_captioning.corpus import CaptionCorpus, feature_files, files, load_corpus
from bench_captioning.feature_files import CHUNK
from bench_captioning.plugin import CaptioningConfig
from bench_captioning.precomputed import FeatureTable
from bench_captioning.settings import FeatureFolder, Precomputed, Scenes
from bench_captioning.words import words
from bench_core import DataError, Inspection


def inspect(config: CaptioningConfig, inspection: Inspection) -> None:
    """Check annotations, features, and training captions."""
    corpus, features, data = config.corpus, config.features, inspection.data
    if isinstance(corpus, Scenes):
        return
    paths = [*files(corpus, data).values()]
    if not isinstance(features, Precomputed | FeatureFolder):
        inspection.skipped.append(f"the images of {', '.join(dict.fromkeys(str(path) for path in paths))}")
    if not inspection.are_small(paths):
        return
    captions = load_corpus(corpus, data)
    _check_captions(config, captions)
    if isinstance(features, Precomputed | FeatureFolder):
        table = FeatureTable.of(features, config.form or "vector", captions, data)
        if isinstance(features, FeatureFolder):
            inspection.skipped.append(f"{table.path} after the first {CHUNK} images of each split")
        is_whole = isinstance(features, Precomputed) and inspection.are_small(feature_files(features, data))
        for split in table.wanted:
            for _ in table.rows(split):
                if not is_whole:
                    break


def _check_captions(config: CaptioningConfig, corpus: CaptionCorpus) -> None:
    """Raise DataError if all training captions are too long, or if all words are too rare."""
    counts, number = Counter[str](), 0
    for picture in corpus.splits["train"]:
        for caption in picture.captions:
            tokens = words(caption)
            if config.longest is None or len(tokens) <= config.longest:
                number += 1
                counts.update(tokens)
    if not number:
        raise DataError(
            f"all captions of {corpus.name} have more than `longest: {config.longest}` words. Increase `longest`."
        )
    if max(counts.values()) < config.min_count:
        raise DataError(
            f"no word occurs {config.min_count} times in the {number:,} training captions. Decrease `min_count`."
        )
