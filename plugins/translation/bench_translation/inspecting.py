"""Opens the files of a parallel corpus as a run would, line by line and without torch."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import NamedTuple

from bench_core import DataError, Inspection, Prompt, Split
from bench_text.api import Lengths, check_tokenizer, corpora
from bench_translation.corpus import SHARE_LINES, Sides, files, further_files, parallel, share_of
from bench_translation.language_side import LanguageSide
from bench_translation.plugin import TranslationConfig
from bench_translation.settings import Invented

MIN_TRAINING_PAIRS = 2  #: minimum number of training pairs
MAX_CACHED_CHARS = 1_000_000  #: characters of sources cached to check the models' limits


class LinePair(NamedTuple):
    """Aligned lines of source and target, and their places."""

    texts: tuple[str, str]
    places: tuple[str, str]


def inspect(config: TranslationConfig, inspection: Inspection) -> None:
    """Check numbers of lines, blank lines, source limits, and whether enough pairs are left for training."""
    for tokenizer in (config.tokenizer.source, config.tokenizer.target):
        with inspection.noting():
            check_tokenizer(tokenizer, inspection.data)
    if isinstance(config.corpus, Invented) or inspection.problems:
        return
    seen: dict[Split, set[int]] = {}
    for split, sides in files(config.corpus, config.languages, inspection.data).items():
        with inspection.noting():
            seen[split] = _read(config, inspection, split, sides)
    for split in {*seen} - {"train"}:
        inspection.compare(split, len(seen[split]), len(seen[split] & seen.get("train", set())))


def _read(config: TranslationConfig, inspection: Inspection, split: Split, sides: Sides) -> set[int]:
    """Read a split, or the first lines of large files; return the hashes of its pairs."""
    further = further_files(config.corpus, split, inspection.data) if not isinstance(config.corpus, Invented) else []
    paths = [*sides[0], *sides[1], *further]
    if not inspection.are_small(paths):
        for path in paths:
            next(corpora.lines(path), None)
        return set()
    fits, number, seen, room, cached, total = 0, 0, set[int](), MAX_CACHED_CHARS, list[str](), Counter[Path]()
    for pair in _pairs(config, split, sides, inspection.data, total):
        number += 1
        room -= len(pair.texts[0])
        if split != "train" and room >= 0:
            cached.append(pair.texts[0])
        seen.add(hash(pair.texts))
        if split == "train":
            fits += _is_trained_on(config, inspection, pair)
        else:
            _check_pair(config, pair)
    if split == "train" and fits < MIN_TRAINING_PAIRS:
        raise DataError(
            f"only {fits} of {number:,} training pairs can be used: the others are empty, or too long for "
            "`longest` or `source_limit`. Increase these limits, or choose a larger corpus."
        )
    if any(sum(1 for _ in corpora.lines(path)) != total.total() for path in further):
        _refuse(config, inspection.data, split)
    is_cached = split != "train" and room >= 0
    again = partial(iter, cached) if is_cached else partial(_sources, config, split, sides, inspection.data)
    inspection.prompts[split] = partial(_prompts, again)
    return seen


def _refuse(config: TranslationConfig, data: Path, split: Split) -> None:
    """Raise the DataError that a run would raise for files of different lengths."""
    corpus = parallel(config.corpus, config.languages, data)
    corpus.read(split)
    corpus.more(split)


def _pairs(
    config: TranslationConfig, split: Split, sides: Sides, data: Path, total: Counter[Path]
) -> Iterator[LinePair]:
    """Yield the pairs of a split, and count the lines of its sources."""
    share = None if isinstance(config.corpus, Invented) else share_of(config.corpus, split)
    for source_path, target_path in zip(*sides, strict=True):
        for number, (source, target) in enumerate(
            zip_longest(corpora.lines(source_path), corpora.lines(target_path))
        ):
            total[source_path] += 1
            if source is None or target is None:
                _refuse(config, data, split)
            elif share is None or number % SHARE_LINES in share:
                yield LinePair(
                    (source, target), (f"line {number + 1} of {source_path}", f"line {number + 1} of {target_path}")
                )


def _is_trained_on(config: TranslationConfig, inspection: Inspection, pair: LinePair) -> bool:
    """Return whether a pair may be short enough for training; words are a lower bound on tokens."""
    if not all(text.strip() for text in pair.texts):
        return False
    kinds = config.tokenizer.source, config.tokenizer.target
    source, target = (
        Lengths(kind, inspection.data).add(text)[0] for kind, text in zip(kinds, pair.texts, strict=True)
    )
    longest = config.longest or inf
    return source <= min(longest, config.source_limit or inf) and target <= longest


def _check_pair(config: TranslationConfig, pair: LinePair) -> None:
    """Raise DataError for a blank line in an evaluation split, or a source over its limit."""
    for text, place in zip(pair.texts, pair.places, strict=True):
        if not text.strip():
            raise DataError(f"{place} is empty. Pairs that are decoded need both sides. Correct the files.")
    limit = config.source_limit
    if limit is not None and config.over_limit == "error":
        words = len(LanguageSide.of(config)[0].tokenize([pair.texts[0]])[0].split())
        if config.tokenizer.source.kind in ("word", "bpe", "codes") and words > limit:
            raise DataError(
                f"{pair.places[0]} has at least {words} tokens, more than the `source_limit` of {limit}. Increase "
                "the limit, or set `over_limit: truncate`."
            )


def _sources(config: TranslationConfig, split: Split, sides: Sides, data: Path) -> Iterator[str]:
    return (pair.texts[0] for pair in _pairs(config, split, sides, data, Counter()))


def _prompts(sources: Callable[[], Iterator[str]]) -> Iterator[Prompt]:
    return (Prompt(number, text) for number, text in enumerate(sources()))
