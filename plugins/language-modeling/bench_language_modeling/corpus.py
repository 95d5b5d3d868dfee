"""Loads the texts of corpora, and the digests of their files."""

from collections.abc import Mapping
from dataclasses import replace
from logging import getLogger
from pathlib import Path

from bench_core import DataError, Split
from bench_language_modeling import cpython
from bench_language_modeling.settings import GENERATED, Corpus, Diagnostic, English, NamedText, TextFiles
from bench_language_modeling.text import Text
from bench_text.api import SPLITS, corpora

READABLE = ("wikitext-2", "wikitext-2-raw", "wikitext-103", "ptb")  # plain-text corpora of the catalogue
MIN_WORDS = 100_000  # minimum size of cpython-docs; generated English replaces smaller texts


def text(corpus: Corpus, data: Path) -> Text:
    """Return a corpus; raise DataError if files are missing or empty. Its `read` raises it if they are not UTF-8."""
    if isinstance(corpus, English):
        from bench_language_modeling import english

        return english.text(corpus, _label(corpus))
    if isinstance(corpus, Diagnostic):
        from bench_language_modeling import diagnostics

        return diagnostics.text(corpus, _label(corpus))
    if isinstance(corpus, TextFiles):
        paths = files(corpus, data)
        labels = {split: corpora.label(path) for split, path in paths.items()}
        return replace(_text(next(iter(labels.values())), paths), labels=labels)
    if corpus.name == cpython.NAME:
        return _docs()
    return _text(corpus.name, files(corpus, data), sentences=corpus.name == "ptb")


def _text(name: str, paths: Mapping[Split, Path], sentences: bool = False) -> Text:
    def read(split: Split) -> list[str]:
        if split not in paths:
            raise DataError(f"corpus {name} has no split {split!r}. Correct `corpus:`.")
        return [" ".join(line.split()) for line in corpora.read_lines(paths[split])]

    return Text(name, read, sentences, embedded=False)


def reads(corpus: Corpus, data: Path) -> Mapping[str, str]:
    """Return the digest of each file that is read; raise DataError if files are missing or empty."""
    if isinstance(corpus, English | Diagnostic):
        return {}
    if isinstance(corpus, TextFiles):
        return {str(path): corpora.digest(path) for path in files(corpus, data).values()}
    if corpus.name == cpython.NAME:
        return {f"{cpython.NAME} {cpython.VERSION}": cpython.digest()}
    return {f"{corpus.name}/{path.name}": corpora.digest(path) for path in files(corpus, data).values()}


def files(corpus: NamedText | TextFiles, data: Path) -> dict[Split, Path]:
    """Return the file of each split."""
    if isinstance(corpus, TextFiles):
        corpora.check_files(corpus.own.values(), f"Relative paths start from {Path.cwd()}. Correct `corpus:`.")
        return corpus.own
    _check_name(corpus.name, data)
    names = [f"ptb.{split}.txt" if corpus.name == "ptb" else f"{split}.txt" for split in corpus.splits]
    return dict(zip(corpus.splits, corpora.locate(corpus.name, names, data), strict=True))


def _check_name(name: str, data: Path) -> None:
    """Raise DataError unless `name` is a known corpus of plain text or a folder that the user added."""
    if name in READABLE or (name not in corpora.catalogue() and (data / name).is_dir()):
        return
    known = (*READABLE, cpython.NAME, *GENERATED)
    raise corpora.unknown(name, known, "is not plain text", "train.txt, valid.txt and test.txt", data)


def _docs() -> Text:
    """Return CPython's docs, or generated English if the installed Python has fewer than MIN_WORDS words of docs."""
    docs = cpython.text()
    words = sum(line.count(" ") + 1 for split in SPLITS for line in docs.read(split))
    if words >= MIN_WORDS:
        return docs
    notice = f"{docs.name} has {words:,} words, fewer than {MIN_WORDS:,}. Generated English is used instead."
    getLogger("bench").warning(notice)
    from bench_language_modeling import english

    english_instead = English(name="english")
    return english.text(english_instead, _label(english_instead), notice)


def _label(corpus: English | Diagnostic) -> str:
    settings = corpus.model_dump(exclude={"only"})
    name = settings.pop("name")
    return f"{name} ({', '.join(f'{key} {value}' for key, value in settings.items())})"
