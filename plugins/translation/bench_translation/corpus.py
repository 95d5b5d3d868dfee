"""Loads a parallel corpus, and digests of the files read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from bench_core import DataError, Split
from bench_text.api import SPLITS, corpora
from bench_translation.layouts import LAYOUTS, Layout, folder
from bench_translation.settings import Corpus, Files, Invented, Named, Pair

Sides: TypeAlias = tuple[list[Path], list[Path]]  # files of source and target

HUNDRED = 100  # lines, of which splits that share a file have shares
INVENTED = ("en", "art")  # ISO 639-2 calls made-up languages so


@dataclass(frozen=True)
class Lines:
    """One language of a split, as it stands in its files."""

    texts: list[str]
    files: Sequence[tuple[str, int]]  # where they are from, and how many lines each has
    numbers: Sequence[int] | None = None  # those of the texts in a file, counted from 0, if not all are of the split

    def select(self, numbers: Sequence[int]) -> Lines:
        """Return some lines of a file."""
        return replace(self, texts=[self.texts[number] for number in numbers], numbers=numbers)

    def place(self, index: int) -> str:
        """Return the file and line, counted from 1, of a text."""
        index = self.numbers[index] if self.numbers is not None else index
        ends = accumulate(number for _, number in self.files)
        file, end, number = next((*one, end) for one, end in zip(self.files, ends, strict=True) if index < end)
        return f"line {index + 1 - (number - end)} of {file}"


@dataclass(frozen=True)
class Parallel:
    """A corpus in two languages, read when its lines are asked for."""

    name: str  # in reports
    splits: Sequence[Split]
    read: Callable[[Split], tuple[Lines, Lines]]  # source and target, as long as each other
    more: Callable[[Split], list[Lines]] = lambda split: []  # further targets, each as long; an empty line is none
    embedded: bool = False  # whether it is read from no files
    labels: Mapping[Split, str] = field(default_factory=dict)  # of splits in reports, unless all are called `name`


def languages(corpus: Corpus) -> Sequence[str]:
    """Return the languages that a corpus is known to have, the usual pair first."""
    if isinstance(corpus, Invented):
        return INVENTED
    return LAYOUTS[corpus.name].languages if isinstance(corpus, Named) and corpus.name in LAYOUTS else ()


def has(corpus: Corpus, source: str, target: str) -> bool:
    """Return whether a corpus, whose languages are known, has a pair."""
    layout = LAYOUTS[corpus.name] if isinstance(corpus, Named) else Layout(languages(corpus), {})
    return layout.pairs(source, target)


def told(corpus: Corpus) -> str:
    """Return the languages of a corpus in words."""
    hub = LAYOUTS[corpus.name].hub if isinstance(corpus, Named) else ""
    others = [one for one in languages(corpus) if one != hub]
    return f"{hub} with {' or '.join(others)}" if hub else ", ".join(others)


def splits(corpus: Corpus) -> Sequence[Split]:
    """Return the splits of a corpus."""
    own = {} if isinstance(corpus, Invented) else corpus.own
    known = LAYOUTS[corpus.name].splits if isinstance(corpus, Named) and corpus.name in LAYOUTS else SPLITS
    found = dict.fromkeys([*(() if isinstance(corpus, Files) else known), *own])
    return tuple(filter(corpus.has, found))


def parallel(corpus: Corpus, pair: tuple[str, str], data: Path) -> Parallel:
    """Return a corpus; raise DataError if files are missing, and `read` if they are not parallel UTF-8 text."""
    if isinstance(corpus, Invented):
        return _invented(corpus, pair)
    paths = files(corpus, pair, data)

    def read(split: Split) -> tuple[Lines, Lines]:
        of_source, of_target = paths[split]
        source, target = _lines(of_source), _lines(of_target)
        for (one, here), (other, there) in zip(source.files, target.files, strict=True):
            if here != there:
                raise DataError(
                    f"{one} has {here:,} lines and {other} {there:,}: line n of one must translate line n of the "
                    "other. Lines end with a line feed and nothing else. Correct the files."
                )
        share = share_of(corpus, split)
        if share is None:
            return source, target
        numbers = [number for number in range(len(source.texts)) if number % HUNDRED in share]
        return source.select(numbers), target.select(numbers)

    def more(split: Split) -> list[Lines]:
        (source, _), found = paths[split], [_lines([path]) for path in further_files(corpus, split, data)]
        wanted = sum(len(corpora.read_lines(path)) for path in source) if found else 0
        for each in found:
            ((name, number),) = each.files
            if number != wanted:
                raise DataError(
                    f"{name} has {number:,} lines and the source of {split} {wanted:,}: line n of `references:` must "
                    "translate line n of the source; leave a line empty where there is no further translation."
                )
        return found

    return Parallel(_name(corpus, paths), tuple(paths), read, more, labels=_labels(corpus, paths))


def reads(corpus: Corpus, pair: tuple[str, str], data: Path) -> Mapping[str, str]:
    """Return the digest of each file; raise DataError if some are missing or empty."""
    if isinstance(corpus, Invented):
        return {}
    paths = files(corpus, pair, data)
    found = [path for sides in paths.values() for side in sides for path in side]
    found += [path for split in paths for path in further_files(corpus, split, data)]
    return corpora.digests(found, data)


def files(corpus: Named | Files, pair: tuple[str, str], data: Path) -> dict[Split, Sides]:
    """Return the files of source and target of each split."""
    wanted = splits(corpus)
    own = {split: _own(split, pair, data) for split, pair in corpus.own.items()}
    if isinstance(corpus, Files):
        return own
    layout = LAYOUTS.get(corpus.name) or _folder(corpus.name, pair, data)
    if "train" in wanted and "train" not in own:
        _check_training(corpus.name, layout, pair, data)
    names = {split: [layout.files(split, one, pair) for one in pair] for split in wanted if split not in own}
    every = [name for sides in names.values() for side in sides for name in side]
    at = dict(zip(every, corpora.locate(layout.folder or corpus.name, every, data), strict=True))
    known = {
        split: ([at[name] for name in one], [at[name] for name in other]) for split, (one, other) in names.items()
    }
    return {split: own.get(split) or known[split] for split in wanted}


def _own(split: Split, pair: Pair, data: Path) -> Sides:
    """Return a user's own files; raise DataError that names those that are missing or empty."""
    source, target = ([data / path for path in side] for side in (pair.source, pair.target))
    corpora.check_files([*source, *target], f"Correct `{split}:` of the corpus.")
    return source, target


