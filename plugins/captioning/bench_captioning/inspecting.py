"""Opens annotations and features as a run would, without torch; images themselves are not opened."""

from collections import Counter

from bench_captioning.corpus import Captioned, captioned, feature_files, files
from bench_captioning.plugin import CaptioningConfig
from bench_captioning.precomputed import Table
from bench_captioning.settings import Precomputed, Scenes
from bench_captioning.words import words
from bench_core import DataError, Inspection


def inspect(config: CaptioningConfig, inspection: Inspection) -> None:
    """Note what is wrong with annotations, features, and the captions that are left to train on."""
    corpus, features, data = config.corpus, config.features, inspection.data
    if isinstance(corpus, Scenes):
        return
    paths = [*files(corpus, data).values()]
    if not isinstance(features, Precomputed):
        inspection.skipped.append(f"the images of {', '.join(dict.fromkeys(str(path) for path in paths))}")
    if not inspection.are_small(paths):
        return
    found = captioned(corpus, data)
    _check_captions(config, found)
    if isinstance(features, Precomputed):
        table = Table.of(features, config.form, found, data)
        is_small = inspection.are_small(feature_files(features, data))
        for split in table.wanted:
            for _ in table.rows(split):
                if not is_small:
                    break


def _check_captions(config: CaptioningConfig, corpus: Captioned) -> None:
    """Raise DataError if no caption is short enough to train on, or no word frequent enough."""
    counts, kept = Counter[str](), 0
    for picture in corpus.splits["train"]:
        for caption in picture.captions:
            found = words(caption)
            if config.longest is None or len(found) <= config.longest:
                kept += 1
                counts.update(found)
    if not kept:
        raise DataError(f"all captions of {corpus.name} have more than `longest: {config.longest}` words. Raise it.")
    if max(counts.values()) < config.min_count:
        raise DataError(
            f"no word stands in the {kept:,} captions to train on {config.min_count} times. Set a smaller "
            "`min_count`."
        )
