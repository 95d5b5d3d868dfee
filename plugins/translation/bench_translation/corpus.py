"""Loads a parallel corpus, and computes digests of the files read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from bench_core import DataError, Split
from bench_text.api import SPLITS, corpora
from bench_translation.layouts import LAYOUTS, ParallelLayout, folder
from bench_translation.settings import Corpus, FilePair, Invented, NamedParallelCorpus, ParallelFiles

Sides: TypeAlias = tuple[list[Path], list[Path]]  # files of source and target

SHARE_LINES = 100  # lines per period, in files that splits share
INVENTED = ("en", "art")  # art: ISO 639-2 code of artificial languages


@dataclass(frozen=True)
class CorpusLines:
    """The lines of one language of a split."""

    texts: list[str]
    files: Sequence[tuple[str, int]]  # file names with their numbers of lines
    numbers: Sequence[int] | None = (
        None  # line numbers of the texts, counted from 0, if the split has only some of the lines
    )

    def select(self, numbers: Sequence[int]) -> CorpusLines:
        """Return selected lines of a file."""
        return replace(self, texts=[self.texts[number] for number in numbers], numbers=numbers)

    def place(self, index: int) -> str:
        """Return the file and line, counted from 1, of a text."""
        index = self.numbers[index] if self.numbers is not None else index
        ends = accumulate(number for _, number in self.files)
        file, end, number = next((*item, end) for item, end in zip(self.files, ends, strict=True) if index < end)
        return f"line {index + 1 - (number - end)} of {file}"


@dataclass(frozen=True)
class Parallel:
    """A parallel corpus, whose lines are read on demand."""

    name: str  # shown in reports
    splits: Sequence[Split]
    read: Callable[[Split], tuple[CorpusLines, CorpusLines]]  # source and target, of equal length
    more: Callable[[Split], list[CorpusLines]] = lambda split: []  # further targets; empty lines are ignored
    embedded: bool = False  # whether it needs no files
    labels: Mapping[Split, str] = field(default_factory=dict)  # names of splits in reports, if not all are `name`


def languages(corpus: Corpus) -> Sequence[str]:
    """Return the known languages of a corpus, the default pair first."""
    if isinstance(corpus, Invented):
        return INVENTED
    return (
        LAYOUTS[corpus.name].languages if isinstance(corpus, NamedParallelCorpus) and corpus.name in LAYOUTS else ()
    )


def has(corpus: Corpus, source: str, target: str) -> bool:
    """Return whether a corpus with known languages has a language pair."""
    layout = (
        LAYOUTS[corpus.name] if isinstance(corpus, NamedParallelCorpus) else ParallelLayout(languages(corpus), {})
    )
    return layout.pairs(source, target)


def describe_languages(corpus: Corpus) -> str:
    """Describe the languages of a corpus."""
    hub = LAYOUTS[corpus.name].hub if isinstance(corpus, NamedParallelCorpus) else ""
    others = [language for language in languages(corpus) if language != hub]
    return f"{hub} with {' or '.join(others)}" if hub else ", ".join(others)


def splits(corpus: Corpus) -> Sequence[Split]:
    """Return the splits of a corpus."""
    own_files = {} if isinstance(corpus, Invented) else corpus.own
    known = (
        LAYOUTS[corpus.name].splits if isinstance(corpus, NamedParallelCorpus) and corpus.name in LAYOUTS else SPLITS
    )
    names = dict.fromkeys([*(() if isinstance(corpus, ParallelFiles) else known), *own_files])
    return tuple(filter(corpus.has, names))


def parallel(corpus: Corpus, pair: tuple[str, str], data: Path) -> Parallel:
    """Return a corpus; raise DataError if files are missing. Its `read` raises it if they are not parallel UTF-8."""
    if isinstance(corpus, Invented):
        return _generate(corpus, pair)
    paths = files(corpus, pair, data)

    def read(split: Split) -> tuple[CorpusLines, CorpusLines]:
        of_source, of_target = paths[split]
        source, target = _lines(of_source), _lines(of_target)
        for (source_file, source_lines), (target_file, target_lines) in zip(source.files, target.files, strict=True):
            if source_lines != target_lines:
                raise DataError(
                    f"{source_file} has {source_lines:,} lines, but {target_file} has {target_lines:,}: line n of "
                    "one file must translate line n of the other. Only line feeds separate lines. Correct the files."
                )
        share = share_of(corpus, split)
        if share is None:
            return source, target
        numbers = [number for number in range(len(source.texts)) if number % SHARE_LINES in share]
        return source.select(numbers), target.select(numbers)

    def more(split: Split) -> list[CorpusLines]:
        (source, _), references = paths[split], [_lines([path]) for path in further_files(corpus, split, data)]
        expected = sum(len(corpora.read_lines(path)) for path in source) if references else 0
        for each in references:
            ((name, number),) = each.files
            if number != expected:
                raise DataError(
                    f"{name} has {number:,} lines, but the source of {split} has {expected:,}: line n of "
                    "`references:` must translate line n of the source; leave it empty if there is no translation."
                )
        return references

    return Parallel(_name(corpus, paths), tuple(paths), read, more, labels=_labels(corpus, paths))


def reads(corpus: Corpus, pair: tuple[str, str], data: Path) -> Mapping[str, str]:
    """Return the digest of each file; raise DataError if some are missing or empty."""
    if isinstance(corpus, Invented):
        return {}
    paths = files(corpus, pair, data)
    paths_read = [path for sides in paths.values() for side in sides for path in side]
    paths_read += [path for split in paths for path in further_files(corpus, split, data)]
    return corpora.digests(paths_read, data)


def files(corpus: NamedParallelCorpus | ParallelFiles, pair: tuple[str, str], data: Path) -> dict[Split, Sides]:
    """Return the source and target files of each split."""
    wanted = splits(corpus)
    own_files = {split: _user_files(split, pair, data) for split, pair in corpus.own.items()}
    if isinstance(corpus, ParallelFiles):
        return own_files
    layout = LAYOUTS.get(corpus.name) or _folder(corpus.name, pair, data)
    if "train" in wanted and "train" not in own_files:
        _check_training(corpus.name, layout, pair, data)
    names = {
        split: [layout.files(split, language, pair) for language in pair]
        for split in wanted
        if split not in own_files
    }
    every = [name for sides in names.values() for side in sides for name in side]
    at = dict(zip(every, corpora.locate(layout.folder or corpus.name, every, data), strict=True))
    known = {
        split: ([at[name] for name in source], [at[name] for name in target])
        for split, (source, target) in names.items()
    }
    return {split: own_files.get(split) or known[split] for split in wanted}


def _user_files(split: Split, pair: FilePair, data: Path) -> Sides:
    """Return a user's own files; raise DataError that names missing and empty files."""
    source, target = ([data / path for path in side] for side in (pair.source, pair.target))
    corpora.check_files([*source, *target], f"Correct `{split}:` of the corpus.")
    return source, target