def further_files(corpus: Named | Files, split: Split, data: Path) -> list[Path]:
    """Return the files of further translations; raise DataError that names those that are missing or empty."""
    given = corpus.own.get(split)
    paths = [data / path for path in given.references] if given else []
    corpora.check_files(paths, f"Correct `references:` of {split} of the corpus.")
    return paths


def _folder(name: str, pair: tuple[str, str], data: Path) -> Layout:
    """Return the layout of a folder that the user added; raise DataError if there is none."""
    layout = folder(*pair)
    if name not in corpora.catalogue() and (data / name).is_dir():
        return layout
    wanted = ", ".join(file for split in SPLITS for one in pair for file in layout.files(split, one, pair))
    raise corpora.unknown(name, [*LAYOUTS, "invented"], "is not parallel", wanted, data)


def _check_training(name: str, layout: Layout, pair: tuple[str, str], data: Path) -> None:
    """Raise DataError if the part to train on is missing where the catalogue cannot fetch it."""
    wanted = [file for one in pair for file in layout.files("train", one, pair)]
    missing = [file for file in wanted if not (data / name / file).is_file()]
    if missing and layout.train_from:
        raise DataError(
            f"corpus {name!r} has no part to train on in {data / name}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing, and only valid and test can be fetched. To train, put "
            f"them there ({layout.train_from}), or name files of your own as `train:` of the corpus."
        )


def share_of(corpus: Named | Files, split: Split) -> range | None:
    """Return which of every hundred lines are of a split; None where its files are its own."""
    if isinstance(corpus, Files) or split in corpus.own:
        return None
    return LAYOUTS[corpus.name].shares.get(split) if corpus.name in LAYOUTS else None


def _lines(paths: Sequence[Path]) -> Lines:
    """Join files, without the byte order marks that they may begin with."""
    texts = [corpora.read_lines(path) for path in paths]
    for each in texts:
        each[0] = each[0].removeprefix("\ufeff")
    sizes = [(str(path), len(each)) for path, each in zip(paths, texts, strict=True)]
    return Lines([line for each in texts for line in each], sizes)


def _name(corpus: Named | Files, paths: Mapping[Split, Sides]) -> str:
    """Return the name in reports; a user's own files are told by the name and digest of the first."""
    told = [f"{split} {paths[split][0][0].name} {corpora.digest(paths[split][0][0])[:8]}" for split in corpus.own]
    name = corpus.name if isinstance(corpus, Named) else "own files"
    return f"{name} ({', '.join(told)})" if told else name


def _labels(corpus: Named | Files, paths: Mapping[Split, Sides]) -> dict[Split, str]:
    """Return what reports call the splits, if some are a user's own: a name, or the first file and its digest."""
    if not corpus.own:
        return {}
    return {
        split: corpora.label(of_source[0]) if split in corpus.own else str(getattr(corpus, "name", ""))
        for split, (of_source, _) in paths.items()
    }


def _invented(corpus: Invented, pair: tuple[str, str]) -> Parallel:
    from bench_translation import synthetic as invented

    def read(split: Split) -> tuple[Lines, Lines]:
        found = invented.pairs(corpus, split)
        sides = [one.source for one in found], [one.target for one in found]
        source, target = (Lines(texts, [(f"the generated {split}", len(texts))]) for texts in sides)
        return (source, target) if pair == INVENTED else (target, source)

    return Parallel(
        f"invented (sentences {corpus.sentences}, seed {corpus.seed})", splits(corpus), read, embedded=True
    )
