"""Loads a corpus of pseudo-code and code, and computes digests of the files read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench_code_generation.settings import Corpus, CPythonPairs, NamedCode
from bench_core import DataError, Split
from bench_text.api import corpora
from bench_translation.api import CorpusLines, FilePair, Parallel, ParallelFiles, parallel, reads

SIDES = ("pseudo-code", "python")
DJANGO = ("all.anno", "all.code")
PARTS: Mapping[Split, slice] = {  # line numbers in the Django corpus
    "train": slice(16_000),
    "valid": slice(16_000, 17_000),
    "test": slice(17_000, 18_805),
}
CLEAN = {"train": "train", "valid": "dev", "test": "test"}  # split names in the files of django-clean


def collection(corpus: Corpus, data: Path) -> Parallel:
    """Return a corpus with all white space normalized to single spaces.

    Raises DataError if files are missing; its `read` raises DataError if they are not parallel UTF-8 text.
    """
    loaded = _library(corpus) if isinstance(corpus, CPythonPairs) else _collection(corpus, data)

    def read(split: Split) -> tuple[CorpusLines, CorpusLines]:
        source, target = loaded.read(split)
        return _normalize(source), _normalize(target)

    return replace(loaded, read=read, more=lambda split: [_normalize(lines) for lines in loaded.more(split)])


def _normalize(lines: CorpusLines) -> CorpusLines:
    return replace(lines, texts=[" ".join(line.split()) for line in lines.texts])


def _collection(corpus: NamedCode | ParallelFiles, data: Path) -> Parallel:
    loaded = parallel(files(corpus, data), SIDES, data)
    if isinstance(corpus, ParallelFiles):
        return loaded
    loaded = replace(loaded, name=corpus.name, labels={})
    return replace(loaded, read=lambda split: _part(loaded, data, split)) if corpus.name == "django" else loaded


def splits(corpus: Corpus) -> Sequence[Split]:
    """Return the splits of a corpus."""
    return [split for split in (corpus.own if isinstance(corpus, ParallelFiles) else CLEAN) if corpus.has(split)]


def digests(corpus: Corpus, data: Path) -> Mapping[str, str]:
    """Return the digests of the input files; raise DataError if some are missing or empty."""
    if isinstance(corpus, CPythonPairs):
        from bench_code_generation import library  # slow to import

        return {f"{corpus.name} {library.VERSION}": library.digest()}
    return reads(files(corpus, data), SIDES, data)


def files(corpus: NamedCode | ParallelFiles, data: Path) -> ParallelFiles:
    """Return the files of each split; all splits of django share the same files."""
    if isinstance(corpus, ParallelFiles):
        return corpus
    if corpus.name == "django":
        names = dict.fromkeys(CLEAN, DJANGO)
    else:
        names = {split: (f"src_raw_{part}.txt", f"tgt_raw_{part}.txt") for split, part in CLEAN.items()}
    corpora.locate(corpus.name, dict.fromkeys(name for pair in names.values() for name in pair), data)
    paths = {split: [Path(corpus.name, name) for name in pair] for split, pair in names.items()}
    all_files = ParallelFiles(
        **{split: FilePair(source=[source], target=[target]) for split, (source, target) in paths.items()}
    )
    return all_files.restricted(*filter(corpus.has, CLEAN))


def _part(corpus: Parallel, data: Path, split: Split) -> tuple[CorpusLines, CorpusLines]:
    """Return a split of the Django corpus; raise DataError if the number of lines differs from the original."""
    source, target = corpus.read(split)
    total = PARTS["test"].stop
    if len(source.texts) != total:
        raise DataError(
            f"corpus 'django' has {len(source.texts):,} pairs in {data / 'django'}, not {total:,}, so it cannot be "
            "split as in the literature. Run `bench data verify django`, or configure the files as your own corpus."
        )
    numbers = range(total)[PARTS[split]]
    return source.select(numbers), target.select(numbers)


def _library(corpus: CPythonPairs) -> Parallel:
    from bench_code_generation import library

    chosen = library.choose(library.pairs(library.sources()), corpus.pairs)
    small = [split for split, pairs in chosen.items() if corpus.has(split) and len(pairs) < 2]
    if small:
        raise DataError(
            f"the standard library of this Python has too few lines for {corpus.name} (in {', '.join(small)}). Its "
            "source files may not be installed. Choose another corpus."
        )

    def read(split: Split) -> tuple[CorpusLines, CorpusLines]:
        source, target = (
            CorpusLines(list(texts), [(split, len(texts))]) for texts in zip(*chosen[split], strict=True)
        )
        return source, target

    name = f"{corpus.name} {library.VERSION} ({library.digest()[:8]})"
    return Parallel(name, tuple(filter(corpus.has, chosen)), read, embedded=True)