def further_files(corpus: NamedParallelCorpus | ParallelFiles, split: Split, data: Path) -> list[Path]:
    """Return the files of further translations; raise DataError that names missing and empty files."""
    pair = corpus.own.get(split)
    paths = [data / path for path in pair.references] if pair else []
    corpora.check_files(paths, f"Correct `references:` under `{split}:` of the corpus.")
    return paths


def _folder(name: str, pair: tuple[str, str], data: Path) -> ParallelLayout:
    """Return the layout of a folder added by the user; raise DataError if it is missing."""
    layout = folder(*pair)
    if name not in corpora.catalogue() and (data / name).is_dir():
        return layout
    wanted = ", ".join(file for split in SPLITS for language in pair for file in layout.files(split, language, pair))
    raise corpora.unknown(name, [*LAYOUTS, "invented"], "is not parallel", wanted, data)


def _check_training(name: str, layout: ParallelLayout, pair: tuple[str, str], data: Path) -> None:
    """Raise DataError if the training part is missing and the catalogue cannot fetch it."""
    wanted = [file for language in pair for file in layout.files("train", language, pair)]
    missing = [file for file in wanted if not (data / name / file).is_file()]
    if missing and layout.train_from:
        raise DataError(
            f"corpus {name!r} has no training files in {data / name}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; only valid and test can be fetched. To train, put "
            f"them there ({layout.train_from}), or set the corpus's `train:` to your own files."
        )


def share_of(corpus: NamedParallelCorpus | ParallelFiles, split: Split) -> range | None:
    """Return which of every hundred lines belong to a split; None if the split has its own files."""
    if isinstance(corpus, ParallelFiles) or split in corpus.own:
        return None
    return LAYOUTS[corpus.name].shares.get(split) if corpus.name in LAYOUTS else None


def _lines(paths: Sequence[Path]) -> CorpusLines:
    """Concatenate files, without byte order marks at their beginnings."""
    texts = [corpora.read_lines(path) for path in paths]
    for each in texts:
        each[0] = each[0].removeprefix("\ufeff")
    sizes = [(str(path), len(each)) for path, each in zip(paths, texts, strict=True)]
    return CorpusLines([line for each in texts for line in each], sizes)


def _name(corpus: NamedParallelCorpus | ParallelFiles, paths: Mapping[Split, Sides]) -> str:
    """Return the corpus name for reports; a user's files are identified by the first file's name and digest."""
    labels = [f"{split} {paths[split][0][0].name} {corpora.digest(paths[split][0][0])[:8]}" for split in corpus.own]
    name = corpus.name if isinstance(corpus, NamedParallelCorpus) else "own files"
    return f"{name} ({', '.join(labels)})" if labels else name


def _labels(corpus: NamedParallelCorpus | ParallelFiles, paths: Mapping[Split, Sides]) -> dict[Split, str]:
    """Return a label per split if some are a user's files: the corpus name, or the first file with its digest."""
    if not corpus.own:
        return {}
    return {
        split: corpora.label(of_source[0]) if split in corpus.own else str(getattr(corpus, "name", ""))
        for split, (of_source, _) in paths.items()
    }


def _generate(corpus: Invented, pair: tuple[str, str]) -> Parallel:
    from bench_translation import synthetic as invented

    def read(split: Split) -> tuple[CorpusLines, CorpusLines]:
        sentence_pairs = invented.pairs(corpus, split)
        sides = [sentence.source for sentence in sentence_pairs], [sentence.target for sentence in sentence_pairs]
        source, target = (CorpusLines(texts, [(f"the generated {split}", len(texts))]) for texts in sides)
        return (source, target) if pair == INVENTED else (target, source)

    return Parallel(
        f"invented (sentences {corpus.sentences}, seed {corpus.seed})", splits(corpus), read, embedded=True
    )
