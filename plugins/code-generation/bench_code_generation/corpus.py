"""Loads a corpus of pseudo-code and code, and digests of the files read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench_code_generation.settings import Corpus, CPythonPairs, Named
from bench_core import DataError, Split
from bench_text.api import corpora
from bench_translation.api import Files, Pair, parallel, reads

SIDES = ("pseudo-code", "python")
DJANGO = ("all.anno", "all.code")
PARTS: Mapping[Split, slice] = {  # of the lines of Django
    "train": slice(16_000),
    "valid": slice(16_000, 17_000),
    "test": slice(17_000, 18_805),
}
CLEAN = {"train": "train", "valid": "dev", "test": "test"}  # how its files call the splits


@dataclass(frozen=True)
class Pairs:
    """One split: line n of the source is what line n of the target does."""

    source: list[str]
    target: list[str]
    where: Callable[[int], tuple[str, str]]  # the places of a pair, such as "line 7 of all.anno"
    further: list[list[str]] = field(default_factory=list)  # more targets, each as long; an empty line is none


@dataclass(frozen=True)
class Collection:
    """A corpus, read when its pairs are asked for."""

    name: str  # in reports
    read: Callable[[Split], Pairs]
    embedded: bool = False  # whether reports may show what it says


def collection(corpus: Corpus, data: Path) -> Collection:
    """Return a corpus; raise DataError if files are missing, and `read` if they are not parallel UTF-8 text."""
    if isinstance(corpus, CPythonPairs):
        return _library(corpus)
    if isinstance(corpus, Named) and corpus.name == "django":
        return Collection(corpus.name, lambda split: _part(_files(corpus, data), data, PARTS[split]))
    files = _files(corpus, data)
    name = corpus.name if isinstance(corpus, Named) else parallel(files, SIDES, data).name
    return Collection(name, lambda split: _lines(files, data, split))


def digests(corpus: Corpus, data: Path) -> Mapping[str, str]:
    """Return the digest of all that is read; raise DataError if files are missing or empty."""
    if isinstance(corpus, CPythonPairs):
        from bench_code_generation import library  # which takes a while to import

        return {f"{corpus.name} {library.VERSION}": library.digest()}
    return reads(_files(corpus, data), SIDES, data)


def _files(corpus: Named | Files, data: Path) -> Files:
    """Return the files of each split; those of Django are the same for all."""
    if isinstance(corpus, Files):
        return corpus
    if corpus.name == "django":
        names = dict.fromkeys(CLEAN, DJANGO)
    else:
        names = {split: (f"src_raw_{part}.txt", f"tgt_raw_{part}.txt") for split, part in CLEAN.items()}
    corpora.locate(corpus.name, dict.fromkeys(name for pair in names.values() for name in pair), data)
    paths = {split: [Path(corpus.name, name) for name in pair] for split, pair in names.items()}
    return Files(**{split: Pair(source=[source], target=[target]) for split, (source, target) in paths.items()})


def _lines(files: Files, data: Path, split: Split) -> Pairs:
    corpus = parallel(files, SIDES, data)
    source, target = corpus.read(split)
    further = [more.texts for more in corpus.more(split)]
    return Pairs(source.texts, target.texts, lambda place: (source.place(place), target.place(place)), further)


def _part(files: Files, data: Path, part: slice) -> Pairs:
    """Return some of the lines of Django, which has one file for all splits; raise DataError if it is another."""
    whole = _lines(files, data, "train")
    if len(whole.source) != PARTS["test"].stop:
        raise DataError(
            f"corpus 'django' has {len(whole.source):,} pairs in {data / 'django'}, not {PARTS['test'].stop:,}, so "
            "it cannot be split as in the literature. Run `bench data verify django`, or name the files as your own."
        )
    return Pairs(whole.source[part], whole.target[part], lambda place: whole.where(place + (part.start or 0)))


def _library(corpus: CPythonPairs) -> Collection:
    from bench_code_generation import library

    found = library.choose(library.pairs(library.sources()), corpus.pairs)
    few = [split for split, pairs in found.items() if len(pairs) < 2]
    if few:
        raise DataError(
            f"the library of this Python has too few lines for {corpus.name} (in {', '.join(few)}). Perhaps its "
            "source files are not installed. Choose another corpus."
        )

    def read(split: Split) -> Pairs:
        source, target = ([pair[side] for pair in found[split]] for side in (0, 1))
        return Pairs(source, target, lambda place: (f"pseudo-code {place} of {split}", f"code {place} of {split}"))

    return Collection(f"{corpus.name} {library.VERSION} ({library.digest()[:8]})", read, embedded=True)
