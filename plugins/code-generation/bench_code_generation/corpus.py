"""Loads a corpus of pseudo-code and code, and digests of the files read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench_code_generation.settings import Corpus, CPythonPairs, Named
from bench_core import DataError, Split
from bench_text.api import corpora
from bench_translation.api import Files, Lines, Pair, Parallel, parallel, reads

SIDES = ("pseudo-code", "python")
DJANGO = ("all.anno", "all.code")
PARTS: Mapping[Split, slice] = {  # of the lines of Django
    "train": slice(16_000),
    "valid": slice(16_000, 17_000),
    "test": slice(17_000, 18_805),
}
CLEAN = {"train": "train", "valid": "dev", "test": "test"}  # how its files call the splits


def collection(corpus: Corpus, data: Path) -> Parallel:
    """Return a corpus with single spaces for white space of all sorts.

    Raises DataError if files are missing, and `read` if they are not parallel UTF-8 text.
    """
    found = _library(corpus) if isinstance(corpus, CPythonPairs) else _collection(corpus, data)

    def read(split: Split) -> tuple[Lines, Lines]:
        source, target = found.read(split)
        return _spaced(source), _spaced(target)

    return replace(found, read=read, more=lambda split: [_spaced(lines) for lines in found.more(split)])


def _spaced(lines: Lines) -> Lines:
    return replace(lines, texts=[" ".join(line.split()) for line in lines.texts])


def _collection(corpus: Named | Files, data: Path) -> Parallel:
    found = parallel(files(corpus, data), SIDES, data)
    if isinstance(corpus, Files):
        return found
    found = replace(found, name=corpus.name, labels={})
    return replace(found, read=lambda split: _part(found, data, split)) if corpus.name == "django" else found


def splits(corpus: Corpus) -> Sequence[Split]:
    """Return the splits of a corpus."""
    return [split for split in (corpus.own if isinstance(corpus, Files) else CLEAN) if corpus.has(split)]


def digests(corpus: Corpus, data: Path) -> Mapping[str, str]:
    """Return the digest of all that is read; raise DataError if files are missing or empty."""
    if isinstance(corpus, CPythonPairs):
        from bench_code_generation import library  # which takes a while to import

        return {f"{corpus.name} {library.VERSION}": library.digest()}
    return reads(files(corpus, data), SIDES, data)


def files(corpus: Named | Files, data: Path) -> Files:
    """Return the files of each split; those of Django are the same for all."""
    if isinstance(corpus, Files):
        return corpus
    if corpus.name == "django":
        names = dict.fromkeys(CLEAN, DJANGO)
    else:
        names = {split: (f"src_raw_{part}.txt", f"tgt_raw_{part}.txt") for split, part in CLEAN.items()}
    corpora.locate(corpus.name, dict.fromkeys(name for pair in names.values() for name in pair), data)
    paths = {split: [Path(corpus.name, name) for name in pair] for split, pair in names.items()}
    found = Files(**{split: Pair(source=[source], target=[target]) for split, (source, target) in paths.items()})
    return found.restricted(*filter(corpus.has, CLEAN))


def _part(corpus: Parallel, data: Path, split: Split) -> tuple[Lines, Lines]:
    """Return some of the lines of Django, which has one file for all splits; raise DataError if it is another."""
    source, target = corpus.read(split)
    whole = PARTS["test"].stop
    if len(source.texts) != whole:
        raise DataError(
            f"corpus 'django' has {len(source.texts):,} pairs in {data / 'django'}, not {whole:,}, so it cannot be "
            "split as in the literature. Run `bench data verify django`, or name the files as your own."
        )
    numbers = range(whole)[PARTS[split]]
    return source.select(numbers), target.select(numbers)


def _library(corpus: CPythonPairs) -> Parallel:
    from bench_code_generation import library

    found = library.choose(library.pairs(library.sources()), corpus.pairs)
    few = [split for split, pairs in found.items() if corpus.has(split) and len(pairs) < 2]
    if few:
        raise DataError(
            f"the library of this Python has too few lines for {corpus.name} (in {', '.join(few)}). Perhaps its "
            "source files are not installed. Choose another corpus."
        )

    def read(split: Split) -> tuple[Lines, Lines]:
        source, target = (Lines(list(texts), [(split, len(texts))]) for texts in zip(*found[split], strict=True))
        return source, target

    name = f"{corpus.name} {library.VERSION} ({library.digest()[:8]})"
    return Parallel(name, tuple(filter(corpus.has, found)), read, embedded=True)
